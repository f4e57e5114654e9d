"""One load by all ranks: verify, agree, copy, in that order.

Owns the vote. Invariant: no rank touches its state before every rank has verified all that it will take on; and a checkpoint that one rank finds damaged is
passed over by all of them.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch.distributed.checkpoint.planner import LoadPlan
from torch.distributed.checkpoint.state_dict import set_model_state_dict

from recovery.checkpoint.continuing import JournalLink, Restored, later
from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.kinds import Kind, require
from recovery.checkpoint.learning import Learning
from recovery.checkpoint.lifecycle import Exposure, exposure_from
from recovery.checkpoint.meeting import Meeting
from recovery.checkpoint.parts import hollow
from recovery.checkpoint.scanning import WHOLE, Candidate, Rejected, rejected
from recovery.checkpoint.store import CheckpointStore
from recovery.checkpoint.torch.job import Job, View, own_of
from recovery.checkpoint.torch.planning import ExactLoadPlanner
from recovery.checkpoint.torch.reading import StoreReader
from recovery.checkpoint.torch.saving import of_kind
from recovery.checkpoint.torch.tensors import array_of
from recovery.checkpoint.ulp import identical
from recovery.checkpoint.validating import Checkpoint


@dataclass(frozen=True)
class Loaded:
    """What was restored. rejected: what was passed over. resharded: another number of ranks had saved it, and what is a rank's own was left alone.

    restored: what came after it in the run's journal, where this rank gave one; it refuses to send before that is reconciled.
    """

    candidate: Candidate
    rejected: tuple[Rejected, ...]
    resharded: bool
    restored: Restored


@dataclass(frozen=True)
class Verified:
    """A rank's part of a checkpoint, aside. `state`: None for weights, which are no state to continue from."""

    reader: StoreReader
    planner: ExactLoadPlanner
    plan: LoadPlan
    view: View
    state: Learning | None
    resharded: bool
    restored: Restored


@dataclass(frozen=True)
class Wish:
    """What is to be loaded. reshard: whether another number of ranks may have saved it. journal: the run's, on the ranks that can read it."""

    kind: Kind
    chosen: Candidate | None
    reshard: bool
    journal: JournalLink | None


def load(store: CheckpointStore, meeting: Meeting, job: Job, wish: Wish) -> Loaded:
    """This rank's part of a load. Raises CheckpointError; no rank's state was touched then."""
    passed: list[Rejected] = []
    with meeting.part():
        if meeting.coordinates:
            meeting.tell("looks", exposure_from(wish.journal).to_json())
        looks = Exposure.from_json(meeting.hear_coordinator("looks"))
        for round_, candidate in enumerate(_offered(store, meeting, wish, passed)):
            verified, mine = None, None
            try:
                verified = _verify(store, candidate, job, wish, meeting)
            except CheckpointInvalid as error:
                if error.reason in WHOLE or wish.chosen is not None:
                    raise
                mine = rejected(candidate.name, error)
            meeting.tell(f"verdict.{round_}", mine.problem if mine else "")
            verdicts = {rank: problem for rank, problem in meeting.hear(f"verdict.{round_}").items() if problem}
            if verified is not None and not verdicts:
                if meeting.coordinates:
                    store.mark_restored(candidate)
                    meeting.forget_earlier()
                _adopt(job, verified, meeting.rank, looks)
                return Loaded(candidate, tuple(passed), verified.resharded, verified.restored)
            told = "; ".join(f"rank {rank}: {problem}" for rank, problem in sorted(verdicts.items())[:3])
            passed.append(mine or Rejected(candidate.name, "elsewhere", told, damaged=True))
    raise AssertionError("the coordinator offers a candidate or raises")


