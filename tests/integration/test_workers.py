"""Workers in this process: what they take, bring on, refuse, quarantine and hand back, in both colours and on every store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from recovery import AsyncEngine, AsyncRun, Call, Engine, Lease, Queue, Run, contracts, effect, workflow
from recovery.claims import Taken
from recovery.core.entries import Status
from recovery.core.errors import DefinitionError, InvalidName, RecoveryError, RunInputDiffers, StoreDamaged, StoreUnavailable
from recovery.drivers.patience import Patience
from recovery.engine.crew import crew
from recovery.engine.working import Worker, Working
from recovery.operators.quarantining import Deaths
from recovery.ports import Journal, Owner
from recovery.reconciler import carry
from recovery.testing.pieces import in_one_piece
from tests.integration.cli_place import until

GATES: dict[str, threading.Event] = {}
SENT: list[str] = []
FAST = Working(poll=timedelta(milliseconds=20), concurrency=4)


@effect(contracts.Opaque())
def post(call: Call, *, name: str) -> str:
    SENT.append(name)
    if name in GATES:
        assert GATES[name].wait(60)
    return f"posted {name}"


@workflow
def letter(run: Run, name: str) -> str:
    return run.perform(post(name=name))


@workflow
def two(run: Run, name: str) -> str:
    run.perform(post(name=f"{name}-1"))
    return run.perform(post(name=f"{name}-2"))


@workflow
def telling(run: Run, name: str) -> str:
    for number in (1, 2):
        run.publish("progress", number)
        run.map(lambda branch, each: branch.perform(post(name=each)), [f"{name}-{number}"])
    return "told"


@workflow
def later(run: Run, seconds: float) -> str:
    run.sleep(timedelta(seconds=seconds))
    return "slept"


@workflow(name="letter")
async def async_letter(run: AsyncRun, name: str) -> str:
    return await run.perform(post(name=name))


@workflow
async def forever(run: AsyncRun) -> str:
    await run.decide("wait", _never)
    return "never"


async def _never() -> str:
    SENT.append("began")
    await asyncio.Event().wait()
    return ""


class Told:
    """The events of one worker, in order."""

    def __init__(self) -> None:
        self._events: SimpleQueue[tuple[str, Mapping[str, Any]]] = SimpleQueue()
        self.all: list[tuple[str, Mapping[str, Any]]] = []
        self._met: set[int] = set()

    def __call__(self, event: str, about: Mapping[str, Any]) -> None:
        self._events.put((event, about))

    def until(self, wanted: str, **fields: Any) -> Mapping[str, Any]:
        """The first such event that was not asked for yet."""
        while True:
            for number, (event, about) in enumerate(self.all):
                if number not in self._met and event == wanted and fields.items() <= about.items():
                    self._met.add(number)
                    return about
            try:
                self.all.append(self._events.get(timeout=60))
            except Empty:
                pytest.fail(f"no {wanted} {fields} came, but {self.all}")


@contextmanager
def working(engine: Engine | AsyncEngine, how: Working = FAST) -> Iterator[tuple[Worker, Told]]:
    told = Told()
    worker = Worker(engine, how, told)
    whole: list[bool] = []
    thread = threading.Thread(target=lambda: whole.append(worker.work()))
    thread.start()
    try:
        yield worker, told
    finally:
        for gate in GATES.values():
            gate.set()
        if not how.until_idle:
            worker.stop()
        thread.join(60)
        assert not thread.is_alive()
    assert whole == [True]


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    GATES.clear()
    SENT.clear()


@pytest.fixture(params=["def", "async def"])
def engine(request: pytest.FixtureRequest, journal: Journal) -> Iterator[Engine | AsyncEngine]:
    if request.param == "def":
        made: Engine | AsyncEngine = Engine(journal, workflows=[letter, two, later])
    else:
        made = AsyncEngine(journal, workflows=[async_letter, forever])
    yield made
    made.flush()


def do(came: Any) -> Any:
    return asyncio.run(came) if asyncio.iscoroutine(came) else came


def bound(engine: Engine | AsyncEngine, name: str) -> Any:
    return async_letter(name) if isinstance(engine, AsyncEngine) else letter(name)


def test_what_is_enqueued_is_brought_on_once(engine: Engine | AsyncEngine) -> None:
    for number in range(10):
        assert do(engine.enqueue(bound(engine, f"n{number}"), run_id=f"run-{number}")).is_new
    assert do(engine.get("run-3")).status is Status.QUEUED
    with working(engine) as (_, told):
        for number in range(10):
            told.until("brought on", status="completed") if number else told.until("claimed")
        again = do(engine.enqueue(bound(engine, "n3"), run_id="run-3"))
        assert not again.is_new
        told.until("brought on", status="completed")
    assert sorted(SENT) == sorted(f"n{number}" for number in range(10))
    assert do(engine.get("run-3")).result() == "posted n3"


def test_the_same_key_is_the_same_run_and_another_input_is_refused(engine: Engine | AsyncEngine) -> None:
    first = do(engine.enqueue(bound(engine, "a"), key="order-17"))
    assert (first.run_id, first.is_new) == ("letter:order-17", True)
    assert not do(engine.enqueue(bound(engine, "a"), key="order-17")).is_new
    with pytest.raises(RunInputDiffers):
        do(engine.enqueue(bound(engine, "b"), key="order-17"))
    strange = do(engine.enqueue(bound(engine, "a"), key="Bestellung Nº 17"))
    assert strange.is_new
    assert do(engine.enqueue(bound(engine, "a"), key="Bestellung Nº 17")).run_id == strange.run_id


def test_what_cannot_be_enqueued_is_refused_before_anything_is_stored(journal: Journal) -> None:
    engine = Engine(journal)
    for wrong in (
        {},
        {"run_id": "a", "key": "a"},
        {"key": ""},
        {"run_id": "a", "priority": 101},
        {"run_id": "a", "not_before": datetime(2030, 1, 1)},  # noqa: DTZ001  # that is the mistake
        {"run_id": "a", "not_before": "tomorrow"},
    ):
        with pytest.raises(DefinitionError):
            engine.enqueue(letter("a"), **wrong)  # type: ignore[arg-type]
    for no_call in (letter, post(name="a"), "letter"):
        with pytest.raises(DefinitionError, match="not a call of a workflow"):
            engine.enqueue(no_call, run_id="a")  # type: ignore[arg-type]
    for name in ({"run_id": "no good"}, {"run_id": "a", "queue": "no/good"}):
        with pytest.raises(InvalidName):
            engine.enqueue(letter("a"), **name)  # type: ignore[arg-type]
    assert journal.runs() == []


def test_a_key_is_a_run_of_its_own_for_each_workflow_and_whatever_is_in_it(journal: Journal) -> None:
    @workflow(name="letter:a")
    def other(run: Run, name: str) -> str:
        return name

    engine = Engine(journal, workflows=[letter, other])
    calls = ((letter, "a:b"), (other, "b"), (letter, "a b"), (letter, "a\udcffb"), (letter, "b"))
    assert len({engine.enqueue(whose("x"), key=key).run_id for whose, key in calls}) == len(calls)
    assert engine.enqueue(letter("x"), key="b").run_id == "letter:b"
    assert len(journal.runs()) == len(calls)


def test_a_worker_serves_its_queues_and_takes_the_urgent_first(journal: Journal) -> None:
    engine = Engine(journal, workflows=[letter])
    for name, queue, priority in (("a", "mail", 0), ("b", "mail", 5), ("c", "cards", 9), ("d", "", 0)):
        engine.enqueue(letter(name), run_id=name, queue=queue, priority=priority)
    with working(engine, replace(FAST, concurrency=1, queues=("mail",), until_idle=True)):
        pass
    assert SENT == ["b", "a"]
    with working(engine, replace(FAST, concurrency=1, until_idle=True)):
        pass
    assert SENT == ["b", "a", "c", "d"]


def test_a_worker_says_of_a_queue_that_nobody_knows_it(journal: Journal) -> None:
    """And serves it: whoever enqueues a run into it makes it."""
    engine = Engine(journal, workflows=[letter], queues=[Queue("printer", concurrency=1)])
    engine.schedule("nightly", letter("x"), cron="0 0 1 1 *", queue="night")
    engine.enqueue(letter("x"), run_id="x", queue="bulk")
    serves = ("", "printer", "night", "bulk", "bulks", "primter", "bulks")
    with working(engine, replace(FAST, queues=serves)) as (_, told):
        told.until("brought on", run_id="x")
        engine.enqueue(letter("y"), run_id="y", queue="bulks")
        told.until("brought on", run_id="y")
    unknown = [about for event, about in told.all if event == "unknown queue"]
    assert (
        unknown
        == [
            {"queue": "bulks", "known": ["bulk", "", "night", "printer"]},
            {"queue": "primter", "known": ["printer", "night", "bulk", ""]},
        ]
        or unknown
    )
    assert [event for event, _ in told.all][:2] == ["unknown queue"] * 2, "it is said before anything is taken"
    with working(engine, replace(FAST, until_idle=True)) as (_, told):
        told.until("draining")
    assert "unknown queue" not in [event for event, _ in told.all]


def test_a_run_is_not_due_before_its_time_and_a_timer_is_let_go_and_taken_up_again(journal: Journal) -> None:
    engine = Engine(journal, workflows=[later, letter])
    engine.enqueue(later(0.3), run_id="timer")
    engine.enqueue(letter("x"), run_id="delayed", not_before=datetime.now(UTC) + timedelta(seconds=0.3))
    with working(engine, replace(FAST, keep=timedelta(0), poll=timedelta(seconds=30))) as (_, told):
        assert told.until("brought on", run_id="timer")["status"] == "waiting"
        for _ in range(2):
            told.until("brought on", status="completed")  # before the next poll: the worker knows when something is due
    assert engine.get("timer").result() == "slept"


def test_what_is_at_work_when_the_worker_is_to_end_goes_on_to_its_end(journal: Journal) -> None:
    engine = Engine(journal, workflows=[two])
    GATES["a-1"] = threading.Event()
    engine.enqueue(two("a"), run_id="a")
    engine.enqueue(two("b"), run_id="b", not_before=datetime.now(UTC) + timedelta(days=1))
    with working(engine) as (worker, told):
        told.until("claimed", run_id="a")
        worker.stop()
        told.until("draining", at_work=1)
        assert not worker.ready
        GATES["a-1"].set()
        told.until("brought on", run_id="a", status="completed")
    assert SENT == ["a-1", "a-2"]


@pytest.mark.parametrize("steps", [two, telling], ids=["effects", "what rides on them"])
def test_what_cannot_end_in_time_is_handed_back_behind_its_step(journal: Journal, steps: Any) -> None:
    engine = Engine(journal, workflows=[steps])
    GATES["a-1"] = threading.Event()
    engine.enqueue(steps("a"), run_id="a")
    with working(engine, replace(FAST, drain=timedelta(0))) as (worker, told):
        told.until("claimed", run_id="a")
        while not SENT:
            threading.Event().wait(0.01)
        worker.stop()
        told.until("handing back", at_work=1)
        GATES["a-1"].set()
        told.until("handed back", run_id="a")
    row = journal.find("a")
    assert row is not None
    assert (row.owner, row.status, row.crashes) == (None, Status.RUNNING, 0)
    assert SENT == ["a-1"]
    engine.recover("a").result()
    assert SENT == ["a-1", "a-2"]


def test_an_async_run_is_handed_back_where_it_awaits(journal: Journal) -> None:
    engine = AsyncEngine(journal, workflows=[forever])
    do(engine.enqueue(forever(), run_id="a"))
    with working(engine, replace(FAST, drain=timedelta(0))) as (worker, told):
        while not SENT:
            threading.Event().wait(0.01)
        worker.stop()
        told.until("handed back", run_id="a")
    row = journal.find("a")
    assert row is not None
    assert (row.owner, row.status) == (None, Status.QUEUED)  # nothing is recorded of a decision that was not made


def abandoned(journal: Journal, run_id: str, times: int) -> None:
    """As many owners that ended without letting the run go."""
    for number in range(times):
        row = journal.find(run_id)
        assert row is not None
        assert journal.claim(row, Owner(f"gone-{number}-{run_id}"), lease_term_us=50_000, at_us=1)


def test_a_silent_owners_run_is_taken_over_when_its_lease_has_ended(engine: Engine | AsyncEngine) -> None:
    engine.lease = Lease(term=timedelta(milliseconds=60), renew_every=timedelta(milliseconds=20))
    do(engine.enqueue(bound(engine, "a"), run_id="a"))
    abandoned(engine.journal, "a", 1)
    with working(engine) as (_, told):
        assert told.until("claimed", run_id="a")["crashes"] == 1
        told.until("brought on", run_id="a", status="completed")


class Refusing:
    """A journal whose database has gone whenever a worker asks it for what is due."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    def claim_due(self, *_: Any, **__: Any) -> Any:
        raise StoreUnavailable(url="a test", problem="it is gone", fate="Nothing was claimed")


