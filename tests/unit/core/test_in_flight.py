"""An answer that a copy is at work is progress: it spends nothing while one may be at work, and counts like any other behind that."""

from __future__ import annotations

import pytest

from recovery.core.contracts import Contract
from recovery.core.policy import Budget
from recovery.core.timing import attempts_spent, probes_spent
from tests.unit.core.making import BUDGET, CLOSABLE, KEYED, PROBEABLE, TIMEOUT, H, M, S, Story, quiet, sent

UNTIL = quiet(M + TIMEOUT)
"""The last moment at which an attempt made at M may be at work: the one that meets the lock first may hold it itself."""


def locked(times: list[int], kind: str = "in_flight") -> Story:
    """A first attempt without a reply, then a re-send at each of these times that meets a copy at work."""
    story = sent()
    for at in times:
        story.attempt(at, "resend").reply(at, kind)
    return story


def every(seconds: int, until: int) -> list[int]:
    return list(range(M, until, seconds * S))


def test_work_that_is_locked_for_its_whole_settle_window_spends_one_attempt() -> None:
    story = locked(every(20, UNTIL))
    assert len(story.step.attempts) > 10 * BUDGET.attempts
    assert attempts_spent(story.step, KEYED) == 1
    assert story.row(UNTIL + M) == 30


@pytest.mark.parametrize(("at", "spent"), [(UNTIL - 1, 1), (UNTIL, 1), (UNTIL + 1, 2)])
def test_it_is_progress_up_to_the_moment_at_which_that_work_must_be_over(at: int, spent: int) -> None:
    story = locked([M, at])
    assert attempts_spent(story.step, KEYED) == spent


def test_behind_that_moment_it_ends_by_the_budget() -> None:
    """Bounded: an environment that never lets go of its lock is for a person."""
    late = [UNTIL + number * M for number in range(1, BUDGET.attempts)]
    assert locked([M, *late[:-1]]).row(late[-1] + H) == 30
    assert locked([M, *late]).row(late[-1] + H) == 39


def test_a_re_send_does_not_move_the_moment() -> None:
    """Else each question would make the work look younger, for ever."""
    story = locked([M, UNTIL - S, UNTIL + S])
    assert attempts_spent(story.step, KEYED) == 2


def test_other_work_after_an_answer_has_its_own_time() -> None:
    """The first work failed without effect, the re-send was accepted and is worked on in turn."""
    story = locked([M]).attempt(UNTIL, "resend").reply(UNTIL, "turned_away")
    story.attempt(UNTIL + M, "resend").reply(UNTIL + M, "in_flight").attempt(UNTIL + 2 * M, "resend").reply(
        UNTIL + 2 * M, "in_flight"
    )
    assert attempts_spent(story.step, KEYED) == 2  # the first, and the one that was turned away


@pytest.mark.parametrize(("kind", "spent"), [("unreachable", 3), ("turned_away", 3), ("not_sent", 2)])
def test_only_that_very_answer_is_free(kind: str, spent: int) -> None:
    story = locked([M]).attempt(2 * M, "resend").reply(2 * M, kind).attempt(UNTIL + M, "resend").reply(UNTIL + M, "in_flight")
    free = kind == "turned_away"  # what is seen after it is other work
    assert attempts_spent(story.step, KEYED) == spent - free


def test_an_attempt_with_another_reply_counts() -> None:
    story = locked([M]).late_reply(2 * M, "unreachable", 2)
    assert attempts_spent(story.step, KEYED) == 2


def test_questions_that_meet_a_copy_at_work_are_free_too() -> None:
    story = sent()
    for at in every(20, UNTIL - M):
        story.probe(at, "in_flight")
    assert (story.step.probes > 2 * BUDGET.probes, probes_spent(story.step, PROBEABLE)) == (True, 0)
    assert story.row(UNTIL + M, PROBEABLE) == 34
    story.probe(UNTIL + M, "in_flight").probe(UNTIL + 2 * M, "absent")
    assert probes_spent(story.step, PROBEABLE) == 2


def test_closes_that_meet_a_copy_at_work_are_free_too() -> None:
    story = sent()
    for at in every(60, 10 * M):
        story.attempt(at, "close").closed(at, "in_flight")
    assert (attempts_spent(story.step, CLOSABLE, closing=True), attempts_spent(story.step, CLOSABLE)) == (0, 1)
    assert story.row(10 * M, CLOSABLE, wanted=False) == 31


def test_without_an_attempt_there_is_no_work_of_ours_to_wait_for() -> None:
    """A restored journal: whose copy is at work is not known, so each answer counts."""
    story = Story().probe(M, "in_flight").probe(2 * M, "in_flight")
    assert probes_spent(story.step, PROBEABLE) == 2


def test_the_longest_settle_window_is_the_bound_that_a_contract_states() -> None:
    slow = Contract(kind=KEYED.kind, window_us=24 * H, settle_window_us=2 * H, clock_error_us=0)
    story = locked(every(30, 2 * H))
    assert story.row(2 * H, slow, budget=Budget(attempts=2)) == 30
    assert story.row(2 * H, KEYED, budget=Budget(attempts=2)) == 39


def test_a_reply_that_a_copy_is_at_work_takes_no_question_back() -> None:
    """Only what was asked can be forgiven: one question was answered, and it counts."""
    story = sent().probe(1, "absent").reply(2, "in_flight")
    assert probes_spent(story.step, PROBEABLE) == 1
