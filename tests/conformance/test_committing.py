"""Group commit: who commits for whom, on memory, SQLite and PostgreSQL; and that nobody's interruption or fault is another one's."""

from __future__ import annotations

import asyncio
import linecache
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

import pytest

from recovery.core.errors import InvariantViolated, StoreUnavailable
from recovery.core.host_errors import ThreadUnavailable
from recovery.drivers.posting import post_of
from recovery.ports import Append, Appended, AppendResult, Fenced, Journal, NewRun, RunRow
from recovery.storage import committing
from recovery.storage.committing import Committer, Ticket
from tests.conformance.making import member, new_run, opened, owner, row_after

WAIT_SECONDS = 60


@dataclass
class Gated:
    """The journal, with a gate before each batch; it keeps who brought how much."""

    journal: Journal
    open: threading.Event = field(default_factory=threading.Event)
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    batches: list[tuple[int, int]] = field(default_factory=list)  # (thread, size)
    opened: list[int] = field(default_factory=list)  # sizes
    raises: dict[int, BaseException] = field(default_factory=dict)  # by the number of the batch

    def open_runs(self, batch: Sequence[NewRun]) -> list[RunRow | None]:
        self.opened.append(len(batch))
        return self.journal.open_runs(batch)

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        self.batches.append((threading.get_ident(), len(batch)))
        self.arrived.release()
        assert self.open.wait(WAIT_SECONDS)
        if (error := self.raises.pop(len(self.batches), None)) is not None:
            raise error
        return self.journal.append(batch)

    @property
    def sizes(self) -> list[int]:
        return [size for _thread, size in self.batches]


def runs(journal: Journal, count: int) -> list[RunRow]:
    return [opened(journal, f"run-{number}") for number in range(count)]


@contextmanager
def followers(
    committer: Committer, appends: Sequence[Append | NewRun], came: dict[int, Any], base: int = 0, *, joined: bool = True
) -> Iterator[list[threading.Thread]]:
    """Threads that have queued their appends, in order, behind a leader that stands at the gate."""

    def follow(number: int) -> None:
        try:
            came[number] = committer.commit(appends[number])
        except Exception as error:  # it is what the test looks at
            came[number] = error

    threads = []
    for number in range(len(appends)):
        thread = threading.Thread(target=follow, args=(number,))
        thread.start()
        threads.append(thread)
        while joined and len(committer._queue) < base + number + 1:
            os.sched_yield()
    yield threads
    for thread in threads:
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive(), "somebody waits for ever"


@contextmanager
def leader(committer: Committer, gate: Gated, append: Append, came: dict[Any, Any]) -> Iterator[int]:
    """A thread that leads, and stands at the gate with its own append."""

    def lead() -> None:
        came["leader"] = committer.commit(append)

    thread = threading.Thread(target=lead)
    thread.start()
    assert gate.arrived.acquire(timeout=WAIT_SECONDS)
    assert thread.ident is not None
    yield thread.ident
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive()


def test_a_lone_caller_commits_by_itself(journal: Journal) -> None:
    [run] = runs(journal, 1)
    gate = Gated(journal)
    gate.open.set()
    assert Committer(gate).commit(member(run)) == Appended()
    assert gate.batches == [(threading.get_ident(), 1)]


def test_those_who_come_meanwhile_share_the_next_commit(journal: Journal) -> None:
    """And one of them leads it: the first leader goes on with its own work."""
    first, *others = runs(journal, 6)
    gate, came = Gated(journal), dict[Any, Any]()
    committer = Committer(gate)
    with (
        leader(committer, gate, member(first), came) as led,
        followers(committer, [member(run) for run in others], came) as threads,
    ):
        gate.open.set()
    assert gate.sizes == [1, 5]
    assert gate.batches[1][0] == threads[0].ident != led
    assert set(came.values()) == {Appended()}
    assert committer._leader is None


def test_a_batch_is_bounded(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committing, "BATCH_MAX", 2)
    first, *others = runs(journal, 6)
    gate, came = Gated(journal), dict[Any, Any]()
    committer = Committer(gate)
    with leader(committer, gate, member(first), came), followers(committer, [member(run) for run in others], came):
        gate.open.set()
    assert gate.sizes == [1, 2, 2, 1]
    assert set(came.values()) == {Appended()}


