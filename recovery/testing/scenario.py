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
from recovery.core.policy import Budget
from recovery.testing.forms import Duration, Name, Strict
from recovery.testing.moves import Change, Move, World
from recovery.testing.steps import Attempt, Code, Module, Perform, Step, Try
from recovery.testing.warehouse import Anchor, Knobs, OnMismatch, Remembered

PROMISES = ("I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10")
Promise = Literal["I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10"]


class LookupSpec(Strict):
    """What a contract promises about look-ups."""

    lag: Duration = Field(timedelta(0), description="how late a receipt may show")
    retention: Duration | None = Field(None, description="how long one stays; for ever by default")
    authoritative: bool = Field(default=True, description="an effect implies a visible receipt")
    deletion: Deletion = Field(Deletion.IMPOSSIBLE, description="whether others can remove one")
    original: bool = Field(default=True, description="a receipt holds the first reply")

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

    contract: Literal["keyed", "probeable", "opaque"] = Field(description="its class")
    timeout: Duration = Field(timedelta(seconds=30), description="how long one attempt may take")
    window: Duration | None = Field(None, description="keyed: how long the key is promised to be remembered")
    settle_window: Duration | None = Field(None, description="how long a copy may act after its sender gave up")
    clock_error: Duration | None = Field(None, description="how far two clocks may differ")
    lookup: LookupSpec | None = Field(None, description="keyed and probeable: what can be asked")
    close: bool | None = Field(None, description="keyed: a key can be closed")
    fail_open: bool | None = Field(None, description="keyed: without its key store it executes unprotected")
    mismatch_checked: bool | None = Field(None, description="keyed: another request under a known key is refused")
    remembers_rejections: bool | None = Field(None, description="keyed: a rejection is replayed")
    trust_settle: bool | None = Field(None, description="probeable: an absence after the settle window is believed")
    stable_fields: list[str] | None = Field(None, description="fields of the value that never change")

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

    name: Name = Field("inventory", description="its name in intents")
    scope: str = Field("warehouse-1", description="its scope in intents")
    stock: dict[str, int] = Field(description="what it has at the beginning")
    effects: dict[Name, EffectSpec] = Field(description="what can be done, by name")
    window: Duration | None = Field(None, description="how long a key is really remembered; for ever by default")
    window_starts: Anchor = Field(Anchor.FIRST_SEEN, description="what that counts from")
    remembers: list[Remembered] = Field(default=[Remembered.SUCCESS, Remembered.REJECTION], description="what is kept under a key")
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
    """How long an owner may be silent."""

    term: Duration = Field(default=timedelta(seconds=30), description="on the watcher's boot clock")


class BudgetSpec(Strict):
    """Bounds of one intent, and of one call."""

    attempts: int = Field(default=Budget().attempts, ge=1, description="sendings of one intent, over all processes")
    probes: int = Field(default=Budget().probes, ge=0, description="questions about one intent, over all processes")
    max_wait: Duration = Field(default=timedelta(seconds=60), description="how long one call may wait for named times")


class Scenario(Strict):
    """One timeline. `variants` of a file are merged over its other fields: mappings are merged, lists and values replaced,
    `outcome` and `executions` too, and null takes a field away."""

    scenario: Name = Field(description="a short identity, such as S01")
    name: str = Field(description="what it is called, in one line; a variant has its own")
    story: str = Field(min_length=20, description="what happens and why it matters, for people")
    environment: EnvironmentSpec = Field(description="the outside")
    workflow: Code = Field(description="steps, or a module's workflow")
    timeline: list[Move] = Field(min_length=1, description="what happens, in order")
    expect: World = Field(description="what must be so at the end")
    lease: LeaseSpec = Field(LeaseSpec(), description="of every claim")
    budget: BudgetSpec = Field(BudgetSpec(), description="of every engine")
    same_boot: bool = Field(default=True, description="whether a killed process is proven dead at once; else its lease must end")
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
