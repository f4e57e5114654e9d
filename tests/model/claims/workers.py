"""Workers of the claim protocol: the shipped procedures of `recovery.claims` and `recovery.storage.writer`, carried from one use of the store
to the next.

Owns what a worker does between two answers, as a number: workers that were told the same are one. Knows nothing of what may go wrong.
Invariant: nothing here decides who owns a run. A worker is a pure function of what it was told, so that each stretch is run once.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, is_dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final, NamedTuple

from recovery.claims import World, existing, find, held_while, take, visit
from recovery.core.contracts import Contract, Kind, contract_digest, microseconds
from recovery.core.entries import Answered, AnswerKind, Attempt, Intent, Observation, Opened, OutcomeKind, Settled, Source, Status
from recovery.core.errors import FencedOut, RecoveryError
from recovery.core.history import EffectStep, History, fold
from recovery.core.ids import ROOT
from recovery.core.operations import Append, Boot, Commit, Find, Now, Op, Sleep, Use
from recovery.core.policy import Budget, Lease
from recovery.definitions.recovered import Recovered
from recovery.definitions.registry import Workflows
from recovery.offspring import opened
from recovery.operators.claiming import Claimed
from recovery.operators.holding import fence
from recovery.ports import Evidence, Journal, NewRun, Owner, RunRow
from recovery.storage.reading import Loaded
from recovery.storage.writer import Writer, writer_of

RUN: Final = "run-1"
STEP: Final = "reserve#1"
TICK: Final = timedelta(milliseconds=250)
"""One step of the clock: how often a claimant looks."""
LEASE: Final = Lease(term=2 * TICK, renew_every=TICK)
PATIENCE: Final = 4 * TICK
CONTRACT: Final = Contract(kind=Kind.OPAQUE)
NAMES: Final = ("A", "B", "C", "D")
NEWCOMER: Final = NAMES[-1]
"""A has opened the run. B and C want it. D comes when nobody else moves any more."""
WALL_US: Final = {name: 1_700_000_000_000_000 + hours * 3_600_000_000 for name, hours in zip(NAMES, (0, 1, -1, 2), strict=True)}
"""Wall clocks of their hosts: hours apart, and stopped, since nothing about a claim may depend on them. Fewer journals differ then."""
BOOTED_US: Final = {"A": 7_000_000_000, "B": 0, "C": 5_000_000, "D": 1}


class Point(NamedTuple):
    """Where a worker stands: before an operation, or at its end (`outcome`)."""

    operation: Op[Any] | None
    held: RunRow | None = None  # the lease that is kept alive
    durable: tuple[tuple[int, str], ...] = ()  # (seq, digest) of each append that it was told is durable
    loaded: int | None = None  # the head it works from
    unheard: str = ""  # the reply that it could not append, as stored
    outcome: str = ""


@dataclass(slots=True)
class _Seen:
    """What the outside can see of one worker, and what it looks at."""

    name: str
    tick: int = 0
    dead: frozenset[str] = frozenset()
    looked_at_clock: bool = False
    looked_at_dead: bool = False
    held: RunRow | None = None
    durable: list[tuple[int, str]] = field(default_factory=list)
    loaded: int | None = None
    unheard: str = ""
    problem: str = ""  # the last exception that came out of an operation
    tokens: int = 0

    def token(self) -> str:
        self.tokens += 1
        return f"{self.name}-{self.tokens}"

    def proven_dead(self, owner: Owner) -> bool:
        self.looked_at_dead = True
        return NAMES[owner.pid - 1] in self.dead

    def hold(self, row: RunRow) -> None:
        self.held = row

    def drop(self, _row: RunRow) -> None:
        self.held = None

    def clock_us(self) -> int:
        self.looked_at_clock = True
        return self.tick * microseconds(TICK)


class Workers:
    """All workers at all places that were ever reached. A place is a number; `begin` gives the first one of each worker.

    Two ways to the same place are one: where a coroutine stands is the line of each of its frames, with their variables and what the worker
    has shown. None of these procedures keeps anything else over an await; an exception on its way out is noted as `problem`.
    """

    def __init__(self, row: RunRow, entry: Opened, *, ends: bool, opening: bool = False, operator: str = "") -> None:
        self._row, self._entry, self._ends, self._opening, self._operator = row, entry, ends, opening, operator
        self.points: list[Point] = []
        self._ways: list[tuple[str, tuple[tuple[Any, int, frozenset[str]], ...]]] = []  # the first way to each place: all answers
        self._places: dict[Any, int] = {}
        self._next: dict[tuple[Any, ...], int] = {}
        self._looks: dict[tuple[int, Any], tuple[bool, bool]] = {}

    def begin(self, name: str) -> int:
        return self._go(name, ())[0]

    def tell(self, place: int, key: Any, value: Any, tick: int, dead: frozenset[str]) -> int:
        """The place that the worker reaches when it is told `value` in that moment. Equal keys stand for equal values."""
        name, way = self._ways[place]
        looks = self._looks.get((place, key))
        if looks is None or (place, key, tick if looks[0] else None, dead if looks[1] else None) not in self._next:
            reached, seen = self._go(name, (*way, (value, tick, dead)))
            looks = self._looks[place, key] = (seen.looked_at_clock, seen.looked_at_dead)
            self._next[place, key, tick if looks[0] else None, dead if looks[1] else None] = reached
        return self._next[place, key, tick if looks[0] else None, dead if looks[1] else None]

    def _go(self, name: str, way: tuple[tuple[Any, int, frozenset[str]], ...]) -> tuple[int, _Seen]:
        """From the beginning, with all answers. What it looks at is noted for the last one only."""
        seen = _Seen(name)
        procedure = self._procedure(seen)
        standing: Any = None
        try:
            operation = _on(procedure, seen, None)
            for value, seen.tick, seen.dead in way:
                seen.looked_at_clock = seen.looked_at_dead = False
                operation = _on(procedure, seen, seen.clock_us() + BOOTED_US[name] if isinstance(operation, Boot) else value)
            point, standing = _point(seen, operation), _standing(procedure)
        except StopIteration as stop:
            point = Point(None, outcome=str(stop.value), unheard=seen.unheard)
        except RecoveryError as error:
            point = Point(None, outcome=type(error).__name__, unheard=seen.unheard)
        finally:
            _leave(procedure)
        where = (name, standing, standing and seen.problem, point._replace(operation=None))
        place = self._places.setdefault(where, len(self.points))
        if place == len(self.points):
            self.points.append(point)
            self._ways.append((name, way))
        return place, seen

    def _procedure(self, seen: _Seen) -> Coroutine[Op[Any], Any, str]:
        world = World(
            workflows=Workflows(),
            budget=Budget(),
            lease=LEASE,
            wait_for_owner=PATIENCE,
            token=seen.token,
            identify=lambda token: owner_of(seen.name, token),
            proven_dead=seen.proven_dead,
            raise_mark=lambda _us: None,
            hold=seen.hold,
            drop=seen.drop,
            held_contracts=frozenset,
            hearing=lambda: lambda _held: None,
        )
        if seen.name == self._operator:
            return self._fencing(world)
        if self._opening and seen.name != NEWCOMER:
            return self._opener(seen, world)
        return self._owner(seen, world, self._row) if seen.name == "A" else self._claimant(seen, world)

    async def _fencing(self, world: World) -> str:
        """An operator, who waits for no lease."""
        await fence(world, RUN, by="ann", reason="stop it")
        return "done"

    async def _opener(self, seen: _Seen, world: World) -> str:
        """Starts the run, or goes on with what another has started."""
        if await find(RUN) is None and (mine := await opened(world, RUN, self._entry, Status.RUNNING)) is not None:
            return await self._owner(seen, world, mine)
        return await self._claimant(seen, world)

    async def _owner(self, seen: _Seen, world: World, row: RunRow) -> str:
        assert row.owner is not None
        writer = Writer(RUN, row.owner.token, row.epoch, row.head, row.head_digest, world.token, {})
        seen.loaded = row.head
        await held_while(world, row, lambda: self._work(seen, writer, fold(RUN, [self._entry])))
        return "done"

    async def _claimant(self, seen: _Seen, world: World) -> str:
        row = await take(world, await existing(RUN))
        if row.status.settled:
            return "settled"

        async def work(loaded: Loaded) -> Recovered[None] | None:
            seen.loaded = loaded.run.head
            return await self._work(seen, writer_of(loaded, world.token), loaded.history)

        await visit(world, row, work)
        return "done"

    async def _work(self, seen: _Seen, writer: Writer, history: History) -> Recovered[None] | None:
        """One attempt and its reply: the least in which a writer has something to lose. `ends`: and the end of the run."""
        effect = history.steps.get(STEP)
        number = len(effect.attempts) + 1 if isinstance(effect, EffectStep) else 1
        sent_us = await Now()
        attempt = Attempt(
            step=STEP, number=number, purpose="send", sent_at_us=sent_us, send_until_us=sent_us, epoch=str(writer.epoch)
        )
        await _commit(seen, writer, Append((attempt if effect else _intent(attempt),), Status.RUNNING))
        heard_us = await Now()
        reply = Observation(
            step=STEP,
            source=Source.REPLY,
            asked_at_us=sent_us,
            observed_at_us=heard_us,
            answer=Answered(kind=AnswerKind.FOUND, value=seen.name),
            attempt=number,
            epoch=str(writer.epoch),
        )
        try:
            await _commit(seen, writer, self._last(reply))
        except FencedOut:
            seen.unheard = seen.name
            raise
        return Recovered(run_id=RUN, workflow="w", status=Status.COMPLETED) if self._ends else None

    def _last(self, reply: Observation) -> Append:
        if not self._ends:
            return Append((reply,), Status.RUNNING)
        at_us = reply.observed_at_us
        settled = Settled(
            step=STEP, outcome=OutcomeKind.APPLIED, at_us=at_us, value=reply.answer.value, row="original", observation=reply
        )
        return Append((settled, Settled(step=ROOT, outcome=OutcomeKind.APPLIED, at_us=at_us)), Status.COMPLETED)


async def _commit(seen: _Seen, writer: Writer, wanted: Append) -> None:
    writer.contracts.setdefault(contract_digest(CONTRACT.to_json()), CONTRACT)
    try:
        await writer.commit(wanted)
    except RecoveryError as error:
        seen.problem = f"{type(error).__name__}: {error}"
        raise
    seen.durable.append((writer.head, writer.digest))


def _intent(attempt: Attempt) -> Intent:
    return Intent(
        step=STEP,
        effect="reserve",
        environment="inventory",
        scope="here",
        key="key-1",
        fingerprint="f",
        arguments=None,
        contract=contract_digest(CONTRACT.to_json()),
        timeout_us=1,
        at_us=attempt.sent_at_us,
        attempt=attempt,
    )


def owner_of(name: str, token: str) -> Owner:
    return Owner(token=token, host=name, boot_id="boot", pid_namespace="pid:[1]", pid=NAMES.index(name) + 1, process_start=1)


class _Gone(BaseException):
    """Ends a procedure whose place was only looked at; what it would give up on its way out is given up nowhere."""


def _leave(procedure: Coroutine[Op[Any], Any, str]) -> None:
    with suppress(_Gone, StopIteration, RuntimeError):  # the last: it had ended by itself
        while True:
            procedure.throw(_Gone())


def _point(seen: _Seen, operation: Op[Any]) -> Point:
    return Point(operation, seen.held, tuple(seen.durable), seen.loaded, seen.unheard)


def _standing(procedure: Coroutine[Op[Any], Any, str]) -> Any:
    """Where a coroutine stands: each frame's line and variables, from the outermost to the operation that it awaits."""
    frames, inner = [], procedure
    while (frame := getattr(inner, "cr_frame", None)) is not None:
        variables = tuple((name, _plain(value)) for name, value in sorted(frame.f_locals.items()))
        frames.append((frame.f_code, frame.f_lasti, variables))
        inner = inner.cr_await
    return tuple(frames)