def test_what_was_taken_over_is_brought_on_although_the_next_claim_fails(journal: Journal) -> None:
    engine = Engine(Refusing(journal), workflows=[letter])
    engine.lease = Lease(term=timedelta(milliseconds=60), renew_every=timedelta(milliseconds=20))
    engine.enqueue(letter("a"), run_id="a")
    abandoned(journal, "a", 1)
    with working(engine) as (_, told):
        told.until("unreachable")
        told.until("brought on", run_id="a", status="completed")
    assert SENT == ["a"]


class Apart(Refusing):
    """A journal that answers what is asked about one run, and nothing that is asked about several."""

    def __init__(self, journal: Journal, problem: RecoveryError) -> None:
        super().__init__(journal)
        self._problem = problem

    def claim_due(self, *given: Any, **named: Any) -> Any:
        return self._journal.claim_due(*given, **named)

    def stream_many(self, _run_ids: Any, _take: Any) -> Any:
        raise self._problem


@pytest.mark.parametrize(
    "problem",
    [StoreUnavailable(url="a test", problem="it is slow", fate="Nothing was read"), StoreDamaged(url="a test", problem="a page")],
)
def test_what_was_claimed_with_others_and_cannot_be_loaded_with_them_is_loaded_by_itself(
    journal: Journal, problem: RecoveryError
) -> None:
    engine = Engine(Apart(journal, problem), workflows=[letter])
    for name in ("a", "b"):
        engine.enqueue(letter(name), run_id=name)
    with working(engine) as (_, told):
        for name in ("a", "b"):
            told.until("brought on", run_id=name, status="completed")
    assert sorted(SENT) == ["a", "b"]


