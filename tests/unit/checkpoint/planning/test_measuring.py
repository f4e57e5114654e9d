"""Measuring a directory: bounded, cleaned up, honest about what it did."""

from __future__ import annotations

import errno
import os
from collections import namedtuple
from pathlib import Path

import pytest

from recovery.checkpoint.planning import measuring
from recovery.checkpoint.planning.measuring import BLOCK, ROUNDS, measure
from recovery.checkpoint.refusals import MeasurementRefused

SMALL = 64 * 1024


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "BLOCK", SMALL)


class Written:
    """What os.write was given, and os.fsync; the calls go through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes, self.synced, self.largest = 0, 0, 0
        write, fsync = os.write, os.fsync

        def counted(file: int, data: memoryview) -> int:
            done = write(file, data)
            self.bytes += done
            return done

        def synced(file: int) -> None:
            self.synced += 1
            fsync(file)

        monkeypatch.setattr(measuring.os, "write", counted)
        monkeypatch.setattr(measuring.os, "fsync", synced)


@pytest.mark.parametrize("streams", [1, 3])
def test_it_writes_no_more_than_it_may_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streams: int) -> None:
    (tmp_path / "other").write_text("x")
    written, size, told = Written(monkeypatch), 40 * SMALL, []
    found = measure(tmp_path, streams=streams, size=size, tell=lambda done, total: told.append((done, total)))
    assert written.bytes == SMALL * streams + found.size * len(found.rates) <= size
    assert written.synced == (streams + 1) * (len(found.rates) + 1)  # each file, and the directory
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
    assert found.size % (SMALL * streams) == 0
    assert len(found.rates) <= ROUNDS
    assert min(found.rates) > 0
    assert told[-1][0] == found.size * len(found.rates)
    assert f"in {streams} stream" in found.policy
    assert "synced" in found.policy
    assert min(found.rates) <= found.bandwidth <= max(found.rates)


def test_a_slow_disk_ends_it_by_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock of our own: each round takes a minute, so that a second one does not fit."""
    ticks = iter(range(0, 10**6, 60))
    monkeypatch.setattr(measuring.time, "perf_counter", lambda: float(next(ticks)))
    monkeypatch.setattr(measuring.time, "monotonic", lambda: float(next(ticks)))
    found = measure(tmp_path, size=40 * SMALL, limit_s=1.0)
    assert len(found.rates) == 1
    assert found.size == SMALL


def test_too_little_space_is_refused_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    size = 40 * SMALL
    monkeypatch.setattr(measuring.shutil, "disk_usage", lambda path: usage(0, 0, 2 * size // ROUNDS - 1))
    written = Written(monkeypatch)
    with pytest.raises(MeasurementRefused, match=r"are free, and 1\.049 MB must be"):
        measure(tmp_path, size=size)
    assert (written.bytes, list(tmp_path.iterdir())) == (0, [])
    monkeypatch.setattr(measuring.shutil, "disk_usage", lambda path: usage(0, 0, 2 * size // ROUNDS))
    assert measure(tmp_path, size=size).rates


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_disk_that_refuses_is_told_and_cleaned_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def refuses(*given: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(measuring.os, call, refuses)
    with pytest.raises(MeasurementRefused, match=r"No space left on device.*Nothing was left there"):
        measure(tmp_path, streams=2, size=40 * SMALL)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_cleans_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(tmp_path, size=40 * SMALL, tell=interrupted)
    assert list(tmp_path.iterdir()) == []


def test_what_is_written_is_neither_zeros_nor_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that compresses or shares blocks would be measured as faster than it is."""
    seen: list[bytes] = []
    write = os.write
    monkeypatch.setattr(measuring.os, "write", lambda file, data: (seen.append(bytes(data)), write(file, data))[1])
    measure(tmp_path, streams=2, size=12 * SMALL)
    assert len(set(seen[:2])) == 2
    assert all(len(set(block)) > 200 for block in seen)


@pytest.mark.parametrize(
    ("streams", "size", "says"),
    [(0, 10**9, "1 to 64"), (65, 10**9, "1 to 64"), (2, 12 * SMALL - 1, r"Allow at least 786\.4 kB")],
)
def test_what_cannot_be_measured_is_refused(tmp_path: Path, streams: int, size: int, says: str) -> None:
    with pytest.raises(MeasurementRefused, match=says):
        measure(tmp_path, streams=streams, size=size)


def test_a_directory_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MeasurementRefused, match="no directory"):
        measure(tmp_path / "x")


def test_the_real_block_is_of_the_size_of_checkpoint_writes() -> None:
    assert BLOCK == 4 * 2**20
