"""What a save and a load may take: memory in pieces, room that the kernel really refuses, and an extra that may be absent."""

from __future__ import annotations

import pickle
import resource
import string
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from recovery.checkpoint import errors
from recovery.checkpoint.errors import CheckpointError, SaveFailed, WrongKind
from recovery.checkpoint.kinds import RULES, Kind, require
from recovery.checkpoint.store import CheckpointStore
from tests.unit.checkpoint.disks import Call, RecordingDisk
from tests.unit.checkpoint.making import Plain, small

MIB = 1 << 20


class Quick(RecordingDisk):
    """Without a log of what was written, which would be a copy of the state."""

    def _note(self, call: Call) -> None: ...

    def write(self, file: int, data: object) -> None:
        super(RecordingDisk, self).write(file, data)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_save_takes_no_copy_of_the_state_and_a_load_only_one(tmp_path: Path, order: str) -> None:
    arrays = {f"w/{n}": np.ones((1024, 1024), order=order) for n in range(4)}  # 32 MiB: two streams
    store = CheckpointStore(tmp_path / "run", disk=Quick(), streams=2)
    tracemalloc.start()
    try:
        saved = store.save(Plain(arrays))
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
        tracemalloc.reset_peak()
        loaded = store.load(saved)
        assert tracemalloc.get_traced_memory()[1] < (32 + 16) * MIB
    finally:
        tracemalloc.stop()
    assert loaded.arrays["w/3"][1023, 1023] == 1


@pytest.fixture
def small_files() -> Iterator[None]:
    """The kernel refuses files beyond 256 KiB, as it refuses a full disk: in the middle of a write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 10, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("reserves", [True, False])
def test_fault_30_a_file_that_the_kernel_cuts_short_leaves_the_old_checkpoint(
    tmp_path: Path, small_files: None, reserves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not reserves:  # a file system that cannot reserve space meets the limit while it writes
        monkeypatch.setattr(RecordingDisk, "reserve", lambda *_: None)
    store = CheckpointStore(tmp_path / "run", disk=Quick())
    kept = store.save(small(1))
    with pytest.raises(SaveFailed, match="Nothing was committed"):
        store.save(Plain({"w": np.zeros(MIB)}))
    assert [each.name for each in store.scan()] == [kept.name]
    assert store.save(small(2)).manifest.parent == kept.id


WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"numpy", "safetensors", "blake3"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import recovery.checkpoint, recovery.checkpoint.planning.interval, recovery.checkpoint.errors
from recovery.core.errors import ExtraMissing
try:
    recovery.checkpoint.CheckpointStore
except ExtraMissing as error:
    print(error)
"""


def test_without_the_extra_its_name_is_told() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert "pip install -e '.[checkpoint]'" in done.stdout


WITHOUT_OTHERS = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"obstore", "torch", "matplotlib"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from recovery.checkpoint import *
print(CheckpointStore.__name__)
import recovery.checkpoint
from recovery.core.errors import ExtraMissing
try:
    recovery.checkpoint.ObjectCheckpoints
except ExtraMissing as error:
    print(error)
"""


def test_every_name_that_a_star_gives_needs_this_extra_alone() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", WITHOUT_OTHERS], capture_output=True, text=True, check=True)
    assert "CheckpointStore" in done.stdout
    assert "pip install -e '.[objects]'" in done.stdout


def described() -> list[type[CheckpointError]]:
    found = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, CheckpointError)]
    return [error for error in found if error.template]


@pytest.mark.parametrize("error", described(), ids=lambda error: error.__name__)
def test_errors_survive_pickling_and_end_with_a_next_step(error: type[CheckpointError]) -> None:
    fields = {name: f"<{name}>" for _, name, _, _ in string.Formatter().parse(error.template) if name}
    raised = error(**fields)
    again = pickle.loads(pickle.dumps(raised))
    assert (type(again), str(again), again.fields) == (type(raised), str(raised), fields)
    assert str(raised)[-1] in ".`>"


@pytest.mark.parametrize("found", Kind)
@pytest.mark.parametrize("wanted", Kind)
def test_no_kind_passes_for_another(found: Kind, wanted: Kind) -> None:
    if found is wanted:
        require(found, wanted, name="x")
        return
    with pytest.raises(WrongKind) as caught:
        require(found, wanted, name="x")
    assert all(words in str(caught.value) for words in (found.value, wanted.value, RULES[found].use))


def test_every_kind_has_a_rule() -> None:
    assert set(RULES) == set(Kind)
    assert {kind for kind, rule in RULES.items() if rule.stored} == {Kind.LEARNING, Kind.WEIGHTS, Kind.INFERENCE_KV}
