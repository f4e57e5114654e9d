"""Plots: whole files, repeatable, with units on the axes, the floor shaded and the best interval named."""

from __future__ import annotations

import re
import stat
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from recovery.checkpoint import drawing
from recovery.checkpoint.planning import failures, plotting, simulation
from recovery.checkpoint.planning.interval import Plan
from recovery.checkpoint.planning.simulation import Compared
from recovery.checkpoint.refusals import PlotRefused
from recovery.core.errors import ExtraMissing
from tests.unit.checkpoint.planning.test_interval import made


def drawn(path: Path, plan: Plan, *, count: int = 50, asked: tuple[float, ...] = ()) -> tuple[Compared, ...]:
    rows = simulation.compare(plan, failures.exponential(plan.situation.mtbf_s, count=count), asked)
    plotting.intervals(path, plan, rows)
    return rows


def words(path: Path) -> str:
    """Every text of an SVG, in reading order, on one line."""
    return " | ".join("".join(node.itertext()).strip() for node in ET.parse(path).iter() if node.tag.endswith("}text"))


def test_a_plot_says_its_units_its_floor_and_its_best_interval(tmp_path: Path) -> None:
    drawn(tmp_path / "p.svg", made(stall="6.3s", detection="1m", restart="10m"), asked=(1800.0,))
    text = words(tmp_path / "p.svg")
    for part in (
        "How often to save 2 TB at 20 GB/s",
        "asynchronous, stall 6.3 s; durable after 100 s; a failure every 3 h 6 min, repaired in 11 min",
        "retained progress | (% of wall time)",
        "overhead | (% of wall time)",
        "interruptions | (per day)",
        "interval: from the start of one save to the start of the next (time, logarithmic)",
        "infeasible: | below the floor of 100 s",
        "best: every 377 s, 90.3 % retained",
        "stalled for saves",
        "lost work, done again",
        "down: noticing and restarting",
        "95 % confidence",
        "asked for",
        "failures, 7.31 a day",
    ):
        assert part in text


def test_what_is_not_there_is_not_drawn(tmp_path: Path) -> None:
    drawn(tmp_path / "p.svg", made(), count=4)
    text = words(tmp_path / "p.svg")
    assert "down" not in text
    assert "too few for a confidence interval" in text
    assert "synchronous" in text


@pytest.mark.parametrize(
    "given", [{"stall": "0s"}, {"stall": "1us", "bytes": "96kB", "bandwidth": "1GB/s"}, {"mtbf": "151s", "save": "150s"}]
)
def test_extreme_plans_can_be_drawn(tmp_path: Path, given: dict[str, str]) -> None:
    plan = made(**given)
    drawn(tmp_path / "p.svg", plan, asked=(plan.optimum_s * 1e5,))
    assert "infeasible" in words(tmp_path / "p.svg")


def test_the_same_plot_is_the_same_file_and_replaces_the_old_one_whole(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    (tmp_path / "p.svg").write_text("old")
    for name in ("p.svg", "q.svg"):
        drawn(tmp_path / name, made())
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)
    assert (tmp_path / "p.svg").read_bytes() == (tmp_path / "q.svg").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "p.svg", "q.svg"]


def test_a_png_is_one(tmp_path: Path) -> None:
    drawn(tmp_path / "p.png", made())
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_a_plot_that_cannot_be_finished_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*given: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "p.svg").write_text("old")
    monkeypatch.setattr(drawing.os, "replace", refuses)
    with pytest.raises(PlotRefused, match="No space left"):
        drawn(tmp_path / "p.svg", made())
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("p.svg", "old")]


def test_what_cannot_be_drawn_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PlotRefused, match=r"\.png or an \.svg"):
        drawing.ready(tmp_path / "p.pdf")
    with pytest.raises(PlotRefused, match="no such directory"):
        drawing.ready(tmp_path / "x" / "p.png")
    monkeypatch.setattr(drawing, "find_spec", lambda name: None)
    with pytest.raises(ExtraMissing, match=re.escape("pip install -e '.[plot]'")):
        drawing.ready(tmp_path / "p.png")


def test_ticks_are_round_and_apart() -> None:
    assert list(plotting.ROUND_SPANS) == sorted(set(plotting.ROUND_SPANS))
