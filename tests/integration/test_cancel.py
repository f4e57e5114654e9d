"""Cancel, pause and resume, as a Python user has them: on every store, in both colours."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from recovery import AsyncEngine, AsyncRun, Closed, Engine, Found, Run, contracts, errors, workflow
from recovery.cli.target import finished
from recovery.core.contracts import Contract
from recovery.core.entries import Entry, OutcomeKind, Override, Settled, Status, Verb, kind_of
from recovery.core.policy import Budget, Lease
from recovery.crashpoints import hooked
from recovery.definitions.answer import Answer
from recovery.definitions.call import Call
from recovery.ports import Journal
from recovery.storage.reading import read
from recovery.testing.clock import ManualClock
from tests.integration.world import QUICK, Killed, Shop, keyed, once

WORD = {"by": "ann", "reason": "the customer has left"}
LONG = 60  # seconds until a test that hangs is given up


@pytest.fixture
def colour(request: pytest.FixtureRequest) -> str:
    """One colour for each store: both are met, at half the price."""
    journal = request.getfixturevalue("journal")
    return "sync" if journal.url.startswith("sqlite") else "async"


@dataclass
class House:
    """One engine of a colour: a workflow that reserves twice, with a timer between."""

    journal: Journal
    colour: str = "sync"
    contract: Contract = field(default_factory=keyed)
    shop: Shop = field(default_factory=Shop)
    clock: Any = field(default_factory=ManualClock)
    sleeps: timedelta = timedelta(0)
    between: Callable[[], None] = lambda: None
    budget: Budget = QUICK
    lease: Lease = field(default_factory=lambda: Lease(renew_every=timedelta(hours=1), term=timedelta(hours=3)))

    def __post_init__(self) -> None:
        self.reserve = reserve = self.shop.effect(self.contract)
        if self.contract.close:
            shop = self.shop

            @reserve.close
            def close(call: Call, *, units: int) -> Answer[int]:
                there = shop.receipts.get(call.key)
                return Found(there) if isinstance(there, int) else Closed()

        house = self

        @workflow(name="order")
        def order(run: Run) -> str:
            first = run.perform(reserve(units=1))
            house.between()
            run.sleep(house.sleeps)
            return f"{first} and {run.perform(reserve(units=2))}"

        @workflow(name="order")
        async def order_async(run: AsyncRun) -> str:
            first = await run.perform(reserve(units=1))
            house.between()
            await run.sleep(house.sleeps)
            return f"{first} and {await run.perform(reserve(units=2))}"

        self.order: Any = order_async if self.colour == "async" else order
        self.engine = self.another()

    def another(self, *, workflows: bool = True) -> Engine | AsyncEngine:
        kind = AsyncEngine if self.colour == "async" else Engine
        ours = [self.order] if workflows else []
        return kind(self.journal, workflows=ours, budget=self.budget, clock=self.clock, lease=self.lease)

    def do(self, verb: str, *arguments: Any, **named: Any) -> Any:
        return finished(getattr(self.engine, verb)(*arguments, **named))

    def begin(self) -> None:
        with pytest.raises(errors.TimerPending):
            self.do("run", "r", self.order)

    def entries(self) -> list[Entry]:
        return read(self.journal, "r").entries

    def orders(self) -> list[Verb]:
        return [entry.verb for entry in self.entries() if isinstance(entry, Override)]


# -- cancel ------------------------------------------------------------------------------------------------------------


def test_a_waiting_run_is_cancelled_at_once_and_begins_nothing_more(journal: Journal, colour: str) -> None:
    house = House(journal, colour, sleeps=timedelta(hours=1))
    house.begin()
    came = house.do("cancel", "r", **WORD)
    assert (came.status, int(came.exit_code)) == (Status.CANCELLED, 1)
    assert isinstance(came.error, errors.RunCancelled)
    assert (came.error.by, came.error.reason) == (WORD["by"], WORD["reason"])
    house.clock.advance(timedelta(hours=2))
    for again in ("recover", "get"):
        assert house.do(again, "r").status is Status.CANCELLED
    with pytest.raises(errors.RunCancelled, match="ann"):
        house.do("run", "r", house.order)
    assert sum(house.shop.executions.values()) == 1
    assert [kind_of(entry) for entry in house.entries()[-2:]] == ["override", "settled"]


def test_a_second_cancel_changes_nothing_and_a_settled_run_refuses(journal: Journal, colour: str) -> None:
    house = House(journal, colour, sleeps=timedelta(hours=1))
    house.begin()
    house.do("cancel", "r", **WORD)
    before = house.entries()
    assert house.do("cancel", "r", by="bob", reason="me too").error.by == "ann"
    assert house.entries() == before
    house.sleeps = timedelta(0)
    house.do("run", "done", house.order)
    for verb in ("cancel", "pause", "resume"):
        with pytest.raises(errors.OverrideRefused, match="settled"):
            house.do(verb, "done", **WORD)
    for verb in ("cancel", "pause", "resume"):
        with pytest.raises(errors.RunNotFound):
            house.do(verb, "nowhere", **WORD)
        with pytest.raises(errors.OverrideRefused, match="it needs by"):
            house.do(verb, "r", by=" ", reason="x")


def test_what_nobody_wants_is_closed_and_not_sent_again(journal: Journal, colour: str) -> None:
    house = House(journal, colour, keyed(close=True))
    house.shop.fail = once(Killed())
    with pytest.raises(Killed):
        house.do("run", "r", house.order)
    came = house.do("cancel", "r", **WORD)
    assert came.status is Status.CANCELLED
    assert [verdict.action for verdict in came.verdicts] == ["close", "adopt"]
    assert sum(house.shop.sent.values()) == 1, "a re-send would have been licensed, had it been wanted"


def test_an_effect_in_doubt_keeps_a_cancelled_run_in_doubt(journal: Journal, colour: str) -> None:
    house = House(journal, colour, contracts.Opaque())
    house.shop.fail = once(Killed())
    with pytest.raises(Killed):
        house.do("run", "r", house.order)
    came = house.do("cancel", "r", **WORD)
    assert (came.status, int(came.exit_code)) == (Status.IN_DOUBT, 3)
    house.do("resolve", "r", "reserve#1", OutcomeKind.APPLIED, evidence="ledger", by="ann", reason="it is there", value=1)
    assert house.do("recover", "r").status is Status.CANCELLED
    assert sum(house.shop.sent.values()) == 1


def test_a_run_without_its_app_keeps_the_order_and_ends_with_the_next_recovery(journal: Journal) -> None:
    house = House(journal, sleeps=timedelta(hours=1))
    house.begin()
    stranger = Engine(journal, clock=house.clock)
    assert stranger.cancel("r", **WORD).status is Status.WAITING
    assert house.orders() == [Verb.CANCEL]
    assert house.do("recover", "r").status is Status.CANCELLED


def test_a_workflow_cannot_swallow_a_cancel_nor_begin_an_effect_on_its_way_out(journal: Journal) -> None:
    shop, clock = Shop(), ManualClock()
    reserve = shop.effect(keyed())
    seen: list[str] = []

    @workflow
    def stubborn(run: Run) -> str:
        run.perform(reserve(units=1))
        try:
            run.sleep(timedelta(hours=1))
        except BaseException as stop:
            seen.append(type(stop).__name__)
        finally:
            try:
                run.perform(reserve(units=5))
            except BaseException as stop:
                seen.append(type(stop).__name__)
        return "as if nothing had been"

    engine = Engine(journal, workflows=[stubborn], budget=QUICK, clock=clock)
    with pytest.raises(errors.TimerPending):
        engine.run("r", stubborn)
    seen.clear()
    assert engine.cancel("r", **WORD).status is Status.CANCELLED
    assert seen == ["Unwind", "Unwind"]
    assert sum(shop.executions.values()) == 1


def test_a_diverged_run_without_open_effects_can_be_cancelled(journal: Journal) -> None:
    house = House(journal, sleeps=timedelta(hours=1))
    house.begin()

    @workflow(name="order")
    def other(run: Run) -> str:
        return run.decide("something-else", str)

    engine = Engine(journal, workflows=[other], budget=QUICK, clock=house.clock)
    assert engine.recover("r").status is Status.DIVERGED
    assert engine.cancel("r", **WORD).status is Status.CANCELLED


# -- while somebody is at work -----------------------------------------------------------------------------------------


def _meanwhile(house: House, verb: str) -> Any:
    """Give an order while the owner's first effect is over and its workflow computes; what the run then came to."""
    reached, told = threading.Event(), threading.Event()

    def between() -> None:
        reached.set()
        assert told.wait(LONG)

    house.between = between
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(house.do, "run", "r", house.order)
        assert reached.wait(LONG)
        given = house.do(verb, "r", **WORD)
        house.between = lambda: None
        told.set()
        return given, running.exception(LONG)


