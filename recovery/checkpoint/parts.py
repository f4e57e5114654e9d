"""Evidence about a checkpoint that no process holds whole: what ranks handed in, and the parts that a rank reads.

Owns how the validator's checks are made of parts. Needs no torch. Invariant: a check is left to somebody else only if somebody makes it: each rank looks at
the values that it writes or reads, and the coordinator at names, shapes, headers and tiling.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from recovery.checkpoint import state as states
from recovery.checkpoint.admitting import require_sound
from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.files import Disk, opened
from recovery.checkpoint.header import PREFIX, header_length
from recovery.checkpoint.invariants import is_negative
from recovery.checkpoint.kinds import Kind
from recovery.checkpoint.layout import Place
from recovery.checkpoint.limits import Limits
from recovery.checkpoint.manifest import FILE, STATE, FileEntry, Manifest, TensorEntry, digest
from recovery.checkpoint.packing import unpacked
from recovery.checkpoint.reading import Directory
from recovery.checkpoint.scanning import Candidate
from recovery.checkpoint.shards import DTYPES, Array, Read, read_shard
from recovery.checkpoint.validating import INVARIANTS, CheckShard, check_of, require_digest

Box = tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""(tensor, offset of the slice in the tensor, offset in the slice, shape): what a rank wants of one slice."""


def hollow(shapes: Mapping[str, tuple[str, tuple[int, ...]]]) -> dict[str, Array]:
    """Arrays of these dtypes and shapes that take no memory: all elements of one are the same zero."""
    return {name: np.broadcast_to(np.zeros((), DTYPES[dtype]), shape) for name, (dtype, shape) in shapes.items()}


def references(state: Any) -> set[str]:
    """The names of the references in the lifecycle record of a learning state's document; nothing if it is no such document."""
    record = state.get("lifecycle") if isinstance(state, Mapping) else None
    found = record.get("snapshots") if isinstance(record, Mapping) else None
    return set(found) if isinstance(found, Mapping) else set()


def require_no_reference(kind: Kind, state: Any, tensors: Iterable[str]) -> None:
    """Raise CheckpointInvalid if a group of arrays is a reference of the lifecycle record: its digest is over all of it, and nobody here holds all of it."""
    if kind is Kind.LEARNING:
        for group in sorted({name.partition("/")[0] for name in tensors} & references(state)):
            problem = "a reference cannot be compared in parts; save it once as weights, and leave it out of sharded checkpoints"
            raise CheckpointInvalid(where=f"arrays.{group}", problem=problem, reason="invariant")


class Handed(Directory):
    """What ranks handed in for an attempt, before its manifest is written: sizes and headers are read, digests are the ranks'."""

    def __init__(self, disk: Disk, path: Path, limits: Limits, manifest: Manifest) -> None:
        super().__init__(disk, path, limits)
        self._handed, self._at = manifest, (disk, path, limits)

    def manifest(self, limits: Limits) -> Manifest:
        require_sound(self._handed, limits, where=self.where)
        return self._handed

    def names(self) -> set[str]:
        return super().names() | {FILE}

    def arrays(self, shapes: Mapping[str, tuple[str, tuple[int, ...]]]) -> Mapping[str, Array]:
        return hollow(shapes)

    def shards(self, work: Mapping[FileEntry, tuple[CheckShard, object]]) -> Mapping[str, Read]:
        for entry, (check, _) in work.items():
            header = self.header(entry)
            check(header[PREFIX:], entry.size - len(header))
        return {entry.name: Read(entry.blake3, "") for entry in work}

    def header(self, entry: FileEntry) -> bytes:
        """The beginning of a shard, as it is there."""
        disk, path, limits = self._at
        with opened(disk, path / entry.name) as (file, size):
            prefix = bytearray(PREFIX)
            disk.read_into(file, prefix)
            text = bytearray(header_length(bytes(prefix), size, limits, where=f"{self.where}, {entry.name}"))
            disk.read_into(file, text)
        return bytes(prefix + text)


