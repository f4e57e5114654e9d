"""What `perform` gives for each kind of outcome, and what a call is told, in both colours on the memory journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any

import pytest

from recovery import (
    Absent,
    Accepted,
    Applied,
    AsyncEngine,
    AsyncRun,
    Batched,
    Budget,
    Call,
    Closed,
    Engine,
    Found,
    Gone,
    InFlight,
    NotSent,
    Refused,
    Rejected,
    Rejection,
    ReplyWas,
    Run,
    Unreachable,
    contracts,
    effect,
    errors,
    workflow,
)
from recovery.contracts import Batch, Deletion, Enforced, Lookup
from recovery.core.entries import Intent, OutcomeKind, Settled
from recovery.core.instants import instant_us, moment
from recovery.storage import open_journal
from recovery.storage.reading import read
from recovery.testing.clock import ManualClock

DAY = timedelta(days=1)


class OutOfStock(Rejection):
    sku: str


@dataclass
class Place:
    """A journal, a clock and an engine of one colour. `answers`: what the body says, in order; the last one is repeated."""

    is_async: bool
    clock: ManualClock = field(default_factory=lambda: ManualClock())
    calls: list[Call] = field(default_factory=list)
    asked: list[Call] = field(default_factory=list)

    def effect(self, contract: contracts.Contract, returns: Any, answers: list[Any], probed: list[Any] | None = None) -> Any:
        def say(call: Call, told: list[Any], heard: list[Call]) -> Any:
            heard.append(call)
            answer = told[min(len(heard), len(told)) - 1]
            if isinstance(answer, BaseException):
                raise answer
            return answer

        def body(call: Call) -> Any:
            return say(call, answers, self.calls)

        def probe(call: Call) -> Any:
            return say(call, probed or [], self.asked)

        body.__annotations__["return"] = returns
        made = effect(contract, rejects=(OutOfStock,), name="act", timeout=timedelta(seconds=1))(self._coloured(body))
        if probed is not None:
            made.probe(self._coloured(probe))
        if contract.close:
            made.close(self._coloured(_closed))
        return made

    def _coloured(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        if not self.is_async:
            return fn

        @wraps(fn)
        async def awaited(call: Call) -> Any:
            return fn(call)

        return awaited

    def engine(self, made: Any, budget: Budget, key: str | None = None) -> tuple[Any, Any]:
        if self.is_async:

            @workflow(name="one")
            async def aone(run: AsyncRun) -> None:
                self.got = await run.perform(made(), key=key)

            return AsyncEngine(self.journal, workflows=[aone], clock=self.clock, budget=budget), aone

        @workflow(name="one")
        def one(run: Run) -> None:
            self.got = run.perform(made(), key=key)

        return Engine(self.journal, workflows=[one], clock=self.clock, budget=budget), one

    def perform(self, made: Any, *, key: str | None = None, budget: Budget = Budget(max_wait=timedelta(hours=1))) -> Any:  # noqa: B008
        """What the workflow got; what it raised is raised here."""
        engine, flow = self.engine(made, budget, key)
        caught: list[BaseException] = []
        self.got = None

        async def run_async() -> None:
            async with engine:
                await engine.run("r", flow)

        try:
            if self.is_async:
                asyncio.run(run_async())
            else:
                engine.run("r", flow)
        except errors.RecoveryError as error:
            caught.append(error)
        if caught:
            raise caught[0]
        return self.got

    def settled(self) -> Settled:
        history = read(self.journal, "r").history
        (step,) = history.effects
        assert step.settled is not None
        return step.settled

    def intent(self) -> Intent:
        return read(self.journal, "r").history.effects[0].intent


def _closed(call: Call) -> Any:
    return Closed()


@pytest.fixture(name="place", params=["sync", "async"])
def _place(request: pytest.FixtureRequest) -> Iterator[Place]:
    place = Place(request.param == "async")
    place.journal = open_journal("memory://")
    yield place
    place.journal.close()


KEYED = contracts.Keyed(window=DAY)


def test_applied_gives_the_value(place: Place) -> None:
    assert place.perform(place.effect(KEYED, int, [7])) == 7


def test_applied_without_a_value_gives_none_where_the_type_allows_it(place: Place) -> None:
    assert place.perform(place.effect(KEYED, int | None, [ReplyWas(Gone())])) is None
    assert place.settled().outcome is OutcomeKind.APPLIED_WITHOUT_VALUE


def test_applied_without_a_value_is_said_where_the_type_does_not(place: Place) -> None:
    with pytest.raises(errors.RunFailed, match="OutcomeUnavailable"):
        place.perform(place.effect(KEYED, int, [ReplyWas(Gone())]))
    assert place.settled().outcome is OutcomeKind.APPLIED_WITHOUT_VALUE
    assert len(place.calls) == 1


def test_a_swallowed_effect_gives_none(place: Place) -> None:
    made = place.effect(contracts.Swallow(window=timedelta(minutes=5)), None, [None])
    assert place.perform(made) is None
    assert (place.settled().row, place.settled().outcome) == ("swallowed", OutcomeKind.APPLIED_WITHOUT_VALUE)


def test_a_body_may_say_itself_that_it_was_accepted(place: Place) -> None:
    made = place.effect(contracts.Swallow(window=timedelta(minutes=5)), None, [ReplyWas(Accepted())])
    assert place.perform(made) is None
    assert place.settled().row == "swallowed"


def test_rejected_raises_the_declared_error(place: Place) -> None:
    with pytest.raises(errors.RunFailed, match="OutOfStock"):
        place.perform(place.effect(KEYED, int, [OutOfStock(sku="A")]))
    assert place.settled().outcome is OutcomeKind.REJECTED


def test_mixed_gives_the_items(place: Place) -> None:
    items = Batched([Found(1), Refused(OutOfStock(sku="A")), Found(3)])
    made = place.effect(contracts.Probeable(batch=Batch.PER_ITEM_RESULT), Batched[int], [items], probed=[Absent()])
    got = place.perform(made)
    assert got == items
    assert (got.applied, got.rejected) == ({0: 1, 2: 3}, {1: OutOfStock(sku="A")})
    assert place.settled().outcome is OutcomeKind.MIXED


@pytest.mark.parametrize(("last", "asked"), [(Found(2), 1), (Refused(OutOfStock(sku="A")), 2)])
def test_a_batch_with_an_open_item_is_asked_about_until_none_is_open(place: Place, last: Any, asked: int) -> None:
    """The request is not sent a second time: its applied item would be applied twice. A rejection is asked about again once all is quiet."""
    partly, wholly = Batched([Found(1), InFlight()]), Batched([Found(1), last])
    contract = contracts.Probeable(batch=Batch.PER_ITEM_RESULT, settle_window=timedelta(seconds=1))
    made = place.effect(contract, Batched[int], [partly], probed=[Found(wholly)])
    assert place.perform(made) == wholly
    assert (len(place.calls), len(place.asked)) == (1, asked)


def test_a_keyed_batch_with_an_open_item_is_sent_again_whole(place: Place) -> None:
    partly, wholly = Batched([Found(1), Unreachable()]), Batched([Found(1), Found(2)])
    made = place.effect(contracts.Keyed(window=DAY, batch=Batch.PER_ITEM_RESULT), Batched[int], [partly, wholly])
    assert place.perform(made) == wholly
    assert [call.key for call in place.calls] == [place.calls[0].key] * 2


def test_not_executed_is_raised(place: Place) -> None:
    """Nobody wants it any more when it could first be sent: the environment was down until then."""
    brief = contracts.Keyed(window=DAY, valid_for=timedelta(seconds=1))
    made = place.effect(brief, int, [ReplyWas(NotSent())])
    with pytest.raises(errors.RunFailed, match="NotExecuted"):
        place.perform(made)
    assert place.settled().outcome is OutcomeKind.NOT_EXECUTED
    assert place.settled().row == "never-sent"
    assert place.intent().valid_until_us == place.intent().at_us + 1_000_000


def test_what_lapsed_after_it_may_have_left_is_closed(place: Place) -> None:
    brief = contracts.CoTransactional(close=True, valid_for=timedelta(seconds=1))
    with pytest.raises(errors.RunFailed, match="NotExecuted"):
        place.perform(place.effect(brief, int, [TimeoutError()]))
    assert place.settled().row == "refused-for-ever"


@pytest.mark.parametrize(("after", "sent"), [(timedelta(0), False), (timedelta(seconds=1), True)])
@pytest.mark.parametrize("brief", [True, False])
def test_a_call_may_say_itself_until_when_it_is_wanted(place: Place, after: timedelta, sent: bool, brief: bool) -> None:
    """An approval that ends at a moment: one that has ended buys nothing. A contract may only shorten it."""
    made = place.effect(contracts.Keyed(window=DAY, valid_for=timedelta(days=1) if brief else None), int, [7])
    until = moment(place.clock.wall_us()) + after

    def bound() -> Any:
        return made().until(until)

    if sent:
        assert place.perform(bound) == 7
    else:
        with pytest.raises(errors.RunFailed, match="NotExecuted"):
            place.perform(bound)
    assert len(place.calls) == sent
    assert place.intent().valid_until_us == instant_us(until)
    assert made().until(until).fingerprint == made().fingerprint


def test_a_call_with_an_end_that_nobody_performs_is_said_once() -> None:
    """And one that is performed is not: the copy takes the debt over."""
    end = datetime(2100, 1, 1, tzinfo=UTC)

    @effect(contracts.Opaque())
    def act(call: Call) -> None: ...

    @workflow
    def forgets(run: Run) -> None:
        act().until(end)

    @workflow
    def performs(run: Run) -> None:
        run.perform(act().until(end))

    with Engine("memory://", workflows=[forgets, performs]) as engine:
        engine.run("good", performs)  # a warning would be an error here
        with pytest.warns(RuntimeWarning, match="never performed") as said:
            engine.run("bad", forgets)
    assert len(said) == 1


def test_of_a_workflow_that_was_left_by_an_error_nothing_is_missed() -> None:
    """It did not come to what it would have performed."""

    @effect(contracts.Opaque())
    def act(call: Call) -> None: ...

    @workflow
    def child(run: Run) -> None: ...

    @workflow
    def waits(run: Run) -> None:
        later, beside = act(), child()
        run.wait_for("word", schema=str)
        run.perform(later)
        run.call_child(beside)

    @workflow
    def fails(run: Run) -> None:
        later = act()
        raise LookupError(later.effect.name)

    with Engine("memory://", workflows=[waits, fails, child]) as engine:  # a warning would be an error here
        with pytest.raises(errors.AnswerPending):
            engine.run("waits", waits)
        with pytest.raises(errors.RunFailed):
            engine.run("fails", fails)


def test_until_needs_a_time_zone() -> None:
    @effect(contracts.Opaque())
    def act(call: Call) -> None: ...

    with pytest.raises(ValueError, match="time zone"):
        act().until(datetime(2026, 1, 1))  # noqa: DTZ001


def test_in_doubt_parks(place: Place) -> None:
    with pytest.raises(errors.EffectInDoubt):
        place.perform(place.effect(contracts.Opaque(), int, [TimeoutError()]))


# -- reads -----------------------------------------------------------------------------------------------------------------


def test_a_read_is_repeated_until_it_answers_and_then_never_again(place: Place) -> None:
    made = place.effect(contracts.Read(), int, [TimeoutError(), TimeoutError(), 7, 8])
    assert place.perform(made) == 7
    assert place.perform(made) is None  # settled: the workflow does not even run
    assert len(place.calls) == 3


# -- what a call is told ---------------------------------------------------------------------------------------------------


def test_every_copy_carries_the_time_of_the_first_sending(place: Place) -> None:
    contract = contracts.FirstSent(window=timedelta(minutes=30), settle_window=timedelta(minutes=1))
    place.perform(place.effect(contract, int, [ReplyWas(NotSent()), TimeoutError(), TimeoutError(), 7]))
    never_left, first, *copies = [call.first_sent for call in place.calls]
    assert isinstance(first, datetime)
    assert never_left is not None
    assert never_left < first, "an attempt that never left was not the first sending"
    assert copies == [first, first]


def test_a_probe_knows_who_asks_and_its_answer_may_have_raised_the_fence(place: Place) -> None:
    """The same worker's own attempt is not below the fence that it raises itself."""
    contract = contracts.Probeable(enforced=Enforced.EPOCH, lookup=Lookup(deletion=Deletion.VISIBLE))
    made = place.effect(contract, int, [TimeoutError()], probed=[Absent(raised="0.1")])
    with pytest.raises(errors.Unresolved):
        place.perform(made, budget=Budget(max_wait=timedelta(minutes=1)))
    assert {call.epoch for call in place.asked} == {"0.1"}
    assert {call.first_sent for call in place.asked} == {None}
    assert len(place.calls) == 1


