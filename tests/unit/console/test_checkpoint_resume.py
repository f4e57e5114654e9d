"""The report of a verified resume, from reports that were made up."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from recovery.checkpoint.resume.ablation import Dropped, Point, Trajectory
from recovery.checkpoint.resume.comparing import Divergence
from recovery.checkpoint.resume.tolerance import EXACT
from recovery.checkpoint.resume.verifying import ADVICE, Finding, ResumeReport
from recovery.console.checkpoint_resume import ROWS, Told, verified
from recovery.console.paper import Paper, plain

FIRST = Divergence(18, "m/embedding", (0, 3), "0.5", "0.25", 123_456, 7, 12_345_678_901, ("w/embedding",))
LINE = tuple(Point(step, 0.5 / step, 0.0, 0) for step in range(18, 41))
REPORT = ResumeReport(
    finding=Finding.EXACT,
    before=17,
    after=(10, 13),
    draws=80,
    fields=48,
    compared=1968,
    contract=EXACT,
    fresh_process=True,
    divergence=None,
    dropped=(Dropped("m", "arrays: without m", FIRST, None), Dropped("config", "", None, None)),
    trajectories=(
        Trajectory("uninterrupted", tuple(Point(step, 0.5 / step, 0.0, 0) for step in range(1, 41))),
        Trajectory("resumed", LINE),
        Trajectory("weights only", tuple(replace(point, apart=0.125, ulps=10**16) for point in LINE)),
    ),
    unregistered=(),
)


def told(report: ResumeReport, **places: Path) -> str:
    return plain(verified(Paper(StringIO()), Told("t:make", "t:step", report, places.get("plot"), places.get("keep"))))


def test_an_exact_report_says_what_it_rests_on() -> None:
    text = told(REPORT, plot=Path("p.svg"), keep=Path("kept"))
    for part in (
        "t:make, t:step",
        "40 updates in one go; 17, saved, and 10 resumed and 13 resumed; a fresh process each",
        "48 fields after each update, 1,968 comparisons, 80 draws",
        "exact: the resumed run is the uninterrupted one",
        "The plot is in p.svg.",
        "The checkpoints are in kept/store.",
    ):
        assert part in text
    assert "first divergence:" not in text
    assert ADVICE[Finding.EXACT] not in text


def test_a_divergence_is_told_by_field_update_index_values_and_distance() -> None:
    text = told(replace(REPORT, finding=Finding.HIDDEN_STATE, divergence=FIRST))
    for part in (
        "field          m/embedding",
        "after update   18",
        "index          [0, 3], the first of 7 elements that differ",
        "uninterrupted  0.5",
        "resumed        0.25",
        "distance       123,456 ULP; up to 1.2e+10 in the array",
        "also           w/embedding",
        ADVICE[Finding.HIDDEN_STATE],
    ):
        assert part in text


def test_what_has_neither_index_nor_distance_is_told_without() -> None:
    text = told(
        replace(
            REPORT,
            finding=Finding.NOT_RESTORED,
            divergence=Divergence(17, "counter", (), "17", "0", None),
            dropped=(),
            trajectories=(),
        )
    )
    assert "index" not in text
    assert "distance" not in text


def test_each_field_says_whether_it_is_missed() -> None:
    lines = [line.split() for line in told(REPORT).splitlines()]
    assert ["m", "refused", "m/embedding[0,", "3]", "after", "18", "123,456", "no"] in lines
    assert ["config", "taken", "none", "-", "no"] in lines


def test_the_trajectories_show_where_weights_alone_leave() -> None:
    text = told(REPORT)
    rows = [line.split() for line in text.splitlines() if line.strip()[:2].isdigit()]
    assert [row[0] for row in rows][:3] == ["18", "19", "20"]
    assert rows[-1] == ["40", "0.012500", "0.012500", "0", "0", "0.012500", "0.12", "1.0e+16"]
    assert len(rows) == ROWS


def test_what_is_drawn_from_unregistered_generators_is_said() -> None:
    assert "updates draw from numpy.random, which is not in the state" in told(replace(REPORT, unregistered=("numpy.random",)))


@pytest.mark.parametrize("finding", Finding)
def test_every_finding_has_words_and_a_next_step(finding: Finding) -> None:
    text = told(replace(REPORT, finding=finding))
    assert "verdict" in text
    assert (ADVICE[finding] in text) == (finding is not Finding.EXACT)


def test_names_out_of_a_trainer_cannot_move_the_cursor() -> None:
    text = told(replace(REPORT, finding=Finding.HIDDEN_STATE, divergence=replace(FIRST, field="w/\x1b[2J")))
    assert "\x1b" not in text
