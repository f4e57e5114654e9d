"""A process is killed at every point of a save, each time it passes it: what it leaves loads as the old or the new checkpoint (fault 1)."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoint.inference import Identity, KVStore
from recovery.checkpoint.store import CheckpointStore
from recovery.crashpoints import POINTS, VARIABLE
from tests.crash.children import PYTHON, surroundings
from tests.unit.checkpoint.disks import RecordingDisk
from tests.unit.checkpoint.making import same, small

OF_RANKS = ("checkpoint.meet",)
"""Passed by the ranks of a distributed job only."""

SAVES = [point for point in POINTS if point.startswith("checkpoint.") and not point.startswith(OF_RANKS)]
PASSAGES_MAX = 3
"""Of one point: the first ones. Later ones are of the same steps in a later save."""


@pytest.fixture(scope="module")
def kill_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], dict[str, Any]]]:
    """The saver. One thread in it, or it could not be forked."""
    program = Path(__file__).with_name("saver.py")
    command = [*PYTHON, str(program), str(tmp_path_factory.mktemp("saves"))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=surroundings({"OPENBLAS_NUM_THREADS": "1"})
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def ask(point: str) -> dict[str, Any]:
            stdin.write(f"{point}\n")
            stdin.flush()
            return json.loads(stdout.readline())

        yield ask
        stdin.close()


@pytest.fixture(scope="module")
def passed(kill_at: Callable[[str], dict[str, Any]]) -> list[str]:
    report = kill_at("-")
    assert report["status"] == 0
    return report["passed"]


@pytest.mark.parametrize("point", SAVES)
def test_what_a_killed_save_leaves_is_the_old_or_the_new(
    kill_at: Callable[[str], dict[str, Any]], passed: list[str], point: str
) -> None:
    assert point in passed, "no save passes it"
    for passage in range(1, min(passed.count(point), PASSAGES_MAX) + 1):
        report = kill_at(f"{point}:{passage}")
        assert report["status"] == -signal.SIGKILL
        root = Path(report["root"])
        store = CheckpointStore(root, disk=RecordingDisk())
        loaded, _ = store.load_latest("weights")
        assert loaded.manifest.step in {1, 2, 3}
        assert same(loaded.arrays, small(loaded.manifest.step).arrays)
        again = store.save(small(7))
        assert store.latest("weights").name == again.name
        assert not list((root / "ckpt").glob(".tmp-*"))
        assert not list(root.glob(".CURRENT-*"))
        new = CheckpointStore(root.with_name(f"{root.name}-new"), disk=RecordingDisk())
        new.save(small(8))
        assert new.load_latest("weights")[0].manifest.step == 8


def test_a_save_passes_no_other_point(passed: list[str]) -> None:
    """One that the test above does not know would go untested."""
    assert set(passed) <= set(SAVES)


FORGETTING = """
import sys
import numpy as np
from recovery.checkpoint.inference import Identity, KVStore
store = KVStore(sys.argv[1], capacity_bytes=20_000)
identity = Identity(model="m", dtype="F64", layout="l", page_tokens=1)
for token in range(3):
    store.put(identity, [token], {"k": np.full(1_000, float(token))})
"""


@pytest.mark.parametrize("point", [point for point in POINTS if point.startswith("kv.")])
def test_a_cache_killed_while_it_forgets_gives_whole_entries_or_none(point: str, tmp_path: Path) -> None:
    """Room for two of three: the third one makes the first go."""
    program = [*PYTHON, "-c", FORGETTING, str(tmp_path)]
    died = subprocess.run(program, env=surroundings({VARIABLE: point}), capture_output=True, text=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    store = KVStore(tmp_path, capacity_bytes=20_000)
    identity = Identity(model="m", dtype="F64", layout="l", page_tokens=1)
    for token in range(3):
        hit = store.get(identity, [token])
        assert hit is None or (hit.arrays["k"] == token).all()
    assert store.hits >= 2
    again = subprocess.run(program, env=surroundings({}), capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert store.get(identity, [2]) is not None
