"""Scenarios: a story, a world, a workflow, a timeline and what must come of it.

Owns the whole of the file format, as one pydantic model. Knows neither files nor engines. Invariant: a scenario that validates can be
played; what it names exists in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Literal

from pydantic import Field, model_validator

from recovery.core.contracts import Contract, Deletion, Keyed, Lookup, Opaque, Probeable, microseconds
from recovery.core.errors import DefinitionError
from recovery.testing.forms import Duration, Name, Strict
from recovery.testing.moves import Change, Move, World
from recovery.testing.steps import Attempt, Code, Module, Perform, Step, Try
from recovery.testing.warehouse import Anchor, Knobs, OnMismatch, Remembered

PROMISES = ("I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10")
Promise = Literal["I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10"]


class LookupSpec(Strict):
    """What a contract promises about look-ups."""

    lag: Duration = timedelta(0)
    retention: Duration | None = None
    authoritative: bool = True
    deletion: Deletion = Deletion.IMPOSSIBLE
    original: bool = True

    def lookup(self) -> Lookup:
        return Lookup(
            lag_us=microseconds(self.lag),
            retention_us=None if self.retention is None else microseconds(self.retention),
            authoritative=self.authoritative,
            deletion=self.deletion,
            original=self.original,
        )


class EffectSpec(Strict):
    """An effect that takes `qty` of `sku`, and the contract that it is declared with. Unstated fields keep the contract's defaults."""

    contract: Literal["keyed", "probeable", "opaque"]
    timeout: Duration = Field(timedelta(seconds=30), description="how long one attempt may take")
    window: Duration | None = Field(None, description="keyed: how long the key is promised to be remembered")
    settle_window: Duration | None = None
    clock_error: Duration | None = None
    lookup: LookupSpec | None = Field(None, description="keyed and probeable: what can be asked")
    close: bool | None = None
    fail_open: bool | None = None
    mismatch_checked: bool | None = None
    remembers_rejections: bool | None = None
    trust_settle: bool | None = None
    stable_fields: list[str] | None = None

    @model_validator(mode="after")
    def _can_be_built(self) -> EffectSpec:
        try:
            self.built()
        except (DefinitionError, TypeError) as error:
            raise ValueError(str(error)) from None
        return self

    def built(self) -> Contract:
        """The contract. Raises DefinitionError, and TypeError for a field that its class does not have."""
        if self.contract == "keyed" and self.window is None:
            raise TypeError("a keyed contract has a window")
        builders: dict[str, Callable[..., Contract]] = {"keyed": Keyed, "probeable": Probeable, "opaque": Opaque}
        given: dict[str, Any] = {
            name: getattr(self, name)
            for name in type(self).model_fields
            if name not in {"contract", "timeout"} and getattr(self, name) is not None
        }
        if self.lookup is not None:
            given["lookup"] = self.lookup.lookup()
        if self.stable_fields is not None:
            given["stable_fields"] = tuple(self.stable_fields)
        return builders[self.contract](**given)


class EnvironmentSpec(Strict):
    """The outside: what it has, what can be asked of it, and how it really behaves (which its contract may or may not say)."""

    name: Name = "inventory"
    scope: str = "warehouse-1"
    stock: dict[str, int]
    effects: dict[Name, EffectSpec]
    window: Duration | None = Field(None, description="how long a key is really remembered; for ever by default")
    window_starts: Anchor = Anchor.FIRST_SEEN
    remembers: list[Remembered] = Field(default=[Remembered.SUCCESS, Remembered.REJECTION])
    mismatch: OnMismatch = Field(OnMismatch.REFUSES, description="what a known key answers to another request")
    lag: Duration = Field(timedelta(0), description="how late a receipt shows in look-ups")

    def knobs(self) -> Knobs:
        return Knobs(
            window=self.window,
            window_starts=self.window_starts,
            remembers=frozenset(self.remembers),
            mismatch=self.mismatch,
            lag=self.lag,
        )


class LeaseSpec(Strict):
    term: Duration = timedelta(seconds=30)


class BudgetSpec(Strict):
    """Bounds of one intent, and of one call."""

    attempts: int = Field(default=5, ge=1)
    probes: int = Field(default=20, ge=0)
    max_wait: Duration = Field(default=timedelta(seconds=60), description="how long one call may wait for named times")


class Scenario(Strict):
    """One timeline. `variants` of a file are merged over its other fields: mappings are merged, lists and values replaced,
    `outcome` and `executions` too, and null takes a field away."""

    scenario: Name = Field(description="a short identity, such as S01")
    name: str = Field(description="what it is called in one line")
    story: str = Field(min_length=20, description="what happens and why it matters, for people")
    environment: EnvironmentSpec
    workflow: Code
    timeline: list[Move] = Field(min_length=1)
    expect: World
    lease: LeaseSpec = LeaseSpec()
    budget: BudgetSpec = BudgetSpec()
    same_boot: bool = Field(True, description="whether a killed process is proven dead at once; else its lease must end")
    exempt: dict[Promise, str] = Field(
        default_factory=dict, description="promises whose assumptions the scenario breaks on purpose, and which assumption"
    )

    @model_validator(mode="after")
    def _names_exist(self) -> Scenario:
        programs = [self.workflow, *(move.change.workflow for move in self.timeline if isinstance(move, Change))]
        for program in programs:
            for effect in _effects_of([] if isinstance(program, Module) else program):
                if effect not in self.environment.effects:
                    raise ValueError(f"the environment has no effect {effect!r}; it has: {', '.join(self.environment.effects)}")
        return self


def _effects_of(steps: list[Step]) -> Iterator[str]:
    for step in steps:
        match step:
            case Perform():
                yield step.perform
            case Attempt():
                yield step.attempt
                yield from _effects_of([*step.applied, *step.rejected])
            case Try():
                yield from _effects_of([*step.try_, *(step.except_ or []), *step.finally_])
            case _:
                pass
