"""The training run of W17 as a program: it saves a checkpoint, then reserves parts from the real inventory service, and dies where it is told to.

`python training.py RUN_ID STORE LOG [DIE_AFTER]`: the update after which it kills itself with SIGKILL; 0 for never. It writes one line to LOG for each update:
its number and the digest of the state after it. `RECOVERY_DB` and `INVENTORY_URL` say where the journal and the service are.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from recovery import Run, workflow
from recovery.checkpoint import CheckpointStore, Learning
from recovery.checkpoint.errors import NothingToRestore
from recovery.checkpoint.journal import RunJournal
from recovery.checkpoint.reference import ReferenceTrainer
from recovery.examples.incident import engine, reserve

UPDATES = 25
SAVED_AT = 17
RESERVED_AT = 20


class Slot:
    """Where the run keeps its trainer."""

    def __init__(self) -> None:
        self.trainer = ReferenceTrainer()

    def swap(self, new: ReferenceTrainer) -> None:
        self.trainer = new


def restored(store: CheckpointStore, journal: RunJournal) -> ReferenceTrainer:
    """The trainer of the newest checkpoint, or a new one."""
    slot = Slot()

    def build(checkpoint) -> ReferenceTrainer:
        trainer = ReferenceTrainer()
        trainer.restore(Learning.from_parts(checkpoint.arrays, checkpoint.state))
        return trainer

    with suppress(NothingToRestore):
        store.restore(store.latest("learning"), build=build, into=slot, journal=journal)
    return slot.trainer


@workflow(name="train")
def train(run: Run, store: str, log: str, die_after: int) -> str:
    """Walks through every step of the run; does arithmetic only for updates that the checkpoint does not hold."""
    checkpoints, journal = CheckpointStore(store), RunJournal(engine, run.run_id)
    trainer = restored(checkpoints, journal)
    dies = trainer.counter == 0 and die_after
    for update in range(1, UPDATES + 1):
        if update > trainer.counter:
            trainer.step()
            with Path(log).open("a") as lines:
                lines.write(f"{update} {trainer.capture().digest}\n")
            if update == SAVED_AT:
                checkpoints.save(trainer.capture(), journal=journal.position(), record=journal.record)
        if update == RESERVED_AT:
            run.perform(reserve(sku="FILTER-A", units=2), key=f"{run.run_id}:reservation-1")
        if update == dies:
            os.kill(os.getpid(), signal.SIGKILL)
    return trainer.capture().digest


if __name__ == "__main__":
    with engine:
        sys.stdout.write(engine.run(sys.argv[1], train, sys.argv[2], sys.argv[3], int(sys.argv[4])))
