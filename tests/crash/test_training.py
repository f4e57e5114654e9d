"""W17: a training run saves a checkpoint at update 17, reserves at update 20, and dies. Arithmetic is repeated from 17, the reservation is not."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from recovery import Engine
from recovery.checkpoint import CheckpointStore
from recovery.checkpoint.journal import RunJournal
from recovery.checkpoint.reference import ReferenceTrainer
from recovery.core.entries import Intent, Settled, Status
from recovery.crashpoints import VARIABLE
from recovery.examples.inventory.process import Inventory, serve
from tests.crash.training import RESERVED_AT, SAVED_AT, UPDATES
from tests.warm import WarmParent

STOCK = 10_000
PROGRAM = Path(__file__).with_name("training.py")
_numbers = count(1)


@cache
def uninterrupted() -> dict[int, str]:
    """The digest after each update of a run that nothing happened to."""
    trainer = ReferenceTrainer()
    digests = {}
    for update in range(1, UPDATES + 1):
        trainer.step()
        digests[update] = trainer.capture().digest
    return digests


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inventory]:
    with serve(f"sqlite:///{tmp_path_factory.mktemp('warehouse') / 'inventory.db'}", {"FILTER-A": STOCK}) as running:
        yield running


class Story:
    """One training run and everything it leaves."""

    def __init__(self, directory: Path, url: str, warehouse: Inventory, warm_parent: WarmParent) -> None:
        self.directory, self.warm_parent = directory, warm_parent
        self.run_id = f"training-{next(_numbers)}"
        self.store, self.log, self.url, self.warehouse = directory / "store", directory / "log", url, warehouse
        self.log.touch()
        self.before = warehouse.stock("FILTER-A")

    def worker(self, die_after: int = 0, crash_at: str = "") -> subprocess.CompletedProcess[str]:
        where = {"RECOVERY_DB": self.url, "INVENTORY_URL": self.warehouse.url} | ({VARIABLE: crash_at} if crash_at else {})
        arguments = ["-W", "error", str(PROGRAM), self.run_id, str(self.store), str(self.log), str(die_after)]
        return self.warm_parent.run(arguments, directory=self.directory, environment=os.environ | where, timeout=110)

    def updates(self) -> list[tuple[int, str]]:
        return [(int(number), digest) for number, digest in (line.split() for line in self.log.read_text().splitlines())]

    def check(self, recovered: subprocess.CompletedProcess[str]) -> None:
        """The end is that of a run that nothing happened to; every repeated update is equal; two units are gone, once."""
        assert (recovered.returncode, recovered.stdout) == (0, uninterrupted()[UPDATES]), recovered.stderr
        assert all(digest == uninterrupted()[number] for number, digest in self.updates())
        assert self.warehouse.stock("FILTER-A") == self.before - 2
        assert self.warehouse.executions(f"{self.run_id}:reservation-1") == 1
        with Engine(self.url) as engine:
            entries = engine.history(self.run_id)
            assert sum(isinstance(entry, Intent) for entry in entries) == 1
            assert sum(isinstance(entry, Settled) and entry.step != "" for entry in entries) == 1
            journal = RunJournal(engine, self.run_id)
            (candidate,) = CheckpointStore(self.store).scan()
            assert journal.heard_of(candidate.manifest)
            (effect,) = journal.after(candidate.manifest.journal)
            assert (effect.key, effect.outcome, effect.settled) == (f"{self.run_id}:reservation-1", "applied", True)
            assert [run.status for run in engine.list() if run.run_id.startswith(f"{self.run_id}.checkpoint-")] == [
                Status.COMPLETED
            ]


@pytest.fixture
def story(tmp_path: Path, store_url: str, warehouse: Inventory, warm_parent: WarmParent) -> Story:
    return Story(tmp_path, store_url, warehouse, warm_parent)


def test_w17_a_restored_checkpoint_repeats_arithmetic_and_no_reservation(story: Story) -> None:
    died = story.worker(die_after=22)
    assert died.returncode == -signal.SIGKILL
    assert [number for number, _ in story.updates()] == list(range(1, 23))
    assert story.warehouse.stock("FILTER-A") == story.before - 2
    recovered = story.worker(die_after=22)
    assert [number for number, _ in story.updates()[22:]] == list(range(SAVED_AT + 1, UPDATES + 1))
    story.check(recovered)


@pytest.mark.parametrize(
    ("store_url", "point", "last"),
    [
        ("sqlite", "checkpoint.commit.before", SAVED_AT),  # no checkpoint: everything is repeated
        ("postgresql", "checkpoint.commit.after", SAVED_AT),  # a checkpoint that the journal has not heard of
        ("sqlite", "checkpoint.record.after", SAVED_AT),
        ("sqlite", "append.intent.after", RESERVED_AT),
        ("postgresql", "send.after", RESERVED_AT),  # the reservation is made and its reply is lost
    ],
    indirect=["store_url"],
)
def test_w17_killed_around_the_commit_and_the_reservation(story: Story, point: str, last: int) -> None:
    died = story.worker(crash_at=point)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert story.updates()[-1][0] == last
    again = story.worker()
    assert story.updates()[last][0] == (1 if point == "checkpoint.commit.before" else SAVED_AT + 1)
    story.check(again)