class Parts:
    """A rank's view of a committed checkpoint: the shards that it needs, each verified whole, and of them the parts that it wants."""

    def __init__(self, place: Place, candidate: Candidate) -> None:
        self._place, self._manifest, self._path = place, candidate.manifest, candidate.path

    @cached_property
    def state(self) -> Any:
        """The state document, verified; the invariants of its kind hold, as far as they can be seen without values."""
        (entry,) = [each for each in self._manifest.files if each.name == STATE]
        data = Directory(self._place.disk, self._path, self._place.limits).state(entry)
        require_digest(entry, digest(data), self._path.name)
        read = states.from_bytes(data, self._place.limits)
        shapes = {name: (tensor.dtype, tensor.shape) for name, tensor in self._manifest.tensors.items()}
        judged = (
            {**read, "lifecycle": {**read["lifecycle"], "snapshots": {}}} if references(read) else read
        )  # only a whole load can compare them
        INVARIANTS[self._manifest.kind](hollow(shapes), judged)
        return read

    def load_slice(self, name: str, at: Sequence[int], shape: Sequence[int]) -> Array:
        """`load_slices` of one tensor."""
        return self.load_slices({name: (at, shape)})[name]

    def load_slices(self, wanted: Mapping[str, tuple[Sequence[int], Sequence[int]]]) -> dict[str, Array]:
        """Parts of tensors, by name: what begins at an offset and has a shape, wherever the writers put it. Only shards that hold some of it are read, each once
        and verified whole; one at a time is in memory. Raises CheckpointInvalid, LimitExceeded, OSError."""
        found: dict[str, Array] = {}
        boxes: list[Box] = []
        places: list[tuple[str, tuple[slice, ...]]] = []
        for name, (at, shape) in wanted.items():
            tensor = self._tensor(name, at, shape)
            found[name] = np.empty(tuple(shape), DTYPES[tensor.dtype])
            for part in tensor.slices:
                begin = [max(pair) for pair in zip(at, part.offset, strict=True)]
                end = [min(a + n, b + m) for a, n, b, m in zip(at, shape, part.offset, part.shape, strict=True)]
                if all(a < b for a, b in zip(begin, end, strict=True)):
                    inside = tuple(a - b for a, b in zip(begin, part.offset, strict=True))
                    boxes.append((name, part.offset, inside, tuple(b - a for a, b in zip(begin, end, strict=True))))
                    places.append((name, tuple(slice(a - o, b - o) for a, b, o in zip(begin, end, at, strict=True))))
        for number, array in self.read(dict(enumerate(boxes))).items():
            name, where = places[number]
            found[name][where] = array
        return found

    def _tensor(self, name: str, at: Sequence[int], shape: Sequence[int]) -> TensorEntry:
        tensor, where = self._manifest.tensors.get(name), f"{self._path.name}, {name}"
        if tensor is None:
            raise CheckpointInvalid(where=where, problem="there is no such tensor", reason="schema")
        fits = len(at) == len(shape) == len(tensor.shape)
        if not fits or any(a < 0 or n < 0 or a + n > whole for a, n, whole in zip(at, shape, tensor.shape, strict=True)):
            problem = f"{list(shape)} at {list(at)} was asked for, and its shape is {list(tensor.shape)}"
            raise CheckpointInvalid(where=where, problem=problem, reason="schema")
        return tensor

    def read(self, boxes: Mapping[int, Box]) -> dict[int, Array]:
        """Each box as an array of its own. One shard at a time is in memory. Raises CheckpointInvalid, LimitExceeded, OSError."""
        by_file: dict[str, list[tuple[int, str, Box]]] = {}
        for number, box in boxes.items():
            name, offset, _, _ = box
            part = next(each for each in self._manifest.tensors[name].slices if each.offset == offset and all(each.shape))
            by_file.setdefault(part.file, []).append((number, part.key, box))
        found: dict[int, Array] = {}
        for entry in self._manifest.shards():
            if wanted := by_file.get(entry.name):
                held = self._whole(entry)
                for number, key, (_, _, begin, shape) in wanted:
                    where = tuple(slice(at, at + size) for at, size in zip(begin, shape, strict=True)) or ...
                    found[number] = np.array(held[key][where], copy=True, order="C").reshape(shape)
        return found

    def _whole(self, entry: FileEntry) -> dict[str, Array]:
        place, where = self._place, f"{self._path.name}, {entry.name}"
        inside = self._manifest.inside(entry.name)
        check = check_of(self._manifest, entry, place.limits, self._path.name)
        disk = unpacked(place.disk, self._path)
        with opened(disk, self._path / entry.name) as (file, size):
            if size != entry.size:
                raise CheckpointInvalid(where=where, problem=f"it has {size} bytes of {entry.size}", reason="size")
            held = {
                key: np.empty(part.shape, DTYPES[self._manifest.tensors[tensor].dtype]) for key, (tensor, part) in inside.items()
            }
            read = read_shard(disk, file, size, place.limits, check, held, where=where)
        require_digest(entry, read.blake3, self._path.name)
        if read.unfinite:
            problem = "it holds a number that is infinite or not a number"
            raise CheckpointInvalid(where=f"{where}, {read.unfinite}", problem=problem, reason="finite")
        for key, (tensor, _) in inside.items():
            if self._manifest.kind is Kind.LEARNING and tensor.startswith("v/") and is_negative(held[key]):
                problem = "a second moment is negative, and its square root is taken"
                raise CheckpointInvalid(where=f"{where}, {key}", problem=problem, reason="invariant")
        return held
