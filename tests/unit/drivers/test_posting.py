"""The post between an event loop and the store: what leaves together, who is woken when, and that nobody is left waiting."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any

import pytest

from recovery.core.errors import StoreUnavailable
from recovery.core.host_errors import ThreadUnavailable
from recovery.drivers.posting import PORTION_SECONDS, SHARED_MAX, STORE_THREADS_MAX, WOKEN_MAX, Post, in_context, post_of
from recovery.ports import Append, Appended, AppendResult, NewRun, RunRow
from recovery.storage.committing import Committer, Ticket
from recovery.storage.memory import MemoryJournal
from tests.conformance.making import member, opened

WAIT_SECONDS = 60
MANY = 100


class Kept:
    """A journal behind a gate; it keeps the sizes of its batches."""

    def __init__(self) -> None:
        self.journal = MemoryJournal()
        self.arrived, self.open = threading.Event(), threading.Event()
        self.sizes: list[int] = []

    def open_runs(self, batch: Sequence[NewRun]) -> list[RunRow | None]:
        return self.journal.open_runs(batch)

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        self.sizes.append(len(batch))
        self.arrived.set()
        assert self.open.wait(WAIT_SECONDS)
        return self.journal.append(batch)


async def committed(kept: Kept, committer: Committer, append: Append) -> AppendResult:
    post = post_of(asyncio.get_running_loop())
    return await post.commit(committer, Ticket(append, post.tell))


def test_whoever_was_woken_shares_the_next_commit() -> None:
    """Two hundred runs in step: each round is one commit, though they are woken few at a time."""
    kept = Kept()
    kept.open.set()
    committer = Committer(kept)

    async def two_steps(number: int) -> None:
        run = opened(kept.journal, f"run-{number}")
        for _ in range(2):
            assert await committed(kept, committer, member(run)) == Appended()
            found = kept.journal.find(run.run_id)
            assert found is not None
            run = found

    async def all_of_them() -> None:
        post = post_of(asyncio.get_running_loop())
        post.linger_seconds = WAIT_SECONDS  # however slow the machine is
        await asyncio.gather(*(two_steps(number) for number in range(MANY)))

    asyncio.run(all_of_them())
    assert kept.sizes == [MANY, MANY]
    committer.close()


def test_few_are_woken_in_one_turn_of_the_loop() -> None:
    async def counted() -> list[int]:
        woken: list[int] = []
        turn = 0

        async def asking(post: Post) -> None:
            await post.use(lambda: None)
            woken.append(turn)

        post = post_of(asyncio.get_running_loop())
        tasks = [asyncio.ensure_future(asking(post)) for _ in range(MANY)]
        while not all(task.done() for task in tasks):
            turn += 1
            await asyncio.sleep(0)
        return woken

    woken = asyncio.run(counted())
    assert len(woken) == MANY
    assert max(woken.count(turn) for turn in woken) <= WOKEN_MAX


async def begun_in(works: Sequence[Callable[[], None]]) -> list[int]:
    """In which turn of a loop each of these began, if all of them want to at once and let others go first where it is crowded."""
    began: list[int] = []
    turn = 0

    async def begin(work: Callable[[], None]) -> None:
        post = post_of(asyncio.get_running_loop())
        if post.crowded():
            await post.make_way()
        began.append(turn)
        work()

    tasks = [asyncio.ensure_future(begin(work)) for work in works]
    while not all(task.done() for task in tasks):
        turn += 1
        await asyncio.sleep(0)
    return began


def keep_the_loop() -> None:
    """For longer than one turn of it is to last."""
    until = time.monotonic() + 2 * PORTION_SECONDS
    while time.monotonic() < until:
        pass


def test_what_begins_in_a_crowded_turn_makes_way() -> None:
    began = asyncio.run(begun_in([keep_the_loop, *[lambda: None] * 30]))
    assert len(began) == 31  # all wanted to begin in the same turn
    assert max(began.count(turn) for turn in began) <= WOKEN_MAX


def test_few_make_way_for_nobody() -> None:
    async def asked() -> list[bool]:
        post = post_of(asyncio.get_running_loop())
        found = [post.crowded()]
        keep_the_loop()
        found += [post.crowded() for _ in range(WOKEN_MAX)]
        for _ in range(3):
            await asyncio.sleep(0)
        keep_the_loop()  # nobody of ours: this turn has not begun to be counted
        return [*found, post.crowded()]

    assert asyncio.run(asked()) == [*[False] * WOKEN_MAX, True, False]


def test_one_that_is_cancelled_while_it_makes_way_keeps_nobody_from_going_on() -> None:
    async def both() -> tuple[bool, bool]:
        post = post_of(asyncio.get_running_loop())
        first, second = asyncio.ensure_future(post.make_way()), asyncio.ensure_future(post.make_way())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait_for(second, WAIT_SECONDS)
        return first.cancelled(), second.done()

    assert asyncio.run(both()) == (True, True)


def test_a_cancelled_caller_waits_for_its_commit() -> None:
    kept = Kept()
    committer = Committer(kept)
    run = opened(kept.journal)

    async def cancelled_twice() -> bool:
        task = asyncio.ensure_future(committed(kept, committer, member(run)))
        assert await asyncio.to_thread(kept.arrived.wait, WAIT_SECONDS)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done()
        kept.open.set()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(cancelled_twice())
    row = kept.journal.find("run-1")
    assert row is not None
    assert row.head == 2
    committer.close()


def test_what_is_handed_in_leaves_though_others_are_always_being_woken() -> None:
    """A loop that never comes to an end of waking commits all the same."""
    kept = Kept()
    kept.open.set()
    committer = Committer(kept)

    async def beside() -> AppendResult:
        loop = asyncio.get_running_loop()
        post = post_of(loop)
        ended = False

        def again() -> None:
            post.tell([Ticket(member(run), post.tell)])  # somebody who needs waking, in each turn
            if not ended:
                loop.call_soon(again)

        run = opened(kept.journal)
        again()
        came = await committed(kept, committer, member(run))
        ended = True
        return came

    assert asyncio.run(asyncio.wait_for(beside(), WAIT_SECONDS)) == Appended()
    committer.close()


def test_uses_share_a_few_threads_and_each_has_its_own_answer() -> None:
    def asked(number: int) -> tuple[int, int]:
        if number % 10 == 7:
            raise LookupError(number)
        return number, threading.get_ident()

    async def all_at_once() -> list[tuple[int, int] | BaseException]:
        post = post_of(asyncio.get_running_loop())
        calls: list[Callable[[], tuple[int, int]]] = [in_context(asked, number) for number in range(MANY)]
        return await asyncio.gather(*map(post.use, calls), return_exceptions=True)

    found = asyncio.run(all_at_once())
    assert [each.args[0] for each in found if isinstance(each, LookupError)] == list(range(7, MANY, 10))
    answers = [each for each in found if isinstance(each, tuple)]
    assert [number for number, _ in answers] == [number for number in range(MANY) if number % 10 != 7]
    assert 1 <= len({thread for _, thread in answers} - {threading.get_ident()}) <= STORE_THREADS_MAX


def test_where_no_thread_can_be_had_it_is_said() -> None:
    async def too_late() -> None:
        post = post_of(asyncio.get_running_loop())
        post.threads.shutdown()
        await post.use(lambda: None)

    with pytest.raises(ThreadUnavailable, match="shutdown"):
        asyncio.run(too_late())


def test_what_was_refused_a_thread_is_not_done_by_another_one_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool keeps what it could begin no thread for, and hands it to the next that it can."""
    done, start = list[str](), threading.Thread.start

    def refused(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def used() -> None:
        post = post_of(asyncio.get_running_loop())
        monkeypatch.setattr(threading.Thread, "start", refused)
        with pytest.raises(ThreadUnavailable):
            await post.use(lambda: done.append("refused"))
        with pytest.raises(ThreadUnavailable):
            await post.use(lambda: done.append("refused, too"), "alike")
        monkeypatch.setattr(threading.Thread, "start", start)
        await post.use(lambda: done.append("asked again"))
        post.threads.shutdown()

    asyncio.run(used())
    assert done == ["asked again"]


class Asked:
    """A journal that keeps which questions came together; one run's row cannot be read."""

    def __init__(self) -> None:
        self.inner = MemoryJournal()
        self.questions: list[int] = []
        opened(self.inner, "there")

    def find_all(self, run_ids: Sequence[str]) -> dict[str, RunRow]:
        self.questions.append(len(run_ids))
        if "damaged" in run_ids:
            raise LookupError("damaged")
        if "gone" in run_ids:
            raise StoreUnavailable(url="a test", problem="it is gone", fate="Nothing was stored")
        return self.inner.find_all(run_ids)


def test_runs_are_looked_for_together_and_a_damaged_one_is_nobody_elses() -> None:
    asked = Asked()

    async def looked() -> list[Any]:
        post = post_of(asyncio.get_running_loop())
        finding = [post.find(asked, run_id) for run_id in ("there", "damaged", "nowhere", "there")]  # type: ignore[arg-type]  # one method is needed
        return await asyncio.gather(*finding, return_exceptions=True)

    there, damaged, nowhere, again = asyncio.run(looked())
    assert there == again == asked.inner.find("there")
    assert isinstance(damaged, LookupError)
    assert nowhere is None
    assert asked.questions == [4, 1, 1, 1, 1]


def test_of_an_outage_all_hear_at_once_each_by_an_error_of_its_own() -> None:
    """A store that does not answer is asked for a quarter of a minute each time."""
    asked = Asked()

    async def looked() -> list[Any]:
        post = post_of(asyncio.get_running_loop())
        finding = [post.find(asked, run_id) for run_id in ("there", "gone", "nowhere")]  # type: ignore[arg-type]  # as above
        return await asyncio.gather(*finding, return_exceptions=True)

    came = asyncio.run(looked())
    assert {type(each) for each in came} == {StoreUnavailable}
    assert len(set(map(id, came))) == 3
    assert asked.questions == [3]


def test_a_question_has_only_so_many_subjects() -> None:
    asked = Asked()

    async def looked() -> list[Any]:
        post = post_of(asyncio.get_running_loop())
        return await asyncio.gather(*(post.find(asked, f"run-{number}") for number in range(SHARED_MAX + 1)))  # type: ignore[arg-type]  # as above

    assert asyncio.run(looked()) == [None] * (SHARED_MAX + 1)
    assert sorted(asked.questions) == [1, SHARED_MAX]


def test_the_parts_of_a_large_question_are_asked_at_the_same_time() -> None:
    """More runs that begin at once than one question holds."""
    both = threading.Barrier(2, timeout=WAIT_SECONDS)

    class Slow(Asked):
        def find_all(self, run_ids: Sequence[str]) -> dict[str, RunRow]:
            both.wait()
            return super().find_all(run_ids)

    asked = Slow()

    async def looked() -> list[Any]:
        post = post_of(asyncio.get_running_loop())
        return await asyncio.gather(*(post.find(asked, f"run-{number}") for number in range(SHARED_MAX + 1)))  # type: ignore[arg-type]  # as above

    assert asyncio.run(looked()) == [None] * (SHARED_MAX + 1)


def test_one_answer_serves_all_who_ask_at_the_same_time_and_nobody_who_asks_later() -> None:
    """Who is cancelled leaves the others their answer."""
    answers = count(1)

    async def asked() -> tuple[list[Any], Any]:
        post = post_of(asyncio.get_running_loop())
        asking = [asyncio.ensure_future(post.use(lambda: next(answers), alike="which")) for _ in range(3)]
        other = asyncio.ensure_future(post.use(lambda: "another", alike="other"))
        await asyncio.sleep(0)
        asking[0].cancel()
        together = await asyncio.gather(*asking, other, return_exceptions=True)
        return together, await post.use(lambda: next(answers), alike="which")

    together, later = asyncio.run(asked())
    assert isinstance(together[0], asyncio.CancelledError)
    assert (together[1:], later) == ([1, 1, "another"], 2)


def test_all_who_wait_for_as_long_share_a_timer_and_are_called_in_order() -> None:
    async def called() -> tuple[list[int], int]:
        post, loop, back = post_of(asyncio.get_running_loop()), asyncio.get_running_loop(), list[int]()
        done = asyncio.Event()
        for number in range(MANY):
            post.later(0.001, partial(back.append, number))
        post.later(0.002, partial(post.later, 0.001, done.set))  # who is called back may ask again
        timers = len(loop._scheduled)  # type: ignore[attr-defined]  # asyncio's own heap
        await done.wait()
        return back, timers

    assert asyncio.run(called()) == (list(range(MANY)), 2)
