"""The model of limits: two workers and the runs of one queue, in every order of what they may do, on the shipped store in memory.

Owns the moves, and what is promised after each. Each call of the store is one move: databases carry one out behind a lock, as the conformance suite asks of them. A worker
may die, and another one may take over whatever it has seen to be somebody's, however long ago. Invariant: what answers is the shipped store.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, NamedTuple

from recovery.core.entries import Status
from recovery.core.ids import Epoch
from recovery.core.limits import Queue, Rate, Taken
from recovery.ports import Appended, Owner, RunRow, Wanted
from recovery.storage.memory import MemoryJournal, _Run
from recovery.storage.rooms import subject_of
from recovery.storage.rules import GOES_ON
from tests.conformance.making import member
from tests.model.workers import Violated

PER: Final = 3
MAIL: Final = Queue("mail", concurrency=1, rate=Rate(2, timedelta(microseconds=PER)))
TERM_US: Final = 1


class Limited(NamedTuple):
    """Everything: the rows of the runs, what was taken, the time, what each worker has seen of runs that are somebody's, who is dead, and when runs have begun."""

    runs: tuple[RunRow, ...]
    taken: Taken = ()
    tick: int = 10
    seen: tuple[RunRow | None, RunRow | None] = (None, None)
    dead: tuple[bool, bool] = (False, False)
    begun: tuple[int, ...] = ()


@dataclass(slots=True)
class Came:
    """What a search saw. violation: "" for none."""

    states: int = 0
    full: int = 0  # states in which the queue was full
    held_up: int = 0  # in which only its rate kept a run from beginning
    violation: str = ""


def start(runs: int) -> Limited:
    row = RunRow("", "w", Status.QUEUED, "", "d", Epoch(0, 1), None, 0, TERM_US, 1, "00", 1, 1, queue=MAIL.name)
    return Limited(tuple(replace(row, run_id=f"r{number}") for number in range(runs)))


def store(state: Limited) -> MemoryJournal:
    journal = MemoryJournal("0" * 32)
    journal._runs = {row.run_id: _Run(row, []) for row in state.runs}
    journal._takings.taken[subject_of(MAIL)] = state.taken
    return journal


def stored(state: Limited, journal: MemoryJournal) -> Limited:
    rows = tuple(there.row for there in journal._runs.values())
    return state._replace(runs=rows, taken=journal._takings.taken.get(subject_of(MAIL), ()))


def whose(row: RunRow) -> int | None:
    return None if row.owner is None else int(row.owner.token[0])


def owner(worker: int, row: RunRow) -> Owner:
    return Owner(f"{worker}-{row.run_id}-{row.epoch.n}")


def moves(state: Limited, ticks: int) -> Iterator[tuple[str, Limited]]:
    """Everything that may happen next."""
    if state.tick < 10 + ticks:
        yield "time passes", state._replace(tick=state.tick + 1, begun=tuple(at for at in state.begun if at > state.tick - PER))
    for worker in (0, 1):
        if state.dead[worker]:
            continue
        yield from _claims(state, worker)
        yield f"{worker} dies", state._replace(dead=tuple(dead or each == worker for each, dead in enumerate(state.dead)))  # type: ignore[arg-type]
        yield from _takeovers(state, worker)
        for row in state.runs:
            if whose(row) == worker and row.status in GOES_ON:
                yield from _works(state, row)


def _claims(state: Limited, worker: int) -> Iterator[tuple[str, Limited]]:
    for most in (1, 2):
        journal = store(state)
        wanted = Wanted(now_us=state.tick, limit=most, limits=(MAIL,))
        token = Owner(f"{worker}-{most}-{state.tick}-{sum(row.epoch.n for row in state.runs)}")
        due = journal.claim_due(wanted, token, lease_term_us=TERM_US)
        if due.runs:
            begun = tuple(state.tick for row in due.runs if row.status is Status.QUEUED)
            yield f"{worker} claims {[row.run_id for row in due.runs]}", stored(state, journal)._replace(begun=state.begun + begun)


