"""The validator: one function, for what is about to be committed and for what is about to be loaded.

Owns the order of the checks: bounds, JSON, kind, names and sizes, digests, headers, tiling, schema, finite numbers, the kind's invariants. Must not
replace anything. Invariant: a `Checkpoint` exists only if every check passed, and it was built aside.

`Capture` is what a store is given, `Evidence` is where the facts come from: on import a directory that is read, on export what was just written.
A kind's invariants are one function each, in `INVARIANTS`: it gets the arrays and the state, and raises CheckpointInvalid(reason="invariant").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

from recovery.checkpoint import learning
from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.header import Placed, read_header
from recovery.checkpoint.kinds import Kind, require
from recovery.checkpoint.limits import Limits
from recovery.checkpoint.manifest import FILE, STATE, FileEntry, Manifest, digest
from recovery.checkpoint.shards import DTYPES, Array, Read

Invariants = Callable[[Mapping[str, Array], Any], None]


def none(_arrays: Mapping[str, Array], _state: Any) -> None:
    """A kind whose arrays and state may be anything that is whole and finite."""


INVARIANTS: Final[dict[Kind, Invariants]] = {Kind.LEARNING: learning.hold, Kind.WEIGHTS: none, Kind.INFERENCE_KV: none}
"""What must hold inside a state of each kind that a store holds."""


class Capture(Protocol):
    """A state to be saved, taken at one boundary: after an update and before the next."""

    @property
    def kind(self) -> Kind:
        """What kind of state it is; it is loaded as no other."""
        ...

    @property
    def arrays(self) -> Mapping[str, Array]:
        """By name; read during `save` and not afterwards."""
        ...

    def state(self) -> Any:
        """Everything else, as plain values: numbers, strings, lists, mappings."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A whole and valid state. Its arrays are fresh, writable, and nobody else's."""

    manifest: Manifest
    arrays: Mapping[str, Array] = field(repr=False)
    state: Any = field(repr=False)

    @property
    def kind(self) -> Kind:
        """What kind of state it is."""
        return self.manifest.kind


CheckShard = Callable[[bytes, int], Mapping[str, Placed]]

Parts = Callable[[], Mapping[str, Array]]
"""Gives the places that a shard fills, by key; asked of by whoever fills them."""


class Evidence(Protocol):
    """Where the facts about one checkpoint come from. Methods are called in this order, each after what bounds it was checked."""

    @property
    def where(self) -> str:
        """Its name, for errors."""
        ...

    def manifest(self, limits: Limits) -> Manifest:
        """What it consists of, found sound: out of bytes that `admit` has read, or as it will be written, by the same rules."""
        ...

    def names(self) -> set[str]:
        """Of everything in the directory."""
        ...

    def size(self, name: str) -> int:
        """Of a regular file in it, in bytes."""
        ...

    def arrays(self, shapes: Mapping[str, tuple[str, tuple[int, ...]]]) -> Mapping[str, Array]:
        """By tensor, of these dtypes and shapes; filled by `shard`."""
        ...

    def shards(self, work: Mapping[FileEntry, tuple[CheckShard, Parts]]) -> Mapping[str, Read]:
        """Read the shards: show each header to its check, fill its parts, by key. By file name."""
        ...

    def state(self, entry: FileEntry) -> bytes: ...

    def value(self, state: bytes, limits: Limits) -> Any:
        """What these bytes say: read from them, or what they were made of."""
        ...


