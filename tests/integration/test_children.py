"""Children, as a user of Engine and AsyncEngine meets them: what is stored when, what a parent adopts, and what stands between the two."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from recovery import AsyncEngine, AsyncRun, Engine, Run, Workflow, contracts, crashpoints, errors, workflow
from recovery.core.children import settlement
from recovery.core.entries import ADOPTED, AWAITED, CHILD, Decision, OutcomeKind, Status
from recovery.core.inheritance import NewKey
from recovery.core.kin import DEPTH_MAX
from recovery.core.policy import Lease
from recovery.engine.draining import waits_for
from recovery.ports import Journal
from recovery.storage.memory import MemoryJournal
from recovery.testing import ManualClock
from recovery.testing.crashing import Crashed, crash_at
from recovery.testing.pieces import in_one_piece

from .world import QUICK, Killed, OutOfStock, Shop, keyed, kinds, once

OPAQUE = contracts.Opaque()
PATIENT = timedelta(hours=1)
"""How long a test waits for the lease of what it has killed, on a clock that it moves itself."""


def said(engine: Engine, run_id: str, form: str) -> list[Decision]:
    return [entry for entry in engine.history(run_id) if isinstance(entry, Decision) and entry.form == form]


def only_child(engine: Engine, parent: str = "r") -> str:
    [started] = said(engine, parent, CHILD)
    return str(started.value["run_id"])


# -- start and adopt ---------------------------------------------------------------------------------------------------


@workflow
def double(run: Run, n: int) -> int:
    return run.decide("double", lambda: 2 * n)


@workflow
def refuse(run: Run, sku: str) -> None:
    raise OutOfStock(sku=sku, available=0)


def test_a_child_is_a_run_of_its_own_whose_outcome_its_parent_adopts(journal: Journal) -> None:
    @workflow
    def order(run: Run) -> int:
        return run.start(double(4)).result() + run.call_child(double(5))

    with Engine(journal, workflows=[order, double]) as engine:
        assert engine.run("r", order) == 18
        assert engine.run("r", order) == 18
        assert kinds(engine.history("r")) == ["opened", *["decision"] * 4, "settled"]
        for started, adopted in zip(said(engine, "r", CHILD), said(engine, "r", ADOPTED), strict=True):
            child = started.value["run_id"]
            first, *_, last = engine.history(child)
            assert (first.parent, first.parent_step, first.depth) == ("r", started.step, 1)  # type: ignore[union-attr]
            assert settlement(adopted) == last
            assert adopted.value["entry"] == in_one_piece(journal, child)[1][-1].seq  # type: ignore[index]
            assert engine.get(child).result() == settlement(adopted).value


def test_children_of_an_async_workflow(journal: Journal) -> None:
    @workflow
    async def triple(run: AsyncRun, n: int) -> int:
        return await run.decide("triple", lambda: 3 * n)

    @workflow
    async def order(run: AsyncRun) -> list[int]:
        first = await run.start(triple(1))
        others = await run.map(lambda branch, n: branch.call_child(triple(n)), [2, 3])
        return [await first.result(), *others]

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order, triple]) as engine:
            assert await engine.run("r", order) == [3, 6, 9]
            assert await engine.run("r", order) == [3, 6, 9]
            assert len([info for info in await engine.list() if info.status is Status.COMPLETED]) == 4

    asyncio.run(story())


def test_a_childs_failure_is_raised_in_its_parent_and_names_both(journal: Journal) -> None:
    @workflow
    def order(run: Run) -> str:
        try:
            run.call_child(refuse("FILTER-A"))
        except errors.ChildFailed as failed:
            return f"{failed.child} {failed.error} {failed.rejection['sku']}"
        return "no failure"

    @workflow
    def careless(run: Run) -> None:
        run.call_child(refuse("FILTER-A"), run_id="of-careless")

    with Engine(journal, workflows=[order, refuse, careless]) as engine:
        first = engine.run("r", order)
        assert first == f"{only_child(engine)} OutOfStock FILTER-A"
        assert engine.run("r", order) == first
        with pytest.raises(errors.RunFailed, match=r"ChildFailed.*of-careless.*OutOfStock"):
            engine.run("s", careless)
        assert engine.get("s").status is Status.FAILED


def test_a_child_that_nobody_waited_for_is_waited_for_at_the_end(journal: Journal) -> None:
    @workflow
    def order(run: Run) -> str:
        run.start(double(1), run_id="one")
        run.gather(lambda branch: branch.start(double(2), run_id="two").run_id, lambda branch: branch.call_child(double(3)))
        return "done"

    @workflow
    def careless(run: Run) -> str:
        run.start(refuse("FILTER-A"), run_id="lost")
        return "never seen"

    @workflow
    def failing(run: Run) -> str:
        run.start(refuse("FILTER-A"), run_id="also-lost")
        raise ValueError("its own failure")

    with Engine(journal, workflows=[order, double, careless, refuse, failing]) as engine:
        assert engine.run("r", order) == "done"
        assert (engine.get("one").result(), engine.get("two").result()) == (2, 4)
        length = len(engine.history("r"))
        assert engine.run("r", order) == "done"
        assert len(engine.history("r")) == length
        with pytest.raises(errors.RunFailed, match=r"ChildFailed.*lost"):
            engine.run("s", careless)
        with pytest.raises(errors.RunFailed, match="its own failure"):
            engine.run("t", failing)
        assert engine.get("also-lost").status is Status.FAILED


def test_a_detached_child_outlives_its_parent(journal: Journal) -> None:
    @workflow
    def order(run: Run) -> str:
        return run.start(double(21), run_id="mail", detached=True).run_id

    with Engine(journal, workflows=[order, double]) as engine:
        assert engine.run("r", order) == "mail"
        assert engine.get("mail").status is Status.QUEUED
        assert engine.recover("mail").result() == 42
        assert journal.inbox("r") == []


def test_two_branches_wait_for_one_child_which_is_executed_once(journal: Journal) -> None:
    both, times = threading.Event(), []

    @workflow
    def slow(run: Run) -> int:
        times.append(1)
        return run.decide("slow", lambda: 5 if both.wait(60) else 0)

    @workflow
    def order(run: Run) -> list[int]:
        child = run.start(slow())

        def one(branch: Run) -> int:
            return branch.await_child(child)

        def other(branch: Run) -> int:
            both.set()
            return branch.await_child(child)

        return [*run.gather(one, other), child.result()]

    with Engine(journal, workflows=[order, slow]) as engine:
        assert engine.run("r", order) == [5, 5, 5]
        assert engine.run("r", order) == [5, 5, 5]
    assert times == [1]


def test_two_tasks_wait_for_one_child(journal: Journal) -> None:
    @workflow
    async def slow(run: AsyncRun) -> int:
        return await run.decide("slow", lambda: 5)

    @workflow
    async def order(run: AsyncRun) -> list[int]:
        child = await run.start(slow())
        return list(await run.gather(*[lambda branch: branch.await_child(child)] * 3))

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order, slow]) as engine:
            assert await engine.run("r", order) == [5, 5, 5]

    asyncio.run(story())


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_what_cannot_be_started_is_refused_before_anything_happens(journal: Journal) -> None:
    @workflow
    def unknown(run: Run) -> None: ...

    def starting(bound: Any, **more: Any) -> Workflow[[], str]:
        @workflow(name="order")
        def order(run: Run) -> str:
            return str(run.start(bound(), **more).run_id)

        return order

    def refused(run_id: str, order: Workflow[[], str], error: type[errors.UsageError], match: str) -> None:
        with Engine(journal, workflows=[order, double]) as engine:
            with pytest.raises(error, match=match):
                engine.run(run_id, order)
            assert kinds(engine.history(run_id)) == ["opened"]

    with Engine(journal, workflows=[double]) as engine:
        assert engine.run("taken", double, 1) == 2
    refused("a", starting(unknown), errors.WorkflowUnknown, "'unknown'")
    refused("b", starting(lambda: double(1), run_id="taken"), errors.ChildRefused, "'taken' cannot be started")
    refused("c", starting(lambda: double(1), run_id="c"), errors.ChildRefused, "'c' cannot be started")
    refused("d", starting(lambda: double(1), run_id="no/name"), errors.InvalidName, "no/name")
    refused("e", starting(lambda: double), errors.DefinitionError, "double is not a bound workflow")
    assert [row.run_id for row in journal.runs()] == ["a", "b", "c", "d", "e", "taken"]


def test_one_id_is_one_child_whichever_branch_starts_it(journal: Journal) -> None:
    @workflow
    def order(run: Run) -> int:
        return sum(run.gather(*[lambda branch: branch.call_child(double(1), run_id="same")] * 2, limit=1))

    with Engine(journal, workflows=[order, double]) as engine:
        for _ in range(2):
            with pytest.raises(errors.ChildRefused, match=r"gather#1/1/double#1.*'same'.*gather#1/0/double#1"):
                engine.run("r", order)
        assert len(said(engine, "r", CHILD)) == 1


def test_a_child_has_the_colour_of_its_parent() -> None:
    @workflow
    async def other(run: AsyncRun) -> None: ...

    @workflow
    def order(run: Run) -> None:
        run.call_child(other())

    with Engine("memory://", workflows=[order]) as engine, pytest.raises(errors.DefinitionError, match="Make both `def`"):
        engine.run("r", order)


def test_a_changed_child_diverges_before_anything_is_stored(journal: Journal) -> None:
    shop = Shop(fail=once(Killed()))
    reserve = shop.effect(keyed())

    def ordering(n: int, **more: Any) -> Workflow[[], int]:
        @workflow(name="order")
        def order(run: Run) -> int:
            child = run.start(double(n), **more)
            return run.perform(reserve(units=1), key="k") + child.result()

        return order

    first = ordering(1)
    with Engine(journal, workflows=[first, double]) as engine, pytest.raises(Killed):
        engine.run("r", first)
    for changed in (ordering(2), ordering(1, run_id="other"), ordering(1, detached=True)):
        with Engine(journal, workflows=[changed, double]) as engine:
            assert isinstance(engine.recover("r").error, errors.Diverged)
    with Engine(journal, workflows=[first, double]) as engine:
        assert engine.recover("r").result() == 3
    assert (shop.executions["k"], len(journal.runs())) == (1, 2)


def test_children_have_children_down_to_a_bound() -> None:
    @workflow
    def nest(run: Run, levels: int) -> int:
        return 1 + run.call_child(nest(levels - 1)) if levels else 0

    with Engine("memory://", workflows=[nest]) as engine:
        assert engine.run("r", nest, DEPTH_MAX) == DEPTH_MAX
        with pytest.raises(errors.ChildRefused, match=f"{DEPTH_MAX} runs are above it"):
            engine.run("s", nest, DEPTH_MAX + 1)


def test_async_children_have_children_down_to_the_same_bound() -> None:
    @workflow
    async def nest(run: AsyncRun, levels: int) -> int:
        return 1 + await run.call_child(nest(levels - 1)) if levels else 0

    async def story() -> None:
        async with AsyncEngine("memory://", workflows=[nest]) as engine:
            assert await engine.run("r", nest, DEPTH_MAX) == DEPTH_MAX
            with pytest.raises(errors.ChildRefused, match=f"{DEPTH_MAX} runs are above it"):
                await engine.run("s", nest, DEPTH_MAX + 1)

    asyncio.run(story())


# -- crashes -----------------------------------------------------------------------------------------------------------


@contextmanager
def dies_at(passage: int) -> Iterator[list[str]]:
    """The code inside dies at its n-th passage of any crash point, and reaches none after that. The points that it has passed."""
    passed: list[str] = []

    def reach(point: str) -> None:
        if len(passed) >= passage:
            raise Crashed(point)
        passed.append(point)

    with suppress(Crashed), crashpoints.hooked(reach):
        yield passed


@dataclass
class Family:
    """A parent with a reserving child, a grandchild and a child that nobody waits for, on a time that is moved by hand."""

    is_async: bool = False
    shop: Shop = field(default_factory=Shop)
    journal: MemoryJournal = field(default_factory=MemoryJournal)
    time: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.workflows = self._async() if self.is_async else self._sync()

    def _sync(self) -> list[Workflow[..., Any]]:
        reserve = self.shop.effect(keyed())

        @workflow
        def leaf(run: Run, units: int) -> int:
            return run.perform(reserve(units=units), key=f"leaf-{units}")

        @workflow
        def middle(run: Run) -> int:
            run.perform(reserve(units=1), key="middle")
            return run.call_child(leaf(2))

        @workflow
        def top(run: Run) -> list[int]:
            run.start(leaf(3), name="unasked")
            started = run.start(middle())
            return [started.result(), run.perform(reserve(units=1), key="top")]

        return [top, middle, leaf]

    def _async(self) -> list[Workflow[..., Any]]:
        reserve = self.shop.async_effect(keyed())

        @workflow
        async def leaf(run: AsyncRun, units: int) -> int:
            return await run.perform(reserve(units=units), key=f"leaf-{units}")

        @workflow
        async def middle(run: AsyncRun) -> int:
            await run.perform(reserve(units=1), key="middle")
            return await run.call_child(leaf(2))

        @workflow
        async def top(run: AsyncRun) -> list[int]:
            await run.start(leaf(3), name="unasked")
            started = await run.start(middle())
            return [await started.result(), await run.perform(reserve(units=1), key="top")]

        return [top, middle, leaf]

    def run(self) -> Any:
        more: Any = {
            "workflows": self.workflows,
            "clock": self.time,
            "wait_for_owner": PATIENT,
            "lease": Lease(term=timedelta(seconds=1), renew_every=timedelta(milliseconds=300)),
        }
        if not self.is_async:
            return Engine(self.journal, **more).run("r", self.workflows[0])

        async def go() -> Any:
            return await AsyncEngine(self.journal, **more).run("r", self.workflows[0])

        return asyncio.run(go())


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_family_that_dies_at_any_point_ends_as_it_would_have(is_async: bool) -> None:
    whole = Family(is_async)
    with dies_at(10_000) as points:
        expected = whole.run()
    outcomes = {row.run_id: row.status for row in whole.journal.runs()}
    assert set(outcomes.values()) == {Status.COMPLETED}
    for passage in range(0, len(points), 7 if is_async else 3):  # each kind of point is passed by parent, child and grandchild
        family = Family(is_async)
        with dies_at(passage):
            family.run()
        came = family.run()
        told = f"died at passage {passage}, {points[passage]}"
        assert {row.run_id: row.status for row in family.journal.runs()} == outcomes, told
        assert set(family.shop.executions.values()) == {1}, told
        assert sorted(came) == sorted(expected), told
        with Engine(family.journal) as engine:
            for adopted in said(engine, "r", ADOPTED):
                assert settlement(adopted) == engine.history(adopted.value["run_id"])[-1], told


@pytest.mark.parametrize("again", ["append.decision.before", "append.ended.after", "append.decision.after"])
def test_a_family_that_dies_twice(again: str) -> None:
    """Once in the child, and once where its parent goes on without having heard."""
    family = Family()
    with dies_at(30):
        family.run()
    for occurrence in range(1, 4):
        with crash_at(again, occurrence):
            family.run()
    family.run()
    assert set(family.shop.executions.values()) == {1}
    assert {row.status for row in family.journal.runs()} == {Status.COMPLETED}


def test_a_caller_that_is_cancelled_leaves_parent_and_child_to_be_recovered(journal: Journal) -> None:
    shop = Shop()
    reserve = shop.async_effect(keyed())

    async def story() -> None:
        begun, never = asyncio.Event(), asyncio.Event()

        @workflow
        async def slow(run: AsyncRun) -> int:
            value = await run.perform(reserve(units=1), key="slow")
            begun.set()
            await never.wait()
            return value

        @workflow
        async def order(run: AsyncRun) -> int:
            return await run.call_child(slow(), run_id="slow")

        async with AsyncEngine(journal, workflows=[order, slow]) as engine:
            running = asyncio.create_task(engine.run("r", order))
            await begun.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert [(row.run_id, row.status, row.owner) for row in journal.runs()] == [
                ("r", Status.RUNNING, None),
                ("slow", Status.RUNNING, None),
            ]
            never.set()
            assert (await engine.recover("r")).result() == 1
        assert shop.executions["slow"] == 1

    asyncio.run(story())


def test_a_large_outcome_is_adopted_whole(journal: Journal) -> None:
    @workflow
    def large(run: Run) -> str:
        return "x" * 200_000

    @workflow
    def order(run: Run) -> str:
        return run.call_child(large(), run_id="large")

    with Engine(journal, workflows=[order, large]) as engine:
        assert engine.run("r", order) == "x" * 200_000
        assert engine.run("r", order) == "x" * 200_000
        [adopted] = said(engine, "r", ADOPTED)
        assert settlement(adopted) == engine.history("large")[-1]
        engine.forget("large", by="ann", reason="old")
        assert engine.run("r", order) == "x" * 200_000


# -- a child that does not come to its end -----------------------------------------------------------------------------


@dataclass
class Doubtful:
    """A child whose opaque effect loses its reply, beside a sibling that does not."""

    journal: Journal
    shop: Shop = field(default_factory=Shop)

    def __post_init__(self) -> None:
        lossy, sound = self.shop.effect(OPAQUE), Shop().effect(keyed())
        self.shop.fail = once(TimeoutError())

        @workflow
        def pay(run: Run) -> int:
            return run.perform(lossy(units=2), key="pay")

        @workflow
        def ship(run: Run) -> int:
            return run.perform(sound(units=1), key="ship")

        @workflow
        def order(run: Run) -> list[int]:
            values = run.gather(
                lambda branch: branch.call_child(pay(), run_id="paying"),
                lambda branch: branch.call_child(ship(), run_id="shipping"),
                limit=1,
            )
            run.perform(sound(units=1), key="after")
            return list(values)

        self.engine = Engine(self.journal, workflows=[order, pay, ship], budget=QUICK)
        self.order = order


def test_a_child_in_doubt_stops_the_branch_that_waits_for_it_and_no_other(journal: Journal) -> None:
    play = Doubtful(journal)
    with play.engine as engine:
        with pytest.raises(errors.ChildInDoubt) as raised:
            engine.run("r", play.order)
        assert (raised.value.child, raised.value.child_step, raised.value.exit_code) == (
            "paying",
            "reserve#1",
            errors.ExitCode.IN_DOUBT,
        )
        assert "recover explain paying reserve#1" in str(raised.value)
        assert engine.get("shipping").status is Status.COMPLETED
        assert journal.key_owner("shop", "shop", "after") is None
        assert [(info.run_id, info.status) for info in engine.list(status=Status.IN_DOUBT)] == [
            ("paying", Status.IN_DOUBT),
            ("r", Status.IN_DOUBT),
        ]
        assert [(doubt.run_id, doubt.reason) for doubt in engine.doubt().doubts] == [("paying", "opaque"), ("r", "child paying")]
        length = len(engine.history("r"))
        assert isinstance(engine.recover("r").error, errors.ChildInDoubt)
        assert len(engine.history("r")) == length  # looking again without news appends nothing


def test_a_parent_hears_of_the_end_of_a_child_that_somebody_else_brought_there(journal: Journal) -> None:
    play = Doubtful(journal)
    with play.engine as engine:
        with pytest.raises(errors.ChildInDoubt):
            engine.run("r", play.order)
        engine.resolve("paying", "reserve#1", OutcomeKind.APPLIED, evidence="a look", by="ann", reason="seen", value=7)
        assert engine.recover("paying").result() == 7
        told = [message for message in journal.inbox("r") if message.name == "paying"]
        [message] = told
        assert (message.kind, message.name, message.slot) == ("settled", "paying", "child:paying")
        assert engine.recover("paying").result() == 7  # said again, and kept once
        assert [message for message in journal.inbox("r") if message.name == "paying"] == told
        assert engine.recover("r").result()[0] == 7


def test_a_parent_waits_for_a_child_that_somebody_else_works_on(journal: Journal) -> None:
    reached, go_on = threading.Event(), threading.Event()

    @workflow
    def slow(run: Run) -> int:
        def wait() -> int:
            reached.set()
            assert go_on.wait(60)
            return 5

        return run.decide("wait", wait)

    stopped = once(Killed())

    @workflow
    def interrupted(run: Run) -> int:
        child = run.start(slow(), run_id="slow")
        stopped()
        return child.result()

    with Engine(journal, workflows=[slow, interrupted], budget=QUICK) as engine:
        with pytest.raises(Killed):
            engine.run("r", interrupted)
        other = threading.Thread(target=engine.recover, args=("slow",))
        other.start()
        assert reached.wait(60)
        waits = engine.recover("r")
        assert isinstance(waits.error, errors.ChildOpen)
        assert (waits.status, waits.exit_code) == (Status.WAITING, errors.ExitCode.UNRESOLVED)
        row = journal.find("r")
        assert row is not None
        assert (row.status, row.owner, row.reason) == (Status.WAITING, None, "child slow")
        due_us, length = row.next_look_us, len(engine.history("r"))
        assert isinstance(engine.recover("r").error, errors.ChildOpen)
        assert (len(engine.history("r")), journal.find("r").next_look_us) == (length, due_us)  # type: ignore[union-attr]  # it is there
        go_on.set()
        other.join(60)
        woken = journal.find("r")
        assert woken is not None
        assert woken.next_look_us < due_us  # type: ignore[operator]  # the message brought the next look forward
        assert engine.recover("r").result() == 5
        assert [entry.form for entry in engine.history("r") if isinstance(entry, Decision)] == [CHILD, AWAITED, ADOPTED]


def test_a_child_that_settles_while_its_parent_says_that_it_waits_is_adopted_at_once(journal: Journal) -> None:
    """Between the parent's look and its note there is nobody to wake; so it looks again after the note."""

    @workflow
    def other(run: Run) -> int:
        return run.decide("d", lambda: 5)

    stopped = once(Killed())

    @workflow
    def order(run: Run) -> int:
        child = run.start(other(), run_id="other")
        stopped()
        return child.result()

    with Engine(journal, workflows=[order, other], budget=QUICK) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        row = journal.find("other")
        assert row is not None
        taken = journal.claim(row, engine.identify("somebody"), lease_term_us=60_000_000, at_us=row.created_at_us)
        assert taken is not None
        left = [taken]

        def settle(point: str) -> None:
            if point == "append.decision.after" and left:
                left.pop()
                journal.release("other", "somebody", taken.epoch)
                engine.recover("other")

        with crashpoints.hooked(settle):
            assert engine.recover("r").result() == 5


