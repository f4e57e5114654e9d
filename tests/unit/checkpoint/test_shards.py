"""Shards: that putting small pieces together changes no byte, and that reading back looks at all of a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from recovery.checkpoint.files import LocalDisk
from recovery.checkpoint.limits import Limits
from recovery.checkpoint.shards import PIECE, SAMPLES, SMALL, write_shard
from tests.unit.checkpoint.disks import RecordingDisk


def ramp(size: int, dtype: str = "u1") -> np.ndarray:
    return (np.arange(size // np.dtype(dtype).itemsize) % 251).astype(dtype)


@pytest.mark.parametrize(
    "sizes",
    [
        (),
        (0,),
        (8,),
        (SMALL - 8, 8, SMALL, SMALL + 8, 16),
        (16, PIECE + 8, 24, 0, 2 * PIECE, 8),
        (SMALL // 2, SMALL // 2, SMALL // 2, SMALL // 2),
    ],
)
def test_a_shard_has_the_bytes_that_the_library_writes_whatever_the_sizes(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    arrays = {f"{place}": ramp(size, "f8") for place, size in enumerate(sizes)}
    arrays |= {f"{place}/words": ramp(size, "u2") for place, size in enumerate(sizes)}
    written = write_shard(LocalDisk(), tmp_path / "shard", arrays, Limits())
    assert (tmp_path / "shard").read_bytes() == save(arrays)
    assert written.entry.size == (tmp_path / "shard").stat().st_size


def test_many_small_arrays_cost_one_write(tmp_path: Path) -> None:
    disk = RecordingDisk()
    write_shard(disk, tmp_path / "shard", {f"{place}": ramp(4096, "f8") for place in range(24)}, Limits())
    assert [call.what for call in disk.log].count("write") == 1


@pytest.mark.parametrize("sizes", [(100,), (4096,) * 24, (PIECE, 64, 3 * PIECE, SMALL, SMALL)])
def test_samples_are_spread_over_the_whole_file(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    written = write_shard(
        LocalDisk(), tmp_path / "shard", {f"{place}": ramp(size, "f8") for place, size in enumerate(sizes)}, Limits()
    )
    whole = (tmp_path / "shard").read_bytes()
    assert all(found and found == whole[at : at + len(found)] for at, found in written.samples)
    part = -(-len(whole) // SAMPLES)
    assert [at // part for at, _ in written.samples] == list(range(-(-len(whole) // part)))
