"""Moves: what can happen on the timeline of a scenario, and what can be expected.

Owns what each move may say. `stage` carries them out. Invariant: a move says what is stopped where by name and count, never by real time.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, Tag, field_validator, model_validator

from recovery.core.entries import KINDS, OutcomeKind, Status
from recovery.core.errors import ExitCode
from recovery.core.inheritance import Forbid, NewKey, Policy, Reuse
from recovery.core.verdicts import ROW_BY_NAME
from recovery.crashpoints import POINTS
from recovery.testing.environment import PLACES
from recovery.testing.forms import Duration, Name, RunId, Strict, by_verb, duration
from recovery.testing.steps import Code

Exit: TypeAlias = Literal["settled", "failed", "usage", "in_doubt", "unresolved", "diverged", "corrupt", "owned", "waiting", "bug"]
"""The names of `ExitCode`."""
EXITS: dict[ExitCode, str] = {code: code.name.lower() for code in ExitCode}


class Stop(Strict):
    """Where a process is stopped: the n-th time that it passes a point, counted from this move on."""

    at: str = Field(description="a crash point, or a place inside the environment")
    occurrence: int = Field(default=1, ge=1, description="which passage")
    step: Name | None = Field(None, description="count only passages within this step of an inline workflow, by name")

    @field_validator("at")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in POINTS and value not in PLACES:
            raise ValueError(f"{value!r} is no crash point and no place ({', '.join(PLACES)})")
        return value


class Came(Strict):
    """What a call must come to."""

    exit: Exit | None = Field(
        None, description="settled, failed, in_doubt, unresolved, diverged, owned, usage, ... (the names of the exit codes)"
    )
    outcome: Any = Field(None, description="the value")
    error: str | None = Field(None, description="the class of the error that `result` raises")
    says: str | None = Field(None, description="what the error's message contains")
    verdicts: list[str] | None = Field(None, description="the rows of a recovery, in order")

    @field_validator("verdicts")
    @classmethod
    def _rows(cls, value: list[str] | None) -> list[str] | None:
        for name in value or []:
            if name not in ROW_BY_NAME:
                raise ValueError(f"there is no verdict row {name!r}")
        return value


class _Stopping(Strict):
    kill: Stop | None = Field(None, description="the process dies there")
    pause: Stop | None = Field(None, description="the process stands still there, as under SIGSTOP, until it is resumed or killed")
    expect: Came | None = Field(None, description="what the call comes to; it must then end in this move")

    @model_validator(mode="after")
    def _one_end(self) -> _Stopping:
        if sum(item is not None for item in (self.kill, self.pause, self.expect)) > 1:
            raise ValueError("only one of kill, pause and expect")
        return self


class Run(_Stopping):
    """An actor's process runs the workflow under a run id. An actor that has died gets a new process."""

    run: Name = Field(description="the actor")
    id: RunId = Field("run-1", description="the run id")
    input: Any = Field(None, description="what `$input` is")


class Recover(_Stopping):
    """An actor's process recovers a run."""

    recover: Name = Field(description="the actor")
    id: RunId = Field("run-1", description="the run id")
    wait: Duration = Field(timedelta(0), description="how long it waits for another owner")
    max_wait: Duration | None = Field(None, description="how long it waits for named times; the scenario's budget by default")


class Resume(_Stopping):
    """A paused process goes on."""

    resume: Name = Field(description="the actor")
    branch: int | None = Field(
        None,
        ge=0,
        description="which branch of its `def` workflow goes on, as they were begun, from 1; the one that stands still by default",
    )


class Resolve(Strict):
    """A person says what came of a step."""

    resolve: str = Field(description="the step, such as reserve#1")
    says: OutcomeKind = Field(description="applied, rejected, not_executed, ...")
    value: Any = Field(None, description="the value, where one is said")
    id: RunId = Field("run-1", description="the run id")
    expect: Came | None = Field(None, description="where it is refused: the exit and the error")


class Signal(_Stopping):
    """Somebody answers what a run waits for, from a process of his own."""

    signal: str = Field(description="what is answered, or its step")
    value: Any = Field(None, description="the answer")
    by: str = Field("ann", description="who answers")
    about: bool | str = Field(
        default=True, description="the fingerprint of the call: true, as the wait names it; false, none; or another one"
    )
    stands_for: Duration | None = Field(None, description="how long an approval stands from now on")
    app: bool = Field(default=True, description="whether that process knows the workflow")
    id: RunId = Field("run-1", description="the run id")


class Send(_Stopping):
    """Somebody sends a run a message of a topic, from a process of his own."""

    send: Name = Field(description="the topic")
    value: Any = Field(None, description="the message")
    by: str = Field("ann", description="who sends it")
    token: str | None = Field(None, description="its name: sent again, it is the same message")
    id: RunId = Field("run-1", description="the run id")


