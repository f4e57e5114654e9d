"""Late evidence (semantics sections 4 and 5): kept outside the fence, judged at the next load, and never able to flip an outcome."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from datetime import timedelta
from typing import Any

import pytest

from recovery import (
    Absent,
    AsyncEngine,
    AsyncRun,
    Call,
    Closed,
    Engine,
    Environment,
    Found,
    Gone,
    Refused,
    Rejected,
    Rejection,
    Run,
    Status,
    contracts,
    effect,
    errors,
    workflow,
)
from recovery.core.entries import Observation, Settled, Source, Verdict
from recovery.core.policy import Budget
from recovery.crashpoints import hooked
from recovery.ports import Journal
from recovery.storage import open_journal
from recovery.storage.reading import read
from recovery.testing.clock import ManualClock

from .late_world import DAY, Depot, Workplace
from .world import Killed, kinds

KEYED = contracts.Keyed(window=DAY, settle_window=timedelta(minutes=1))
QUICK = Budget(max_wait=timedelta(0))


@pytest.fixture(params=["def", "async def"])
def place(request: pytest.FixtureRequest, journal: Journal) -> Workplace:
    return Workplace(journal, is_async=request.param == "async def")


def superseded(place: Workplace, made: Any, depot: Depot) -> None:
    """A worker stands still inside its request while another recovers the run; then it goes on and is refused (W12)."""
    came: list[Any] = []
    depot.inside = lambda: came.append(place.recover(made))
    with pytest.raises(errors.FencedOut):
        place.run(made)
    assert came[0].status is Status.COMPLETED


def test_w12_a_matching_late_reply_is_kept_and_says_nothing_new(place: Workplace) -> None:
    depot = Depot()
    made = place.order(depot.effect(KEYED, is_async=place.is_async))
    superseded(place, made, depot)
    before = place.history()
    recovered = place.recover(made)
    assert (recovered.result(), recovered.contradictions) == ("R1", ())
    assert place.history() == before
    assert [item.step for item in place.journal.evidence("r")] == ["take#1"]
    assert depot.taken == ["k"]


def test_w12_a_second_effect_is_reported_as_a_duplicate_with_both_receipts_and_what_would_undo_it(place: Workplace) -> None:
    depot = Depot(forgets=True)
    made = place.order(depot.effect(KEYED, is_async=place.is_async))
    superseded(place, made, depot)
    recovered = place.recover(made)
    assert recovered.result() == "R2"  # the outcome that was recorded first stands
    [found] = recovered.contradictions
    assert (found.step, found.effect, found.environment, found.key, found.duplicate) == ("take#1", "take", "depot", "k", True)
    assert found.adopted is not None
    assert (found.adopted.receipt, found.adopted.attempt, found.adopted.epoch, found.adopted.source) == ("R2", 2, "0.2", "reply")
    [other] = found.against
    assert (other.receipt, other.attempt, other.epoch, other.source) == ("R1", 1, "0.1", "late")
    [proposal] = found.proposals
    assert (proposal.effect, proposal.environment, proposal.scope) == ("put_back", "depot", "hall-1")
    assert proposal.arguments == {"outcome": "R1", "units": 2}
    assert proposal.undoes == other
    assert depot.undone == []  # proposed, not executed


def test_i7_a_settled_run_records_a_contradiction_once_and_then_changes_nothing(place: Workplace) -> None:
    depot = Depot(forgets=True)
    made = place.order(depot.effect(KEYED, is_async=place.is_async))
    superseded(place, made, depot)
    before = place.history()
    place.recover(made)
    after = place.history()
    assert after[: len(before)] == before
    observation, verdict = after[len(before) :]
    assert isinstance(observation, Observation)
    assert observation.source is Source.LATE
    assert isinstance(verdict, Verdict)
    assert (verdict.row, verdict.evidence) == ("contradicted", (len(before) + 1,))
    row = place.journal.find("r")
    again = place.recover(made)
    assert place.history() == after
    assert place.journal.find("r") == row  # not even claimed
    assert [one.against[0].receipt for one in again.contradictions] == ["R1"]
    assert place.run(made) == "R2"
    assert place.history() == after


def test_a_contradiction_is_recorded_without_the_app_and_the_proposal_waits_for_it(journal: Journal) -> None:
    depot, place = Depot(forgets=True), Workplace(journal, is_async=False)
    made = place.order(depot.effect(KEYED))
    superseded(place, made, depot)
    [found] = place.recover().contradictions
    assert (found.duplicate, found.proposals) == (True, ())
    assert [len(one.proposals) for one in place.recover(made).contradictions] == [1]


def test_an_effect_without_a_compensation_proposes_nothing(journal: Journal) -> None:
    depot, place = Depot(forgets=True), Workplace(journal, is_async=False)
    made = place.order(depot.effect(KEYED, undo=False))
    superseded(place, made, depot)
    [found] = place.recover(made).contradictions
    assert (found.duplicate, found.proposals) == (True, ())


def test_two_that_look_at_once_record_it_once(journal: Journal) -> None:
    """The loser of the race for the claim finds it recorded."""
    depot, place = Depot(forgets=True), Workplace(journal, is_async=False)
    made = place.order(depot.effect(KEYED))
    superseded(place, made, depot)
    claim, before = journal.claim, len(place.history())

    def overtaken(seen: Any, owner: Any, **more: Any) -> Any:
        journal.claim = claim  # type: ignore[method-assign]
        place.recover(made)
        return claim(seen, owner, **more)

    journal.claim = overtaken  # type: ignore[method-assign,assignment]
    assert len(place.recover(made).contradictions) == 1
    assert len(place.history()) == before + 2


def test_a_late_reply_settles_a_step_that_is_in_doubt(place: Workplace) -> None:
    """Opaque: the successor parks, and only the superseded worker knows what came back."""
    depot = Depot()
    made = place.order(depot.effect(contracts.Opaque(), is_async=place.is_async))
    doubts: list[Any] = []
    depot.inside = lambda: doubts.append(place.recover(made))
    with pytest.raises(errors.FencedOut):
        place.run(made)
    assert doubts[0].status is Status.IN_DOUBT
    recovered = place.recover(made)
    assert recovered.result() == "R1"
    settled = next(entry for entry in place.history() if isinstance(entry, Settled) and entry.step == "take#1")
    [seq] = settled.evidence  # I3: the evidence was taken into the chain before the outcome was made from it
    taken_in = place.history()[seq - 1]
    assert isinstance(taken_in, Observation)
    assert (taken_in.source, taken_in.epoch) == (Source.LATE, "0.1")
    assert place.recover(made).contradictions == ()
    assert depot.taken == ["k"]


def test_row_4_two_receipts_before_settlement_adopt_the_first_and_propose_to_undo_the_other(place: Workplace) -> None:
    depot = Depot()
    made = place.order(depot.effect(contracts.Opaque(), is_async=place.is_async))
    depot.inside = lambda: place.recover(made)
    with pytest.raises(errors.FencedOut):
        place.run(made)
    Engine(place.journal).observe("r", "take#1", Found("R7", receipt="R7"))
    recovered = place.recover(made)
    assert recovered.result() == "R1"
    assert [verdict.row for verdict in recovered.verdicts] == ["duplicate"]
    [found] = recovered.contradictions
    assert found.adopted is not None
    assert (found.adopted.receipt, [one.receipt for one in found.against]) == ("R1", ["R7"])
    assert [dict(one.arguments) for one in found.proposals] == [{"outcome": "R7", "units": 2}]
    before = place.history()
    assert [one.against for one in place.recover(made).contradictions] == [found.against]
    assert place.history() == before


def test_a_settled_step_of_an_open_run_is_contradicted_once_and_kept(place: Workplace) -> None:
    """The step is settled, the run is not: its replay meets the evidence."""
    depot = Depot()
    dies = [Killed()]

    def die_once() -> None:
        if dies:
            raise dies.pop()

    made = place.order(depot.effect(KEYED, is_async=place.is_async), then=die_once)
    with pytest.raises(Killed):
        place.run(made)
    Engine(place.journal).observe("r", "take#1", Found("R9", receipt="R9"))
    recovered = place.recover(made)
    assert recovered.result() == "R1"
    assert [verdict.row for verdict in recovered.verdicts] == ["contradicted"]
    assert kinds(place.history()) == ["opened", "intent", "settled", "observation", "verdict", "settled"]
    assert [one.against[0].receipt for one in recovered.contradictions] == ["R9"]


def in_doubt(journal: Journal) -> tuple[list[str], str]:
    """The runs that whoever looks for doubts is shown, and why this one is there."""
    row = journal.find("r")
    assert row is not None
    return [found.run_id for found in journal.runs(statuses=[Status.IN_DOUBT])], row.reason


def superseded_and_cut_off(place: Workplace) -> Any:
    """A worker stands still inside its request while another finds the step in doubt; then its reply is lost, and that is all it can tell."""
    depot = Depot()
    made = place.order(depot.effect(contracts.Opaque(), is_async=place.is_async))

    def recover_then_lose() -> None:
        assert place.recover(made).status is Status.IN_DOUBT
        raise ConnectionResetError

    depot.inside = recover_then_lose
    with pytest.raises(errors.FencedOut):
        place.run(made)
    assert in_doubt(place.journal) == (["r"], "opaque")
    assert len(place.journal.evidence("r")) == 1
    return made


def test_late_evidence_that_changes_no_verdict_leaves_the_run_among_those_in_doubt(place: Workplace) -> None:
    """Taking it in writes that the run goes on. Found by the soak: every recovery then said in doubt, and no list showed it."""
    made = superseded_and_cut_off(place)
    assert place.recover(made).status is Status.IN_DOUBT
    assert in_doubt(place.journal) == (["r"], "opaque")
    after = place.history()
    assert [type(entry) for entry in after[-2:]] == [Observation, Verdict]
    assert place.recover(made).status is Status.IN_DOUBT
    assert place.history() == after


def test_who_dies_between_late_evidence_and_its_verdict_leaves_the_verdict_to_the_next(place: Workplace) -> None:
    made = superseded_and_cut_off(place)
    with hooked(lambda point: die() if point == "append.verdict.before" else None), pytest.raises(Killed):
        place.recover(made)
    assert in_doubt(place.journal) == ([], "")
    for _ in range(2):
        assert place.recover(made).status is Status.IN_DOUBT
        assert in_doubt(place.journal) == (["r"], "opaque")
    assert [type(entry) for entry in place.history()[-2:]] == [Observation, Verdict]


# -- push ---------------------------------------------------------------------------------------------------------------


def die() -> None:
    raise Killed


def interrupted(journal: Journal, depot: Depot, contract: Any) -> tuple[Workplace, Any]:
    place = Workplace(journal, is_async=False)
    made = place.order(depot.effect(contract))
    depot.inside = die
    with pytest.raises(Killed):
        place.run(made)
    return place, made


def test_a_push_settles_what_nothing_could_be_asked_about(journal: Journal) -> None:
    place, made = interrupted(journal, Depot(), contracts.Opaque())
    assert place.recover(made).status is Status.IN_DOUBT
    assert Engine(journal).observe("r", "take#1", Found("R1", receipt="R1")) is True
    assert place.recover(made).result() == "R1"
    settled = next(entry for entry in place.history() if isinstance(entry, Settled))
    pushed = place.history()[settled.evidence[0] - 1]
    assert isinstance(pushed, Observation)
    assert pushed.source is Source.PUSH


def test_async_engines_observe_alike(journal: Journal) -> None:
    place, made = interrupted(journal, Depot(), contracts.Opaque())
    assert asyncio.run(AsyncEngine(journal).observe("r", "take#1", Found("R1", receipt="R1"))) is True
    assert place.recover(made).result() == "R1"


def test_a_webhook_that_is_delivered_twice_is_kept_once(journal: Journal) -> None:
    place, made = interrupted(journal, Depot(), contracts.Opaque())
    engine = Engine(journal)
    assert engine.observe("r", "take#1", Found("R1", receipt="R1")) is True
    assert engine.observe("r", "take#1", Found("R1", receipt="R1")) is False
    place.recover(made)
    assert engine.observe("r", "take#1", Found("R1", receipt="R1")) is False
    assert len(journal.evidence("r")) == 1


def test_a_push_goes_where_no_fence_stands_and_does_not_touch_the_run(journal: Journal) -> None:
    """Whoever works on the run keeps it."""
    _place, _made = interrupted(journal, Depot(), contracts.Opaque())
    before, row = Engine(journal).history("r"), journal.find("r")
    Engine(journal).observe("r", "take#1", Gone())
    assert (Engine(journal).history("r"), journal.find("r")) == (before, row)


class Declined(Rejection):
    why: str


def test_a_pushed_rejection_is_never_taken_for_one_that_was_given_after_quiet() -> None:
    """Nobody asked, so when it was given is not known: another copy may have acted since."""
    clock, journal = ManualClock(), open_journal("memory://")
    place, made = Workplace(journal, is_async=False), None
    depot = Depot(inside=die)
    made = place.order(depot.effect(contracts.Opaque(), rejects=(Declined,)))
    with pytest.raises(Killed):
        place.run(made, clock=clock)
    clock.advance(timedelta(days=2))
    Engine(journal, clock=clock).observe("r", "take#1", Refused(Declined(why="no stock")))
    assert place.recover(made, clock=clock).status is Status.IN_DOUBT


def test_a_push_after_the_run_has_ended_is_recorded_once_and_flips_nothing(journal: Journal) -> None:
    depot, place = Depot(), Workplace(journal, is_async=False)
    made = place.order(depot.effect(KEYED))
    place.run(made)
    engine = Engine(journal)
    for _ in range(2):
        engine.observe("r", "take#1", Found("R8", receipt="R8"))
        engine.observe("r", "take#1", Found("R8", receipt="R8", original=False))  # the same receipt in other words
        assert place.recover(made).result() == "R1"
        assert kinds(place.history()) == ["opened", "intent", "settled", "settled", "observation", "verdict"]
    engine.observe("r", "take#1", Closed())
    assert len(place.recover(made).contradictions[0].against) == 2
    assert kinds(place.history())[6:] == ["observation", "verdict"]


@pytest.mark.parametrize(
    ("step", "answer", "source", "says"),
    [
        ("take#1", Absent(), Source.PUSH, "no fact without a question"),
        ("take#2", Gone(), Source.PUSH, "no effect at that step"),
        ("take#1", Gone(), Source.OPERATOR, "no source from outside"),
        ("take#1", Found(float("nan")), Source.PUSH, ""),
    ],
)
def test_what_cannot_be_observed_is_refused_and_nothing_is_kept(step: str, answer: Any, source: Source, says: str) -> None:
    journal = open_journal("memory://")
    interrupted(journal, Depot(), contracts.Opaque())
    engine = Engine(journal)
    if says:
        with pytest.raises(errors.NotObservable, match=says):
            engine.observe("r", step, answer, source=source)
        assert journal.evidence("r") == []
    else:  # it happened all the same: kept as applied, outcome unstorable
        assert engine.observe("r", step, answer, source=source) is True
        assert read(journal, "r").history.unsettled[0].observations[0].answer.kind.value == "unstorable"
    with pytest.raises(errors.RunNotFound):
        engine.observe("elsewhere", step, Gone())


def test_i7_an_ended_run_is_only_read_again_by_a_workflow_that_has_grown(journal: Journal) -> None:
    """Binding a proposal reads the workflow again; a step that it has gained since must not run."""
    depot, place = Depot(forgets=True), Workplace(journal, is_async=False)
    take = depot.effect(KEYED)
    made = place.order(take)
    superseded(place, made, depot)
    decided: list[str] = []

    @workflow(name="order")
    def grown(run: Run) -> str:
        receipt = run.perform(take(units=2), key="k")
        with contextlib.suppress(Exception):
            run.decide("more", lambda: decided.append("asked"))
        run.perform(take(units=1), key="k2")
        return receipt

    [found] = place.recover(grown).contradictions
    assert (len(found.proposals), decided, depot.taken) == (1, [], ["k", "k"])


@pytest.mark.parametrize("rejected", [False, True], ids=["it happened", "it was refused"])
def test_a_reply_that_outlives_its_cancelled_caller_is_kept_and_settles_the_step(journal: Journal, rejected: bool) -> None:
    """A `def` effect of an `async def` workflow goes on in its thread; nothing is asked or sent a second time to learn what came back."""
    entered, release, kept, sends = threading.Event(), threading.Event(), threading.Event(), []

    @effect(contracts.Opaque(), environment=Environment("depot"), rejects=(Declined,))
    def take(call: Call) -> str:
        sends.append(call.key)
        entered.set()
        assert release.wait(30)
        if rejected:
            raise Declined(why="no stock")
        return "R1"

    @workflow
    async def order(run: AsyncRun) -> str:
        return "refused" if isinstance(await run.attempt(take(), key="k"), Rejected) else "R1"

    async def cancelled() -> None:
        async with AsyncEngine(journal, workflows=[order]) as engine:
            running = asyncio.create_task(engine.run("r", order))
            assert await asyncio.to_thread(entered.wait, 30)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert (await engine.recover("r", budget=QUICK)).status in {Status.IN_DOUBT, Status.WAITING}
            release.set()
            assert await asyncio.to_thread(kept.wait, 30)

    with hooked(lambda at: kept.set() if at == "evidence.after" else None):
        asyncio.run(cancelled())
    [item] = journal.evidence("r")
    assert (item.step, str(item.epoch)) == ("take#1", "0.1")
    outcome = asyncio.run(AsyncEngine(journal, workflows=[order]).recover("r")).result()
    assert outcome == ("refused" if rejected else "R1")
    assert len(sends) == 1