def test_a_worker_beside_other_work_of_a_program(engine: Engine | AsyncEngine) -> None:
    do(engine.enqueue(bound(engine, "a"), run_id="a"))
    told = Told()
    how = replace(FAST, drain=timedelta(0))
    if isinstance(engine, AsyncEngine):

        async def beside() -> None:
            async with engine.worker(how, told) as worker:
                await asyncio.to_thread(told.until, "brought on", run_id="a", status="completed")
                assert worker.ready
            assert not worker.ready

        asyncio.run(beside())
    else:
        with engine.worker(how, told) as worker:
            told.until("brought on", run_id="a", status="completed")
            assert worker.ready
        assert not worker.ready
    do(engine.enqueue(bound(engine, "b"), run_id="b"))
    assert do(engine.worker(replace(FAST, until_idle=True)).run()) is True
    assert do(engine.get("b")).result() == "posted b"
    do(engine.run("c", async_letter if isinstance(engine, AsyncEngine) else letter, "c"))  # the engine itself hands nothing back
    assert SENT == ["a", "b", "c"]


def test_what_ends_a_worker_is_raised_once_all_that_it_took_has_ended(engine: Engine | AsyncEngine) -> None:
    for name in "abc":
        do(engine.enqueue(bound(engine, name), run_id=name))
    raising = threading.Event()

    def tell(event: str, about: Mapping[str, Any]) -> None:  # one signature
        raising.set()
        raise LookupError(event)

    async def beside(engine: AsyncEngine) -> None:
        async with engine.worker(FAST, tell) as worker:
            await asyncio.to_thread(raising.wait, 60)
        assert not worker.ready

    def by_itself(engine: Engine) -> None:
        with engine.worker(FAST, tell):
            assert raising.wait(60)

    with pytest.raises(LookupError, match="claimed"):
        asyncio.run(beside(engine)) if isinstance(engine, AsyncEngine) else by_itself(engine)
    assert [do(engine.get(name)).status for name in "abc"] == [Status.COMPLETED] * 3
    assert sorted(SENT) == ["a", "b", "c"]