def validate(
    evidence: Evidence, limits: Limits, *, kind: Kind | None = None, name: str | None = None, schema: str | None = None
) -> Checkpoint:
    """Check everything. Raises CheckpointInvalid, LimitExceeded, UnknownFormat, WrongKind or OSError; nothing was replaced then.

    kind: what it must be. name: what its directory must be called. schema: the digest of names, dtypes and shapes that it must fit.
    """
    where = evidence.where
    manifest = describe(evidence, limits, kind=kind, name=name)
    if schema is not None and manifest.schema != schema:
        raise CheckpointInvalid(
            where=where, problem="its tensors are not those of this state (names, dtypes or shapes)", reason="unfit"
        )
    shapes = manifest.table.shapes
    arrays = evidence.arrays(shapes)
    _require_shapes(arrays, shapes, where)
    found = evidence.shards(
        {entry: (check_of(manifest, entry, limits, where), partial(_parts, manifest, entry, arrays)) for entry in manifest.shards()}
    )
    for entry in manifest.shards():
        require_digest(entry, found[entry.name].blake3, where)
    state_entry = next(entry for entry in manifest.files if entry.name == STATE)
    state = evidence.state(state_entry)
    require_digest(state_entry, digest(state), where)
    for entry in manifest.shards():
        if found[entry.name].unfinite:
            at = f"{where}, {manifest.inside(entry.name)[found[entry.name].unfinite][0]}"
            raise CheckpointInvalid(where=at, problem="it holds a number that is infinite or not a number", reason="finite")
    read = evidence.value(state, limits)
    INVARIANTS[manifest.kind](arrays, read)
    return Checkpoint(manifest, arrays, read)


def describe(evidence: Evidence, limits: Limits, *, kind: Kind | None = None, name: str | None = None) -> Manifest:
    """The checks that need no file's content but the manifest's. A directory that fails one of them is no candidate."""
    where = evidence.where
    manifest = evidence.manifest(limits)
    if kind is not None:
        require(manifest.kind, kind, name=where)
    if name is not None and manifest.name != name:
        raise CheckpointInvalid(where=where, problem=f"its manifest is that of {manifest.name}", reason="identity")
    listed = {entry.name for entry in manifest.files} | {FILE}
    if listed != evidence.names():
        odd = sorted(listed ^ evidence.names())[:3]
        problem = f"files are missing or not listed: {', '.join(odd)}"
        raise CheckpointInvalid(where=where, problem=problem, reason="files")
    for entry in manifest.files:
        if (size := evidence.size(entry.name)) != entry.size:
            raise CheckpointInvalid(where=f"{where}, {entry.name}", problem=f"it has {size} bytes of {entry.size}", reason="size")
    return manifest


def check_of(manifest: Manifest, entry: FileEntry, limits: Limits, where: str) -> CheckShard:
    """What a shard's header must say: exactly what the manifest says is in it."""
    expected = manifest.table.headers.get(entry.name, {})

    def check(text: bytes, data_bytes: int) -> Mapping[str, Placed]:
        placed = read_header(text, data_bytes, limits, where=f"{where}, {entry.name}")
        if {key: (tensor.dtype, tensor.shape) for key, tensor in placed.items()} != expected:
            problem = "its header names other tensors, dtypes or shapes than the manifest"
            raise CheckpointInvalid(where=f"{where}, {entry.name}", problem=problem, reason="schema")
        return placed

    return check


def _parts(manifest: Manifest, entry: FileEntry, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The places in the whole arrays that a shard fills, by key."""
    return {
        key: arrays[tensor][tuple(slice(at, at + size) for at, size in zip(part.offset, part.shape, strict=True)) or ...]
        for key, (tensor, part) in manifest.inside(entry.name).items()
    }


def _require_shapes(arrays: Mapping[str, Array], shapes: Mapping[str, tuple[str, tuple[int, ...]]], where: str) -> None:
    if arrays.keys() != shapes.keys():
        odd = sorted(arrays.keys() ^ shapes.keys())[:3]
        raise CheckpointInvalid(where=where, problem=f"arrays are missing or not listed: {', '.join(odd)}", reason="schema")
    for name, (dtype, shape) in shapes.items():
        found, wanted = arrays[name].dtype, DTYPES[dtype]
        if arrays[name].shape != shape or (found != wanted and found.newbyteorder("<") != wanted):
            raise CheckpointInvalid(where=f"{where}, {name}", problem="its dtype or shape is not the manifest's", reason="schema")


def require_digest(entry: FileEntry, found: str, where: str) -> None:
    if found != entry.blake3:
        problem = f"its content has the digest {found[:12]} and the manifest says {entry.blake3[:12]}"
        raise CheckpointInvalid(where=f"{where}, {entry.name}", problem=problem, reason="digest")
