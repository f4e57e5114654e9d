"""Receipts: what one of several writers says it has made durable.

Owns the document, and how the receipts of all writers become the tensors of one manifest. Must not know how receipts travel. Invariant: a receipt names the
attempt that it is for, and is believed about digests only: sizes, headers and tiling are looked at by whoever commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from recovery.checkpoint import strict
from recovery.checkpoint.admitting import file_of, slice_of
from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.header import require_shape, require_tensor_name
from recovery.checkpoint.limits import Limits
from recovery.checkpoint.manifest import FileEntry, Slice, TensorEntry
from recovery.core.entries import JSON

_KEYS: Final = frozenset({"attempt", "writer", "shard", "parts"})
_PART_KEYS: Final = frozenset({"tensor", "dtype", "of", "slice"})


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a tensor in a shard. `of`: the shape of the whole tensor."""

    tensor: str
    dtype: str
    of: tuple[int, ...]
    slice: Slice

    def document(self) -> JSON:
        return {"tensor": self.tensor, "dtype": self.dtype, "of": list(self.of), "slice": self.slice.document()}


@dataclass(frozen=True, slots=True)
class Receipt:
    """One writer's. attempt: the name of its directory. shard: None if the writer had nothing to write."""

    attempt: str
    writer: int
    shard: FileEntry | None
    parts: tuple[Part, ...]

    def document(self) -> JSON:
        shard = self.shard.document() if self.shard else None
        return {"attempt": self.attempt, "writer": self.writer, "shard": shard, "parts": [part.document() for part in self.parts]}


def receipt_of(found: Any, limits: Limits, *, attempt: str, writer: int) -> Receipt:
    """The receipt in a document. Raises CheckpointInvalid if it is none, or that of another attempt or writer."""
    where = f"the receipt of writer {writer}"
    fields = strict.is_object(found, _KEYS, where=where)
    if (fields["attempt"], fields["writer"]) != (attempt, writer):
        problem = f"it is that of writer {fields['writer']!r} of {str(fields['attempt'])[:60]!r}, and not for {attempt}"
        raise CheckpointInvalid(where=where, problem=problem, reason="identity")
    if not isinstance(fields["parts"], list):
        raise CheckpointInvalid(where=where, problem="parts is no list", reason="fields")
    shard = file_of(fields["shard"], where) if fields["shard"] is not None else None
    parts = tuple(_part(item, limits, where) for item in fields["parts"])
    if any(shard is None or part.slice.file != shard.name for part in parts):
        raise CheckpointInvalid(where=where, problem="a part lies in another file than its shard", reason="slices")
    return Receipt(attempt, writer, shard, parts)


def _part(item: Any, limits: Limits, where: str) -> Part:
    fields = strict.is_object(item, _PART_KEYS, where=where)
    tensor = require_tensor_name(fields["tensor"], where=where)
    if not isinstance(fields["dtype"], str):
        raise CheckpointInvalid(where=where, problem="dtype is no string", reason="dtype")
    return Part(
        tensor, fields["dtype"], require_shape(fields["of"], limits.rank, where=where), slice_of(fields["slice"], limits, where)
    )


def key_of(tensor: str, offset: tuple[int, ...]) -> str:
    """What a part is called in its shard: as the tensor, and where it begins if that is not at the beginning."""
    return f"{tensor}@{':'.join(map(str, offset))}" if any(offset) else tensor


def tensors_of(receipts: Iterable[Receipt]) -> Mapping[str, TensorEntry]:
    """The tensors of all receipts. Raises CheckpointInvalid, with the writer's number, where two writers do not mean the same tensor by one name."""
    first: dict[str, tuple[int, Part]] = {}
    slices: dict[str, list[Slice]] = {}
    for receipt in receipts:
        for part in receipt.parts:
            writer, other = first.setdefault(part.tensor, (receipt.writer, part))
            if (part.dtype, part.of) != (other.dtype, other.of):
                problem = f"{part.dtype} of {list(part.of)}, and writer {writer} has {other.dtype} of {list(other.of)}"
                raise CheckpointInvalid(where=f"writer {receipt.writer}, {part.tensor}", problem=problem, reason="schema")
            slices.setdefault(part.tensor, []).append(part.slice)
    return {name: TensorEntry(part.dtype, part.of, tuple(slices[name])) for name, (_, part) in sorted(first.items())}
