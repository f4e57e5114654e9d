"""Scenarios: a story, a world, a workflow, a timeline and what must come of it.

Owns the whole of the file format, as one pydantic model. Knows neither files nor engines. Invariant: a scenario that validates can be
played; what it names exists in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from datetime import timedelta
from typing import Any, Literal

from pydantic import Field, model_validator

from recovery.core.contracts import (
    AfterWindow,
    Batch,
    Contract,
    Deletion,
    Enforced,
    Kind,
    Lookup,
    Replay,
    WindowStart,
    microseconds,
)
from recovery.core.errors import DefinitionError
from recovery.core.policy import Budget
from recovery.core.truth import check
from recovery.testing.forms import Duration, Name, Strict
from recovery.testing.knobs import Anchor, Knobs, OnMismatch, Remembered
from recovery.testing.moves import Change, Move, World
from recovery.testing.odd import Odd
from recovery.testing.steps import Attempt, Child, Code, Deadline, Gather, Module, Perform, Saga, Step, Try, WaitFor

PROMISES = ("I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10")
Promise = Literal["I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10"]


class LookupSpec(Strict):
    """What a contract promises about look-ups."""

    lag: Duration = Field(timedelta(0), description="how late a receipt may show")
    retention: Duration | None = Field(None, description="how long one stays; for ever by default")
    authoritative: bool = Field(default=True, description="an effect implies a visible receipt")
    deletion: Deletion = Field(Deletion.IMPOSSIBLE, description="whether others can remove one")
    marker_reliable: bool = Field(default=True, description="an object without our marker is not ours")
    original: bool = Field(default=True, description="a receipt holds the first reply")

    def lookup(self) -> Lookup:
        return Lookup(
            lag_us=microseconds(self.lag),
            retention_us=None if self.retention is None else microseconds(self.retention),
            authoritative=self.authoritative,
            deletion=self.deletion,
            marker_reliable=self.marker_reliable,
            original=self.original,
        )


KEYLESS = frozenset({Kind.READ, Kind.PROBEABLE, Kind.OPAQUE})
ASKED = frozenset({Kind.NAMED, Kind.PREPARED, Kind.COTRANSACTIONAL, Kind.PROBEABLE})
"""Classes that have a look-up even where none is stated."""


class EffectSpec(Strict):
    """An effect that takes `qty` of `sku`, or a batch that takes `items` of those two, and the contract that it is declared with.

    Unstated fields keep the contract's defaults."""

    contract: Kind = Field(description="its class")
    timeout: Duration = Field(timedelta(seconds=30), description="how long one attempt may take")
    window: Duration | None = Field(None, description="how long the key is promised to be remembered")
    window_starts: WindowStart | None = Field(None, description="what that counts from")
    valid_for: Duration | None = Field(None, description="how long an intent stays wanted")
    settle_window: Duration | None = Field(None, description="how long a copy may act after its sender gave up")
    clock_error: Duration | None = Field(None, description="how far two clocks may differ")
    lookup: LookupSpec | None = Field(None, description="what can be asked")
    close: bool | None = Field(None, description="a key can be closed")
    cancel_by_key: bool | None = Field(None, description="what is under a key can be undone, without a tombstone")
    fail_open: bool | None = Field(None, description="without its key store it executes unprotected")
    mismatch_checked: bool | None = Field(None, description="another request under a known key is refused")
    lock_outlives_execution: bool | None = Field(None, description="copies are serialised until the first has ended")
    remembers_rejections: bool | None = Field(None, description="a rejection is replayed")
    replay: Replay | None = Field(None, description="what a re-send returns after a success")
    replay_failure: Replay | None = Field(None, description="what it returns after a failure of the environment")
    failures_effect_free: bool | None = Field(None, description="a failure that is forgotten had no effect")
    enforced: Enforced | None = Field(None, description="what in a request refuses its late copies")
    trust_settle: bool | None = Field(None, description="an absence after the settle window is believed")
    disconnect_cancels: bool | None = Field(None, description="work ends when its sender goes away")
    batch: Batch | None = Field(None, description="how a request with several items is taken")
    stable_fields: list[str] | None = Field(None, description="fields of the value that never change")
    shown_once: bool | None = Field(None, description="a look-up does not show the value again")
    replies: Odd | None = Field(None, description="what its value has in it that no journal can store, by the sender's own doing")
    compensation: EffectSpec | None = Field(
        None, description="how it is undone: an effect `undo-NAME` that gives `qty` of `sku` back; not of a batch"
    )

    @model_validator(mode="after")
    def _can_be_built(self) -> EffectSpec:
        if self.replies is not None and (self.batch is not None or self.contract is Kind.SWALLOW):
            raise ValueError("only an effect with one value of its own replies with an odd one")
        if self.compensation is not None and (self.batch is not None or self.compensation.compensation is not None):
            raise ValueError("neither a batch nor a compensation has a compensation here")
        try:
            self.built()
        except (DefinitionError, TypeError) as error:
            raise ValueError(str(error)) from None
        return self

    def built(self) -> Contract:
        """The contract. Raises DefinitionError, and TypeError for a field that its class does not have."""
        if self.contract is Kind.KEYED and self.window is None:
            raise TypeError("a keyed contract has a window")
        if self.contract in KEYLESS and (self.window is not None or self.close):
            raise TypeError(f"a contract of the class {self.contract} has no key, and so neither a window nor a close")
        given: dict[str, Any] = {
            _CONTRACT_FIELDS.get(name, name): microseconds(value) if isinstance(value, timedelta) else value
            for name in type(self).model_fields
            if name not in {"contract", "timeout", "remembers_rejections", "replies", "compensation"}
            and (value := getattr(self, name)) is not None
        }
        if self.remembers_rejections is not None:
            given["replay_rejection"] = Replay.ORIGINAL if self.remembers_rejections else Replay.REEXECUTES
        if self.stable_fields is not None:
            given["stable_fields"] = tuple(self.stable_fields)
        unstated = {item.name for item in fields(Contract)} - {"kind", "name", "version", "unstated", *given}
        if self.lookup is not None:
            given["lookup"] = self.lookup.lookup()
        elif self.contract in ASKED:
            given["lookup"] = Lookup()
        if self.contract is Kind.COTRANSACTIONAL:
            given.setdefault("window_us", microseconds(timedelta(days=36_525)))
        if self.contract is Kind.FIRST_SENT:
            given["after_window"] = AfterWindow.REJECTS
        return check(Contract(kind=self.contract, unstated=tuple(sorted(unstated)), **given))