class Order(_Stopping):
    """Somebody says what is to become of a run, from a process of his own."""

    order: Literal["cancel", "pause", "resume"] = Field(description="what")
    by: str = Field("ann", description="who orders it")
    reason: str = Field("the scenario says so", description="why")
    app: bool = Field(default=True, description="whether that process knows the workflow")
    id: RunId = Field("run-1", description="the run id")


class _OnTerms(_Stopping):
    reuse: list[str] = Field(default_factory=list, description="steps whose outcome is taken over")
    new_key: dict[str, str] = Field(default_factory=dict, description="steps that are done anew, with the reason")
    forbid: list[str] = Field(default_factory=list, description="steps that are not to be done again")
    by: str = Field("ann", description="who orders it")

    @property
    def policies(self) -> dict[str, Policy]:
        said: dict[str, Policy] = dict.fromkeys(self.reuse, Reuse())
        return said | dict.fromkeys(self.forbid, Forbid()) | {step: NewKey(reason) for step, reason in self.new_key.items()}


class Fork(_OnTerms):
    """Somebody makes a new run from the first steps of another one."""

    fork: RunId = Field(description="the id of the new run")
    of: RunId = Field("run-1", description="the other run's")
    at: str = Field("", description="the first step that is not taken over; without one all are")


class Restart(_OnTerms):
    """Somebody begins a new generation of a run."""

    restart: str = Field(description="the first step that is left behind")
    id: RunId = Field("run-1", description="the run id")
    wait: Duration = Field(timedelta(0), description="how long it waits for another owner")


class Kill(Strict):
    """A paused process dies where it stands."""

    kill: Name = Field(description="the actor")


class Advance(Strict):
    """Time passes. What falls due on the way happens at its time."""

    advance: Duration = Field(description="how much")


class Happens(Strict):
    """What happens in or to the environment."""

    hold: Duration | Literal["until_delivered"] | None = Field(None, description="the next request stays in the network that long")
    deliver: Literal[True] | None = Field(None, description="every held request and every copy arrives now")
    duplicate: Duration | Literal["until_delivered"] | None = Field(
        None, description="the next request is delivered twice; its copy stays in the network that long after it left"
    )
    drop_replies: int | None = Field(None, ge=1, description="the next replies are lost")
    fail: Literal["before", "after"] | None = Field(None, description="the next request fails before or after its effect")
    down: bool | Literal["refused"] | None = Field(
        None, description="nothing arrives until this is false again; refused: the sender can prove that nothing left"
    )
    restock: dict[str, int] | None = Field(None, description="more of these")
    prune: Literal[True, "keys", "receipts"] | None = Field(None, description="keys, receipts or (true) both are forgotten")
    takes: Duration | None = Field(None, description="the next request is worked on for that long")
    turn_away: int | None = Field(None, ge=1, description="the next requests are turned away, as by a 429")
    break_after: int | None = Field(None, ge=0, description="the next batch breaks off after so many items")
    key_store_down: bool | None = Field(None, description="the key store does not answer until this is false again")
    scope: str | None = Field(None, description="the credential now leads to this account or region, and the program says so")
    hidden: bool | None = Field(None, description="the credential sees nothing: forbidden looks like not found")
    remove: str | None = Field(None, description="a user removes the object that was made under this key or step")
    alter: dict[str, dict[str, Any]] | None = Field(None, description="fields of the object under a key or step change")
    occupy: str | None = Field(None, description="somebody else uses this key, as a key and as a name")
    back_up: Literal[True] | None = Field(None, description="its state is kept")
    restore: Literal[True] | None = Field(None, description="it goes back to the state that was kept last")


class Environment(Strict):
    """Something happens in the environment."""

    environment: Happens = Field(description="what")


class Strikes(Strict):
    """What happens to the journal's database."""

    full: bool | None = Field(None, description="the disk takes no more appends until this is false again")
    refuse: int | None = Field(None, ge=1, description="the next writes fail, and nothing of them is stored")
    lose: Literal["repeated", "unknown"] | None = Field(
        None,
        description="the next write is stored and its acknowledgement is lost: the store repeats it as it stands, or gives up and nobody knows",
    )
    back_up: Literal[True] | None = Field(None, description="a backup is made")
    restore: Literal[True] | None = Field(None, description="the last backup is put back")
    declare_restored: Literal[True] | None = Field(None, description="a person says that the database was restored")
    corrupt: int | None = Field(None, ge=1, description="the body of this entry of `run-1` changes on the disk")


class Journal(Strict):
    """Something happens to the journal's database."""

    journal: Strikes = Field(description="what")