def test_a_diverged_and_a_held_child_are_named(journal: Journal) -> None:
    stopped = once(Killed())

    def child_of(step: str) -> Workflow[[], int]:
        @workflow(name="child")
        def child(run: Run) -> int:
            value = run.decide(step, lambda: 1)
            stopped()
            return value

        return child

    def order_of(child: Workflow[[], int]) -> Workflow[[], int]:
        @workflow
        def order(run: Run) -> int:
            return run.call_child(child(), run_id="c")

        return order

    before, after = child_of("before"), child_of("after")
    first, second = order_of(before), order_of(after)
    with Engine(journal, workflows=[first, before]) as engine, pytest.raises(Killed):
        engine.run("r", first)
    with Engine(journal, workflows=[second, after]) as engine:
        diverged = engine.recover("r")
        assert isinstance(diverged.error, errors.ChildDiverged)
        assert (diverged.error.child, diverged.exit_code, diverged.status) == ("c", errors.ExitCode.DIVERGED, Status.WAITING)
        engine.hold("c", by="ann", reason="a look first")
        held = engine.recover("r")
        assert isinstance(held.error, errors.ChildInDoubt)
        assert "recover release c" in str(held.error)
        engine.release("c", by="ann", reason="seen")
    with Engine(journal, workflows=[first, before]) as engine:
        assert engine.recover("r").result() == 1


