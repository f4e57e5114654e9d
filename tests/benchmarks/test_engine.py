"""The benchmark of the engine: that its programs take the steps they are asked for, and that who is missing is told with the reason. No figure is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery import Engine
from tests.benchmarks.charts import drawn, grown
from tests.benchmarks.engine import SEQUENTIAL
from tests.benchmarks.environments import PEERS
from tests.benchmarks.growth import ON_FILE, ON_SERVER, SHARE, _together, curves, figures
from tests.benchmarks.programs import NoAnswer, Program, playing
from tests.benchmarks.racing import RIDING, Field
from tests.benchmarks.reporting import Figure, in_full, in_words
from tests.benchmarks.rounds import interleaved
from tests.benchmarks.sharing import Shared, middle, shared


def test_a_turn_takes_the_steps_it_is_asked_for(tmp_path: Path) -> None:
    [ours, _] = Field(tmp_path).ours()
    with playing(ours, tmp_path) as played:
        assert played.turn("sequential", 1, 3)["seconds"] > 0
        told = played.turn("concurrent", 2, 2)
    assert told["stall_most"] >= told["stall_median"]
    with Engine(f"sqlite:///{tmp_path}/journal.db") as engine:
        kinds = [[type(entry).__name__ for entry in engine.history(f"run-{number}")].count("Intent") for number in (1, 2, 3)]
    assert kinds == [3, 2, 2]


def test_settled_runs_are_copied_and_built_ones_replayed(tmp_path: Path) -> None:
    [ours, _] = Field(tmp_path).ours()
    with playing(ours, tmp_path) as played:
        played.turn("settled", 5, 1)
        played.turn("built", 1, 3)
        played.turn("replayed", 1, 3)
    with Engine(f"sqlite:///{tmp_path}/journal.db") as engine:
        runs = {info.run_id: info.status.value for info in engine.list()}
        [replayed] = runs.keys() - {"pattern", *(f"settled-{number}" for number in range(5))}
        assert set(runs.values()) == {"completed"}
        assert [type(entry).__name__ for entry in engine.history(replayed)].count("Settled") == 4


def test_a_program_that_ends_is_missing_with_what_it_said_last(tmp_path: Path) -> None:
    field = Field(tmp_path, peers=False)
    broken = field.contender(Program("broken", "with_nothing.py"), "sequential", SEQUENTIAL)
    whole = field.contender(field.floor(), "sequential", (1, 2))
    taken = interleaved([broken, whole], tmp_path, rounds=1, seconds=60).repeated
    assert list(taken["two raw commits"].returned) == [1]
    assert "with_nothing.py" in field.missing["broken"]


def test_a_peer_that_cannot_be_installed_is_missing_with_its_name_and_the_reason(tmp_path: Path) -> None:
    """Its environment cannot be made: something else stands in its place. Whoever is there already takes part."""
    (tmp_path / "temporal").touch()
    ready = tmp_path / "sakrit"
    ready.mkdir()
    (ready / ".ready").write_text("\n".join(PEERS["sakrit"].packages))
    field = Field(tmp_path)
    assert [program.name for program in field.others(["Temporal", "sakrit"])] == ["sakrit"]
    assert list(field.missing) == ["Temporal"]
    assert field.missing["Temporal"].startswith("not installed here: ")


def test_a_program_without_that_turn_gives_no_answer(tmp_path: Path) -> None:
    with playing(Field(tmp_path).floor(), tmp_path) as played, pytest.raises(NoAnswer, match="KeyError"):
        played.turn("concurrent", 1, 1)


@pytest.mark.parametrize("place", [ON_FILE, ON_SERVER])
def test_processes_on_one_database_are_told_with_how_evenly_they_share_it(
    tmp_path: Path, postgres_url: str, empty_postgres_url: str, place: str
) -> None:
    field, name = Field(tmp_path, peers=False), f"{place}, 2"
    fresh = iter([postgres_url, empty_postgres_url] if place == ON_SERVER else ["", ""])
    together = _together(field, field.ours()[0], name, 2, lambda: next(fresh), steps=300)
    taken = interleaved([together], tmp_path, rounds=1, seconds=60).repeated
    time, share = figures(field, taken)
    assert (time.name, share.name) == (f"growth: {name}", f"{SHARE}{name}")
    assert share.value is not None
    assert 0 < share.value <= 1
    assert ("wait for the turn" in share.note) is (place == ON_FILE)


def test_what_is_shared_is_counted_while_all_are_at_work() -> None:
    alone, busy, slow = (0.0, 1.0, 2.0, 9.0), (2.5, 3.0, 4.0, 5.0, 6.0), (2.0, 3.5, 5.5, 8.0)
    assert shared([alone, busy, slow], [0.0, 0.2, 0.1]) is None, "the first did nothing while the others did"
    assert shared([busy, slow], [0.1, 0.2]) == Shared(2 / 5, 2.0, 0.2)
    assert shared([(1.0, 2.0), (3.0, 4.0)], [0, 0]) is None
    assert shared([busy, ()], [0, 0]) is None
    assert middle([Shared(0.5, 1.0, 0.1), Shared(0.9, 3.0, 0.0), Shared(0.8, 2.0, 0.4)]) == Shared(0.8, 3.0, 0.4)


FIGURES = [
    Figure("load average at the beginning", 0.5, "", note="of one minute"),
    Figure(f"sequential: {RIDING}, steady", 200.0, "us", low=190.0, high=210.0, rounds=3, processor=90.0),
    Figure("sequential: two raw commits, steady", 250.0, "us", rounds=3),
    Figure(
        f"sequential: {RIDING}, steady over two raw commits, steady",
        200.0,
        "us",
        0.8,
        "<= 0.8 x",
        True,
        note="to two raw commits, steady",
    ),
    Figure(f"200 runs at once: {RIDING}", 20_500, "effects/s", None, ">= 20,000 effects/s", True),
    Figure("growth: steps of a run, 1,000", 210.0, "us", processor=90.0),
    Figure("growth: steps of a run, 10", 230.0, "us", processor=95.0),
    Figure("missing: Temporal", None, "", note="not installed here: no such package"),
]


def test_the_page_has_each_target_with_both_figures_and_who_is_missing() -> None:
    words = in_words(FIGURES)
    assert "| 200 us (190 to 210) | 90 us | two raw commits, steady | 250 us | 0.80 | at most 0.8 x | met |" in words
    assert "| 20,500 effects/s |  |  |  |  | at least 20,000 effects/s | met |" in words
    assert "| missing: Temporal | missing |  | not installed here: no such package |" in in_full(FIGURES)


def test_a_curve_goes_by_what_grows() -> None:
    assert curves(FIGURES) == {"steps of a run": [(10, 230.0, 95.0), (1_000, 210.0, 90.0)]}


def test_the_charts_are_drawn(tmp_path: Path) -> None:
    drawn(FIGURES, tmp_path / "rates.png")
    beside = {ON_FILE: [(1, 300.0, 200.0), (2, 350.0, 400.0)], ON_SERVER: [(1, 400.0, 100.0), (2, 250.0, 150.0)]}
    grown(curves(FIGURES) | beside, tmp_path / "growth.png")
    for name in ("rates.png", "growth.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