def test_a_cancelled_async_worker_ends_in_order(journal: Journal) -> None:
    engine = AsyncEngine(journal, workflows=[async_letter, forever])
    do(engine.enqueue(forever(), run_id="a"))

    async def cancelled() -> None:
        work = asyncio.create_task(engine.worker(replace(FAST, drain=timedelta(0))).run())
        await asyncio.to_thread(until, "the run to be at work", lambda: SENT)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(cancelled())
    row = journal.find("a")
    assert row is not None
    assert (row.owner, row.crashes) == (None, 0)


def test_a_duration_in_place_of_a_lease_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"lease.*Pass Lease\(term="):
        Engine("memory://", lease=timedelta(seconds=5))  # type: ignore[arg-type]


def test_a_run_that_its_owner_settled_between_a_look_and_a_claim_is_not_settled_twice(engine: Engine | AsyncEngine) -> None:
    journal = engine.journal
    do(engine.enqueue(bound(engine, "a"), run_id="a"))
    with working(engine, replace(FAST, until_idle=True)) as (_, told):
        told.until("brought on", run_id="a", status="completed")
    seen, before = journal.find("a"), in_one_piece(journal, "a")
    assert seen is not None
    assert before is not None
    claimed = journal.claim(seen, Owner("another worker"), lease_term_us=30_000_000, at_us=seen.updated_at_us)
    assert claimed is not None
    hands = crew(engine, 1, Patience(None), lambda: False)
    came = hands.start(partial(carry, engine.world(), Taken(claimed))).result(60)
    hands.close()
    after = in_one_piece(journal, "a")
    assert after is not None
    assert (came.status, came.value, after[1], SENT) == (Status.COMPLETED, "posted a", before[1], ["a"])


