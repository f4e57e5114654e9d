"""States of the claim protocol, and what may happen next in each.

Owns the clock and the misfortunes. Knows nothing of what a worker does (`workers`) or may not do (`promises`). Invariant: a move is one call of
the store, or one look at a clock, so that nothing ever happens inside of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from recovery.core.errors import RecoveryError, StoreUnavailable
from recovery.core.operations import Boot, Sleep, Use
from recovery.engine.leases import Leases
from recovery.ports import RunRow
from recovery.storage.reading import Loaded
from tests.model.claims.store import EMPTY, Done, Store, Stored, opened
from tests.model.claims.workers import LEASE, NAMES, TICK, Point, Workers

TERM: Final = LEASE.term // TICK


class Left(NamedTuple):
    """How often each misfortune may still happen."""

    lost: int = 0  # a call is carried out, its answer never arrives, and the store's client repeats it as it stands
    failed: int = 0  # a call fails for good, done or not
    strays: int = 0  # a call fails for good, and is carried out at some later time, or never
    pauses: int = 0
    deaths: int = 0
    restored: int = 0  # the database is declared restored, so that the next claim is of another incarnation


class Setting(NamedTuple):
    name: str
    workers: int
    left: Left
    ticks: int
    ends: bool = False
    pausing: int = 9  # the first so many workers may be paused
    orphan: bool = False  # A is dead from the beginning
    opening: bool = False  # nobody has opened the run yet, and each wants to
    operator: str = ""  # the worker that is an operator with a fence, and waits for nobody's lease


class Standing(NamedTuple):
    """One worker. claimed_at: the head when its claim took effect. renewed: in this tick, or not to be; since: the
    tick in which it fell asleep."""

    place: int
    condition: str = "works"  # or paused, or dead
    claimed_at: int | None = None
    renewed: bool = True
    since: int = 0


class State(NamedTuple):
    """silent: ticks since the owner gave a sign of life, by claim or renewal, counted as far as the term. owner: who claimed last, as a number; it may have released."""

    tick: int
    stored: Stored
    workers: tuple[Standing, ...]
    strays: tuple[tuple[int, int], ...]  # (worker, the place whose call it is)
    left: Left
    owner: int = 0
    silent: int = 0


class _Keeping(Leases):
    """The shipped lease keeping, without its thread: when it renews is a move."""

    def _start(self) -> None:
        pass


class Protocol:
    """The moves of one setting."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.opened, entry = opened()
        assert self.opened.run is not None
        self.workers = Workers(self.opened.run, entry, ends=setting.ends, opening=setting.opening, operator=setting.operator)

    def start(self) -> State:
        standing = [Standing(self.workers.begin(name)) for name in NAMES[: self.setting.workers]]
        standing[0] = standing[0]._replace(claimed_at=1, condition="dead" if self.setting.orphan else "works")
        return State(0, EMPTY if self.setting.opening else self.opened, tuple(standing), (), self.setting.left)

    def point(self, state: State, worker: int) -> Point:
        return self.workers.points[state.workers[worker].place]

    def moves(self, state: State) -> Iterator[tuple[str, State, Done | None]]:
        """Everything that may happen next: what it is, the state after it, and the call that reached the store."""
        for worker, standing in enumerate(state.workers):
            point = self.workers.points[standing.place]
            if standing.condition == "paused":
                yield f"{NAMES[worker]} goes on", _with(state, worker, standing._replace(condition="works")), None
            if standing.condition != "works" or point.operation is None:
                continue
            yield from self.steps(state, worker)
            yield from self._misfortunes(state, worker)
            if point.held is not None and not standing.renewed:
                yield self._renewal(state, worker, point.held)
        for index, (worker, place) in enumerate(state.strays):
            without = state._replace(strays=state.strays[:index] + state.strays[index + 1 :])
            after, done, _ = self._call(without, worker, place)
            yield f"what {NAMES[worker]} gave up arrives: {_named(done)}", after, done
        if state.left.restored:
            store = Store(state.stored)
            store.raise_incarnation(state.stored.incarnation, state.stored.incarnation + 1)
            left = state.left._replace(restored=state.left.restored - 1)
            done = Done(state.owner, tuple(store.calls))
            yield "the database is declared restored", state._replace(stored=store.value, left=left), done
        if state.tick < self.setting.ticks:
            yield "time passes", passed(state), None

    def steps(self, state: State, worker: int) -> Iterator[tuple[str, State, Done | None]]:
        """What the worker does next, if it can."""
        point = self.point(state, worker)
        match point.operation:
            case Use():
                after, done, (key, value) = self._call(state, worker, state.workers[worker].place)
                yield f"{NAMES[worker]}: {_named(done)} {_shown(value)}", self._told(after, worker, key, value), done
            case Boot():
                yield f"{NAMES[worker]} looks at its clock", self._told(state, worker, "boot", None), None
            case Sleep():
                if state.tick > state.workers[worker].since:
                    yield f"{NAMES[worker]} wakes", self._told(state, worker, None, None), None

    def _misfortunes(self, state: State, worker: int) -> Iterator[tuple[str, State, Done | None]]:
        left, name, standing = state.left, NAMES[worker], state.workers[worker]
        if isinstance(self.point(state, worker).operation, Use):
            after, done, _ = self._call(state, worker, standing.place)
            failure = StoreUnavailable(url="memory://", problem="gone", fate="unknown")
            if left.lost and after.stored != state.stored:
                yield f"{name}: {_named(done)}, unheard", after._replace(left=left._replace(lost=left.lost - 1)), done
            if left.failed:
                fewer = left._replace(failed=left.failed - 1)
                yield f"{name}: {_named(done)} fails", self._told(state._replace(left=fewer), worker, "failed", failure), None
                if after.stored != state.stored:
                    told = self._told(after._replace(left=fewer), worker, "failed", failure)
                    yield f"{name}: {_named(done)} is done and fails", told, done
            if left.strays and after.stored != state.stored:
                strayed = state._replace(
                    left=left._replace(strays=left.strays - 1), strays=(*state.strays, (worker, standing.place))
                )
                yield f"{name} gives up: {_named(done)}", self._told(strayed, worker, "failed", failure), None
        if left.pauses and worker < self.setting.pausing:
            fewer = state._replace(left=left._replace(pauses=left.pauses - 1))
            yield f"{name} is paused", _with(fewer, worker, standing._replace(condition="paused")), None
        if left.deaths:
            fewer = state._replace(left=left._replace(deaths=left.deaths - 1))
            yield f"{name} dies", _with(fewer, worker, standing._replace(condition="dead")), None

    def _renewal(self, state: State, worker: int, held: RunRow) -> tuple[str, State, Done | None]:
        store = Store(state.stored)
        keeping = _Keeping(store, LEASE.renew_every)
        keeping.hold(held)
        keeping._renew(held)
        renewed = _counter(store.value) != _counter(state.stored)
        standing = state.workers[worker]._replace(renewed=True)
        after = _with(state._replace(stored=store.value, silent=0 if renewed else state.silent), worker, standing)
        return f"{NAMES[worker]} renews" if renewed else f"{NAMES[worker]} renews in vain", after, Done(worker, tuple(store.calls))

    def _call(self, state: State, worker: int, place: int) -> tuple[State, Done, tuple[Any, Any]]:
        """Carry out the call of a place on the store."""
        operation = self.workers.points[place].operation
        assert isinstance(operation, Use)
        store = Store(state.stored)
        try:
            value: Any = operation.call(store)
        except RecoveryError as error:
            value = error
        stored = store.value
        done = Done(worker, tuple(store.calls))
        after = state._replace(stored=stored)
        if stored.run is not None and (state.stored.run is None or stored.run.epoch != state.stored.run.epoch):
            standing = state.workers[worker]._replace(claimed_at=stored.run.head)
            after = _with(after._replace(owner=worker, silent=0), worker, standing)
        return after, done, (_key(value, stored), value)

    def _told(self, state: State, worker: int, key: Any, value: Any) -> State:
        standing = state.workers[worker]
        dead = frozenset(NAMES[index] for index, other in enumerate(state.workers) if other.condition == "dead")
        place = self.workers.tell(standing.place, key, value, state.tick, dead)
        point = self.workers.points[place]
        since = state.tick if isinstance(point.operation, Sleep) else 0
        return _with(state, worker, standing._replace(place=place, since=since, renewed=standing.renewed or point.held is None))