def test_one_fenced_member_fails_nobody_else(journal: Journal) -> None:
    first, *others = runs(journal, 4)
    gate, came = Gated(journal), dict[Any, Any]()
    committer = Committer(gate)
    appends = [member(run) for run in others]
    appends[1] = replace(appends[1], owner="somebody-else")
    with leader(committer, gate, member(first), came), followers(committer, appends, came):
        gate.open.set()
    assert isinstance(came[1], Fenced)
    assert came[0] == came[2] == Appended()
    assert gate.sizes == [1, 3]


def test_new_runs_share_a_commit_too(journal: Journal) -> None:
    """With appends among them, and one whose id is taken."""
    first, second = runs(journal, 2)
    gate, came = Gated(journal), dict[Any, Any]()
    committer = Committer(gate)
    news = [new_run(journal, run_id) for run_id in ("a", first.run_id, "b")]
    with leader(committer, gate, member(first), came), followers(committer, [news[0], member(second), *news[1:]], came):
        gate.open.set()
    assert (gate.opened, gate.sizes) == ([3], [1, 1])
    assert [came[0], came[2], came[3]] == [journal.find("a"), None, journal.find("b")]
    assert came[1] == Appended()
    assert committer.commit(new_run(journal, "c")) == journal.find("c")


def test_a_run_that_cannot_be_opened_keeps_nobody_out(journal: Journal) -> None:
    [first] = runs(journal, 1)
    gate, came = Gated(journal), dict[Any, Any]()
    committer = Committer(gate)
    news = [new_run(journal, run_id) for run_id in ("a", "b", "c")]
    news[1] = replace(news[1], rows=(row_after(first),))
    with leader(committer, gate, member(first), came), followers(committer, news, came):
        gate.open.set()
    assert isinstance(came[1], InvariantViolated)
    assert [came[0], came[2]] == [journal.find("a"), journal.find("c")]
    assert journal.find("b") is None


def test_an_impossible_member_fails_nobody_else(journal: Journal) -> None:
    """A row that no database can store (half a surrogate pair) makes the whole statement impossible; each is then tried by itself."""
    first, *others = runs(journal, 4)
    gate, came = Gated(journal), dict[Any, Any]()
    committer = Committer(gate)
    appends = [member(run) for run in others]
    broken = replace(row_after(others[1]), seq=9)
    appends[1] = replace(appends[1], rows=(broken,))
    with leader(committer, gate, member(first), came), followers(committer, appends, came):
        gate.open.set()
    assert isinstance(came[1], ValueError | AssertionError), came[1]
    assert came[0] == came[2] == Appended()


def test_an_unknown_commit_is_unknown_to_each(journal: Journal) -> None:
    first, *others = runs(journal, 3)
    gate, came = Gated(journal), dict[Any, Any]()
    committer = Committer(gate)
    appends = [member(run) for run in others]
    with leader(committer, gate, member(first), came), followers(committer, appends, came):
        gate.raises[2] = StoreUnavailable(url="db", problem="it went away", fate="Whether it was written is not known")
        gate.open.set()
    errors = [error for error in came.values() if isinstance(error, StoreUnavailable)]
    assert len({id(error) for error in errors}) == len(others), came
    for run, append in zip(others, appends, strict=True):
        assert committer.commit(append) == Appended(), f"the repeat of {run.run_id} is the same append"


class Broken(BaseException):
    """What a signal raises."""


def test_an_interrupted_leader_takes_nobody_with_it(journal: Journal) -> None:
    mine, *others = runs(journal, 3)
    gate, came = Gated(journal), dict[Any, Any]()
    committer = Committer(gate)
    gate.raises[1] = Broken()

    def lead() -> None:
        with pytest.raises(Broken):
            committer.commit(member(mine))
        came["leader"] = "interrupted"

    thread = threading.Thread(target=lead)
    thread.start()
    assert gate.arrived.acquire(timeout=WAIT_SECONDS)
    with followers(committer, [member(run) for run in others], came):
        gate.open.set()
    thread.join(WAIT_SECONDS)
    assert came == {"leader": "interrupted", 0: Appended(), 1: Appended()}
    assert committer._leader is None


def test_an_interrupt_at_any_line_loses_neither_the_lead_nor_an_append() -> None:
    """One interrupt at each line that a caller passes, with another caller behind it: the other one is answered, and so is the next."""
    from recovery.storage.memory import MemoryJournal

    struck = 0
    for line in range(1, 200):
        journal = MemoryJournal()
        mine, other, third = runs(journal, 3)
        committer = Committer(journal)
        if not interrupted_at(line, committer, member(mine)):
            break
        struck += 1
        came: dict[int, Any] = {}
        with followers(committer, [member(other)], came, joined=False):
            pass
        assert came == {0: Appended()}
        assert committer.commit(member(third)) == Appended()
        assert not committer._queue
    assert struck > 20