def test_a_living_owner_takes_a_cancel_in_at_its_next_step(journal: Journal, colour: str) -> None:
    house = House(journal, colour)
    given, came = _meanwhile(house, "cancel")
    assert given.status is Status.RUNNING, "its owner goes on"
    assert isinstance(came, errors.RunCancelled)
    assert house.do("get", "r").status is Status.CANCELLED
    assert sum(house.shop.executions.values()) == 1
    assert [entry.message for entry in house.entries() if isinstance(entry, Override)] == [1]


def test_a_living_owner_pauses_at_its_next_step_and_goes_on_when_resumed(journal: Journal, colour: str) -> None:
    house = House(journal, colour)
    given, came = _meanwhile(house, "pause")
    assert (given.taken_in, given.status) == (False, Status.RUNNING)
    assert isinstance(came, errors.RunPaused)
    [row] = journal.runs()
    assert (row.status, row.reason, row.owner) == (Status.HELD, "paused", None)
    assert house.do("recover", "r").status is Status.HELD
    with pytest.raises(errors.OverrideRefused, match="paused already"):
        house.do("pause", "r", **WORD)
    told = house.do("resume", "r", **WORD)
    assert (told.taken_in, told.status) == (True, Status.RUNNING)
    assert house.do("run", "r", house.order) == "1 and 2"
    assert sum(house.shop.executions.values()) == 2


