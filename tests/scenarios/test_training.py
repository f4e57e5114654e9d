"""W17 on a virtual clock: a training run as a scenario, in both colours, killed wherever its reservation or the end can be lost.

The real processes, the real service and the journal's own record of checkpoints are in tests/crash/test_training.py.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from recovery import AsyncRun, Run, contracts, workflow
from recovery.checkpoint import CheckpointStore, Learning
from recovery.checkpoint.errors import NothingToRestore
from recovery.checkpoint.reference import ReferenceTrainer
from recovery.testing import reserving
from tests.scenarios.playing import played, written

book = reserving("reserve", contracts.Keyed(window=timedelta(hours=24)))
abook = reserving("reserve", contracts.Keyed(window=timedelta(hours=24)), is_async=True)

computed: dict[str, list[tuple[int, str]]] = defaultdict(list)
"""By store: the updates that any incarnation computed, with the digest of the state after each."""


def begun(store: str) -> ReferenceTrainer:
    trainer = ReferenceTrainer()
    with suppress(NothingToRestore):
        checkpoint, _ = CheckpointStore(store).load_latest("learning")
        trainer.restore(Learning.from_parts(checkpoint.arrays, checkpoint.state))
    return trainer


def up_to(trainer: ReferenceTrainer, update: int, store: str) -> None:
    """Whatever of the arithmetic up to that update the trainer does not hold; saves after update 17."""
    while trainer.counter < update:
        trainer.step()
        computed[store].append((trainer.counter, trainer.capture().digest))
        if trainer.counter == 17:
            CheckpointStore(store).save(trainer.capture())


@workflow(name="training")
def training(run: Run, input: str) -> str:
    trainer = begun(input)
    up_to(trainer, 20, input)
    run.perform(book(sku="FILTER-A", qty=2), key="reservation-1")
    up_to(trainer, 22, input)
    run.decide("half-time", trainer.capture().digest.upper)
    up_to(trainer, 25, input)
    return trainer.capture().digest


@workflow(name="training")
async def atraining(run: AsyncRun, input: str) -> str:
    trainer = begun(input)
    up_to(trainer, 20, input)
    await run.perform(abook(sku="FILTER-A", qty=2), key="reservation-1")
    up_to(trainer, 22, input)
    await run.decide("half-time", trainer.capture().digest.upper)
    up_to(trainer, 25, input)
    return trainer.capture().digest


W17 = """
scenario: W17
name: a training run that reserves
story: >
  A training run saves a checkpoint at update 17, reserves FILTER-A at update 20 and dies. Its checkpoint is restored: the updates from 18 on are repeated to
  the last bit, and the reservation is not.
environment:
  stock: {FILTER-A: 10}
  effects: {reserve: {contract: keyed, window: 24h}}
workflow: {sync: "tests.scenarios.test_training:training", async: "tests.scenarios.test_training:atraining"}
timeline:
  - run: A
    input: STORE
    kill: {at: POINT}
  - recover: B
expect:
  status: completed
  stock: {FILTER-A: 8}
  executions: {reservation-1: 1}
  entries: {intent: 1, settled: 2}
"""


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize(
    ("point", "died_at"),
    [
        ("append.intent.after", 20),
        ("environment.committed", 20),
        ("send.after", 20),
        ("append.settled.after", 20),
        ("decide.before", 22),
        ("append.decision.after", 22),
        ("append.ended.before", 25),
    ],
)
def test_w17_arithmetic_is_repeated_and_the_reservation_is_not(point: str, died_at: int, colour: str, tmp_path: Path) -> None:
    result = played(written(W17.replace("STORE", str(tmp_path)).replace("POINT", point)), colour)
    assert result.problems == ()
    seen = computed.pop(str(tmp_path))
    first, again = seen[:died_at], seen[died_at:]
    assert [number for number, _ in again] == list(range(18, 26))
    assert dict(first) | dict(again) == {**dict(again), **dict(first)}, "a repeated update is the same, bit for bit"
    assert len({digest for _, digest in seen}) == 25
