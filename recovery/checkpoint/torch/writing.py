"""Writing for torch DCP: its plans, into a checkpoint store.

Owns the `StorageWriter` that DCP calls. What goes where is the planner's business, and when it is committed the store's. Invariant: a checkpoint is
committed once every rank's shard is durable, by the coordinator alone.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import torch
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorStorageMetadata
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem
from torch.distributed.checkpoint.storage import StorageWriter, WriteResult
from torch.futures import Future

from recovery.checkpoint import state as states
from recovery.checkpoint.commit import shard_name
from recovery.checkpoint.errors import SaveFailed
from recovery.checkpoint.header import require_tensor_name
from recovery.checkpoint.kinds import Kind, require_stored
from recovery.checkpoint.manifest import FileEntry, JournalPosition, Manifest, Slice, TensorEntry
from recovery.checkpoint.parts import Handed
from recovery.checkpoint.receipts import key_of
from recovery.checkpoint.saving import Record, Session, begun, finish
from recovery.checkpoint.scanning import Candidate
from recovery.checkpoint.shards import Array, Written, write_shard
from recovery.checkpoint.store import CheckpointStore
from recovery.checkpoint.torch.planning import from_plain
from recovery.checkpoint.torch.tensors import array_of, code_of

ITEMS: Final = "items"
"""Where a state document keeps what is no tensor in a state dict."""


@dataclass(frozen=True)
class About:
    """What a checkpoint says besides its tensors. `state`: the document of the kind, without what is no tensor in the state dict."""

    kind: Kind | str = Kind.WEIGHTS
    state: Mapping[str, Any] = field(default_factory=dict)
    step: int = 0
    journal: JournalPosition | None = None
    fingerprint: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", Kind(self.kind))


@dataclass(frozen=True)
class Order:
    """What the coordinator tells a rank: the attempt's directory and the name of its shard."""

    attempt: str
    shard: str


@dataclass(frozen=True)
class Piece:
    """Where a part of a tensor was written, or the bytes of what is no tensor."""

    entry: FileEntry | None
    key: str = ""
    data: bytes = b""