def test_a_child_that_sleeps_leaves_its_parent_waiting_until_then(journal: Journal) -> None:
    time = ManualClock()

    @workflow
    def nap(run: Run) -> int:
        run.sleep(timedelta(hours=2))
        return 1

    @workflow
    def order(run: Run) -> int:
        return run.call_child(nap(), run_id="nap")

    with Engine(journal, workflows=[order, nap], budget=QUICK, clock=time) as engine:
        with pytest.raises(errors.ChildOpen):
            engine.run("r", order)
        mine, its = journal.find("r"), journal.find("nap")
        assert mine is not None
        assert its is not None
        assert (mine.status, mine.next_look_us) == (Status.WAITING, its.next_look_us)
        time.advance(timedelta(hours=2))
        assert engine.recover("r").result() == 1


def test_a_message_that_brings_no_news_changes_nothing_but_the_next_look(journal: Journal) -> None:
    """A detached child's end wakes a parent that waits for another child: looked at, it says once more until when it waits."""
    time = ManualClock()

    @workflow
    def nap(run: Run) -> int:
        run.sleep(timedelta(hours=1))
        return 1

    @workflow
    def order(run: Run) -> int:
        run.start(double(2), run_id="detached", detached=True)
        return run.call_child(nap(), run_id="nap")

    with Engine(journal, workflows=[order, nap, double], budget=QUICK, clock=time) as engine:
        with pytest.raises(errors.ChildOpen):
            engine.run("r", order)
        due_us = journal.find("r").next_look_us  # type: ignore[union-attr]  # it is there
        assert engine.recover("detached").result() == 4
        assert journal.find("r").next_look_us < due_us  # type: ignore[union-attr, operator]
        lengths = []
        for _ in range(3):
            assert isinstance(engine.recover("r").error, errors.ChildOpen)
            lengths.append(len(engine.history("r")))
        assert journal.find("r").next_look_us == due_us  # type: ignore[union-attr]
        assert len(set(lengths)) == 1
        time.advance(timedelta(hours=1))
        assert engine.recover("r").result() == 1