def interrupted_at(line: int, committer: Committer, append: Append) -> bool:
    """Whether a call has so many lines; it is broken off there."""
    passed = 0

    def strike(frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal passed
        if frame.f_code.co_filename != committing.__file__:
            return None
        source = linecache.getline(committing.__file__, frame.f_lineno).strip()
        leaving = source == "with self._lock:" and committer._lock.locked()
        if event == "line" and not leaving:  # between a block and its `__exit__` no signal is looked at, but a trace is
            passed += 1
            if passed == line:
                raise Broken
        return strike

    before = sys.gettrace()
    sys.settrace(strike)
    try:
        committer.commit(append)
    except Broken:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_event_loop_never_leads(journal: Journal) -> None:
    """What its tasks append at the same time is one commit, made by another thread, which ends when it is closed."""
    many = runs(journal, 50)
    gate = Gated(journal)
    gate.open.set()
    committer = Committer(gate)

    async def append(run: RunRow) -> AppendResult:
        post = post_of(asyncio.get_running_loop())
        return await post.commit(committer, Ticket(member(run), post.tell))

    async def all_at_once() -> list[AppendResult]:
        return await asyncio.gather(*(append(run) for run in many))

    assert asyncio.run(all_at_once()) == [Appended()] * 50
    assert {thread for thread, _size in gate.batches}.isdisjoint({threading.get_ident()})
    assert gate.sizes == [50]
    pump = committer._pump
    committer.close()
    assert pump is not None
    assert not pump.is_alive()
    journal.append([member(opened(journal, "again"))])


def test_it_begins_again_after_it_was_closed(journal: Journal) -> None:
    committer = Committer(journal)
    for number in range(3):
        run = opened(journal, f"life-{number}")
        answered = threading.Event()
        ticket = Ticket(member(run), lambda _tickets, answered=answered: answered.set())  # type: ignore[misc]
        committer.submit([ticket])
        assert answered.wait(WAIT_SECONDS)
        assert ticket.outcome() == Appended()
        committer.close()


def test_where_no_thread_can_be_had_it_is_said_and_nobody_waits_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from recovery.storage.memory import MemoryJournal

    journal = MemoryJournal()
    lost, next_one, later = runs(journal, 3)
    committer, answered, came = Committer(journal), threading.Event(), dict[int, Any]()

    def refused(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        with pytest.raises(ThreadUnavailable, match="new thread"):
            committer.submit([Ticket(member(lost), lambda _: None)])
    with followers(committer, [member(next_one)], came, joined=False):
        pass
    assert came == {0: Appended()}
    committer.submit([Ticket(member(later), lambda _: answered.set())])
    assert answered.wait(WAIT_SECONDS)
    assert journal.find(lost.run_id) == lost, "who was told that it failed is not written behind that"
    committer.close()


def test_sync_and_async_callers_share_commits(journal: Journal) -> None:
    first, *others = runs(journal, 5)
    gate, came = Gated(journal), dict[Any, Any]()
    committer = Committer(gate)
    answered = threading.Semaphore(0)
    with leader(committer, gate, member(first), came):
        tickets = [Ticket(member(run), lambda told: answered.release(len(told))) for run in others[:2]]
        committer.submit(tickets)
        with followers(committer, [member(run) for run in others[2:]], came, base=2):
            gate.open.set()
    for _ in tickets:
        assert answered.acquire(timeout=WAIT_SECONDS)
    assert gate.sizes == [1, 4]
    assert [ticket.outcome() for ticket in tickets] == [Appended()] * 2
    assert set(came.values()) == {Appended()}
    committer.close()


def test_a_forked_child_commits_for_itself(sqlite_url: str) -> None:
    """The parent's thread is not there, and its queue is not the child's."""
    from recovery.storage import open_journal

    journal = open_journal(sqlite_url)
    committer = Committer(journal)
    run = opened(journal, "parent", by=owner("parent"))
    answered = threading.Event()
    committer.submit([Ticket(member(run), lambda _tickets: answered.set())])
    assert answered.wait(WAIT_SECONDS)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            came = committer.commit(member(opened(journal, "child", by=owner("child"))))
            code = 0 if came == Appended() else 2
        finally:
            os._exit(code)
    _pid, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    committer.close()
    journal.close()
