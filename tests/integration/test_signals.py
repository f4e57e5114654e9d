"""Waiting for people, as a user of both engines meets it: answers, approvals, topics, and who is told what."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from recovery import errors
from recovery.clocks import SystemClock
from recovery.core.entries import ANSWER, LAPSED, UNFIT, WAIT, Intent, Status
from recovery.core.errors import ExitCode
from recovery.core.instants import moment
from recovery.core.policy import Budget
from recovery.definitions.effect import Effect
from recovery.engine.draining import waits_for
from recovery.ports import Delivery, Journal, Message
from recovery.storage import open_journal
from recovery.storage.memory import MemoryJournal

from .desk import Desk
from .world import QUICK, Shop, keyed

MINUTE = timedelta(minutes=1)
Steps = Generator[Any, Any, Any]


@dataclass(frozen=True)
class Approval:
    approved: bool
    note: str = ""


YES, NO = Approval(True), Approval(False, "too expensive")


PLACES = [("sqlite", "async"), ("postgresql", "sync")]
"""A sample, for the sake of time: the scenarios are played on each store in both colours, and on memory the explorer lets people speak anywhere."""


@pytest.fixture(params=PLACES, ids="-".join)
def place(request: pytest.FixtureRequest) -> tuple[str, str]:
    store, colour = request.param
    return store if store == "memory" else request.getfixturevalue(
        {"sqlite": "sqlite_url", "postgresql": "postgres_url"}[store]
    ), colour


@pytest.fixture
def colour(place: tuple[str, str]) -> str:
    return place[1]


@pytest.fixture
def journal(place: tuple[str, str]) -> Iterator[Journal]:
    opened = open_journal("memory://" if place[0] == "memory" else place[0])
    yield opened
    opened.close()


def ask(run: Any) -> Steps:
    answer = yield run.wait_for("approval", schema=Approval)
    return [answer.approved, answer.note]


def effect_of(shop: Shop, colour: str) -> Effect[..., int]:
    return shop.effect(keyed()) if colour == "sync" else shop.async_effect(keyed())


# -- one answer --------------------------------------------------------------------------------------------------------


def test_a_run_waits_without_its_worker_and_goes_on_with_the_answer(journal: Journal, colour: str) -> None:
    desk = Desk(journal, colour, ask)
    pending = desk.start("ask")
    assert isinstance(pending, errors.AnswerPending)
    assert pending.exit_code is ExitCode.WAITING
    row = journal.find("r")
    assert row is not None
    assert (row.status, row.owner, row.reason, row.next_look_us) == (Status.WAITING, None, "the answer to approval", None)
    [open_] = desk.waits("r")
    assert (open_.step, open_.name, open_.type, open_.said_by) == ("approval#1", "approval", "Approval", "")

    told = desk.signal("r", "approval", YES, by="ann")
    assert (told.step, told.waited_for, told.repeated) == ("approval#1", True, False)
    assert desk.waits("r")[0].said_by == "ann"
    row = journal.find("r")
    assert row is not None
    assert row.next_look_us == told.at_us
    assert desk.start("ask") == [True, ""]
    assert desk.start("ask") == [True, ""]
    assert desk.waits("r") == ()


def test_a_wait_says_itself_once_however_often_it_is_looked_at(journal: Journal, colour: str) -> None:
    desk = Desk(journal, colour, ask)
    desk.start("ask")
    before = desk.history("r")
    assert desk.recover("r").exit_code is ExitCode.WAITING
    assert desk.recover("r").status is Status.WAITING
    assert desk.history("r") == before


def test_the_first_answer_wins_and_the_second_is_told_of_it(journal: Journal, colour: str) -> None:
    desk = Desk(journal, colour, ask)
    desk.start("ask")
    desk.signal("r", "approval", YES, by="ann")
    with pytest.raises(errors.SignalRefused, match=r"answered by ann .* with \{\"approved\":true"):
        desk.signal("r", "approval", NO, by="bob")
    assert desk.start("ask") == [True, ""]


def test_a_late_answer_is_refused_by_a_run_that_goes_on(journal: Journal, colour: str) -> None:
    def ask_twice(run: Any) -> Steps:
        yield run.wait_for("approval", schema=Approval)
        return (yield run.wait_for("delivery", schema=str))

    desk = Desk(journal, colour, ask_twice)
    desk.start("ask_twice")
    desk.signal("r", "approval", YES, by="ann")
    desk.recover("r")
    with pytest.raises(errors.SignalRefused, match="answered by ann"):
        desk.signal("r", "approval", NO, by="bob")
    desk.signal("r", "delivery", "tuesday", by="bob")
    assert desk.start("ask_twice") == "tuesday"


def test_who_does_not_hear_that_his_answer_was_taken_says_it_again(journal: Journal, colour: str) -> None:
    desk = Desk(journal, colour, ask)
    desk.start("ask")
    first = desk.signal("r", "approval", YES, by="ann")
    again = desk.signal("r", "approval", YES, by="ann")
    assert (again.number, again.at_us, again.repeated) == (first.number, first.at_us, True)
    desk.recover("r")
    assert desk.signal("r", "approval", YES, by="ann").repeated


def test_a_finished_run_and_an_unknown_one_refuse(journal: Journal, colour: str) -> None:
    desk = Desk(journal, colour, ask)
    desk.start("ask")
    desk.signal("r", "approval", YES, by="ann")
    desk.start("ask")
    with pytest.raises(errors.SignalRefused, match="the run is completed"):
        desk.signal("r", "other", YES, by="ann")
    with pytest.raises(errors.SignalRefused, match="the run is completed"):
        desk.send("r", "chat", "hello", by="ann")
    for speak in (desk.signal, desk.send):
        with pytest.raises(errors.RunNotFound):
            speak("nobody", "approval", YES, by="ann")


def test_an_answer_that_comes_before_its_wait_is_kept_for_it(journal: Journal, colour: str) -> None:
    def first_other(run: Any) -> Steps:
        yield run.wait_for("other", schema=str)
        answer = yield run.wait_for("approval", schema=Approval)
        return answer.approved

    desk = Desk(journal, colour, first_other)
    desk.start("first_other")
    assert not desk.signal("r", "approval", YES, by="ann").waited_for
    assert desk.recover("r").exit_code is ExitCode.WAITING
    with pytest.raises(errors.SignalRefused, match="answered by ann"):
        desk.signal("r", "approval", NO, by="bob")
    desk.signal("r", "other", "now", by="ann")
    assert desk.start("first_other") is True


def test_a_message_that_nobody_waits_for_does_not_make_a_run_due_for_ever(journal: Journal, colour: str) -> None:
    desk = Desk(journal, colour, ask)
    desk.start("ask")
    desk.signal("r", "something-else", 1, by="ann")
    due = journal.find("r")
    assert due is not None
    assert due.next_look_us is not None
    desk.recover("r")
    rested = journal.find("r")
    assert rested is not None
    assert (rested.status, rested.next_look_us) == (Status.WAITING, None)
    before = desk.history("r")
    desk.recover("r")
    assert desk.history("r") == before


def test_two_waits_of_one_name_are_two_answers(journal: Journal, colour: str) -> None:
    def twice(run: Any) -> Steps:
        one = yield run.wait_for("approval", schema=Approval)
        two = yield run.wait_for("approval", schema=Approval)
        return [one.approved, two.approved]

    desk = Desk(journal, colour, twice)
    desk.start("twice")
    desk.signal("r", "approval", YES, by="ann")
    desk.signal("r", "approval#2", NO, by="bob")  # early, and by its step
    assert desk.start("twice") == [True, False]


def test_a_step_that_is_no_wait_is_named(journal: Journal, colour: str) -> None:
    def decide(run: Any) -> Steps:
        yield run.decide("plan", lambda: 1)
        return (yield run.wait_for("approval", schema=Approval))

    desk = Desk(journal, colour, decide)
    desk.start("decide")
    with pytest.raises(errors.SignalRefused, match="waits for nothing"):
        desk.signal("r", "plan#1", YES, by="ann")


# -- what fits ---------------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused_where_the_workflow_is_known(journal: Journal, colour: str) -> None:
    desk = Desk(journal, colour, ask)
    desk.start("ask")
    with pytest.raises(errors.ValueNotStorable, match=r"value\.approved"):
        desk.signal("r", "approval", {"approved": "perhaps"}, by="ann")
    assert journal.inbox("r") == []


def test_what_does_not_fit_and_comes_all_the_same_is_recorded_and_answers_nothing(journal: Journal, colour: str) -> None:
    desk, stranger = Desk(journal, colour, ask), Desk(journal, colour)
    desk.start("ask")
    stranger.signal("r", "approval", {"approved": "perhaps"}, by="ann")
    assert desk.recover("r").exit_code is ExitCode.WAITING
    [note] = desk.decisions(UNFIT)
    assert note.value["by"] == "ann"
    [open_] = desk.waits("r")
    assert "value.approved" in open_.unfit[0]
    stranger.signal("r", "approval", {"approved": True}, by="bob")
    assert desk.start("ask") == [True, ""]
    assert desk.start("ask") == [True, ""]


def test_only_those_may_answer_who_were_named(journal: Journal, colour: str) -> None:
    def guarded(run: Any) -> Steps:
        answer = yield run.wait_for("approval", schema=Approval, by=["shift lead"])
        return answer.approved

    desk = Desk(journal, colour, guarded)
    desk.start("guarded")
    assert desk.waits("r")[0].by == ("shift lead",)
    with pytest.raises(errors.SignalRefused, match="by shift lead"):
        desk.signal("r", "approval", YES, by="ann")
    desk.signal("r", "approval", YES, by="shift lead")
    assert desk.start("guarded") is True


def test_an_early_answer_by_the_wrong_person_leaves_room_for_the_right_one(journal: Journal, colour: str) -> None:
    def guarded(run: Any) -> Steps:
        yield run.wait_for("other", schema=str)
        answer = yield run.wait_for("approval", schema=Approval, by=["shift lead"])
        return answer.approved

    desk = Desk(journal, colour, guarded)
    desk.start("guarded")
    desk.signal("r", "approval", NO, by="ann")
    desk.signal("r", "other", "", by="ann")
    assert desk.recover("r").exit_code is ExitCode.WAITING
    assert len(desk.decisions(UNFIT)) == 1
    desk.signal("r", "approval", YES, by="shift lead")
    assert desk.start("guarded") is True


# -- time --------------------------------------------------------------------------------------------------------------


def timed(run: Any) -> Steps:
    try:
        answer = yield run.wait_for("approval", schema=Approval, timeout=10 * MINUTE)
    except errors.WaitLapsed:
        return "lapsed"
    return answer.approved


def test_a_wait_that_nobody_answers_ends_when_it_was_said_to(journal: Journal, colour: str) -> None:
    desk = Desk(journal, colour, timed)
    pending = desk.start("timed")
    assert isinstance(pending, errors.AnswerPending)
    row = journal.find("r")
    assert row is not None
    assert moment(row.next_look_us or 0) == moment(desk.decisions(WAIT)[0].at_us) + 10 * MINUTE
    desk.clock.advance(9 * MINUTE)
    assert isinstance(desk.start("timed"), errors.AnswerPending)
    assert desk.plan("r").exit_code is ExitCode.WAITING
    desk.clock.advance(MINUTE)
    plan = desk.plan("r")
    assert (plan.exit_code, plan.then) == (
        ExitCode.UNRESOLVED,
        "then the workflow would go on without an answer to approval, whose time is over",
    )
    with pytest.raises(errors.SignalRefused, match="the time for it ended"):
        desk.signal("r", "approval", YES, by="ann")
    assert desk.start("timed") == "lapsed"
    assert desk.start("timed") == "lapsed"
    assert len(desk.decisions(LAPSED)) == 1


def test_an_answer_in_time_counts_however_late_it_is_looked_at(journal: Journal, colour: str) -> None:
    desk = Desk(journal, colour, timed)
    desk.start("timed")
    desk.clock.advance(10 * MINUTE - timedelta(microseconds=1))
    desk.signal("r", "approval", YES, by="ann")
    desk.clock.advance(timedelta(hours=20))
    assert desk.start("timed") is True


def test_a_default_takes_the_place_of_an_answer(journal: Journal, colour: str) -> None:
    def lenient(run: Any) -> Steps:
        return (yield run.wait_for("approval", schema=Approval, timeout=MINUTE, default=None))

    desk = Desk(journal, colour, lenient)
    desk.start("lenient")
    desk.clock.advance(MINUTE)
    assert desk.start("lenient") is None


def test_an_answer_and_the_end_of_its_wait_cannot_both_come_first(journal: Journal, colour: str) -> None:
    """The run finds nothing and is about to note that nobody answered, when an answer of the last moment gets in."""
    desk = Desk(journal, colour, timed)
    desk.start("timed")
    inside, late = desk.clock.wall_us(), {"said": False}

    class Between:
        """The store, with somebody who speaks right before the lapse is noted."""

        def __getattr__(self, name: str) -> Any:
            return getattr(journal, name)

        def deliver(self, message: Message) -> Delivery:
            if message.kind == "lapse" and not late["said"]:
                late["said"] = True
                at = message.at_us - 1
                spoken = Message(run_id="r", kind="signal", name="approval", slot="approval#1", body='{"value":{"approved":true}}',
                                 by="ann", at_us=at, token="t")  # fmt: skip
                journal.deliver(spoken)
            return journal.deliver(message)

    racing = Desk(Between(), colour, timed, clock=desk.clock)  # type: ignore[arg-type]  # a journal in all but name
    desk.clock.advance(10 * MINUTE)
    assert racing.start("timed") is True
    assert late["said"]
    assert desk.clock.wall_us() > inside
    assert len(desk.decisions(ANSWER)) == 1


def test_who_comes_after_the_end_was_noted_is_refused_by_the_store(journal: Journal, colour: str) -> None:
    """His clock is behind, so that he believes to be in time."""
    desk = Desk(journal, colour, timed)
    desk.start("timed")
    slow = Desk(journal, colour)  # its clock stands
    desk.clock.advance(10 * MINUTE)

    def held(run: Any) -> Steps:
        yield run.wait_for("approval", schema=Approval, timeout=10 * MINUTE, default=None)
        return (yield run.wait_for("second", schema=str))

    desk = Desk(journal, colour, held, clock=desk.clock)
    desk.start("held", run_id="h")
    slow_clock = Desk(journal, colour, clock=type(desk.clock)())
    desk.clock.advance(10 * MINUTE)
    desk.recover("h")
    with pytest.raises(errors.SignalRefused, match="the time for it ended"):
        slow_clock.signal("h", "approval", YES, by="ann")
    assert slow.waits("h")[0].name == "second"


def test_a_call_that_may_wait_so_long_waits_for_the_end(journal: Journal, colour: str) -> None:
    desk = Desk(journal, colour, timed, budget=Budget(max_wait=10 * MINUTE))
    assert desk.start("timed") == "lapsed"


# -- approvals ---------------------------------------------------------------------------------------------------------


def buying(shop: Shop, colour: str, **how: Any) -> Callable[[Any], Steps]:
    reserve = effect_of(shop, colour)

    def buy(run: Any) -> Steps:
        call = reserve(units=2)
        answer = yield run.wait_for("approval", schema=Approval, about=call, **how)
        if not answer.approved:
            return "declined"
        try:
            return (yield run.perform(call))
        except errors.NotExecuted:
            return "too late"

    return buy


def test_an_approval_names_the_call_that_it_approves(journal: Journal, colour: str) -> None:
    shop = Shop()
    desk = Desk(journal, colour, buying(shop, colour))
    desk.start("buy")
    [open_] = desk.waits("r")
    assert (open_.effect, open_.arguments) == ("reserve", {"units": 2})
    for about in ("", open_.about[:7], "0" * 64):
        with pytest.raises(errors.SignalRefused, match="must name the call"):
            desk.signal("r", "approval", YES, by="ann", about=about)
    desk.signal("r", "approval", YES, by="ann", about=open_.about[:8])
    assert desk.start("buy") == 1
    assert dict(shop.executions) == {next(iter(shop.executions)): 1}


def test_a_refusal_leaves_nothing_bound(journal: Journal, colour: str) -> None:
    shop = Shop()
    desk = Desk(journal, colour, buying(shop, colour))
    desk.start("buy")
    desk.signal("r", "approval", NO, by="ann", about=desk.waits("r")[0].about)
    assert desk.start("buy") == "declined"
    assert not shop.sent


@pytest.mark.parametrize("how", [{"valid_for": 10 * MINUTE}, {}])
def test_what_was_approved_for_ten_minutes_is_not_bought_after_twenty_hours(
    journal: Journal, colour: str, how: dict[str, Any]
) -> None:
    shop = Shop(down=True)
    desk = Desk(journal, colour, buying(shop, colour, **how))
    desk.start("buy")
    until = None if how else moment(desk.clock.wall_us()) + 10 * MINUTE
    desk.signal("r", "approval", YES, by="ann", about=desk.waits("r")[0].about, valid_until=until)
    assert isinstance(desk.start("buy"), errors.Unresolved)
    [intent] = [entry for entry in desk.history("r") if isinstance(entry, Intent)]
    assert intent.valid_until_us is not None
    desk.clock.advance(timedelta(hours=20))
    shop.down = False
    assert desk.start("buy") == "too late"
    assert not shop.sent


def test_an_approval_lets_one_call_go_by_it(journal: Journal, colour: str) -> None:
    shop = Shop()
    reserve = effect_of(shop, colour)

    def twice(run: Any) -> Steps:
        yield run.wait_for("approval", schema=Approval, about=reserve(units=2), valid_for=MINUTE)
        yield run.perform(reserve(units=2))
        return (yield run.perform(reserve(units=2)))

    desk = Desk(journal, colour, twice)
    desk.start("twice")
    desk.signal("r", "approval", YES, by="ann", about=desk.waits("r")[0].about)
    desk.start("twice")
    until = [entry.valid_until_us is None for entry in desk.history("r") if isinstance(entry, Intent)]
    assert until == [False, True]


def test_another_call_than_the_one_that_was_asked_about_is_another_wait(journal: Journal, colour: str) -> None:
    shop, plan = Shop(), {"units": 2}
    reserve = effect_of(shop, colour)

    def drifting(run: Any) -> Steps:
        return (yield run.wait_for("approval", schema=Approval, about=reserve(units=plan["units"])))

    desk = Desk(journal, colour, drifting)
    desk.start("drifting")
    plan["units"] = 3
    diverged = desk.start("drifting")
    assert isinstance(diverged, errors.Diverged)
    assert "a wait about" in str(diverged)


# -- topics ------------------------------------------------------------------------------------------------------------


def chat(run: Any) -> Steps:
    heard = []
    while (line := (yield run.receive("chat", schema=str))) != "bye":
        heard.append(line)
    return heard


class Counted(MemoryJournal):
    """Says how many messages were read."""

    read = 0

    def inbox(self, run_id: str, after: int = 0) -> list[Message]:
        found = super().inbox(run_id, after)
        self.read += len(found)
        return found


def test_an_inbox_of_many_messages_is_read_once_and_not_from_each_of_them_on() -> None:
    journal, many = Counted(), 40
    desk = Desk(journal, "sync", chat)
    desk.start("chat")
    for number in range(many - 1):
        desk.send("r", "chat", str(number), by="ann")
    desk.send("r", "chat", "bye", by="ann")
    journal.read = 0
    assert desk.start("chat") == [str(number) for number in range(many - 1)]
    assert journal.read <= 3 * many, "once for its messages, and before and behind them for orders"


def test_messages_of_a_topic_are_taken_in_order_and_once(journal: Journal, colour: str) -> None:
    desk = Desk(journal, colour, chat)
    desk.start("chat")
    for number, line in enumerate(["one", "two"], 1):
        assert desk.send("r", "chat", line, by="ann").number == number
    assert desk.recover("r").exit_code is ExitCode.WAITING
    assert desk.send("r", "chat", "two", by="ann").number == 3  # said again on purpose
    assert desk.send("r", "chat", "three", by="ann", token="t").number == 4
    assert desk.send("r", "chat", "three", by="ann", token="t").repeated
    desk.send("r", "chat", "bye", by="ann")
    assert desk.start("chat") == ["one", "two", "two", "three"]
    assert desk.start("chat") == ["one", "two", "two", "three"]


def test_a_message_that_does_not_fit_is_recorded_and_passed_over(journal: Journal, colour: str) -> None:
    desk = Desk(journal, colour, chat)
    desk.start("chat")
    desk.send("r", "chat", 7, by="ann")
    desk.send("r", "chat", "hello", by="ann")
    desk.send("r", "chat", "bye", by="ann")
    assert desk.start("chat") == ["hello"]
    assert len(desk.decisions(UNFIT)) == 1


def test_a_topic_is_not_answered_and_a_wait_is_not_sent_to(journal: Journal, colour: str) -> None:
    desk = Desk(journal, colour, chat)
    desk.start("chat")
    with pytest.raises(errors.SignalRefused, match="it is a topic"):
        desk.signal("r", "chat", "hello", by="ann")


def test_nobody_has_to_speak_in_time(journal: Journal, colour: str) -> None:
    def patient(run: Any) -> Steps:
        one = yield run.receive("chat", schema=str, timeout=MINUTE, default="nothing")
        two = yield run.receive("chat", schema=str)
        return [one, two]

    desk = Desk(journal, colour, patient)
    desk.start("patient")
    desk.clock.advance(MINUTE)
    desk.send("r", "chat", "late", by="ann")
    assert desk.start("patient") == ["nothing", "late"]


# -- races and branches ------------------------------------------------------------------------------------------------


def test_an_answer_between_the_look_and_the_wait_is_not_overlooked(journal: Journal, colour: str) -> None:
    """The run has looked and found nothing; the answer comes, and wakes nobody, since nobody waits yet; then the wait becomes durable."""

    class Between:
        spoken = False

        def __getattr__(self, name: str) -> Any:
            return getattr(journal, name)

        def append(self, batch: Any) -> Any:
            if not Between.spoken and batch[0].status is Status.WAITING:
                Between.spoken = True
                Desk(journal, colour).signal("r", "approval", YES, by="ann")
            return journal.append(batch)

    desk = Desk(Between(), colour, ask)  # type: ignore[arg-type]  # a journal in all but name
    assert desk.start("ask") == [True, ""]
    assert Between.spoken


def test_an_answer_to_a_branch_that_rests_already_goes_on_at_once(journal: Journal, colour: str) -> None:
    """The first branch has let go; while the second one works, the answer comes, and the second one's append moves the next look back."""
    spoken: list[int] = []

    def work() -> int:
        if not spoken:
            spoken.append(1)
            Desk(journal, colour).signal("r", "gather#1/0/approval#1", YES, by="ann")
        return 7

    def both(run: Any) -> Steps:
        if colour == "sync":
            return (
                yield list(
                    run.gather(
                        lambda b: b.wait_for("approval", schema=Approval).approved, lambda b: b.decide("work", work), limit=1
                    )
                )
            )

        async def first(branch: Any) -> bool:
            return bool((await branch.wait_for("approval", schema=Approval)).approved)

        return list((yield run.gather(first, lambda b: b.decide("work", work), limit=1)))

    desk = Desk(journal, colour, both)
    assert desk.start("both") == [True, 7]