def test_a_child_that_waits_for_a_signal_is_named_with_what_to_say(journal: Journal) -> None:
    @workflow
    def asking(run: Run) -> str:
        return run.wait_for("approval", schema=str)

    @workflow
    def order(run: Run) -> str:
        return run.call_child(asking(), run_id="asking")

    with Engine(journal, workflows=[order, asking], budget=QUICK) as engine:
        with pytest.raises(errors.ChildWaits, match="recover signal asking") as raised:
            engine.run("r", order)
        assert raised.value.exit_code is errors.ExitCode.WAITING
        assert {waits_for(row) for row in journal.runs()} == {errors.ExitCode.WAITING}
        engine.signal("asking", "approval", "yes", by="ann")
        assert engine.recover("r").result() == "yes"


def test_a_deadline_ends_a_wait_for_a_child_and_not_the_child(journal: Journal) -> None:
    time = ManualClock()

    @workflow
    def nap(run: Run) -> int:
        run.sleep(timedelta(hours=2))
        return 1

    @workflow
    def order(run: Run) -> str:
        child = run.start(nap(), run_id="nap", detached=True)
        with run.deadline(timedelta(hours=1)):
            try:
                return f"in time: {child.result()}"
            except errors.DeadlinePassed:
                pass
        return "late"

    with Engine(journal, workflows=[order, nap], budget=QUICK, clock=time) as engine:
        with pytest.raises(errors.ChildOpen):
            engine.run("r", order)
        row = journal.find("r")
        assert row is not None
        time.advance_to(row.next_look_us - 1)  # type: ignore[operator]  # the deadline, which comes before the child's own look
        assert isinstance(engine.recover("r").error, errors.ChildOpen)
        time.advance(timedelta(microseconds=1))
        assert engine.recover("r").result() == "late"
        assert engine.run("r", order) == "late"
        assert engine.get("nap").status is Status.WAITING
        time.advance(timedelta(hours=1))
        assert engine.recover("nap").result() == 1


