"""A writer: one of several processes that save one checkpoint.

Owns what it writes and says. Must not know who else writes. Invariant: its receipt is given once its shard is durable, and only into the attempt that it was asked
for; whatever ended that attempt moved its directory, so that a late writer finds no way in.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from recovery.checkpoint.commit import shard_name
from recovery.checkpoint.errors import CheckpointInvalid, SaveFailed, WriterRefused
from recovery.checkpoint.header import require_tensor_name
from recovery.checkpoint.invariants import is_negative
from recovery.checkpoint.kinds import Kind
from recovery.checkpoint.layout import TEMPORARY_NAME, Place
from recovery.checkpoint.manifest import Slice
from recovery.checkpoint.meeting import COORDINATOR, Meeting
from recovery.checkpoint.readback import ReadBack, require_samples
from recovery.checkpoint.receipts import Part, Receipt, key_of
from recovery.checkpoint.shards import Array, code_of, write_shard
from recovery.core.wording import of_type

MEETING: Final = "writers"
"""The directory of an attempt in which writers and coordinator leave documents for each other."""

ORDER: Final = "order"
RECEIPT: Final = "receipt"


class ShardWriter:
    """One writer of a sharded save. Use it in a `with`: leaving it makes the shard and its receipt durable, unless the block raised.

    A writer that fails says so to the coordinator, which abandons the save at once instead of waiting for its deadline.
    """

    def __init__(self, place: Place, attempt: str | os.PathLike[str], index: int, *, read_back: ReadBack) -> None:
        self._place, self._index, self._read_back = place, index, read_back
        self._path = place.checkpoints / Path(attempt).name
        self._arrays: dict[str, Array] = {}
        self._parts: list[Part] = []
        self._meeting = Meeting(place.disk, self._path / MEETING, place.limits, index, index + 1, 0, "save", "writer")
        if not TEMPORARY_NAME.fullmatch(self._path.name):
            raise self._refused("that is no save under way")

    def __enter__(self) -> ShardWriter:
        """Raises WriterRefused if the attempt has ended, or if another process is this writer."""
        try:
            order = self._meeting.said(ORDER, COORDINATOR)
            self._kind, self._writers = Kind(order["kind"]), int(order["writers"])
            if not 0 <= self._index < self._writers:
                raise self._refused(f"there are {self._writers} writers, counted from 0")
            self._meeting.came()
        except FileNotFoundError as error:
            raise self._over() from error
        except FileExistsError as error:
            raise self._refused("another process has begun as this writer") from error
        return self

    def put(self, name: str, part: Array, *, at: Sequence[int] | None = None, of: Sequence[int] | None = None) -> None:
        """This writer's part of a tensor: it begins `at`, in a tensor of the shape `of`; by default it is the whole one. Read when the block ends.

        Raises CheckpointInvalid for what no tensor can be.
        """
        where = f"writer {self._index}, {name}"
        require_tensor_name(name, where=where)
        if not isinstance(part, np.ndarray):
            raise CheckpointInvalid(where=where, problem=f"it is {of_type(part)} and no array", reason="dtype")
        offset = tuple(map(int, at)) if at is not None else (0,) * part.ndim
        whole = tuple(map(int, of)) if of is not None else part.shape
        key, file = key_of(name, offset), shard_name(self._index, self._writers)
        if key in self._arrays:
            raise CheckpointInvalid(where=where, problem=f"a part at {list(offset)} was put already", reason="slices")
        self._arrays[key] = part
        self._parts.append(Part(name, code_of(part.dtype, where=where), whole, Slice(file, key, offset, part.shape)))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        with self._meeting.part():
            if error is not None:
                raise error
            try:
                self._hand_in()
            except FileNotFoundError as gone:
                raise self._over() from gone
            except OSError as refused:
                raise self._failed(refused) from refused

    def _hand_in(self) -> None:
        place, written = self._place, None
        if self._arrays:
            self._require_invariants()
            path = self._path / shard_name(self._index, self._writers)
            written = write_shard(place.disk, path, self._arrays, place.limits)
            if self._read_back is ReadBack.SAMPLE:
                require_samples(place.disk, path, written, set(self._arrays))
        shard = written.entry if written else None
        self._meeting.tell(RECEIPT, Receipt(self._path.name, self._index, shard, tuple(self._parts)).document())

    def _require_invariants(self) -> None:
        """What only who holds the values can see; that they are finite is seen while they are written."""
        for part in self._parts:
            if self._kind is Kind.LEARNING and part.tensor.startswith("v/") and is_negative(self._arrays[part.slice.key]):
                problem = "a second moment is negative, and its square root is taken"
                raise CheckpointInvalid(where=f"writer {self._index}, {part.tensor}", problem=problem, reason="invariant")

    def _over(self) -> WriterRefused:
        return self._refused("that save has ended, or was given up")

    def _failed(self, error: OSError) -> SaveFailed:
        step, problem = Path(str(error.filename or self._path)).name, error.strerror or str(error)
        fate, advice = "This writer handed nothing in.", "Look at the disk; the coordinator saves again."
        return SaveFailed(store=str(self._place.root), step=step, problem=problem, fate=fate, advice=advice)

    def _refused(self, problem: str) -> WriterRefused:
        return WriterRefused(store=str(self._place.root), writer=self._index, attempt=self._path.name, problem=problem)
