"""The manifest: what a checkpoint consists of, to the byte, and what it is a checkpoint of.

Owns the document and its identity. Must not touch a disk. Invariant: its bytes are canonical, so that equal manifests have equal bytes, and its id
is the BLAKE3 digest of them without the id; whoever trusts an id can trust every digest inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from blake3 import blake3

from recovery.checkpoint import strict
from recovery.checkpoint.kinds import Kind
from recovery.core.entries import JSON

FORMAT: Final = 1
FILE: Final = "MANIFEST.json"
STATE: Final = "state.json"
SHORT: Final = 12  # characters of an id that a directory's name shows
ID_DOMAIN: Final = b"recovery-checkpoint-1\n"


def digest(data: bytes | bytearray) -> str:
    """BLAKE3-256 in hex."""
    return blake3(data).hexdigest()


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file beside the manifest. `size` in bytes; `blake3` of the whole file in hex."""

    name: str
    size: int
    blake3: str

    def document(self) -> JSON:
        return {"name": self.name, "size": self.size, "blake3": self.blake3}


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a tensor: the tensor `key` of `file` holds what begins at `offset` and has `shape`."""

    file: str
    key: str
    offset: tuple[int, ...]
    shape: tuple[int, ...]

    def document(self) -> JSON:
        return {"file": self.file, "key": self.key, "offset": list(self.offset), "shape": list(self.shape)}


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor, wherever its slices are. `dtype` as safetensors writes it."""

    dtype: str
    shape: tuple[int, ...]
    slices: tuple[Slice, ...]

    def document(self) -> JSON:
        return {"dtype": self.dtype, "shape": list(self.shape), "slices": [part.document() for part in self.slices]}


class Table(dict[str, TensorEntry]):
    """Tensors by name, with what follows from them alone. Never changed: saves of the same tensors share one, so that it is worked out once.

    sound: within which limits, and in files of which sizes, it was last found sound, or None. Kept by who found it so.
    """

    sound: object = None

    @cached_property
    def text(self) -> bytes:
        """Canonical."""
        return strict.canonical({name: tensor.document() for name, tensor in self.items()})

    @cached_property
    def shapes(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """(dtype, shape) by tensor."""
        return {name: (tensor.dtype, tensor.shape) for name, tensor in self.items()}

    @cached_property
    def schema(self) -> str:
        return schema_digest(self.shapes)

    @cached_property
    def by_file(self) -> dict[str, dict[str, tuple[str, Slice]]]:
        """File -> key in it -> (tensor, slice)."""
        found: dict[str, dict[str, tuple[str, Slice]]] = {}
        for name, tensor in self.items():
            for part in tensor.slices:
                found.setdefault(part.file, {})[part.key] = (name, part)
        return found

    @cached_property
    def headers(self) -> dict[str, dict[str, tuple[str, tuple[int, ...]]]]:
        """File -> key in it -> (dtype, shape): what its header must say."""
        return {
            file: {key: (self[tensor].dtype, part.shape) for key, (tensor, part) in inside.items()}
            for file, inside in self.by_file.items()
        }


@dataclass(frozen=True, slots=True)
class JournalPosition:
    """Where the run's journal stood when the state was captured: entries and head digest. What came later is not in the state."""

    run_id: str
    position: int
    digest: str

    def document(self) -> JSON:
        return {"run_id": self.run_id, "position": self.position, "digest": self.digest}


@dataclass(frozen=True)
class Manifest:
    """All that is known about a checkpoint without its bytes.

    sequence: order of commits in its store, from 1. step: updates done, as the state counts them. parent: id of the checkpoint before it, or "".
    fingerprint: of the runtime that wrote it; an identifier, no signature. writers: how many shards were promised.
    """

    kind: Kind
    sequence: int
    step: int
    parent: str
    writers: int
    files: tuple[FileEntry, ...]
    tensors: Mapping[str, TensorEntry] = field(repr=False)  # there can be thousands
    journal: JournalPosition | None = None
    fingerprint: str = ""
    format: int = field(default=FORMAT)
    sound: object = field(
        default=None, init=False, compare=False, repr=False
    )  # the limits within which it was found so; kept by who found it

    def __post_init__(self) -> None:
        if not isinstance(self.tensors, Table):
            object.__setattr__(self, "tensors", Table(self.tensors))

    @property
    def table(self) -> Table:
        """`tensors`, with what follows from them."""
        assert isinstance(self.tensors, Table), "made one"
        return self.tensors

    @cached_property
    def id(self) -> str:
        before, after = self._around_id
        return digest(ID_DOMAIN + before + b"," + after)

    @property
    def name(self) -> str:
        """The name of its directory."""
        return f"{self.sequence:012d}-{self.id[:SHORT]}"

    @property
    def schema(self) -> str:
        """The digest of names, dtypes and shapes, whatever the slices: equal for states that fit into each other."""
        return self.table.schema

    @property
    def total_bytes(self) -> int:
        """Of all its files."""
        return sum(entry.size for entry in self.files)

    def shards(self) -> tuple[FileEntry, ...]:
        return tuple(entry for entry in self.files if entry.name != STATE)

    def inside(self, file: str) -> dict[str, tuple[str, Slice]]:
        """What a shard must hold: key -> (tensor, slice)."""
        return self.table.by_file.get(file, {})

    @property
    def _parts(self) -> tuple[dict[str, JSON], dict[str, JSON], dict[str, JSON]]:
        """Everything but the id and the tensors: by its keys, what comes before the id, between it and the tensors, and behind these."""
        return (
            {"fingerprint": self.fingerprint, "files": [entry.document() for entry in self.files], "format": self.format},
            {
                "journal": self.journal.document() if self.journal else None,
                "kind": self.kind.value,
                "parent": self.parent,
                "schema": self.schema,
                "sequence": self.sequence,
                "step": self.step,
            },
            {
                "totals": {"bytes": self.total_bytes, "files": len(self.files), "tensors": len(self.tensors)},
                "writers": self.writers,
            },
        )

    def document(self) -> dict[str, JSON]:
        before, between, behind = self._parts
        tensors: JSON = {name: tensor.document() for name, tensor in self.tensors.items()}
        return {**before, "id": self.id, **between, "tensors": tensors, **behind}

    def to_bytes(self) -> bytes:
        return self._bytes

    @cached_property
    def _bytes(self) -> bytes:
        before, after = self._around_id
        return before + b',"id":"' + self.id.encode() + b'",' + after

    @cached_property
    def _around_id(self) -> tuple[bytes, bytes]:
        """The canonical bytes before and after the id, which is the digest of both: written once for it and for the file. Keys are sorted."""
        before, between, behind = map(strict.canonical, self._parts)
        return before[:-1], between[1:-1] + b',"tensors":' + self.table.text + b"," + behind[1:]


def schema_digest(tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> str:
    """For name -> (dtype, shape)."""
    document: dict[str, Any] = {name: {"dtype": dtype, "shape": list(shape)} for name, (dtype, shape) in tensors.items()}
    return digest(strict.canonical(document))