@pytest.mark.parametrize("order", [("asks", "sleeps"), ("sleeps", "asks")], ids="-".join)
def test_a_run_that_waits_for_a_time_too_goes_on_by_itself_whichever_branch_came_first(
    journal: Journal, colour: str, order: tuple[str, ...]
) -> None:
    branches = {"asks": lambda branch: branch.wait_for("approval", schema=Approval), "sleeps": lambda branch: branch.sleep(MINUTE)}

    def both(run: Any) -> Steps:
        return (yield run.gather(*(branches[name] for name in order), limit=1))

    desk = Desk(journal, colour, both)
    assert desk.start("both").exit_code is ExitCode.UNRESOLVED
    row = journal.find("r")
    assert row is not None
    assert waits_for(row) is desk.recover("r").exit_code is ExitCode.UNRESOLVED


def test_waits_of_one_name_in_two_branches_are_told_apart_by_their_steps(journal: Journal, colour: str) -> None:
    def both(run: Any) -> Steps:
        if colour == "sync":
            return (yield list(run.gather(*[lambda b: b.wait_for("approval", schema=Approval).approved] * 2, limit=1)))

        async def one(branch: Any) -> bool:
            return bool((await branch.wait_for("approval", schema=Approval)).approved)

        return list((yield run.gather(one, one, limit=1)))

    desk = Desk(journal, colour, both)
    desk.start("both")
    with pytest.raises(errors.SignalRefused, match="several waits have that name"):
        desk.signal("r", "approval", YES, by="ann")
    desk.signal("r", "gather#1/1/approval#1", NO, by="ann")
    desk.signal("r", "gather#1/0/approval#1", YES, by="ann")
    assert desk.start("both") == [True, False]