def _takeovers(state: Limited, worker: int) -> Iterator[tuple[str, Limited]]:
    others = [row for row in state.runs if whose(row) == 1 - worker and row.status in GOES_ON]
    for row in others:
        if state.seen[worker] != row:
            seen = tuple(row if each == worker else there for each, there in enumerate(state.seen))
            yield f"{worker} sees that {row.run_id} is the other's", state._replace(seen=seen)  # type: ignore[arg-type]
    before = state.seen[worker]
    if before is not None:
        journal = store(state)
        came = journal.claim(before, owner(worker, before), lease_term_us=TERM_US, at_us=state.tick)
        seen = tuple(None if each == worker else there for each, there in enumerate(state.seen))
        yield f"{worker} takes {before.run_id} over: {came is not None}", stored(state, journal)._replace(seen=seen)  # type: ignore[arg-type]


def _works(state: Limited, row: RunRow) -> Iterator[tuple[str, Limited]]:
    for status in (Status.COMPLETED, Status.WAITING):
        if status is row.status:
            continue
        journal = store(state)
        [result] = journal.append([member(row, status=status, next_look_us=state.tick + 1 if status is Status.WAITING else None)])
        assert isinstance(result, Appended)
        # Rows are not what is asked here, and a head that grows would make a state of each way that leads to it.
        there = journal._runs[row.run_id]
        there.row = replace(there.row, head=row.head, head_digest=row.head_digest)
        yield f"{row.run_id} is {status.value}", stored(state, journal)
    journal = store(state)
    assert row.owner is not None
    journal.release(row.run_id, row.owner.token, row.epoch)
    yield f"{row.run_id} is let go", stored(state, journal)


def check(state: Limited) -> tuple[bool, bool]:
    """Whether the queue is full, and whether only its rate keeps a run from beginning. Raises Violated."""
    assert MAIL.concurrency is not None
    assert MAIL.rate is not None
    at_work = sum(row.owner is not None and row.status in GOES_ON for row in state.runs)
    if at_work > MAIL.concurrency:
        raise Violated(f"{at_work} runs are at work")
    recent = sum(at > state.tick - PER for at in state.begun)
    if recent > MAIL.rate.count:
        raise Violated(f"{recent} runs have begun in {PER}")
    queued = [row for row in state.runs if row.owner is None and row.status is Status.QUEUED]
    waiting = [
        row for row in state.runs if row.owner is None and row.status is Status.WAITING and (row.next_look_us or 0) <= state.tick
    ]
    room = at_work < MAIL.concurrency
    due = store(state).due(Wanted(now_us=state.tick, limit=9, limits=(MAIL,)))
    if room and not due.runs and (waiting or (queued and recent < MAIL.rate.count)):
        raise Violated("there is room, and nobody gets it")
    if room and queued and recent == MAIL.rate.count and due.next_due_us is None:
        raise Violated("a run may begin later, and nobody is told when")
    return not room, room and bool(queued) and recent == MAIL.rate.count


def search(runs: int, ticks: int, states_max: int) -> Came:
    """The first states of all orders. Stops at the first violation, with its story."""
    first = start(runs)
    parents: dict[Limited, tuple[Limited, str] | None] = {first: None}
    frontier, came = deque([first]), Came()
    while frontier:
        state = frontier.popleft()
        came.states += 1
        try:
            full, held_up = check(state)
        except Violated as problem:
            lines, at = [str(problem)], state
            while (back := parents[at]) is not None:
                at, line = back
                lines.append(line)
            came.violation = "\n".join(reversed(lines))
            break
        came.full += full
        came.held_up += held_up
        for label, after in moves(state, ticks):
            if after not in parents and len(parents) < states_max:
                parents[after] = (state, label)
                frontier.append(after)
    return came
