"""Finding: one planted bug looked for in the standard subjects, and the table of what was found.

Owns the order of the looking, and the table on the page about proofs. Gives the explorer no hint: each bug has the same subjects, in the same
order, within the default bound, each as far as the same numbers of histories in turn. Invariant: the same code finds the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from recovery.testing import Scenario
from recovery.testing.exploration.exploring import explore
from recovery.testing.loading import parse
from tests.architecture.source import ROOT
from tests.explorer.standard import SUBJECTS
from tests.model.planted import Change, planted
from tests.scenarios.playing import played

ROUNDS: Final = (400, 4_000)
"""How many histories of each subject are played before the next subject has its turn."""

SIGNS: Final = {"unreadable": "the journal cannot be read", "bug": "Traceback", "endless": "never ended"}
"""What a play says of what is no promise's."""

PAGE: Final = ROOT / "docs" / "explanation" / "proof.md"
HEAD: Final = (
    "| planted bug | promise | found in | histories until then | moves of the shrunk one |\n| --- | --- | --- | --- | --- |\n"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Where and how soon a bug was found. histories: of all subjects, until then. text: the shrunk history, as a scenario."""

    bug: str
    promise: str
    subject: str
    histories: int
    text: str

    @property
    def history(self) -> Scenario:
        [scenario] = parse(self.text, self.bug)
        return scenario

    @property
    def row(self) -> str:
        return f"| {self.bug} | {self.promise} | {self.subject} | {self.histories:,} | {len(self.history.timeline)} |\n"


def find(bug: Change, rounds: tuple[int, ...] = ROUNDS) -> Finding | None:
    """The first violation, if there is one in these rounds."""
    histories = 0
    with planted(bug):
        for histories_max in rounds:
            for subject in SUBJECTS:
                explored = explore(subject, histories_max=histories_max)
                histories += explored.histories
                for found in explored.violations:
                    return Finding(bug.name, found.promise, subject.name, histories, found.scenario)
    return None


def stated(page: str, bug: str) -> tuple[str, str, int]:
    """What the page says of a bug: the promise, the subject, and after how many histories."""
    row = re.search(rf"^\| {re.escape(bug)} \| (.+) \| (.+) \| ([\d,]+) \| \d+ \|$", page, flags=re.MULTILINE)
    assert row is not None, f"the page has no row of {bug}"
    return row[1], row[2], int(row[3].replace(",", ""))


def rewritten(page: str, finding: Finding) -> str:
    """The page with the row of this bug as it was found now."""
    return re.sub(rf"^\| {re.escape(finding.bug)} \|.*\n", lambda _: finding.row, page, flags=re.MULTILINE)


def is_the_bugs_doing(finding: Finding, bug: Change) -> None:
    """The history breaks the promise again when it is played by itself, and does not break any without the bug."""
    with planted(bug):
        again = played(finding.history)
    assert any(finding.promise in problem or SIGNS.get(finding.promise, "?") in problem for problem in again.problems), (
        again.problems
    )
    without = played(finding.history)
    assert [problem for problem in without.problems if ": I" in problem] == [], "\n".join(without.problems)