def test_a_call_may_look_for_a_while(colour: str, tmp_path: Any) -> None:
    """An answer that comes while the call still looks is taken at once; here another engine gives it at the first look that finds nothing."""
    journal = open_journal(f"sqlite:///{tmp_path / 'j.db'}")

    class Speaking:
        looks = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(journal, name)

        def inbox(self, run_id: str, after: int = 0) -> list[Message]:
            Speaking.looks += 1
            if Speaking.looks == 4:
                Desk(journal, colour).signal("r", "approval", YES, by="ann")
            return journal.inbox(run_id, after)

    desk = Desk(Speaking(), colour, ask, clock=SystemClock(), budget=Budget(max_wait=timedelta(0), max_answer_wait=10 * MINUTE))  # type: ignore[arg-type]
    assert desk.start("ask") == [True, ""]
    journal.close()


# -- misuse ------------------------------------------------------------------------------------------------------------


def test_a_wait_that_makes_no_sense_is_refused_before_anything_happens(journal: Journal, colour: str) -> None:
    wrong: list[dict[str, Any]] = [
        {"by": "ann"}, {"by": []}, {"about": 1}, {"valid_for": MINUTE}, {"valid_until": datetime.fromisoformat("2030-01-01")},
    ]  # fmt: skip
    for number, how in enumerate(wrong):

        def bad(run: Any, how: dict[str, Any] = how) -> Steps:
            return (yield run.wait_for("approval", schema=Approval, **how))

        desk = Desk(journal, colour, bad)
        assert isinstance(desk.start("bad", run_id=f"r{number}"), errors.DefinitionError)
        assert len(desk.history(f"r{number}")) == 1
    for by in ("", "a\nb"):
        with pytest.raises(errors.DefinitionError):
            Desk(journal, colour).signal("r0", "approval", YES, by=by)
    for words in ({"about": "\ud800"}, {"token": "\ud800"}, {"token": "a\0b"}):
        with pytest.raises(errors.DefinitionError, match="keep"):
            Desk(journal, colour).signal("r0", "approval", YES, **{"by": "ann"} | words)