def _plain(value: Any) -> Any:
    """A variable as something that can be compared. What a worker only calls, or what follows from another variable, is its kind."""
    match value:
        case tuple():
            return tuple(map(_plain, value))
        case RunRow() | str() | int() | None | Evidence():
            return value
        case Loaded():
            return value.run, tuple(value.late)  # its head is the digest of its rows
        case Claimed():
            return _plain(value.loaded), _plain(value.writer)
        case Writer():
            return value.owner, value.epoch, value.head, value.digest, value.ended, value.finished
        case _Seen():
            return value.tokens
        case list():
            return tuple(map(_plain, value))
        case BaseException():
            return repr(value)
        case _ if is_dataclass(value) and type(value).__hash__ is not None and not isinstance(value, World | Op):
            return value
        case _:
            return type(value).__qualname__


def _on(procedure: Coroutine[Op[Any], Any, str], seen: _Seen, value: Any) -> Op[Any]:
    """To the next operation that others can come before. The wall clock is none: it only ends up in entries."""
    if isinstance(value, BaseException):
        seen.problem = f"{type(value).__name__}: {value}"
        operation = procedure.throw(value)
    else:
        operation = procedure.send(value)
    while isinstance(operation, Now):
        operation = procedure.send(WALL_US[seen.name])
    if isinstance(operation, Commit):  # by itself: who shares a commit is no matter of the protocol
        operation = Use(partial(_written, operation.member))
    elif isinstance(operation, Find):
        operation = Use(partial(_find, operation.run_id))
    assert isinstance(operation, Use | Boot | Sleep), operation
    return operation


def _written(member: Any, journal: Journal) -> Any:
    if isinstance(member, NewRun):
        return journal.open_run(member)
    [result] = journal.append([member])
    return result


def _find(run_id: str, journal: Journal) -> RunRow | None:
    return journal.find(run_id)
