"""Planted bugs that the explorer finds soon; `make planted` looks for all of them (every_bug.py)."""

from __future__ import annotations

import pytest

from recovery.core import timing
from recovery.testing.exploration.exploring import explore
from tests.explorer.editing import edited
from tests.explorer.finding import HEAD, PAGE, find, is_the_bugs_doing
from tests.explorer.planted import BUGS
from tests.explorer.standard import SUBJECTS
from tests.model.planted import Change, planted

SOON = (
    "attempt written after the send",
    "observation before the reply",
    "key per attempt",
    "absence judged by the time of judging",
    "lost commit acknowledgement treated as failure",
    "an epoch carried but not raised",
    "a swallowed doubt",
)
"""Within fifty histories of a subject: some five seconds of processor time, together."""


@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.name in SOON], ids=lambda bug: bug.name)
def test_a_bug_that_is_found_soon(bug: Change) -> None:
    finding = find(bug, (50,))
    assert finding is not None
    is_the_bugs_doing(finding, bug)


def test_what_rides_and_is_left_behind_is_found_at_once() -> None:
    """Intent 2 durable without observation 1: looked for in the engines whose outcomes ride, where strict ones have nothing to leave behind."""
    bug, riding = BUGS[-1], SUBJECTS[-1]
    assert riding.riding
    with planted(bug):
        [found] = explore(riding, histories_max=5).violations
        assert explore(riding.model_copy(update={"riding": False}), histories_max=5).violations == ()
    assert (found.promise, "reserve#2 left while reserve#1 was not settled" in found.problem) == ("I10", True)


def test_the_page_has_a_row_for_every_bug() -> None:
    page = PAGE.read_text(encoding="utf-8")
    rows = page.partition(HEAD)[2].partition("\n\n")[0].splitlines()
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [bug.name for bug in BUGS]


def test_an_edit_whose_text_has_moved_on_is_refused() -> None:
    with pytest.raises(ValueError, match="quiet_after contains 0 times: no such line"):
        edited(timing.quiet_after, ("no such line", ""))
    with pytest.raises(ValueError, match="quiet_after contains 5 times"):
        edited(timing.quiet_after, ("attempts", ""))