def test_a_wait_is_not_another_kind_of_step_on_replay(journal: Journal, colour: str) -> None:
    mode = {"queue": False}

    def changing(run: Any) -> Steps:
        if mode["queue"]:
            return (yield run.receive("approval", schema=str))
        return (yield run.wait_for("approval", schema=str))

    desk = Desk(journal, colour, changing, budget=QUICK)
    desk.start("changing")
    mode["queue"] = True
    diverged = desk.start("changing")
    assert isinstance(diverged, errors.Diverged)
    assert "the next message of approval" in str(diverged)


# -- orders and scopes -------------------------------------------------------------------------------------------------


def test_a_run_that_waits_can_be_cancelled_and_is_not_answered_after_that(journal: Journal, colour: str) -> None:
    desk = Desk(journal, colour, ask)
    desk.start("ask")
    assert desk.cancel("r", by="ann", reason="nobody wants it").status is Status.CANCELLED
    with pytest.raises(errors.SignalRefused, match="the run is cancelled"):
        desk.signal("r", "approval", YES, by="ann")


def test_an_answer_to_a_held_run_is_kept(journal: Journal, colour: str) -> None:
    desk = Desk(journal, colour, ask)
    desk.start("ask")
    desk.hold("r", by="ann", reason="a look")
    desk.signal("r", "approval", YES, by="ann")
    assert isinstance(desk.start("ask"), errors.RunHeld)
    desk.release("r", by="ann", reason="done")
    assert desk.start("ask") == [True, ""]


