"""A checkpoint store for the ranks of one torch job: save, save beside the training, load.

Owns where the ranks meet, and that one save is under way at a time. Must not know what they tell each other. Invariants: a save is one checkpoint of all
ranks or none; a load replaces the state of all ranks or of none; each ends, and names the rank that did not come.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import secrets
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Self

import torch.distributed as dist

from recovery.checkpoint.background import Alarm, OneAtATime
from recovery.checkpoint.continuing import JournalLink
from recovery.checkpoint.errors import SaveUnderWay
from recovery.checkpoint.files import remove_tree
from recovery.checkpoint.kinds import Kind
from recovery.checkpoint.layout import listed
from recovery.checkpoint.manifest import JournalPosition
from recovery.checkpoint.meeting import COORDINATOR, Meeting
from recovery.checkpoint.saving import Record
from recovery.checkpoint.scanning import Candidate
from recovery.checkpoint.store import CheckpointStore
from recovery.checkpoint.torch.job import Job
from recovery.checkpoint.torch.loading import Loaded, Wish, load
from recovery.checkpoint.torch.saving import Told, capture, save
from recovery.crashpoints import around

RANKS: Final = "ranks"
"""The directory of a store in which ranks meet."""

FORGOTTEN_S: Final = 7 * 24 * 3600
"""How long the last words of a job are kept. Far beyond any deadline, and beyond any difference between two clocks."""


@dataclass
class TorchStore:
    """A job's checkpoints. Make one on every rank, at the same place in the program: it agrees with the others on where to meet, by one broadcast.

    group: the ranks that save and load together; by default all. deadline: of one save or load. A rank that has not come by then is named, and nothing
    was committed or loaded. on_failure: told of a save beside the training that failed, in its thread; the next call raises it, too.
    """

    store: CheckpointStore
    group: Any = None
    deadline: timedelta = timedelta(minutes=10)
    on_failure: Alarm | None = None
    rank: int = field(init=False, default=0)
    size: int = field(init=False, default=1)
    _token: str = field(init=False)
    _count: int = field(init=False, default=0)
    _beside: OneAtATime = field(init=False)

    def __post_init__(self) -> None:
        token = [secrets.token_hex(8)]
        if dist.is_available() and dist.is_initialized():
            self.rank, self.size = dist.get_rank(self.group), dist.get_world_size(self.group)
            source = COORDINATOR if self.group is None else dist.get_global_rank(self.group, COORDINATOR)
            dist.broadcast_object_list(token, src=source, group=self.group)
        self._token = token[0]
        self._beside = OneAtATime(self.store.where, on_failure=self.on_failure)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._beside.__exit__(*error)

    def close(self) -> None:
        """Wait for a save under way. Raises what it failed of."""
        self._beside.close()

    def save(
        self,
        job: Job,
        *,
        kind: Kind | str = Kind.LEARNING,
        journal: JournalPosition | None = None,
        fingerprint: str = "",
        record: Record | None = None,
    ) -> Candidate:
        """Save the job, on every rank after the same update; durable when it returns.

        journal: where the run's journal stands, read before this was called. record: called on rank 0 once the checkpoint exists, to tell the journal.

        Raises WritersMissing, RanksMissing, RankFailed, CheckpointInvalid, StoreBusy, SpaceMissing, SaveFailed. First of all it raises what a save beside
        the training failed of, if one did.
        """
        self._beside.begin()
        captured = capture(job, Kind(kind), coordinates=self.rank == COORDINATOR, copy=False)
        return save(self.store, self._meeting("save"), captured, Told(journal, fingerprint, record))

    def async_save(
        self,
        job: Job,
        *,
        kind: Kind | str = Kind.LEARNING,
        journal: JournalPosition | None = None,
        fingerprint: str = "",
        record: Record | None = None,
        wait: bool = True,
    ) -> Future[Candidate]:
        """Copy the job's state into main memory and return; a thread saves the copy, and the training may go on.

        One is under way at a time. Another one waits for it; or, with wait=False, raises SaveUnderWay on all ranks if it is still under way on rank 0. It takes
        memory of the size of this rank's state. The interpreter does not exit before it has ended. Raises what the save before it failed of.
        """
        if not wait:
            self._agree_to_begin()
        self._beside.begin()
        captured = capture(job, Kind(kind), coordinates=self.rank == COORDINATOR, copy=True)
        told, meeting = Told(journal, fingerprint, record), self._meeting("save")
        return self._beside.start(captured.step, [lambda: save(self.store, meeting, captured, told)])

    def load(
        self,
        job: Job,
        candidate: Candidate | None = None,
        *,
        kind: Kind | str = Kind.LEARNING,
        reshard: bool = False,
        journal: JournalLink | None = None,
    ) -> Loaded:
        """Restore the job on every rank: the newest whole checkpoint of a kind, or a given one.

        kind: `weights` replaces the model's tensors and nothing else. reshard: another number of ranks may have saved it; generators and parts of the
        ranks are left as they are then, and the run is no exact continuation. journal: the run's, on the ranks that will send effects; rank 0's tells all
        of them which looks at final test sets cannot be taken back.

        Raises NothingToRestore, CheckpointInvalid, WrongKind, PositionUnknown, RanksMissing, RankFailed; every rank's state is as it was then.
        """
        self._beside.begin()
        return load(self.store, self._meeting("load"), job, Wish(Kind(kind), candidate, reshard, journal))

    # -- meeting ---------------------------------------------------------------------------------------------------

    def _meeting(self, what: str) -> Meeting:
        """The next one. Ranks call in the same order, so that its number means the same on all of them."""
        place, session = self.store.place, self.store.path / RANKS / self._token
        if self.rank == COORDINATOR and not self._count:
            self._sweep()
        directory = session / f"{self._count:09d}"
        directory.mkdir(parents=True, exist_ok=True)
        self._count += 1
        return Meeting(place.disk, directory, place.limits, self.rank, self.size, self.deadline.total_seconds(), what)

    def _agree_to_begin(self) -> None:
        """A save ends on one rank a little before it does on another. So rank 0 says for all of them whether there is still one under way."""
        meeting = self._meeting("save")
        with meeting.part():
            if meeting.coordinates:
                meeting.tell("busy", self._beside.busy)
            if meeting.hear_coordinator("busy"):
                raise SaveUnderWay(store=self.store.where, step=self._beside.step)

    def _sweep(self) -> None:
        """What meetings of jobs left that have ended. A meeting makes its directory anew, so that a job which only rested for so long loses nothing."""
        place, ranks = self.store.place, self.store.path / RANKS
        for name, _ in listed(place.disk, ranks):
            if name != self._token and time.time() - (ranks / name).stat().st_mtime > FORGOTTEN_S:
                with around("checkpoint.remove"):
                    remove_tree(place.disk, ranks / name)
