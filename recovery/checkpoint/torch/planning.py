"""Planners: those of torch DCP, where what is no tensor is plain values, and what is loaded is exactly what was saved.

Owns the plain form of what is no tensor, and of plans that ranks exchange. Deduplication, chunks and resharding are DCP's own. Invariant: nothing is pickled
or unpickled; a key too many or too few, another dtype or another size is refused before a byte is read.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.distributed.checkpoint import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
)
from torch.distributed.checkpoint.planner import LoadPlan, ReadItem, SavePlan, TensorWriteData, WriteItem, WriteItemType

from recovery.checkpoint import state as states
from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.limits import Limits
from recovery.checkpoint.torch.tensors import DTYPES, code_of

_VALUE = "value"


def to_plain(name: str, value: Any) -> bytes:
    """The bytes of what is no tensor. Raises CheckpointInvalid, with its name, for what is no plain value."""
    try:
        return states.to_bytes({_VALUE: value}, Limits())
    except CheckpointInvalid as error:
        raise CheckpointInvalid(where=name, problem=error.problem, reason=error.reason) from None


def from_plain(name: str, data: bytes) -> Any:
    """The value again. Raises CheckpointInvalid for bytes that `to_plain` did not write: a pickle is never opened."""
    try:
        return states.from_bytes(data, Limits())[_VALUE]
    except (CheckpointInvalid, KeyError, TypeError):
        problem = "it is no plain value; save with PlainSavePlanner, which pickles nothing"
        raise CheckpointInvalid(where=name, problem=problem, reason="state") from None


class PlainSavePlanner(DefaultSavePlanner):
    """DCP's planner. What is no tensor is written as strict JSON, and refused if it has no such form."""

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        if write_item.type == WriteItemType.BYTE_IO:
            return io.BytesIO(to_plain(write_item.index.fqn, object))
        return object


class ExactLoadPlanner(DefaultLoadPlanner):
    """DCP's planner. What is loaded has the keys, dtypes and sizes of what was saved, or nothing is."""

    def create_local_plan(self) -> LoadPlan:
        assert self.metadata is not None
        require_exact(self.metadata, self.state_dict)
        return super().create_local_plan()

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        name = read_item.dest_index.fqn
        loaded = from_plain(name, value.getvalue())
        if not self.flatten_state_dict:
            self.state_dict[name] = loaded
            return
        *path, last = self.mappings[name]
        place: Any = self.original_state_dict
        for key in path:
            place = place[_key(place, key)]
        last = _key(place, last)
        place[last] = tuple(loaded) if isinstance(place[last], tuple) else loaded


def require_exact(metadata: Metadata, current: Mapping[str, Any]) -> None:
    """Raises CheckpointInvalid(reason="unfit") unless names, dtypes and sizes are those of the state that is to be replaced."""
    saved = metadata.state_dict_metadata
    _require_names(set(saved), set(current))
    for name, value in current.items():
        told = saved[name]
        if isinstance(told, BytesStorageMetadata) == isinstance(value, torch.Tensor):
            raise CheckpointInvalid(where=name, problem="a tensor here is none there, or the reverse", reason="unfit")
        if isinstance(told, BytesStorageMetadata):
            continue
        found, expected = (told.properties.dtype, tuple(told.size)), (value.dtype, tuple(value.size()))
        if found != expected:
            problem = f"{found[0]} {list(found[1])} is saved, and {expected[0]} {list(expected[1])} is here"
            raise CheckpointInvalid(where=name, problem=problem, reason="unfit")


def _require_names(saved: set[str], current: set[str]) -> None:
    told = [
        f"{words} {', '.join(sorted(names)[:5])}"
        for words, names in (("nothing is saved for", current - saved), ("nothing here is called", saved - current))
        if names
    ]
    if told:
        raise CheckpointInvalid(where="tensors", problem=f"{'; '.join(told)}", reason="unfit")


def _key(place: Any, key: Any) -> Any:
    """DCP names a path in text; a dictionary's own key may be a number."""
    return next((each for each in place if str(each) == key), key) if isinstance(place, Mapping) else key


def plan_document(items: Iterable[WriteItem]) -> list[Any]:
    """A rank's plan of tensors, for the coordinator."""
    return [
        {
            "name": item.index.fqn,
            "sharded": item.type == WriteItemType.SHARD,
            "dtype": code_of(torch.empty(0, dtype=item.tensor_data.properties.dtype), where=item.index.fqn),
            "size": list(item.tensor_data.size),
            "offset": list(item.tensor_data.chunk.offsets),
            "shape": list(item.tensor_data.chunk.sizes),
        }
        for item in items
        if item.tensor_data is not None
    ]


def plan_of(document: Sequence[Mapping[str, Any]]) -> list[WriteItem]:
    """The items of another rank's plan."""
    return [
        WriteItem(
            index=MetadataIndex(told["name"], torch.Size(told["offset"])),
            type=WriteItemType.SHARD if told["sharded"] else WriteItemType.TENSOR,
            tensor_data=TensorWriteData(
                chunk=ChunkStorageMetadata(offsets=torch.Size(told["offset"]), sizes=torch.Size(told["shape"])),
                properties=TensorProperties(dtype=DTYPES[told["dtype"]]),
                size=torch.Size(told["size"]),
            ),
        )
        for told in document
    ]


def part_of(plan: SavePlan, kept: Iterable[Sequence[Any]]) -> SavePlan:
    """The items of a rank's own plan that the coordinator left to it, by (name, offset)."""
    by_place = {(item.index.fqn, tuple(item.index.offset or ())): item for item in plan.items}
    return SavePlan([by_place[name, tuple(offset)] for name, offset in kept])


def places_of(plan: SavePlan) -> list[Any]:
    """What `part_of` is told."""
    return [[item.index.fqn, list(item.index.offset or ())] for item in plan.items]