def test_a_deadline_that_comes_after_the_childs_end_changes_nothing(journal: Journal) -> None:
    time = ManualClock()

    @workflow
    def order(run: Run) -> int:
        with run.deadline(timedelta(hours=1)):
            child = run.start(double(1), run_id="c")
            stopped()
            return child.result()

    stopped = once(Killed())
    with Engine(journal, workflows=[order, double], budget=QUICK, clock=time) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        assert engine.recover("c").result() == 2
        time.advance(timedelta(hours=2))
        assert engine.recover("r").result() == 2


# -- many --------------------------------------------------------------------------------------------------------------


def test_many_children_leave_nothing_behind_in_memory() -> None:
    seen: list[weakref.ref[Any]] = []

    class Noted(list[int]):
        """What a child holds while it runs."""

    @workflow
    def one(run: Run, n: int) -> int:
        held = Noted([n])
        seen.append(weakref.ref(held))
        return run.decide("n", int, held[0])

    @workflow
    def order(run: Run) -> int:
        total = sum(run.map(lambda branch, n: branch.call_child(one(n)), range(120), limit=3))
        gc.collect()
        assert not any(ref() is not None for ref in seen)
        return total

    with Engine("memory://", workflows=[order, one]) as engine:
        assert engine.run("r", order) == sum(range(120))
        assert len(seen) == 120


