"""Processes of a sharded save, and of one in the background, are killed: the old checkpoint or the new one loads, and who is missing is named (faults 10, 21, 34)."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoint.store import PACKED_BYTES, CheckpointStore
from tests.crash.children import PYTHON, surroundings
from tests.unit.checkpoint.disks import RecordingDisk
from tests.unit.checkpoint.making import same, small

Play = Callable[..., dict[str, Any]]

KILLED = -signal.SIGKILL


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    program = Path(__file__).with_name("sharder.py")
    command = [*PYTHON, str(program), str(tmp_path_factory.mktemp("sharded"))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=surroundings({"OPENBLAS_NUM_THREADS": "1"})
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def ask(**order: Any) -> dict[str, Any]:
            stdin.write(f"{json.dumps(order)}\n")
            stdin.flush()
            return json.loads(stdout.readline())

        yield ask
        stdin.close()


def newest(came: dict[str, Any]) -> int:
    """The step of what loads now, checked to the bit; and the store can be saved into, which sweeps."""
    root = Path(came["root"])
    store = CheckpointStore(root, disk=RecordingDisk())
    loaded, _ = store.load_latest("weights")
    step = loaded.manifest.step
    if step == 2 and "w" in loaded.arrays:
        assert (loaded.arrays["w"] == 2.0).all()
        assert loaded.arrays["w"].shape == (6, 3)
    else:
        assert same(loaded.arrays, small(step).arrays)
    again = store.save(small(7))
    assert store.latest("weights").name == again.name
    assert not list((root / "ckpt").glob(".tmp-*"))
    return step


def test_fault_21_four_processes_save_six_rows(play: Play) -> None:
    came = play()
    assert [came[who]["status"] for who in ("0", "1", "2", "3", "coordinator")] == [0] * 5
    assert came["coordinator"]["error"] == ""
    assert newest(came) == 2


@pytest.mark.parametrize(
    ("point", "missing"),
    [
        ("checkpoint.meet.before:1", "writer 2"),
        ("checkpoint.meet.after:1", "writer 2 (it had begun)"),
        ("checkpoint.shard.before", "writer 2 (it had begun)"),
        ("write:1", "writer 2 (it had begun)"),  # in the middle of the shard, which is small enough for one write
        ("checkpoint.shard.after", "writer 2 (it had begun)"),
        ("write:2", "writer 2 (it had begun)"),  # in the middle of its receipt
        ("checkpoint.meet.before:2", "writer 2 (it had begun)"),
    ],
)
def test_fault_34_a_killed_writer_is_named_and_the_old_checkpoint_loads(play: Play, point: str, missing: str) -> None:
    came = play(kill={"2": point})
    assert came["2"]["status"] == KILLED
    assert (came["coordinator"]["error"], came["coordinator"]["missing"]) == ("WritersMissing", missing)
    assert [came[who]["error"] for who in ("0", "1", "3")] == [""] * 3
    assert newest(came) == 1


def test_all_writers_that_are_killed_are_named(play: Play) -> None:
    came = play(kill={"0": "checkpoint.shard.after", "3": "checkpoint.meet.before"})
    assert came["coordinator"]["missing"] == "writer 0 (it had begun), writer 3"
    assert newest(came) == 1


def test_a_writer_that_dies_after_its_receipt_is_not_missed(play: Play) -> None:
    came = play(kill={"2": "checkpoint.meet.after:2"})
    assert came["2"]["status"] == KILLED
    assert came["coordinator"]["error"] == ""
    assert newest(came) == 2


@pytest.mark.parametrize(
    ("point", "step"),
    [
        ("checkpoint.begin.before:1", 1),
        ("checkpoint.begin.after:1", 1),
        ("checkpoint.begin.after:2", 1),
        ("checkpoint.meet.before", 1),
        ("checkpoint.meet.after", 1),
        ("told", 1),
        ("checkpoint.remove.before", 1),
        ("checkpoint.remove.after", 1),
        ("checkpoint.state.before", 1),
        ("checkpoint.state.after", 1),
        ("checkpoint.manifest.before", 1),
        ("checkpoint.manifest.after", 1),
        ("checkpoint.commit.before", 1),
        ("checkpoint.commit.after", 2),
        ("checkpoint.current.before", 2),
        ("checkpoint.current.after", 2),
    ],
)
def test_a_killed_coordinator_leaves_the_old_or_the_new(play: Play, point: str, step: int) -> None:
    came = play(kill={"coordinator": point})
    assert came["coordinator"]["status"] == KILLED
    assert newest(came) == step


@pytest.mark.parametrize("at", ["checkpoint.shard.before", "checkpoint.shard.after"])
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "gave up"])
def test_fault_34_a_late_writer_is_refused_whatever_ended_the_save(play: Play, at: str, killed: bool) -> None:
    """It stands with its shard open or written, while the coordinator is killed or gives up, and another process saves."""
    came = play(hold=1, at=at, kill={"coordinator": "told"} if killed else {})
    assert came["coordinator"]["status"] == (KILLED if killed else 0)
    assert came["coordinator"].get("missing") == (None if killed else "writer 1 (it had begun)")
    assert came["another"]["error"] == ""
    assert (came["1"]["status"], came["1"]["error"]) == (0, "WriterRefused")
    root = Path(came["root"])
    assert not list((root / "ckpt").glob(".tmp-*")), "the late writer left something"
    assert newest(came) == 3


@pytest.mark.parametrize(
    ("point", "step", "packed_bytes"),
    [
        ("checkpoint.begin.after", 1, 0),
        ("checkpoint.shard.after", 1, 0),
        ("write:2", 1, 0),
        ("checkpoint.manifest.after", 1, 0),
        ("checkpoint.commit.before", 1, 0),
        ("checkpoint.commit.after", 2, 0),
        ("checkpoint.current.before", 2, 0),
        ("checkpoint.begin.after", 1, PACKED_BYTES),
        ("write:1", 1, PACKED_BYTES),
        ("checkpoint.commit.before", 1, PACKED_BYTES),
        ("checkpoint.commit.after", 2, PACKED_BYTES),
    ],
)
def test_fault_10_a_process_killed_while_it_saves_in_the_background_has_the_old_or_the_new(
    play: Play, point: str, step: int, packed_bytes: int
) -> None:
    came = play(background=True, packed_bytes=packed_bytes, kill={"background": point})
    assert came["background"]["status"] == KILLED
    assert newest(came) == step


def test_what_is_saved_in_the_background_survives_its_process(play: Play) -> None:
    came = play(background=True)
    assert (came["background"]["status"], came["background"]["error"]) == (0, "")
    assert newest(came) == 2
