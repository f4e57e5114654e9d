"""Reading for torch DCP: a checkpoint of a store, verified before any of it is copied.

Owns the `StorageReader` that DCP calls. Invariant: no live tensor is touched before everything that is read for it was verified, on every rank.

DCP runs `prepare_local_plan` on every rank and raises on all of them what one of them raised, before any rank goes on. So that is where a `StoreReader`
reads: when `read_data` begins to copy, every rank has its part aside, verified.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from torch.distributed.checkpoint.storage import StorageReader
from torch.futures import Future

from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.manifest import TensorEntry
from recovery.checkpoint.parts import Parts
from recovery.checkpoint.scanning import Candidate
from recovery.checkpoint.store import CheckpointStore
from recovery.checkpoint.torch.planning import ExactLoadPlanner, to_plain
from recovery.checkpoint.torch.tensors import DTYPES, tensor_of
from recovery.checkpoint.torch.writing import ITEMS, done


class StoreReader(StorageReader):
    """Reads one checkpoint of a store. `state` is its document, once it was verified.

    The limit of what is aside is this rank's part and one shard.
    """

    def __init__(self, store: CheckpointStore, candidate: Candidate) -> None:
        self.candidate = candidate
        self._parts = Parts(store.place, candidate)
        self._aside: dict[int, Any] = {}

    @property
    def state(self) -> Any:
        """The document of the kind. Raises CheckpointInvalid."""
        return self._parts.state

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:  # noqa: ARG002
        self._aside = {}

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:  # noqa: ARG002
        """What DCP keeps in a pickle, from the manifest and the state document. Raises CheckpointInvalid."""
        described: dict[str, Any] = {name: _described(entry) for name, entry in self.candidate.manifest.tensors.items()}
        return Metadata(described | {name: BytesStorageMetadata() for name in _items(self.state)})

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Nothing: the manifest was read when the candidate was chosen."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Read and verify everything that this rank loads. Raises CheckpointInvalid, LimitExceeded, OSError."""
        wanted = [(number, item) for number, item in enumerate(plan.items) if item.type == LoadItemType.TENSOR]
        tensors = self.candidate.manifest.tensors
        boxes = {
            number: (item.storage_index.fqn, tuple(item.storage_index.offset), tuple(item.storage_offsets), tuple(item.lengths))
            for number, item in wanted
        }
        self._aside = {
            number: tensor_of(array, tensors[boxes[number][0]].dtype) for number, array in self._parts.read(boxes).items()
        }
        return replace(plan, storage_data=[number for number, _ in wanted])

    def aside(self, number: int) -> torch.Tensor:
        """What was read for an item of the plan, and not copied yet."""
        return self._aside[number]

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Copy what is aside into the live tensors. Raises CheckpointInvalid, before that, for a planner that would unpickle."""
        values = _items(self.state)
        if not isinstance(planner, ExactLoadPlanner) and any(item.type == LoadItemType.BYTE_IO for item in plan.items):
            problem = (
                f"{type(planner).__name__} opens pickles, and what is no tensor here is plain values; load with ExactLoadPlanner"
            )
            raise CheckpointInvalid(where=self.candidate.name, problem=problem, reason="unfit")
        for number, item in enumerate(plan.items):
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(_bytes_of(values, item)))
                continue
            target = planner.resolve_tensor(item).detach()
            target.copy_(self._aside[number])
            planner.commit_tensor(item, target)
        self._aside = {}
        return done(None)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:  # noqa: ARG003
        """A checkpoint is chosen in the store, never by an id of DCP's."""
        return False


def _described(entry: TensorEntry) -> TensorStorageMetadata:
    chunks = [ChunkStorageMetadata(torch.Size(part.offset), torch.Size(part.shape)) for part in entry.slices]
    return TensorStorageMetadata(TensorProperties(dtype=DTYPES[entry.dtype]), torch.Size(entry.shape), chunks)


def _items(state: Any) -> Mapping[str, Any]:
    extra = state.get("extra", {}) if isinstance(state, Mapping) else {}
    items = extra.get(ITEMS, {}) if isinstance(extra, Mapping) else {}
    return items if isinstance(items, Mapping) else {}


def _bytes_of(values: Mapping[str, Any], item: ReadItem) -> bytes:
    return to_plain(item.storage_index.fqn, values[item.storage_index.fqn])