_CONTRACT_FIELDS = {
    "window": "window_us",
    "valid_for": "valid_for_us",
    "settle_window": "settle_window_us",
    "clock_error": "clock_error_us",
    "replay": "replay_success",
}


class EnvironmentSpec(Strict):
    """The outside: what it has, what can be asked of it, and how it really behaves (which its contract may or may not say)."""

    name: Name = Field("inventory", description="its name in intents")
    scope: str = Field("warehouse-1", description="its scope in intents")
    stock: dict[str, int] = Field(default_factory=dict, description="what it has at the beginning")
    effects: dict[Name, EffectSpec] = Field(default_factory=dict, description="what can be done, by name")
    scripted: str | None = Field(
        None,
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        description="instead of stock and effects: a ScriptedEnvironment or an Exploration of your own, by `module:name`, in which the effects of your own workflow are acted",
    )
    window: Duration | None = Field(None, description="how long a key is really remembered; for ever by default")
    window_starts: Anchor = Field(Anchor.FIRST_SEEN, description="what that counts from")
    remembers: list[Remembered] = Field(default=[Remembered.SUCCESS, Remembered.REJECTION], description="what is kept under a key")
    mismatch: OnMismatch = Field(OnMismatch.REFUSES, description="what a known key answers to another request")
    lag: Duration = Field(timedelta(0), description="how late a receipt shows in look-ups")
    retention: Duration | None = Field(None, description="how long it shows; for ever by default")
    locks: bool = Field(default=True, description="a copy of what is being worked on is told so")
    lock_for: Duration | None = Field(None, description="for how long; until the work has ended by default")
    reads_open: bool = Field(default=True, description="look-ups see work under way, as a locking read does; a plain one does not")
    fail_open: bool = Field(default=False, description="without its key store it executes unprotected")
    tombstone: bool = Field(default=True, description="a close leaves a tombstone")
    deletion: Deletion = Field(Deletion.VISIBLE, description="whether look-ups show that a user has removed an object")
    replay: Replay = Field(
        Replay.ORIGINAL, description="what is returned after a success: the first reply, or the object as it is now"
    )
    batch: Batch = Field(Batch.NONE, description="how a request with several items is taken")
    enforces: Enforced = Field(Enforced.NOTHING, description="what in a request refuses its late copies")
    asking_raises: bool = Field(default=False, description="a question raises the epoch, as a sending does")
    disconnect_cancels: bool = Field(default=False, description="work ends when its sender goes away")
    acts_within: Duration | None = Field(
        None, description="assumption A2, enforced: a request that has arrived acts at the latest so long after its deadline"
    )

    @model_validator(mode="after")
    def _does_something(self) -> EnvironmentSpec:
        if not self.effects and self.scripted is None:
            raise ValueError("it names no effects; what can be done goes under `effects`, by name")
        return self

    def knobs(self) -> Knobs:
        names = {item.name for item in fields(Knobs)} - {"remembers"}
        return Knobs(remembers=frozenset(self.remembers), **{name: getattr(self, name) for name in names})


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
    riding: bool = Field(
        default=False,
        description="whether the outcome of an effect rides on the run's next commit, where its contract allows that; else each is durable by itself, at "
        "a place of its own to stop at",
    )
    cancels: bool = Field(
        default=False, description="whether exploring it also cancels the run, at every moment: that counts as a fault"
    )
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
            case WaitFor():
                yield from [] if step.about is None else [step.about]
            case Saga():
                yield from step.keeps
                yield from _effects_of(step.do)
            case Try():
                yield from _effects_of([*step.try_, *(step.except_ or []), *step.finally_])
            case Child():
                yield from _effects_of(step.do)
            case Deadline():
                yield from _effects_of([*step.do, *(step.passed or [])])
            case Gather():
                for branch in step.gather:
                    yield from _effects_of(branch)
            case _:
                pass