def _offered(store: CheckpointStore, meeting: Meeting, wish: Wish, passed: list[Rejected]) -> Iterator[Candidate]:
    """The coordinator's candidates, newest first, on every rank alike. Raises NothingToRestore on all of them when none is left."""
    found = iter([wish.chosen]) if wish.chosen is not None else store.of_kind(wish.kind, passed)
    round_ = 0
    while True:
        if meeting.coordinates:
            following = next(found, None)
            if following is None:
                raise store.nothing(wish.kind, passed)
            meeting.tell(f"candidate.{round_}", following.name)
        yield store.inspect(meeting.hear_coordinator(f"candidate.{round_}"))
        round_ += 1


def _verify(store: CheckpointStore, candidate: Candidate, job: Job, wish: Wish, meeting: Meeting) -> Verified:
    """Read what this rank will take on, and look at all of it. Raises CheckpointInvalid, LimitExceeded, WrongKind, PositionUnknown, OSError."""
    manifest = candidate.manifest
    require(manifest.kind, wish.kind, name=candidate.name)
    reader, view = StoreReader(store, candidate), job.view()
    planner = ExactLoadPlanner(flatten_state_dict=False)
    planner.set_up_planner(of_kind(view, wish.kind), reader.read_metadata(), meeting.coordinates)
    plan = planner.create_local_plan()
    state, resharded = None, False
    if wish.kind is Kind.LEARNING:
        shapes = {name: (tensor.dtype, tensor.shape) for name, tensor in manifest.tensors.items()}
        state = Learning.from_parts(hollow(shapes), reader.state, finite=False)
        with _fitting():
            job.require_fits(state)
        resharded = state.extra["ranks"] != meeting.size
        if resharded and not wish.reshard:
            raise _other_ranks(candidate, state.extra["ranks"], meeting.size)
        if not resharded:
            with _fitting():
                job.require_own(own_of(state, meeting.rank))
    plan = reader.prepare_local_plan(plan)
    if state is not None:
        _require_frozen(state, reader, planner, plan)
    checkpoint = Checkpoint(manifest, {}, reader.state)  # its arrays go where they belong, and nowhere else
    return Verified(reader, planner, plan, view, state, resharded, Restored(checkpoint, later(checkpoint, wish.journal)))


@contextmanager
def _fitting() -> Iterator[None]:
    """What is whole and of another run is no damage: nobody passes it over for an older one in silence."""
    try:
        yield
    except CheckpointInvalid as error:
        raise CheckpointInvalid(where=error.where, problem=error.problem, reason="unfit") from error


def _require_frozen(state: Learning, reader: StoreReader, planner: ExactLoadPlanner, plan: LoadPlan) -> None:
    """What the stage does not update is the run's own, bit for bit. Raises CheckpointInvalid."""
    for number, item in enumerate(plan.items):
        name = item.dest_index.fqn
        if state.lifecycle.stage.freezes(name.partition("/")[0]):
            here = array_of(planner.resolve_tensor(item), where=name)
            if not identical(here, array_of(reader.aside(number), where=name)):
                problem = f"stage {state.lifecycle.stage.name} does not update it, and it is not the one that the run has"
                raise CheckpointInvalid(reason="unfit", where=f"{reader.candidate.name}, {name}", problem=problem)


def _other_ranks(candidate: Candidate, saved: int, here: int) -> CheckpointInvalid:
    problem = (
        f"{saved} ranks saved it and {here} load it, and the generators and parts of a rank cannot be divided; "
        "with reshard=True they are left as they are here"
    )
    return CheckpointInvalid(where=f"{candidate.name}, ranks", problem=problem, reason="unfit")


def _adopt(job: Job, verified: Verified, rank: int, looks: Exposure) -> None:
    """Copy, and take on the rest."""
    if verified.state is None:
        verified.reader.read_data(verified.plan, verified.planner)
        set_model_state_dict(job.model, verified.view.model)
    else:
        own = None if verified.resharded else own_of(verified.state, rank)
        with job.adopting(verified.view, verified.state, own):
            verified.reader.read_data(verified.plan, verified.planner)
    job.lifecycle = job.lifecycle.merge(looks)
