"""One save by all ranks: plan, write, commit, in that order.

Owns what the ranks tell each other on the way. Plans are torch DCP's, bytes and the commit the store's. Invariant: the coordinator commits once every rank has
told what it made durable, and never otherwise; every rank returns the committed checkpoint or raises.

It calls no collective, so that a save beside the training does not meet the training's own.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import SavePlan, WriteItem
from torch.distributed.checkpoint.storage import WriteResult

from recovery.checkpoint import state as states
from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.header import bytes_of
from recovery.checkpoint.kinds import Kind, require_stored
from recovery.checkpoint.limits import Limits
from recovery.checkpoint.manifest import JournalPosition, Slice, digest
from recovery.checkpoint.meeting import Meeting
from recovery.checkpoint.parts import require_no_reference
from recovery.checkpoint.receipts import Part, Receipt, receipt_of
from recovery.checkpoint.saving import Record
from recovery.checkpoint.scanning import Candidate
from recovery.checkpoint.store import CheckpointStore
from recovery.checkpoint.torch.job import Job, View, merged
from recovery.checkpoint.torch.planning import PlainSavePlanner, part_of, places_of, plan_document, plan_of
from recovery.checkpoint.torch.tensors import code_of
from recovery.checkpoint.torch.writing import About, Order, Piece, StoreWriter

WEIGHTS: tuple[str, ...] = ("w/", "b/")
"""The groups that a checkpoint of the kind weights holds."""


@dataclass(frozen=True)
class Told:
    """What a checkpoint says of its surroundings. The coordinator's counts."""

    journal: JournalPosition | None = None
    fingerprint: str = ""
    record: Record | None = None


@dataclass(frozen=True)
class Captured:
    """This rank's side of a save, taken between two updates. `resolve`: the data of an item of the plan."""

    kind: Kind
    planner: PlainSavePlanner
    plan: SavePlan
    resolve: Callable[[WriteItem], Any]
    shared: Mapping[str, Any]
    own: Mapping[str, Any]
    step: int

    def resolve_data(self, write_item: WriteItem) -> Any:
        return self.resolve(write_item)


def of_kind(view: View, kind: Kind) -> dict[str, Any]:
    """The tensors that a checkpoint of that kind holds. Raises WrongKind for kinds that are no torch job's."""
    require_stored(kind)
    return {name: value for name, value in view.tensors.items() if kind is Kind.LEARNING or name.startswith(WEIGHTS)}


def capture(job: Job, kind: Kind, *, coordinates: bool, copy: bool) -> Captured:
    """Generators and plain values first, then the tensors: by reference, or copied to main memory so that the training can go on."""
    own, view = job.of_rank(), job.view()
    shared = job.shared(view)
    if kind is not Kind.LEARNING:
        own, shared = {}, {name: shared[name] for name in ("config", "lifecycle")}
    planner = PlainSavePlanner(flatten_state_dict=False)
    planner.set_up_planner(of_kind(view, kind), is_coordinator=coordinates)
    plan = planner.create_local_plan()
    if not copy:
        return Captured(kind, planner, plan, planner.resolve_data, shared, own, job.counter)
    held = {item.index: planner.resolve_data(item).detach().to("cpu", copy=True) for item in plan.items}
    planner.state_dict = {}  # from here on nothing refers to the live tensors
    return Captured(kind, planner, plan, lambda item: held[item.index], shared, own, job.counter)


