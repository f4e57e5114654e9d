"""What a window counts from, and what comes after it: counting from the first attempt is the careful reading of each value."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from recovery.core.contracts import AfterWindow, Contract, Kind, Lookup, WindowStart, check
from recovery.core.errors import DefinitionError
from recovery.core.timing import timing_of
from recovery.operators.forgetting import asked_until
from tests.unit.core.making import CLOSABLE, ERROR, KEYED, SETTLE, TIMEOUT, H, M, S, quiet, sent

DAY = 24 * H
NOT_AFTER = DAY - ERROR - SETTLE - TIMEOUT - 1


def ends(starts: WindowStart, completed: int, terminated: int, window: int = DAY) -> int:
    """When the environment really forgets the key: written from the vendors' sentences, not from the core."""
    return {WindowStart.FIRST_SEEN: 0, WindowStart.COMPLETED: completed, WindowStart.TERMINATED: terminated}[starts] + window


@pytest.mark.parametrize("after", AfterWindow)
@pytest.mark.parametrize("starts", WindowStart)
@pytest.mark.parametrize("completed", [0, 1, S, 10 * M, quiet(TIMEOUT)])
def test_the_last_re_send_lands_before_the_key_is_forgotten_whatever_the_window_counts_from(starts, after, completed: int) -> None:
    contract = replace(KEYED, window_starts=starts, after_window=after)
    timing = timing_of(sent().step, contract)
    assert timing.not_after_us == NOT_AFTER
    lands = NOT_AFTER + TIMEOUT + SETTLE + ERROR
    assert lands < ends(starts, completed, completed + H)
    assert sent().row(NOT_AFTER, contract) == 30
    assert sent().row(NOT_AFTER + 1, contract) == 42


def test_one_later_would_land_outside_a_window_that_counts_from_the_first_request() -> None:
    """The bound is tight: where the anchor is the earliest one, a microsecond more executes twice."""
    assert ends(WindowStart.FIRST_SEEN, completed=M, terminated=H) == NOT_AFTER + 1 + TIMEOUT + SETTLE + ERROR


@pytest.mark.parametrize("starts", WindowStart)
def test_a_close_counts_as_proof_only_while_the_shortest_reading_keeps_the_record(starts: WindowStart) -> None:
    contract = replace(CLOSABLE, window_starts=starts)
    until = timing_of(sent().step, contract).close_until_us
    assert until == DAY - ERROR
    assert until + ERROR <= ends(starts, completed=M, terminated=H)
    last = sent().attempt(until - 1, "close").closed(until - 1)
    late = sent().attempt(until, "close").closed(until)
    assert (last.row(2 * DAY, contract), late.row(2 * DAY, contract) == 16) == (16, False)


@pytest.mark.parametrize("after", AfterWindow)
def test_refusing_late_copies_is_no_proof_of_an_absence_outside_a_first_sent_fence(after: AfterWindow) -> None:
    """That a re-sent key is refused says nothing about a copy that was accepted in time and still waits: the reading is the same for both."""
    contract = replace(KEYED, after_window=after, lookup=Lookup())
    assert sent().probe(25 * H, "absent").row(25 * H, contract) == 40


@pytest.mark.parametrize("starts", [WindowStart.COMPLETED, WindowStart.TERMINATED])
def test_a_first_sent_fence_counts_from_nothing_else(starts: WindowStart) -> None:
    """There the end of the window concludes something, so that a later end would be concluded too early."""
    fenced = Contract(kind=Kind.FIRST_SENT, window_us=5 * M, after_window=AfterWindow.REJECTS, settle_window_us=M)
    assert check(fenced) == fenced
    with pytest.raises(DefinitionError, match="window_starts: a first-sent fence counts from the time that each request carries"):
        check(replace(fenced, window_starts=starts))


@pytest.mark.parametrize(("pinned", "later"), [(5, 3), (3, 5)])
def test_two_fences_with_different_windows_share_no_fence(pinned: int, later: int) -> None:
    """Judged by the shorter one, an absence would be final while the environment still accepts copies for the longer one."""
    fenced = Contract(
        kind=Kind.FIRST_SENT, window_us=5 * M, after_window=AfterWindow.REJECTS, settle_window_us=10 * H, lookup=Lookup()
    )
    one, other = (replace(fenced, window_us=minutes * M) for minutes in (pinned, later))
    story = sent().probe(4 * M, "absent")
    assert story.row(4 * M, replace(fenced, window_us=3 * M)) == 16
    assert story.row(4 * M, (one, other)) == 38
    assert story.row(4 * M, (one, one)) == (16 if pinned == 3 else 38)


@pytest.mark.parametrize(("starts", "from_us"), [
    (WindowStart.FIRST_SEEN, 0), (WindowStart.COMPLETED, quiet(TIMEOUT)), (WindowStart.TERMINATED, quiet(TIMEOUT)),
])  # fmt: skip
def test_entries_are_kept_until_the_latest_reading_of_the_window_is_over(starts: WindowStart, from_us: int) -> None:
    """Forgetting is the one place where a later end is the careful one."""
    step, contract = sent().step, replace(KEYED, window_starts=starts)
    loaded = cast("Any", SimpleNamespace(contracts={step.intent.contract: contract}))
    assert asked_until(loaded, step) == from_us + DAY + ERROR