# -- cancelling --------------------------------------------------------------------------------------------------------


@dataclass
class Cancellable:
    """A run that sleeps beside a child that sleeps, with a grandchild and a detached child, which sleep too."""

    journal: Journal
    shop: Shop = field(default_factory=Shop)

    def __post_init__(self) -> None:
        lossy = self.shop.effect(OPAQUE)

        @workflow
        def nap(run: Run) -> None:
            run.sleep(timedelta(hours=1))

        @workflow
        def middle(run: Run) -> None:
            run.call_child(nap(), run_id="leaf")

        @workflow
        def unsure(run: Run) -> None:
            run.perform(lossy(units=1), key="unsure")

        @workflow
        def order(run: Run) -> None:
            run.start(nap(), run_id="detached", detached=True)
            run.start(nap(), run_id="never-run")
            run.call_child(middle(), run_id="middle")

        @workflow
        def doubtful(run: Run) -> None:
            run.call_child(unsure(), run_id="unsure")

        self.order, self.doubtful = order, doubtful
        self.engine = Engine(self.journal, workflows=[nap, middle, order, unsure, doubtful], budget=QUICK)

    def statuses(self) -> dict[str, Status]:
        return {row.run_id: row.status for row in self.journal.runs()}


def test_a_cancel_flows_down_and_leaves_the_detached(journal: Journal) -> None:
    play = Cancellable(journal)
    with play.engine as engine:
        with pytest.raises(errors.ChildOpen):
            engine.run("r", play.order)
        assert engine.cancel("r", by="ann", reason="the customer has left").status is Status.CANCELLED
        assert play.statuses() == {
            "r": Status.CANCELLED,
            "middle": Status.CANCELLED,
            "leaf": Status.CANCELLED,
            "never-run": Status.CANCELLED,
            "detached": Status.QUEUED,
        }
        with pytest.raises(errors.RunCancelled, match="its parent middle was cancelled: the customer has left"):
            engine.get("leaf").result()