def passed(state: State) -> State:
    """One tick later."""
    workers = tuple(standing._replace(renewed=standing.condition == "dead") for standing in state.workers)
    return state._replace(tick=state.tick + 1, workers=workers, silent=min(state.silent + 1, TERM))


def _with(state: State, worker: int, standing: Standing) -> State:
    return state._replace(workers=(*state.workers[:worker], standing, *state.workers[worker + 1 :]))


def _counter(stored: Stored) -> int | None:
    return None if stored.run is None else stored.run.lease_counter


def _key(value: Any, stored: Stored) -> Any:
    """What stands for an answer: equal keys, equal answers."""
    if isinstance(value, Loaded):
        return "loaded", stored
    if isinstance(value, RecoveryError):
        return type(value).__name__, str(value)
    return tuple(value) if isinstance(value, list) else value


def _named(done: Done) -> str:
    if done.asked:
        return f"appends {', '.join(row.kind for append, _ in done.asked for row in append.rows)}"
    return "claims" if done.claimed else "uses the store"


def _shown(value: Any) -> str:
    match value:
        case RunRow(epoch=epoch, owner=owner, lease_counter=counter):
            return f"-> epoch {epoch}, {owner.token if owner else 'nobody'}, counter {counter}"
        case Loaded(run=run):
            return f"-> loaded up to {run.head}"
        case [result]:
            return f"-> {type(result).__name__}"
        case _:
            return f"-> {value}"
