"""The plot of a resume: every line named, and the exact one drawn at zero."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.checkpoint.reference import make, step
from recovery.checkpoint.refusals import PlotRefused
from recovery.checkpoint.resume import plotting
from recovery.checkpoint.resume.verifying import ResumeReport, verify_resume
from tests.integration.resume_trainers import ForgetsItsMasks
from tests.unit.checkpoint.planning.test_plotting import words


@pytest.fixture(scope="module")
def exact() -> ResumeReport:
    return verify_resume(make, step, before=3, after=4, fresh_process=False)


def test_it_names_its_lines_and_says_that_nothing_differs(exact: ResumeReport, tmp_path: Path) -> None:
    plotting.trajectories(tmp_path / "p.svg", exact)
    text = words(tmp_path / "p.svg")
    for part in (
        "3 + 4 updates beside 7 in one go: equal in every bit",
        "uninterrupted",
        "resumed from the complete state",
        "from the weights only",
        "from everything but the moments",
        "0: no bit differs",
        "saved after 3",
        "loss of the update",
        "completed updates",
    ):
        assert part in text


def test_a_divergence_is_in_the_title_and_nothing_is_said_to_be_equal(tmp_path: Path) -> None:
    report = verify_resume(ForgetsItsMasks, step, before=3, after=4, fresh_process=False, ablate=False)
    plotting.trajectories(tmp_path / "p.svg", report)
    text = words(tmp_path / "p.svg")
    assert "diverged after update 4 in history" in text
    assert "no bit differs" not in text


def test_what_cannot_be_drawn_is_refused(exact: ResumeReport, tmp_path: Path) -> None:
    with pytest.raises(PlotRefused):
        plotting.trajectories(tmp_path / "p.pdf", exact)
