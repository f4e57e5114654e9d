"""One load by all ranks: verify, agree, copy, in that order.

Owns the vote. Invariant: no rank touches its state before every rank has verified all that it will take on; and a checkpoint that one rank finds damaged is
passed over by all of them.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch.distributed.checkpoint.planner import LoadPlan
from torch.distributed.checkpoint.state_dict import set_model_state_dict

from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.kinds import Kind, require
from recovery.checkpoint.learning import Learning
from recovery.checkpoint.meeting import Meeting
from recovery.checkpoint.scanning import WHOLE, Candidate, Rejected, rejected
from recovery.checkpoint.store import CheckpointStore
from recovery.checkpoint.torch.evidence import hollow
from recovery.checkpoint.torch.job import Job, View, own_of
from recovery.checkpoint.torch.planning import ExactLoadPlanner
from recovery.checkpoint.torch.reading import StoreReader
from recovery.checkpoint.torch.saving import of_kind


@dataclass(frozen=True)
class Loaded:
    """What was restored. rejected: what was passed over. resharded: another number of ranks had saved it, and what is a rank's own was left alone."""

    candidate: Candidate
    rejected: tuple[Rejected, ...]
    resharded: bool


@dataclass(frozen=True)
class Verified:
    """A rank's part of a checkpoint, aside. `state`: None for weights, which are no state to continue from."""

    reader: StoreReader
    planner: ExactLoadPlanner
    plan: LoadPlan
    view: View
    state: Learning | None
    resharded: bool


def load(store: CheckpointStore, meeting: Meeting, job: Job, kind: Kind, chosen: Candidate | None, *, reshard: bool) -> Loaded:
    """This rank's part of a load. Raises CheckpointError; no rank's state was touched then."""
    passed: list[Rejected] = []
    with meeting.part():
        for round_, candidate in enumerate(_offered(store, meeting, kind, chosen, passed)):
            verified, mine = None, None
            try:
                verified = _verify(store, candidate, job, kind, meeting, reshard=reshard)
            except CheckpointInvalid as error:
                if error.reason in WHOLE or chosen is not None:
                    raise
                mine = rejected(candidate.name, error)
            meeting.tell(f"verdict.{round_}", mine.problem if mine else "")
            verdicts = {rank: problem for rank, problem in meeting.hear(f"verdict.{round_}").items() if problem}
            if verified is not None and not verdicts:
                if meeting.coordinates:
                    store.mark_restored(candidate)
                _adopt(job, verified, meeting.rank)
                return Loaded(candidate, tuple(passed), verified.resharded)
            told = "; ".join(f"rank {rank}: {problem}" for rank, problem in sorted(verdicts.items())[:3])
            passed.append(mine or Rejected(candidate.name, "elsewhere", told, damaged=True))
    raise AssertionError("the coordinator offers a candidate or raises")


def _offered(
    store: CheckpointStore, meeting: Meeting, kind: Kind, chosen: Candidate | None, passed: list[Rejected]
) -> Iterator[Candidate]:
    """The coordinator's candidates, newest first, on every rank alike. Raises NothingToRestore on all of them when none is left."""
    found = iter([chosen]) if chosen is not None else store.of_kind(kind, passed)
    round_ = 0
    while True:
        if meeting.coordinates:
            following = next(found, None)
            if following is None:
                raise store.nothing(kind, passed)
            meeting.tell(f"candidate.{round_}", following.name)
        yield store.inspect(meeting.hear_coordinator(f"candidate.{round_}"))
        round_ += 1


def _verify(store: CheckpointStore, candidate: Candidate, job: Job, kind: Kind, meeting: Meeting, *, reshard: bool) -> Verified:
    """Read what this rank will take on, and look at all of it. Raises CheckpointInvalid, LimitExceeded, WrongKind, OSError."""
    manifest = candidate.manifest
    require(manifest.kind, kind, name=candidate.name)
    reader, view = StoreReader(store, candidate), job.view()
    planner = ExactLoadPlanner(flatten_state_dict=False)
    planner.set_up_planner(of_kind(view, kind), reader.read_metadata(), meeting.coordinates)
    plan = planner.create_local_plan()
    state, resharded = None, False
    if kind is Kind.LEARNING:
        shapes = {name: (tensor.dtype, tensor.shape) for name, tensor in manifest.tensors.items()}
        state = Learning.from_parts(hollow(shapes), reader.state, finite=False)
        job.require_fits(state)
        resharded = state.extra["ranks"] != meeting.size
        if resharded and not reshard:
            problem = (
                f"{state.extra['ranks']} ranks saved it and {meeting.size} load it, and the generators and parts of a rank cannot be "
                "divided; with reshard=True they are left as they are here"
            )
            raise CheckpointInvalid(where=f"{candidate.name}, ranks", problem=problem, reason="unfit")
        if not resharded:
            job.require_own(own_of(state, meeting.rank))
    return Verified(reader, planner, reader.prepare_local_plan(plan), view, state, resharded)


def _adopt(job: Job, verified: Verified, rank: int) -> None:
    """Copy, and take on the rest."""
    if verified.state is None:
        verified.reader.read_data(verified.plan, verified.planner)
        set_model_state_dict(job.model, verified.view.model)
        return
    own = None if verified.resharded else own_of(verified.state, rank)
    with job.adopting(verified.view, verified.state, own):
        verified.reader.read_data(verified.plan, verified.planner)