def save(store: CheckpointStore, meeting: Meeting, captured: Captured, told: Told) -> Candidate:
    """This rank's part of a save. Raises CheckpointError."""
    about = About(captured.kind, step=captured.step, journal=told.journal, fingerprint=told.fingerprint)
    with (
        StoreWriter(store, about, record=told.record) as writer,
        meeting.part(),
    ):  # a failure is told before its attempt is abandoned
        plan = writer.prepare_local_plan(captured.plan)
        require_no_reference(captured.kind, captured.shared, [item.index.fqn for item in plan.items])
        mine = {"items": plan_document(plan.items), "shared": _digest(captured), "own": states.seal(captured.own)}
        meeting.tell("plan", mine | {"step": captured.step, "kind": captured.kind.value})
        metadata = _plan_for_all(meeting, captured, writer) if meeting.coordinates else None
        order = meeting.hear_coordinator("order")[meeting.rank]
        plan = replace(part_of(plan, order["items"]), storage_data=Order(order["attempt"], order["shard"]))
        plan = captured.planner.finish_plan(plan)
        meeting.tell("receipt", _receipt(meeting.rank, plan, writer.write_data(plan, captured).value()).document())
        if metadata is not None:
            heard = sorted(meeting.hear("receipt").items())
            receipts = [receipt_of(told, store.place.limits, attempt=order["attempt"], writer=rank) for rank, told in heard]
            writer.finish(metadata, [_results(receipt) for receipt in receipts])
            assert writer.candidate is not None
            meeting.tell("outcome", writer.candidate.name)
            meeting.forget_earlier()
        return writer.candidate or store.inspect(meeting.hear_coordinator("outcome"))


def _plan_for_all(meeting: Meeting, captured: Captured, writer: StoreWriter) -> Any:
    """On the coordinator: let DCP share the work out, begin the attempt, tell everybody. Returns DCP's metadata."""
    told = [plan for _, plan in sorted(meeting.hear("plan").items())]
    _require_agreement(told)
    if captured.kind is Kind.LEARNING:
        state = merged(captured.shared, {rank: states.unseal(each["own"]) for rank, each in enumerate(told)})
    else:
        state = dict(captured.shared)
    writer.about = replace(writer.about, state=state)
    plans, metadata = captured.planner.create_global_plan([SavePlan(plan_of(each["items"])) for each in told])
    orders = [(places_of(plan), plan.storage_data) for plan in writer.prepare_global_plan(plans)]
    meeting.tell("order", [{"items": items, "attempt": order.attempt, "shard": order.shard} for items, order in orders])
    return metadata


def _require_agreement(told: list[Mapping[str, Any]]) -> None:
    """Ranks that are not between the same two updates make no state."""
    for rank, each in enumerate(told):
        for name, what in (("kind", "kind"), ("step", "counter"), ("shared", "cursor, configuration, lifecycle or parts")):
            if each[name] != told[0][name]:
                problem = f"its {what} differ from rank 0's; what is a rank's own belongs into `parts_of_rank`"
                raise CheckpointInvalid(where=f"rank {rank}", problem=problem, reason="invariant")


def _digest(captured: Captured) -> str:
    """Of what must be the same on every rank. The history is not: it is the coordinator's."""
    return digest(states.to_bytes({name: value for name, value in captured.shared.items() if name != "history"}, Limits()))


def _receipt(rank: int, plan: SavePlan, results: Iterable[WriteResult]) -> Receipt:
    """What a rank has made durable, in the words of every sharded save."""
    order: Order = plan.storage_data
    told = {item.index: item.tensor_data for item in plan.items}
    shard, parts = None, []
    for result in results:
        piece, tensor = result.storage_data, told[result.index]
        assert piece.entry is not None, "a job's state dict holds tensors only"
        assert tensor is not None, "a job's state dict holds tensors only"
        shard, shape = piece.entry, tuple(tensor.chunk.sizes)
        offset = tuple(result.index.offset or (0,) * len(shape))
        dtype = code_of(torch.empty(0, dtype=tensor.properties.dtype), where=result.index.fqn)
        parts.append(Part(result.index.fqn, dtype, tuple(tensor.size), Slice(shard.name, piece.key, offset, shape)))
    return Receipt(order.attempt, rank, shard, tuple(parts))


def _results(receipt: Receipt) -> list[WriteResult]:
    return [
        WriteResult(
            MetadataIndex(part.tensor, part.slice.offset),
            bytes_of(part.dtype, part.slice.shape, where=part.tensor),
            Piece(receipt.shard, part.slice.key),
        )
        for part in receipt.parts
    ]