def test_a_run_is_at_work_alone_before_it_is_condemned(engine: Engine | AsyncEngine) -> None:
    engine.lease = Lease(term=timedelta(milliseconds=60), renew_every=timedelta(milliseconds=20))
    do(engine.enqueue(bound(engine, "busy"), run_id="busy"))
    GATES["busy"] = threading.Event()
    with working(engine, replace(FAST, crashes=3)) as (worker, told):
        told.until("claimed", run_id="busy")
        for name in ("a", "b"):
            do(engine.enqueue(bound(engine, name), run_id=name, not_before=datetime(2100, 1, 1, tzinfo=UTC)))
            abandoned(engine.journal, name, 2)  # neighbours in a worker that died: the next takeover is the last chance of each
        until("the worker to leave them where they are", lambda: worker._watch.suspects)
        do(engine.enqueue(bound(engine, "later"), run_id="later"))
        GATES["busy"].set()
        for name in ("a", "b", "later"):
            told.until("brought on", run_id=name, status="completed")
    about = [(event, each["run_id"]) for event, each in told.all if event in {"claimed", "brought on"}]
    for name in ("a", "b"):
        claimed = about.index(("claimed", name))
        assert about[claimed + 1] == ("brought on", name)  # nothing was taken beside it
    assert sorted(SENT) == ["a", "b", "busy", "later"]


