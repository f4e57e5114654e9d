"""The run's journal beside a torch job: what was sent after the checkpoint is known before anything is sent again, and no look is taken back."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from recovery import Call, Engine, Environment, Run, contracts, effect, workflow
from recovery.checkpoint import CheckpointStore, Look, RunJournal
from recovery.checkpoint.errors import EffectsUnreconciled, PositionUnknown
from recovery.checkpoint.torch import TorchStore
from recovery.storage import open_journal
from tests.torch.jobs import Training

shop = Environment("shop", scope="one")


@effect(contracts.Keyed(window=timedelta(hours=24)), environment=shop)
def reserve(call: Call, *, sku: str) -> str:
    return f"reserved {sku}"


@effect(contracts.Keyed(window=timedelta(hours=24)), environment=shop)
def evaluate(call: Call, *, test_set: str) -> float:
    return 0.5


@workflow
def training(run: Run) -> None:
    run.perform(reserve(sku="filter"), key="reserve-20")
    run.perform(evaluate(test_set="final"), key="look-20")


def journal_of(url: str) -> tuple[Engine, RunJournal]:
    engine = Engine(open_journal(url), workflows=[training])
    return engine, RunJournal(engine, "run-1", evaluates={"evaluate": "test_set"})


def test_a_load_tells_what_came_after_the_checkpoint_and_keeps_every_look(tmp_path: Path) -> None:
    engine, journal = journal_of("memory://")
    store, saved = TorchStore(CheckpointStore(tmp_path)), Training()
    candidate = store.save(saved.job, journal=journal.position(), record=journal.record)
    assert candidate.manifest.journal is not None
    engine.run("run-1", training)
    loaded = store.load(saved.job, journal=journal)
    assert [(each.key, each.outcome) for each in loaded.restored.effects or ()] == [
        ("reserve-20", "applied"),
        ("look-20", "applied"),
    ]
    adopted = loaded.restored.before_sending("reserve-20")
    assert adopted is not None
    assert adopted.value == "reserved filter"
    assert saved.job.lifecycle.exposure.looks == {Look("final", "look-20")}


def test_without_the_journal_nothing_may_be_sent(tmp_path: Path) -> None:
    _, journal = journal_of("memory://")
    store, saved = TorchStore(CheckpointStore(tmp_path)), Training()
    store.save(saved.job, journal=journal.position())
    with pytest.raises(EffectsUnreconciled, match="no journal was asked"):
        store.load(saved.job).restored.before_sending("reserve-20")


def test_a_journal_of_another_life_is_refused_and_the_job_is_as_it_was(tmp_path: Path) -> None:
    engine, journal = journal_of("memory://")
    engine.run("run-1", training)
    store, saved = TorchStore(CheckpointStore(tmp_path)), Training()
    store.save(saved.job, journal=journal.position())
    saved.step()
    before = saved.job.capture().digest
    with pytest.raises(PositionUnknown):
        store.load(saved.job, journal=journal_of("memory://")[1])
    assert saved.job.capture().digest == before