def test_a_cancelled_run_ends_after_its_children(journal: Journal) -> None:
    """What a child may have done outside stays a question, and its parent's end waits for the answer."""
    play = Cancellable(journal)
    play.shop.fail = once(TimeoutError())
    with play.engine as engine:
        with pytest.raises(errors.ChildInDoubt):
            engine.run("r", play.doubtful)
        cancelled = engine.cancel("r", by="ann", reason="no more")
        assert isinstance(cancelled.error, errors.ChildInDoubt)
        assert play.statuses() == {"r": Status.IN_DOUBT, "unsure": Status.IN_DOUBT}
        length = len(engine.history("r"))
        assert engine.recover("r").status is Status.IN_DOUBT
        assert len(engine.history("r")) == length
        engine.resolve("unsure", "reserve#1", OutcomeKind.APPLIED, evidence="a look", by="ann", reason="seen", value=1)
        assert engine.recover("r").status is Status.CANCELLED
        assert play.statuses() == {"r": Status.CANCELLED, "unsure": Status.CANCELLED}


def test_a_child_that_was_cancelled_by_itself_fails_its_parent(journal: Journal) -> None:
    play = Cancellable(journal)
    with play.engine as engine:
        with pytest.raises(errors.ChildOpen):
            engine.run("r", play.order)
        engine.cancel("leaf", by="ann", reason="this one only")
        failed = engine.recover("middle")
        assert isinstance(failed.error, errors.RunFailed)
        assert "'leaf' failed with cancelled: by ann: this one only." in str(failed.error)


