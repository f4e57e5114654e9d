"""A checkpoint and the journal beside it: positions, what came later, commits, and looks that no restore takes back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from recovery import AsyncEngine, AsyncRun, Call, Engine, Environment, Rejection, Run, contracts, effect, workflow
from recovery.checkpoint.continuing import Restored
from recovery.checkpoint.errors import EffectsUnreconciled, PositionUnknown
from recovery.checkpoint.journal import RunJournal
from recovery.checkpoint.learning import Learning
from recovery.checkpoint.lifecycle import Exposure, Look
from recovery.checkpoint.reference import ReferenceTrainer
from recovery.checkpoint.store import CheckpointStore
from recovery.core.entries import OutcomeKind
from recovery.core.errors import DefinitionError
from recovery.core.policy import Budget
from recovery.storage import open_journal

shop = Environment("shop", scope="one")
keyed = contracts.Keyed(window=timedelta(hours=24))


class SoldOut(Rejection):
    sku: str


class Lost(Exception):
    """A reply that never came."""


@effect(keyed, environment=shop, rejects=(SoldOut,))
def buy(call: Call, *, sku: str) -> str:
    if sku == "gone":
        raise SoldOut(sku=sku)
    if sku == "unheard":
        raise Lost
    return f"bought {sku}"


@effect(contracts.Opaque(), environment=shop)
def evaluate(call: Call, *, test_set: str) -> float:
    if test_set == "unheard":
        raise Lost
    return 0.5


@effect(contracts.Read(), environment=shop)
def price(call: Call, *, sku: str) -> int:
    return len(sku)


@workflow
def shopping(run: Run, skus: list[str]) -> list[str]:
    for sku in skus:
        run.perform(price(sku=sku))
        run.attempt(buy(sku=sku), key=f"{run.run_id}-{sku}")
    return skus


@workflow
def judging(run: Run, sets: list[str]) -> None:
    for name in sets:
        run.perform(evaluate(test_set=name), key=f"look-{name}")


def engine(url: str = "memory://") -> Engine:
    return Engine(open_journal(url), workflows=[shopping, judging], budget=Budget(max_wait=timedelta(0)))


def trained(updates: int) -> Learning:
    trainer = ReferenceTrainer()
    for _ in range(updates):
        trainer.step()
    return trainer.capture()


class Slot:
    value: Any = None

    def swap(self, new: Any) -> None:
        self.value = new


def learning(checkpoint: Any) -> Learning:
    return Learning.from_parts(checkpoint.arrays, checkpoint.state)


def unsettled(made: Engine, run_id: str, *skus: str) -> None:
    with pytest.raises(Exception, match=r"in doubt|look again|Look again"):
        made.run(run_id, shopping, list(skus))


@pytest.mark.parametrize("url", ["memory://", "sqlite"])
def test_effects_after_a_position(url: str, sqlite_url: str) -> None:
    made = engine(sqlite_url if url == "sqlite" else url)
    journal = RunJournal(made, "run-1")
    nothing = journal.position()
    assert (nothing.position, journal.after(nothing)) == (0, ())
    made.run("run-1", shopping, ["bolt", "gone"])
    every = journal.after(nothing)
    assert [(each.key, each.outcome, each.value, each.error) for each in every] == [
        ("run-1-bolt", "applied", "bought bolt", ""),
        ("run-1-gone", "rejected", {"sku": "gone"}, every[1].error),
    ], "reads change nothing and are not among them"
    assert every[0].arguments == {"sku": "bolt"}
    assert journal.after(journal.position()) == ()


def test_an_effect_that_was_open_at_the_position_counts_as_later() -> None:
    """Its intent stands before the position, and what became of it does not."""
    made = engine()
    journal = RunJournal(made, "run-1")
    unsettled(made, "run-1", "bolt", "unheard")
    position = journal.position()
    (open_one,) = journal.after(position)
    assert (open_one.key, open_one.settled) == ("run-1-unheard", False)


def test_an_argument_that_an_effect_does_not_have_is_told(sqlite_url: str) -> None:
    made = engine(sqlite_url)
    made.run("run-1", judging, ["final"])
    with pytest.raises(
        DefinitionError, match=r"the argument 'set': effect evaluate has no argument of that name; it has test_set\."
    ):
        list(RunJournal(made, "run-1", evaluates={"evaluate": "set"}).looks())
    assert [look.test_set for look in RunJournal(made, "run-1", evaluates={"evaluate": "test_set"}).looks()] == ["final"]


def test_a_position_of_another_life_is_refused(sqlite_url: str) -> None:
    made, other = engine(sqlite_url), engine()
    for each in (made, other):
        each.run("run-1", shopping, ["bolt"])
    journal, position = RunJournal(made, "run-1"), RunJournal(other, "run-1").position()
    with pytest.raises(PositionUnknown, match="another life"):
        journal.after(position)
    mine = journal.position()
    with pytest.raises(PositionUnknown, match="there are"):
        journal.after(replace(mine, position=mine.position + 1))
    with pytest.raises(PositionUnknown, match="another life"):
        journal.after(replace(mine, position=mine.position - 1))
    with pytest.raises(PositionUnknown, match="another life"):
        journal.after(replace(mine, position=0))
    with pytest.raises(PositionUnknown, match="journal of run 'run-1'"):
        journal.after(replace(mine, run_id="run-2"))
    with pytest.raises(PositionUnknown, match="there are 0"):
        RunJournal(made, "run-2").after(replace(mine, run_id="run-2"))


def saved(tmp_path: Path, journal: RunJournal) -> CheckpointStore:
    store = CheckpointStore(tmp_path / "store")
    store.save(trained(2), journal=journal.position(), record=journal.record)
    return store


def restored(store: CheckpointStore, journal: RunJournal | None) -> tuple[Restored, Slot]:
    slot = Slot()
    return store.restore(store.latest(), build=learning, into=slot, journal=journal), slot


def test_nothing_is_sent_before_later_effects_have_outcomes(tmp_path: Path) -> None:
    made = engine()
    journal = RunJournal(made, "run-1")
    store = saved(tmp_path, journal)
    unsettled(made, "run-1", "bolt", "unheard")
    back, slot = restored(store, journal)
    assert slot.value.digest == trained(2).digest
    assert [each.key for each in back.effects or ()] == ["run-1-bolt", "run-1-unheard"]
    assert [each.key for each in back.unreconciled] == ["run-1-unheard"]
    for key in ("run-1-bolt", "run-1-unheard", "a new one"):
        with pytest.raises(EffectsUnreconciled, match=r"1 effects .* \(run-1-unheard\)"):
            back.before_sending(key)
    step = back.unreconciled[0].step
    seen = {"evidence": "the shop's books", "by": "kim", "reason": "looked there"}
    made.resolve("run-1", step, OutcomeKind.APPLIED, value="bought by hand", **seen)
    known = back.asked_again(journal)
    adopted = known.before_sending("run-1-unheard", environment="shop")
    assert adopted is not None
    assert (adopted.outcome, adopted.value) == ("applied", "bought by hand")
    assert known.before_sending("a new one") is None
    assert known.before_sending("run-1-bolt", environment="another shop") is None


def test_without_a_journal_nothing_is_known(tmp_path: Path) -> None:
    made = engine()
    journal = RunJournal(made, "run-1")
    back, _ = restored(saved(tmp_path, journal), None)
    assert back.effects is None
    with pytest.raises(EffectsUnreconciled, match="no journal was asked"):
        back.before_sending("any")
    assert back.asked_again(journal).before_sending("any") is None


def test_a_checkpoint_that_names_no_journal_refuses_nothing(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "store")
    store.save(trained(1))
    back, _ = restored(store, RunJournal(engine(), "run-1"))
    assert (back.effects, back.before_sending("any")) == ((), None)


def test_a_journal_that_does_not_know_the_position_leaves_the_state_alone(tmp_path: Path) -> None:
    made = engine()
    made.run("run-1", shopping, ["bolt"])
    store = saved(tmp_path, RunJournal(made, "run-1"))
    slot, other = Slot(), engine()
    with pytest.raises(PositionUnknown):
        store.restore(store.latest(), build=learning, into=slot, journal=RunJournal(other, "run-1"))
    assert slot.value is None
    assert other.list() == [], "nor is it told of a commit that is not its run's"


def test_a_commit_is_recorded_once_and_mended_at_the_restore(tmp_path: Path) -> None:
    made = engine()
    journal = RunJournal(made, "r" * 128)
    store = CheckpointStore(tmp_path / "store")
    candidate = store.save(trained(1), journal=journal.position())  # the process died before the record
    assert not journal.heard_of(candidate.manifest)
    restored(store, journal)
    assert journal.heard_of(candidate.manifest)
    journal.record(candidate.manifest)
    (record,) = made.list()
    assert made.get(record.run_id).result().id == candidate.id


def test_looks_that_no_restore_takes_back(tmp_path: Path) -> None:
    """The journal's looks are merged into the restored state; a look in doubt counts, one that did not happen does not."""
    made = engine()
    journal = RunJournal(made, "run-1", evaluates={"evaluate": "test_set"})
    store = saved(tmp_path, journal)
    with pytest.raises(Exception, match=r"in doubt|happened"):
        made.run("run-1", judging, ["final", "unheard"])
    both = Exposure(frozenset({Look("final", "look-final"), Look("unheard", "look-unheard")}))
    back, slot = restored(store, journal)
    assert slot.value.lifecycle.exposure == both
    assert back.checkpoint.state["lifecycle"]["exposure"] == both.to_json()
    seen = {"evidence": "the queue", "by": "kim", "reason": "it was never queued"}
    made.resolve("run-1", back.unreconciled[0].step, OutcomeKind.NOT_EXECUTED, **seen)
    _, again = restored(store, journal)
    assert again.value.lifecycle.exposure == Exposure(frozenset({Look("final", "look-final")}))


@effect(keyed, environment=shop)
async def abuy(call: Call, *, sku: str) -> str:
    return f"bought {sku}"


@workflow
async def ashopping(run: AsyncRun, sku: str) -> str:
    return await run.perform(abuy(sku=sku), key=sku)


def test_an_async_engine_has_the_same_journal(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with AsyncEngine(open_journal("memory://"), workflows=[ashopping]) as made:
            journal = RunJournal(made, "run-1")
            store = await asyncio.to_thread(saved, tmp_path, journal)
            await made.run("run-1", ashopping, "bolt")
            back, _ = await asyncio.to_thread(restored, store, journal)
            adopted = back.before_sending("bolt")
            assert adopted is not None
            assert adopted.value == "bought bolt"

    asyncio.run(scenario())