def test_what_is_not_paused_cannot_be_resumed(journal: Journal, colour: str) -> None:
    house = House(journal, colour, sleeps=timedelta(hours=1))
    house.begin()
    with pytest.raises(errors.OverrideRefused, match="nobody has paused it"):
        house.do("resume", "r", **WORD)
    house.do("hold", "r", **WORD)
    with pytest.raises(errors.OverrideRefused, match="held, and not paused"):
        house.do("resume", "r", **WORD)


def test_a_cancel_ends_a_pause_and_not_a_hold(journal: Journal, colour: str) -> None:
    house = House(journal, colour, sleeps=timedelta(hours=1))
    house.begin()
    assert house.do("pause", "r", **WORD).status is Status.HELD
    assert house.do("cancel", "r", **WORD).status is Status.CANCELLED
    with pytest.raises(errors.TimerPending):
        house.do("run", "s", house.order)
    house.do("hold", "s", **WORD)
    assert house.do("cancel", "s", **WORD).status is Status.HELD
    house.do("release", "s", **WORD)
    assert house.do("recover", "s").status is Status.CANCELLED


def test_the_journal_of_a_cancelled_run_verifies_and_folds_alike(journal: Journal) -> None:
    house = House(journal, sleeps=timedelta(hours=1))
    house.begin()
    house.do("cancel", "r", **WORD)
    [ended] = [entry for entry in house.entries() if isinstance(entry, Settled) and entry.step == ""]
    assert (ended.outcome.value, ended.value) == ("cancelled", WORD)
    assert house.do("verify", "r").broken == []