def test_a_plan_says_that_a_child_would_be_started_or_waited_for(journal: Journal) -> None:
    shop = Shop(fail=once(Killed()))
    reserve = shop.effect(keyed())
    stopped = once(Killed())

    @workflow
    def order(run: Run) -> int:
        child = run.start(double(1), run_id="c")
        stopped()
        return child.result() + run.perform(reserve(units=1), key="k")

    with Engine(journal, workflows=[order, double], budget=QUICK) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        plan = engine.plan("r")
        assert "wait for child c" in plan.then
        assert engine.get("c").status is Status.QUEUED


def test_a_child_whose_outcome_nobody_has_adopted_is_not_forgotten(journal: Journal) -> None:
    stopped = once(Killed())

    @workflow
    def order(run: Run) -> int:
        child = run.start(double(1), run_id="c")
        stopped()
        return child.result()

    with Engine(journal, workflows=[order, double], budget=QUICK) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        assert engine.recover("c").result() == 2
        with pytest.raises(errors.OverrideRefused, match="its parent 'r' has not adopted its outcome"):
            engine.forget("c", by="ann", reason="old")
        assert engine.recover("r").result() == 2
        engine.forget("c", by="ann", reason="old")
        assert engine.run("r", order) == 2


# -- runs that begin once more -----------------------------------------------------------------------------------------


def test_a_new_generation_starts_a_child_of_its_own(journal: Journal) -> None:
    stopped = once(Killed())

    @workflow
    def order(run: Run) -> int:
        value = run.call_child(double(1), name="small")
        stopped()
        return value

    with Engine(journal, workflows=[order, double]) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        with pytest.raises(errors.OverrideRefused, match="small#1 may have happened"):
            engine.restart("r", "small#1", by="ann", reason="once more")
        anew = {"small#1": NewKey("nobody needs the first")}
        engine.restart("r", "small#1", policies=anew, by="ann", reason="once more")
        assert engine.recover("r").result() == 2
        children = [row.run_id for row in journal.runs() if row.run_id != "r"]
        assert len(children) == 2
        assert {first.parent_step for first in (engine.history(child)[0] for child in children)} == {"small#1", "small#1@2"}  # type: ignore[union-attr]
