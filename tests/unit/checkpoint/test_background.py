"""Saving in the background: the state at the call, one at a time, and no failure in silence."""

from __future__ import annotations

import errno
import gc
import logging
import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recovery.checkpoint.background import BackgroundSaver, copied
from recovery.checkpoint.errors import CheckpointInvalid, SaveFailed, SaveUnderWay
from recovery.checkpoint.learning import Weights
from recovery.checkpoint.manifest import Manifest
from recovery.checkpoint.scanning import Candidate
from recovery.checkpoint.store import CheckpointStore
from tests.unit.checkpoint.disks import Call, RecordingDisk
from tests.unit.checkpoint.making import Plain, same, small, spread

MIB = 1 << 20
LONG = 60.0  # seconds: against hanging only


class GatedDisk(RecordingDisk):
    """A disk on which no directory of a save is made before its gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()

    def make_directory(self, path: Path) -> None:
        assert self.gate.wait(LONG), "nobody opened the gate"
        super().make_directory(path)


@pytest.fixture
def disk() -> GatedDisk:
    return GatedDisk()


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.LogCaptureFixture]:
    """What is written to the logger itself, whatever ran in this process before: import-linter switches off all loggers that there are."""
    logger = logging.getLogger("recovery.checkpoint")
    monkeypatch.setattr(logger, "disabled", False)
    logger.addHandler(caplog.handler)
    yield caplog
    logger.removeHandler(caplog.handler)


@pytest.fixture
def store(tmp_path: Path, disk: GatedDisk) -> CheckpointStore:
    return spread(tmp_path / "run", disk=disk)


def refuse_manifests(call: Call) -> int | None:
    return errno.EIO if call.path.name == "MANIFEST.json" else None


@dataclass(frozen=True)
class Watched(Plain):
    """A capture that tells when it is taken."""

    taken: Callable[[], None] = lambda: None

    def state(self) -> Any:
        self.taken()
        return super().state()


def test_what_is_saved_is_the_state_at_the_call(store: CheckpointStore, disk: GatedDisk) -> None:
    state = small(1)
    with BackgroundSaver(store) as saver:
        disk.gate.clear()
        future = saver.save(state)
        for array in state.arrays.values():
            array[...] = 0  # the next update, while nothing has been written
        state.values["counter"] = 2
        disk.gate.set()
        saved = future.result(LONG)
    assert same(store.load(saved).arrays, small(1).arrays)
    assert store.load(saved).state == small(1).values
    assert saved.manifest.step == 1


def test_one_is_under_way_at_a_time_and_the_next_is_taken_after_it(store: CheckpointStore, disk: GatedDisk) -> None:
    order: list[str] = []
    with BackgroundSaver(store) as saver:
        disk.gate.clear()
        saver.save(small(1), record=lambda _: order.append("first committed"))
        join = saver._thread.join  # type: ignore[union-attr]

        def waited_for(seconds: float | None = None) -> None:
            disk.gate.set()  # so that the first one cannot end before the second one waits for it
            join(seconds)

        saver._thread.join = waited_for  # type: ignore[method-assign, union-attr]
        second = small(2)
        saver.save(Watched(second.arrays, second.values, taken=lambda: order.append("second taken")))
    assert order == ["first committed", "second taken"]
    assert [each.manifest.step for each in store.scan() if isinstance(each, Candidate)] == [2, 1]


@pytest.mark.parametrize("patience", [timedelta(0), timedelta(milliseconds=1)])
def test_without_patience_a_second_save_is_refused_and_takes_nothing(
    store: CheckpointStore, disk: GatedDisk, patience: timedelta
) -> None:
    taken: list[str] = []
    with BackgroundSaver(store, patience=patience) as saver:
        disk.gate.clear()
        saver.save(small(1))
        with pytest.raises(SaveUnderWay, match="the save of step 1 is still under way"):
            saver.save(Watched({}, {}, taken=lambda: taken.append("taken")))
        disk.gate.set()
        assert saver.wait() is not None
    assert taken == []
    assert store.latest("weights").manifest.step == 1


def test_a_failure_is_told_at_once_and_by_the_next_call_and_the_last_good_one_stays(
    store: CheckpointStore, disk: GatedDisk, log: pytest.LogCaptureFixture
) -> None:
    """Faults 10 and 11: what a failed save leaves behind is nothing."""
    alarms: list[BaseException] = []
    saver = BackgroundSaver(store, on_failure=alarms.append)
    good = saver.save(small(1)).result(LONG)
    hint = store.place.current.read_bytes()
    disk.refuse = refuse_manifests
    failed = saver.save(small(2))
    with pytest.raises(SaveFailed, match="Nothing was committed"):
        failed.result(LONG)
    with pytest.raises(SaveFailed) as told:
        saver.save(small(3))
    assert [type(each) for each in alarms] == [SaveFailed]
    assert told.value is alarms[0]
    assert told.value.__notes__ == [
        "It was the save of step 2, in the background.",
        "Nothing of the call that tells it was saved; it can be repeated.",
    ]
    assert "a save in the background failed" in log.text
    assert (saver.latest, store.place.current.read_bytes()) == (good, hint)
    assert store.latest("weights").name == good.name
    disk.refuse = lambda _: None
    saver.save(small(3))  # it was told once
    assert saver.wait() == store.latest("weights")
    assert store.latest("weights").manifest.parent == good.id


@pytest.mark.parametrize("ending", ["wait", "close"])
def test_a_failure_is_told_by_whatever_is_called_last(store: CheckpointStore, disk: GatedDisk, ending: str) -> None:
    saver = BackgroundSaver(store)
    disk.refuse = refuse_manifests
    saver.save(small(1))
    with pytest.raises(SaveFailed):
        getattr(saver, ending)()
    assert getattr(saver, ending)() is None


def test_leaving_the_block_waits_and_tells(store: CheckpointStore, disk: GatedDisk) -> None:
    disk.refuse = refuse_manifests
    with pytest.raises(SaveFailed), BackgroundSaver(store) as saver:
        saver.save(small(1))


def test_the_error_of_a_block_is_raised_before_that_of_its_save(store: CheckpointStore, disk: GatedDisk) -> None:
    disk.refuse = refuse_manifests

    def train() -> None:
        with BackgroundSaver(store) as saver:
            saver.save(small(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        train()
    assert "A save in the background had failed, too" in caught.value.__notes__[0]


def test_a_broken_alarm_does_not_hide_the_failure(store: CheckpointStore, disk: GatedDisk) -> None:
    def broken(_: BaseException) -> None:
        raise ConnectionError("no pager")

    saver = BackgroundSaver(store, on_failure=broken)
    disk.refuse = refuse_manifests
    saver.save(small(1))
    with pytest.raises(SaveFailed) as caught:
        saver.wait()
    assert "no pager" in str(caught.value.__notes__)


def test_a_state_that_is_not_finite_is_an_alarm_and_one_that_cannot_be_saved_is_refused_at_once(store: CheckpointStore) -> None:
    saver = BackgroundSaver(store)
    with pytest.raises(CheckpointInvalid, match="cannot be saved"):
        saver.save(Plain({"w": np.array(["a"])}))
    saver.save(Plain({"w": np.array([np.nan])}))
    with pytest.raises(CheckpointInvalid, match="infinite or not a number"):
        saver.wait()


def test_the_journal_is_told_in_the_context_of_the_call(store: CheckpointStore) -> None:
    run = ContextVar("run", default="nobody's")
    run.set("training-7")
    heard: list[tuple[str, str]] = []

    def record(manifest: Manifest) -> None:
        heard.append((run.get(), manifest.name))

    with BackgroundSaver(store) as saver:
        saver.save(small(1), record=record)
        saved = saver.wait()
    assert saved is not None
    assert heard == [("training-7", saved.name)]


# -- memory ------------------------------------------------------------------------------------------------------------


def test_arrays_that_nobody_can_change_are_not_copied() -> None:
    mine = np.ones(4)
    held = Weights({"w/0": mine})
    assert copied(held.arrays)["w/0"] is held.arrays["w/0"]
    view = mine.view()
    view.flags.writeable = False  # mine can still be changed
    taken = copied({"mine": mine, "view": view})
    mine[:] = 2
    assert [array.sum() for array in taken.values()] == [4, 4]


def test_the_copy_of_a_failed_save_goes_when_it_has_failed(store: CheckpointStore, disk: GatedDisk) -> None:
    """The error is kept until it is told, and must not keep the state."""
    state = Plain({"w": np.ones(8 * MIB // 8)})
    disk.refuse = refuse_manifests
    saver = BackgroundSaver(store)
    disk._note = lambda call: disk.refuse(call) and raising()  # type: ignore[method-assign]

    def raising() -> None:
        raise OSError(errno.EIO, "refused")

    tracemalloc.start()
    try:
        future: Future[Candidate] = saver.save(state)
        assert isinstance(future.exception(LONG), SaveFailed)
        saver._join(None)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < MIB
    finally:
        tracemalloc.stop()


MEASURE = """
import resource, sys
from pathlib import Path
import numpy as np
from recovery.checkpoint import BackgroundSaver, CheckpointStore
from recovery.checkpoint.files import LocalDisk
from tests.unit.checkpoint.making import Plain

class Quick(LocalDisk):
    def sync(self, file): pass

def peak():
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) << 10  # ru_maxrss begins with what the parent had

store = CheckpointStore(sys.argv[1], disk=Quick())
store.save(Plain({"w": np.zeros(1)}))
size = int(sys.argv[2])
before = peak()
state = Plain({f"w/{n}": np.full(size // 32, float(n)) for n in range(4)})
store.save(state)
synchronous = peak() - before
with BackgroundSaver(store) as saver:
    for step in range(2):
        saver.save(state, step=step)
        for array in state.arrays.values():
            array += 1.0
print(synchronous, peak() - before)
"""


def test_a_save_takes_the_state_and_64_mib_at_most_and_one_in_the_background_twice_that(tmp_path: Path) -> None:
    """By the kernel's count of a process of its own, so that no allocator is left out."""
    size = 96 * MIB
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path / "run"), str(size)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(Path.cwd())},
    )
    synchronous, asynchronous = map(int, done.stdout.split())
    print(f"state {size >> 20} MiB; peak of a save {synchronous >> 20} MiB, in the background {asynchronous >> 20} MiB")
    assert size <= synchronous <= size + 64 * MIB
    assert size <= asynchronous <= 2 * size + 64 * MIB
