"""Every planted bug is found within the default bound, and the page says where and how soon. Minutes, so only `make planted` runs it."""

from __future__ import annotations

import pytest

from recovery.testing.exploration.exploring import explore
from tests.explorer.finding import PAGE, ROUNDS, find, is_the_bugs_doing, rewritten, stated
from tests.explorer.planted import BUGS
from tests.explorer.standard import SUBJECTS
from tests.model.planted import Change


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_is_found(bug: Change, request: pytest.FixtureRequest) -> None:
    finding = find(bug)
    assert finding is not None
    is_the_bugs_doing(finding, bug)
    page = PAGE.read_text(encoding="utf-8")
    if request.config.getoption("--rewrite"):
        PAGE.write_text(page := rewritten(page, finding), encoding="utf-8")
    promise, subject, histories = stated(page, bug.name)
    assert (finding.promise, finding.subject) == (promise, subject), f"`make planted REWRITE=1` writes this row: {finding.row}"
    assert finding.histories <= 2 * histories, "another order of the search finds it a little sooner or later; this is much later"


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_as_shipped_nothing_is_found_in_the_same_place(subject) -> None:
    explored = explore(subject, histories_max=ROUNDS[0])
    assert [found.scenario for found in explored.violations] == []
