"""`recover checkpoint plan`: the report, the document, the plot, and refusals that say what would do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from docs.generate import DOCUMENTS
from tests.architecture.source import ROOT
from tests.integration.cli_typed import Ended, typed

LLAMA = ("--bytes", "2TB", "--bandwidth", "20GB/s", "--mtbf", "11135s", "--stall", "6.3s", "--draws", "200")


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def planned(*arguments: str) -> Ended:
    return typed("checkpoint", "plan", *arguments)


def test_the_real_command_says_the_same(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "recovery", "checkpoint", "plan", *LLAMA]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == planned(*LLAMA).out


def test_the_report_says_floor_interval_and_loss(tmp_path: Path) -> None:
    ended = planned(*LLAMA, "--interval", "30m", "--work", "7d")
    assert (ended.code, ended.err) == (0, "")
    for part in (
        "2 TB over a path of 20 GB/s",
        "100 s: no save is faster",
        "asynchronous: training stops for 6.3 s",
        "save every  377 s",
        "Young 375 s, Daly 377 s",
        "95.9 % of wall time",
        "277 s per failure on average (first order, τ/2 + S/B: 288 s)",
        "4.1 % (first order: 4.3 %)",
        "synchronous saves: every 25 min 26 s, 87.2 % retained",
        "200 failures (exponential, seed 0), ± of 95 % confidence",
    ):
        assert part in ended.out
    rows = {line.split()[0]: line.split() for line in ended.out.splitlines() if line.strip().startswith(("best", "asked"))}
    assert rows["best"][1:3] == ["377", "s"]
    assert rows["asked"][1:3] == ["30", "min"]
    assert not [path for path in tmp_path.iterdir() if path.name != "__pycache__"]


def test_the_document_has_the_documented_keys(tmp_path: Path) -> None:
    ended = planned(*LLAMA, "--json", "--plot", "p.svg")
    assert (ended.code, ended.err) == (0, "")
    document = ended.document
    assert set(document) == {"schema_version", *DOCUMENTS["recover checkpoint plan"]}
    assert document["plan"]["floor_s"] == 100.0
    assert set(document["plan"]) == {
        "situation", "floor_s", "interval_s", "optimum_s", "at_floor", "young_s", "daly_s", "first_order", "outlook",
    }  # fmt: skip
    assert set(document["intervals"][0]) == {"interval_s", "best", "asked", "outlook", "wall_s", "simulated"}
    assert set(document["intervals"][0]["outlook"]["shares"]) == {"retained", "stalled", "lost", "down"}
    assert document["failures"] == {"source": "exponential", "seed": 0, "count": 200, "mtbf_s": document["failures"]["mtbf_s"]}
    assert document["measurement"] is None
    assert document["plot"] == "p.svg"
    assert (tmp_path / "p.svg").read_text().startswith("<?xml")


def test_a_measured_directory_and_a_failure_log(tmp_path: Path) -> None:
    (tmp_path / "failures.csv").write_text("at_s\n" + "".join(f"{at}\n" for at in range(7200, 72000, 7200)))
    (tmp_path / "run").mkdir()
    where = ("--measure", "run", "--streams", "2", "--measure-bytes", "60MB", "--measure-time", "5s")
    document = planned("--bytes", "1GB", *where, "--failure-log", "failures.csv", "--json").document
    assert document["measurement"]["streams"] == 2
    assert document["measurement"]["bandwidth"] == document["plan"]["situation"]["bandwidth"] > 0
    assert document["plan"]["situation"]["mtbf_s"] == 7200
    assert document["failures"] == {"source": "failures.csv", "seed": None, "count": 9, "mtbf_s": 7200}
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--bytes", "2TB", "--bandwidth", "20Gb/s", "--mtbf", "3h"), "--bandwidth '20Gb/s': Gb is in bits"),
        (("--bytes", "2", "--bandwidth", "20GB/s", "--mtbf", "3h"), "--bytes '2': it has no unit"),
        ((*LLAMA, "--interval", "50s"), "at least 100 s"),
        ((*LLAMA, "--interval", "5s"), "leaves no time to train"),
        (("--bytes", "2TB", "--bandwidth", "20GB/s", "--mtbf", "90s"), "more than 22.22 GB/s"),
        (("--bytes", "2TB", "--measure", "nowhere", "--mtbf", "3h"), "it is no directory"),
        (("--bytes", "2TB", "--bandwidth", "20GB/s", "--failure-log", "nothing.csv"), "there is no such file"),
        ((*LLAMA, "--plot", "p.pdf"), ".png or an .svg"),
        ((*LLAMA, "--weibull", "0.01"), "Weibull shape"),
    ],
)
def test_a_refusal_is_one_sentence_and_2(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    ended = planned(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert says in ended.err
    assert planned(*arguments, "--json").document["error"]["exit_code"] == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--bytes", "2TB", "--mtbf", "3h"), "--bandwidth RATE or --measure DIR"),
        (("--bytes", "2TB", "--bandwidth", "1GB/s", "--measure", ".", "--mtbf", "3h"), "one of them"),
        (("--bytes", "2TB", "--bandwidth", "1GB/s"), "--mtbf TIME, or --failure-log FILE"),
        ((*LLAMA, "--weibull", "0.7", "--failure-log", "x.csv"), "read or drawn, not both"),
    ],
)
def test_options_that_do_not_go_together(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    ended = planned(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert says in " ".join(ended.err.replace("│", " ").split())


def test_planning_needs_no_extra() -> None:
    code = "import sys, recovery.checkpoint.planning.interval, recovery.cli.checkpoint_plan; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()
    assert not {"numpy", "matplotlib", "safetensors", "blake3", "obstore", "torch"} & set(loaded)