def test_a_recoverer_raises_the_fence_and_sends_again(place: Place) -> None:
    contract = contracts.Probeable(enforced=Enforced.EPOCH, lookup=Lookup(deletion=Deletion.VISIBLE))
    made = place.effect(contract, int, [TimeoutError(), 7], probed=[Absent(raised="0.1"), Absent(raised="0.2")])
    with pytest.raises(errors.Unresolved):
        place.perform(made, budget=Budget(max_wait=timedelta(minutes=1), probes=20))
    place.clock.advance(timedelta(minutes=21))
    assert place.perform(made) == 7
    assert [call.epoch for call in place.calls] == ["0.1", "0.2"]


# -- keys ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "fits"), [("k" * 40, True), ("k" * 41, False)])
def test_a_key_that_its_carrier_cannot_hold_is_refused_before_anything_is_recorded(place: Place, key: str, fits: bool) -> None:
    made = place.effect(contracts.Keyed(window=DAY, key_length_max=40), int, [7])
    if fits:
        assert place.perform(made, key=key) == 7
        return
    with pytest.raises(errors.RecoveryError, match="at most 40 characters"):
        place.perform(made, key=key)
    assert place.calls == []


def test_a_derived_key_that_does_not_fit_asks_for_one_that_does(place: Place) -> None:
    made = place.effect(contracts.Keyed(window=DAY, key_length_max=20), int, [7])
    with pytest.raises(errors.RecoveryError, match="pass key="):
        place.perform(made)
    assert place.calls == []


def test_attempt_gives_a_rejection_as_a_value() -> None:
    @effect(KEYED, rejects=(OutOfStock,))
    def act(call: Call, *, fail: bool) -> int:
        if fail:
            raise OutOfStock(sku="A")
        return 1

    got: list[Any] = []

    @workflow
    def both(run: Run) -> None:
        got.extend([run.attempt(act(fail=False)), run.attempt(act(fail=True))])

    with Engine("memory://", workflows=[both]) as engine:
        engine.run("r", both)
    assert got == [Applied(1), Rejected(OutOfStock(sku="A"))]
