"""When a proof of absence is on its way: only where it will be one, and at its very microsecond. Found by mutants that survived."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recovery.core.contracts import Contract, Deletion, Enforced, Lookup
from recovery.core.facts import Absence, Close
from tests.unit.core.making import CLOSABLE, ERROR, PROBEABLE, TIMEOUT, H, M, S, Story, quiet, sent

DEADLINE = replace(PROBEABLE, enforced=Enforced.DEADLINE)
LAG = 5 * S
PROOF = TIMEOUT + ERROR
"""After it the environment's own clock, however wrong, has passed the carried deadline."""


def looks(lookup: Lookup) -> Contract:
    return replace(DEADLINE, lookup=lookup)


def early() -> Story:
    return sent().probe(S, "absent", as_of_us=S)


def test_it_is_waited_for_as_long_as_the_look_up_lags() -> None:
    assert early().conclude(2 * S, looks(Lookup(lag_us=LAG))).next_look_us == PROOF + LAG + 1


@pytest.mark.parametrize(
    "lookup",
    [Lookup(authoritative=False), Lookup(marker_reliable=False), Lookup(deletion=Deletion.INVISIBLE)],
)
def test_it_is_not_waited_for_where_absence_never_is_final(lookup: Lookup) -> None:
    judgement = early().conclude(2 * S, looks(lookup))
    assert (judgement.facts.absence, judgement.next_look_us) == (Absence.PENDING, quiet(TIMEOUT) + 1)


@pytest.mark.parametrize("more", [0, 1])
def test_it_is_waited_for_only_if_it_comes_before_receipts_are_pruned(more: int) -> None:
    """The last question that can be final is asked one microsecond before the first receipt may be gone."""
    lookup = Lookup(lag_us=LAG, retention_us=PROOF + LAG + 1 + ERROR + more)
    judgement = early().conclude(2 * S, looks(lookup))
    expected = (Absence.MATURING, PROOF + LAG + 1) if more else (Absence.PENDING, quiet(TIMEOUT) + LAG + 1)
    assert (judgement.facts.absence, judgement.next_look_us) == expected


def test_the_latest_deadline_counts() -> None:
    story = sent().attempt(40 * S).probe(65 * S, "absent", as_of_us=65 * S)
    judgement = story.conclude(66 * S, DEADLINE)
    assert (judgement.row.number, judgement.next_look_us) == (38, 40 * S + PROOF + 1)
    assert story.probe(75 * S, "absent", as_of_us=70 * S + 1).row(75 * S, DEADLINE) == 32


def test_a_deadline_that_nobody_enforces_proves_nothing() -> None:
    assert early().conclude(2 * S, PROBEABLE).next_look_us == quiet(TIMEOUT) + 1


def test_one_answer_without_a_clock_shows_that_the_environment_tells_none() -> None:
    assert early().probe(2 * S, "absent").conclude(3 * S, DEADLINE).next_look_us == quiet(TIMEOUT) + 1


def test_only_an_absence_can_show_it_and_only_in_a_probe() -> None:
    silent = sent().probe(S, "indeterminate").probe(2 * S, "absent", as_of_us=2 * S)
    assert silent.conclude(3 * S, DEADLINE).next_look_us == PROOF + 1
    assert early().late_reply(2 * S, "absent", 1).conclude(3 * S, DEADLINE).next_look_us == PROOF + 1


def test_the_first_of_two_proofs_is_waited_for() -> None:
    """A tombstone too late to speak of the past bars copies from now on; the deadline comes only later."""
    contract = replace(CLOSABLE, window_us=M, enforced=Enforced.DEADLINE)
    at = 2 * H + S
    story = sent().attempt(2 * H).attempt(at, "close").closed(at).probe(at, "absent", as_of_us=at)
    judgement = story.conclude(at, contract)
    assert (judgement.facts.absence, judgement.next_look_us) == (Absence.MATURING, at + 1)


@pytest.mark.parametrize(("now", "close"), [(H - ERROR - 1, Close.AVAILABLE), (H - ERROR, Close.NONE)])
def test_a_record_lives_no_longer_than_its_window_and_its_retention(now: int, close: Close) -> None:
    assert sent().facts(now, replace(CLOSABLE, lookup=Lookup(retention_us=H))).close is close
    assert sent().facts(now, replace(CLOSABLE, window_us=H, lookup=Lookup(retention_us=9 * H))).close is close


def test_a_record_of_unknown_life_has_no_microsecond() -> None:
    unknown = replace(CLOSABLE, window_us=None, lookup=None, clock_error_us=0)
    assert sent().facts(0, unknown).close is Close.NONE