def test_a_run_that_ends_its_workers_is_quarantined_and_goes_on_when_it_is_released(engine: Engine | AsyncEngine) -> None:
    engine.lease = Lease(term=timedelta(milliseconds=60), renew_every=timedelta(milliseconds=20))
    do(engine.enqueue(bound(engine, "a"), run_id="a"))
    abandoned(engine.journal, "a", 4)  # the first claim was of a run that nobody had
    with working(engine, replace(FAST, crashes=4)) as (_, told):
        assert "4 workers in a row" in told.until("quarantined", run_id="a")["problem"]
        row = engine.journal.find("a")
        assert row is not None
        assert (row.status, row.owner, row.crashes) == (Status.HELD, None, 0)
        assert row.reason.startswith("quarantined: ")
        assert SENT == []
        assert do(engine.explain_run("a")).deaths == Deaths(4, last_alone=True)
        do(engine.release("a", by="ann", reason="mended"))
        told.until("brought on", run_id="a", status="completed")
    assert SENT == ["a"]


def test_where_one_death_is_enough_nobody_says_that_it_was_had_alone(journal: Journal) -> None:
    engine = Engine(
        journal, workflows=[letter], lease=Lease(term=timedelta(milliseconds=60), renew_every=timedelta(milliseconds=20))
    )
    engine.enqueue(letter("a"), run_id="a")
    abandoned(journal, "a", 1)
    with working(engine, replace(FAST, crashes=1)) as (_, told):
        told.until("quarantined", run_id="a")
        assert engine.explain_run("a").deaths == Deaths(1, last_alone=False)


def test_one_runs_failure_stops_no_other_and_it_is_tried_again_later_and_later(journal: Journal) -> None:
    engine = Engine(journal, workflows=[letter])
    engine.enqueue(letter("a"), run_id="a")
    engine.enqueue(letter("b"), run_id="b")
    _spoil(journal, "a")
    with working(engine) as (_, told):
        assert told.until("refused", run_id="a")["again_in_seconds"] == 1.0
        assert told.until("refused", run_id="a")["again_in_seconds"] == 2.0
        told.until("brought on", run_id="b", status="completed")


def _spoil(journal: Journal, run_id: str) -> None:
    from recovery.storage.memory import MemoryJournal

    if isinstance(journal, MemoryJournal):
        there = journal._runs[run_id]
        there.rows[0] = replace(there.rows[0], body="{}")
        return
    import sqlalchemy as sa

    from recovery.storage.sql import SqlJournal

    assert isinstance(journal, SqlJournal)
    with journal._database.writing() as connection:
        connection.execute(
            sa.text("UPDATE journal SET body = '{}' WHERE seq = 1 AND run = (SELECT number FROM run WHERE run_id = :run)"),
            {"run": run_id},
        )


def test_a_run_of_a_workflow_that_is_not_here_is_left_to_others(journal: Journal) -> None:
    Engine(journal).enqueue(letter("a"), run_id="a")
    with working(Engine(journal, workflows=[later]), replace(FAST, until_idle=True)):
        pass
    row = journal.find("a")
    assert row is not None
    assert (row.status, row.owner) == (Status.QUEUED, None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"concurrency": 0},
        {"poll": timedelta(0)},
        {"crashes": 0},
        {"drain": timedelta(seconds=-1)},
        {"keep": timedelta(seconds=-1)},
        {"queues": "mail"},
        {"poll": 1},
        {"drain": 30},
        {"patience": 5},
    ],
)
def test_a_worker_that_could_not_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        Working(**wrong)