class Jump(Strict):
    """A step of a wall clock."""

    step: str = Field(pattern=r"^[+-]\d", description="by how much, such as -2h or +48h")

    @property
    def by(self) -> timedelta:
        total: timedelta = duration(self.step[1:])
        return -total if self.step.startswith("-") else total

    @model_validator(mode="after")
    def _readable(self) -> Jump:
        duration(self.step[1:])
        return self


class Clock(Strict):
    """The wall clock of the workers' host jumps. Boot clocks, and the environment's own clock, go on as before."""

    clock: Jump = Field(description="how")


class NewCode(Strict):
    """The program that processes started from now on run."""

    workflow: Code = Field(description="steps, or a module's workflow")


class Change(Strict):
    """The program changes. Processes that live keep what they have."""

    change: NewCode = Field(description="what it is from now on")


class Settlement(Strict):
    """How a settled step stands in the journal."""

    outcome: OutcomeKind | None = Field(None, description="applied, rejected, not_executed, ...")
    row: str | None = Field(None, description="the verdict row that settled it")
    error: str | None = Field(None, description="the stable name of the rejection")
    reconstructed: bool | None = Field(None, description="whether the value is the stable fields only")
    value: Any = Field(None, description="the value as it is stored")

    @field_validator("row")
    @classmethod
    def _row(cls, value: str | None) -> str | None:
        if value is not None and value not in ROW_BY_NAME:
            raise ValueError(f"there is no verdict row {value!r}")
        return value


class Standing(Strict):
    """How one run stands. What is not said is not looked at."""

    status: Status | None = Field(None, description="the run's status")
    outcome: Any = Field(None, description="the value it completed with")
    failure: str | None = Field(None, description="the stable name of the error it failed with")
    epoch: str | None = Field(None, description="incarnation.n")
    entries: dict[str, int] | None = Field(None, description="how many of a kind; an intent's first attempt counts as an attempt")
    verdicts: list[str] | None = Field(None, description="the rows that were journaled, in order, settlements included")
    settled: dict[str, Settlement] | None = Field(None, description="by step, such as reserve#1")
    late_evidence: int | None = Field(None, description="what superseded workers knew")

    @field_validator("entries")
    @classmethod
    def _kinds(cls, value: dict[str, int] | None) -> dict[str, int] | None:
        for kind in value or {}:
            if kind not in KINDS:
                raise ValueError(f"there is no kind of entry {kind!r}")
        return value


class World(Standing):
    """How the world stands. Standing fields are about `run-1`; `runs` is about others."""

    stock: dict[str, int] | None = Field(None, description="what is left of these")
    executions: dict[str, int] | None = Field(None, description="all of them, by key or by step; what is not named did not happen")
    asked: dict[str, int] | None = Field(None, description="how often a decision's function was called, by name")
    absent: list[RunId] = Field(default_factory=list, description="runs that must not exist")
    unreadable: list[RunId] = Field(default_factory=list, description="runs that are refused as corrupt")
    runs: dict[RunId, Standing] = Field(default_factory=dict, description="how other runs stand")


class Expect(Strict):
    """Look in between."""

    expect: World = Field(description="what must be so now")


Move: TypeAlias = Annotated[
    Annotated[Run, Tag("run")]
    | Annotated[Recover, Tag("recover")]
    | Annotated[Resume, Tag("resume")]
    | Annotated[Resolve, Tag("resolve")]
    | Annotated[Signal, Tag("signal")]
    | Annotated[Send, Tag("send")]
    | Annotated[Order, Tag("order")]
    | Annotated[Fork, Tag("fork")]
    | Annotated[Restart, Tag("restart")]
    | Annotated[Kill, Tag("kill")]
    | Annotated[Advance, Tag("advance")]
    | Annotated[Environment, Tag("environment")]
    | Annotated[Journal, Tag("journal")]
    | Annotated[Clock, Tag("clock")]
    | Annotated[Change, Tag("change")]
    | Annotated[Expect, Tag("expect")],
    by_verb(
        "run",
        "recover",
        "resume",
        "resolve",
        "signal",
        "send",
        "order",
        "fork",
        "restart",
        "advance",
        "environment",
        "journal",
        "clock",
        "change",
        "kill",
        "expect",
    ),
]

MOVES = (
    Run,
    Recover,
    Resume,
    Resolve,
    Signal,
    Send,
    Order,
    Fork,
    Restart,
    Kill,
    Advance,
    Environment,
    Journal,
    Clock,
    Change,
    Expect,
)

Acting: TypeAlias = Run | Recover | Resume | Signal | Send | Order | Fork | Restart
"""What a process does, as far as it comes."""

Word: TypeAlias = Signal | Send | Order | Fork | Restart
"""What a person says of a run, from a process of their own."""