def test_a_new_generation_asks_again_and_hears_what_was_said_again(journal: Journal, colour: str) -> None:
    def both(run: Any) -> Steps:
        first = yield run.receive("notes", schema=str)
        answer = yield run.wait_for("approval", schema=Approval)
        last = yield run.wait_for("last", schema=str)
        return [first, answer.approved, last]

    desk = Desk(journal, colour, both)
    desk.start("both")
    desk.send("r", "notes", "one", by="ann")
    desk.recover("r")
    desk.signal("r", "approval", NO, by="ann")
    desk.recover("r")
    desk.restart("r", "notes#1", by="ann", reason="once more")
    assert desk.recover("r").exit_code is ExitCode.WAITING
    assert [one.step for one in desk.waits("r")] == ["approval#1@2"]
    desk.signal("r", "approval", YES, by="bob")
    desk.signal("r", "last", "x", by="bob")
    assert desk.start("both") == ["one", True, "x"]


def test_a_fork_takes_over_what_was_answered_and_has_an_inbox_of_its_own(journal: Journal, colour: str) -> None:
    def notes(run: Any) -> Steps:
        first = yield run.receive("notes", schema=str)
        second = yield run.receive("notes", schema=str)
        return [first, second]

    desk = Desk(journal, colour, notes)
    desk.start("notes")
    desk.send("r", "notes", "one", by="ann")
    desk.recover("r")
    desk.fork("r", "f", at="notes#2", by="ann", reason="what if")
    assert desk.recover("f").exit_code is ExitCode.WAITING
    desk.send("f", "notes", "two", by="ann")
    assert desk.recover("f").result() == ["one", "two"]


def test_a_deadline_ends_a_wait_in_its_scope(journal: Journal, colour: str) -> None:
    def bounded(run: Any) -> Steps:
        scope = yield run.deadline(10 * MINUTE)
        try:
            with scope:
                yield run.wait_for("approval", schema=Approval, timeout=20 * MINUTE)
        except errors.DeadlinePassed:
            return "passed"
        return "answered"

    desk = Desk(journal, colour, bounded)
    desk.start("bounded")
    desk.clock.advance(10 * MINUTE)
    with pytest.raises(errors.SignalRefused, match="the time for it ended"):
        desk.signal("r", "approval", YES, by="ann")
    assert desk.start("bounded") == "passed"
    assert desk.start("bounded") == "passed"