def test_an_owner_hears_of_an_order_that_was_given_elsewhere_when_it_renews_its_lease(journal: Journal, colour: str) -> None:
    house = House(journal, colour, lease=Lease(renew_every=timedelta(milliseconds=20), term=timedelta(hours=1)))
    reached, ordered = threading.Event(), threading.Event()

    def between() -> None:
        reached.set()
        heard = threading.Event()
        for _ in range(LONG * 50):
            if house.engine.world().messages("r"):
                assert ordered.wait(LONG)  # else the run may have ended before whoever ordered looks how it stands
                return
            heard.wait(0.02)
        raise AssertionError("it was never heard")

    house.between = between
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(house.do, "run", "r", house.order)
        assert reached.wait(LONG)
        stands = finished(house.another().cancel("r", **WORD)).status
        ordered.set()
        assert stands is Status.RUNNING
        assert isinstance(running.exception(LONG), errors.RunCancelled)
    house.engine.flush()  # the thread that renews ends before its journal does
    assert sum(house.shop.executions.values()) == 1


@pytest.mark.parametrize("verb", ["cancel", "pause"])
def test_a_worker_that_sleeps_is_woken_by_an_order(journal: Journal, colour: str, verb: str) -> None:
    house = House(journal, colour, sleeps=timedelta(hours=1), budget=Budget(max_wait=None), clock=None)
    slept = threading.Event()
    house.between = slept.set
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(house.do, "run", "r", house.order)
        assert slept.wait(LONG)
        house.do(verb, "r", **WORD)
        wanted = errors.RunCancelled if verb == "cancel" else errors.RunPaused
        assert isinstance(running.exception(LONG), wanted)
    assert sum(house.shop.executions.values()) == 1


def test_of_two_people_who_cancel_at_once_one_is_recorded(journal: Journal, colour: str) -> None:
    house = House(journal, colour, sleeps=timedelta(hours=1))
    house.begin()
    engines = [house.another() for _ in range(4)]
    started = threading.Barrier(4)

    def cancel(number: int) -> Status:
        started.wait(LONG)
        return Status(finished(engines[number].cancel("r", by=f"person {number}", reason="x")).status)

    with ThreadPoolExecutor(4) as pool:
        came = list(pool.map(cancel, range(4)))
    assert set(came) <= {Status.CANCELLED, Status.WAITING, Status.RUNNING}, "who came second may see it under way"
    assert house.do("recover", "r").status is Status.CANCELLED
    assert house.orders() == [Verb.CANCEL]
    assert [entry.step for entry in house.entries() if isinstance(entry, Settled)].count("") == 1


def test_who_cancels_while_somebody_else_s_cancel_is_carried_out_has_what_was_asked(journal: Journal, colour: str) -> None:
    house = House(journal, colour, sleeps=timedelta(hours=1))
    house.begin()
    others: list[Status] = []

    def overtaken(point: str) -> None:
        if point == "deliver.before":
            with ThreadPoolExecutor(1) as pool:  # a context of its own, where nobody overtakes it
                others.append(pool.submit(lambda: finished(house.another().cancel("r", by="bob", reason="x"))).result(LONG).status)

    with hooked(overtaken):
        assert house.do("cancel", "r", **WORD).status is Status.CANCELLED
    assert others == [Status.CANCELLED]
    assert house.orders() == [Verb.CANCEL]


def test_a_cancel_that_races_the_end_either_wins_or_is_refused(journal: Journal, colour: str) -> None:
    house = House(journal, colour)
    started = threading.Barrier(2)
    house.between = lambda: started.wait(LONG) and None

    def cancel() -> str:
        started.wait(LONG)
        try:
            return str(finished(house.another().cancel("r", **WORD)).status.value)
        except errors.OverrideRefused:
            return "refused"

    with ThreadPoolExecutor(2) as pool:
        running, cancelling = pool.submit(house.do, "run", "r", house.order), pool.submit(cancel)
        error, said = running.exception(LONG), cancelling.result(LONG)
    house.between = lambda: None
    ended = house.do("recover", "r").status
    assert (ended is Status.CANCELLED) is isinstance(error, errors.RunCancelled) or said == "cancelled"
    assert ended in {Status.CANCELLED, Status.COMPLETED}
    assert said != "refused" or ended is Status.COMPLETED
    assert [entry.step for entry in house.entries() if isinstance(entry, Settled)].count("") == 1