class StoreWriter(StorageWriter):
    """Writes one checkpoint into a store, from all ranks. Use it in a `with`: leaving it abandons what was not committed.

    `candidate` is the checkpoint, on the coordinator, once it is committed.
    """

    def __init__(self, store: CheckpointStore, about: About | None = None, *, record: Record | None = None) -> None:
        self.about = about or About()
        require_stored(Kind(self.about.kind))
        self.candidate: Candidate | None = None
        self._store, self._record = store, record
        self._stack = ExitStack()
        self._session: Session | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:  # noqa: ARG002  # a sequence is the store's to give
        self._stack.close()
        self.candidate, self._session = None, None

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Nothing: what only a coordinator does, DCP calls on the coordinator only."""

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        for item in plan.items:
            require_tensor_name(item.index.fqn, where="the state")
            if item.tensor_data is not None:
                code_of(torch.empty(0, dtype=item.tensor_data.properties.dtype), where=item.index.fqn)
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Take the lease and begin the attempt. Raises StoreBusy, SpaceMissing, SaveFailed."""
        needed = sum(item.tensor_storage_size() or 0 for plan in plans for item in plan.items)
        wait = self._store.wait.total_seconds()
        self._session = self._stack.enter_context(
            begun(self._store.place, self._store.known, needed_bytes=needed, wait_seconds=wait)
        )
        attempt = self._session.attempt.path.name
        return [replace(plan, storage_data=Order(attempt, shard_name(index, len(plans)))) for index, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write and sync this rank's shard. Raises CheckpointInvalid; SaveFailed, also where the attempt was abandoned meanwhile."""
        order: Order = plan.storage_data
        results, arrays, items = [], {}, dict[str, WriteItem]()
        for item in plan.items:
            resolved = planner.resolve_data(item)
            if isinstance(resolved, io.BytesIO):
                results.append(WriteResult(item.index, resolved.getbuffer().nbytes, Piece(None, data=resolved.getvalue())))
                continue
            key = key_of(item.index.fqn, tuple(item.index.offset or ()))
            arrays[key], items[key] = array_of(resolved, where=item.index.fqn), item
        if arrays:
            written = self._write(order, arrays)
            results += [WriteResult(item.index, arrays[key].nbytes, Piece(written.entry, key)) for key, item in items.items()]
        return done(results)

    def _write(self, order: Order, arrays: Mapping[str, Array]) -> Written:
        place = self._store.place
        try:
            return write_shard(place.disk, place.checkpoints / order.attempt / order.shard, arrays, place.limits)
        except OSError as error:
            raise SaveFailed(
                store=str(place.root),
                step=order.shard,
                problem=error.strerror or str(error),
                fate="Nothing was committed.",
                advice="Look at the disk as this rank sees it, then save again.",
            ) from error

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Validate what all ranks handed in, and commit it. Raises CheckpointInvalid (nothing was committed), SaveFailed."""
        assert self._session is not None, "finish follows prepare_global_plan"
        place, attempt = self._store.place, self._session.attempt
        state = states.to_bytes(_with_items(self.about.state, results), place.limits)
        pieces = [
            (result.index, result.storage_data) for rank in results for result in rank if result.storage_data.entry is not None
        ]
        entries = {piece.entry.name: piece.entry for _, piece in pieces}
        manifest = Manifest(
            kind=Kind(self.about.kind),
            sequence=self._session.sequence,
            step=self.about.step,
            parent=self._session.parent,
            writers=max(1, len(entries)),
            files=(*entries.values(), attempt.write_state(state)),
            tensors=_tensors(metadata, pieces),
            journal=self.about.journal,
            fingerprint=self.about.fingerprint,
        )
        evidence = Handed(place.disk, attempt.path, place.limits, manifest)
        written = [Written(entry, evidence.header(entry)) for entry in entries.values()]
        store = self._store
        self.candidate = finish(
            place,
            store.known,
            self._session,
            manifest,
            evidence,
            written,
            keep=store.keep,
            policy=store.read_back,
            record=self._record,
        )
        self._stack.close()

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:  # noqa: ARG003
        """A checkpoint is chosen in the store, never by an id of DCP's."""
        return False


def _tensors(metadata: Metadata, pieces: Iterable[tuple[MetadataIndex, Piece]]) -> dict[str, TensorEntry]:
    slices: dict[str, list[Slice]] = {}
    for index, piece in pieces:
        assert piece.entry is not None
        told = metadata.state_dict_metadata[index.fqn]
        offset = tuple(index.offset or (0,) * len(told.size))
        shape = next(tuple(chunk.sizes) for chunk in told.chunks if tuple(chunk.offsets) == offset)
        slices.setdefault(index.fqn, []).append(Slice(piece.entry.name, piece.key, offset, shape))
    return {
        name: TensorEntry(
            code_of(torch.empty(0, dtype=told.properties.dtype), where=name), tuple(told.size), tuple(slices.get(name, ()))
        )
        for name, told in sorted(metadata.state_dict_metadata.items())
        if isinstance(told, TensorStorageMetadata)
    }


def _with_items(state: Mapping[str, Any], results: list[list[WriteResult]]) -> dict[str, Any]:
    """The document with what is no tensor in its `extra`. Raises CheckpointInvalid for what is no plain value."""
    found = {
        result.index.fqn: from_plain(result.index.fqn, result.storage_data.data)
        for rank in results
        for result in rank
        if result.storage_data.entry is None
    }
    return {**state, "extra": {**state.get("extra", {}), ITEMS: found}} if found else dict(state)


def done(value: Any) -> Future[Any]:
    """A future of torch's that has its value."""
    future: Future[Any] = Future()
    future.set_result(value)
    return future
