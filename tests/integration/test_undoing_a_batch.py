"""A batch is undone as a whole: its compensation gets every item in its place, those that were refused too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from recovery import (
    Absent,
    Answer,
    AsyncEngine,
    AsyncRun,
    Batched,
    Call,
    Engine,
    Found,
    InFlight,
    Refused,
    Rejection,
    Run,
    codec,
    contracts,
    effect,
    errors,
    workflow,
)
from recovery.contracts import Batch
from recovery.core.entries import Observation, OutcomeKind, Source, encode, kind_of
from recovery.core.policy import Budget
from recovery.ports import Evidence, Journal
from recovery.storage import open_journal
from recovery.testing.clock import ManualClock

KEYED = contracts.Keyed(window=timedelta(days=1))
PER_ITEM = contracts.Probeable(batch=Batch.PER_ITEM_RESULT)


class OutOfStock(Rejection):
    sku: str


REFUSED = Refused(OutOfStock(sku="B"))


@pytest.fixture(name="memory")
def _memory() -> Iterator[Journal]:
    journal = open_journal("memory://")
    yield journal
    journal.close()


@dataclass
class Carrier:
    """Ships item by item. reply: what a request is answered, None: nothing is. `recalled`: what a compensation was given."""

    reply: Batched[int] | None
    recalled: list[dict[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        @effect(PER_ITEM, rejects=(OutOfStock,), name="ship")
        def ship(call: Call, *, skus: list[str]) -> Batched[int]:
            return self._replied()

        @ship.probe
        def find(call: Call, *, skus: list[str]) -> Answer[Batched[int]]:
            return Absent()

        @ship.compensation(KEYED)
        def recall(call: Call, outcome: Batched[int], *, skus: list[str]) -> None:
            self.recalled.append(outcome.applied)

        @effect(PER_ITEM, rejects=(OutOfStock,), name="ship")
        async def ship_async(call: Call, *, skus: list[str]) -> Batched[int]:
            return self._replied()

        @ship_async.probe
        async def find_async(call: Call, *, skus: list[str]) -> Answer[Batched[int]]:
            return Absent()

        @ship_async.compensation(KEYED, name="recall")
        async def recall_async(call: Call, outcome: Batched[int], *, skus: list[str]) -> None:
            self.recalled.append(outcome.applied)

        self.ship, self.recall, self.ship_async, self.recall_async = ship, recall, ship_async, recall_async

    def _replied(self) -> Batched[int]:
        if self.reply is None:
            raise ConnectionError("the connection was lost")
        return self.reply


def test_a_workflow_undoes_what_was_applied_of_a_batch(memory: Journal) -> None:
    carrier = Carrier(Batched([Found(1), REFUSED, Found(3)]))

    @workflow
    def order(run: Run) -> None:
        run.perform(carrier.recall(run.perform(carrier.ship(skus=["A", "B", "C"])), skus=["A", "B", "C"]))

    with Engine(memory, workflows=[order], clock=ManualClock()) as engine:
        engine.run("r", order)
    assert carrier.recalled == [{0: 1, 2: 3}]


def test_a_webhook_that_tells_what_became_of_each_item_settles_the_batch(memory: Journal) -> None:
    carrier = Carrier(None)

    @workflow
    def order(run: Run) -> dict[int, int]:
        return run.perform(carrier.ship(skus=["A", "B"])).applied

    told = Found(Batched([Found(1), Found(2)]))
    with Engine(memory, workflows=[order], clock=ManualClock()) as engine:
        with pytest.raises((errors.EffectInDoubt, errors.Unresolved)):
            engine.run("r", order)
        with pytest.raises(errors.NotObservable, match="give effect="):
            engine.observe("r", "ship#1", told)
        with pytest.raises(errors.NotObservable, match="when every item is decided"):
            engine.observe("r", "ship#1", Found(Batched([Found(1), InFlight()])), effect=carrier.ship)
        assert engine.observe("r", "ship#1", told, effect=carrier.ship) is True
        assert engine.observe("r", "ship#1", told, effect=carrier.ship) is False
        assert engine.recover("r").result() == {0: 1, 1: 2}


def test_an_async_workflow_undoes_what_was_applied_of_a_batch(memory: Journal) -> None:
    carrier = Carrier(Batched([Found(1), REFUSED, Found(3)]))

    @workflow
    async def order(run: AsyncRun) -> None:
        shipped = await run.perform(carrier.ship_async(skus=["A", "B", "C"]))
        await run.perform(carrier.recall_async(shipped, skus=["A", "B", "C"]))

    async def main() -> None:
        async with AsyncEngine(memory, workflows=[order], clock=ManualClock()) as engine:
            await engine.run("r", order)

    asyncio.run(main())
    assert carrier.recalled == [{0: 1, 2: 3}]


@pytest.mark.parametrize(
    ("late", "proposed"),
    [
        (Batched([Found(1), REFUSED]), [{0: 1}]),
        (Batched([Found(1), InFlight()]), []),
        (Batched([REFUSED, REFUSED]), []),
    ],
)
def test_a_batch_that_happened_against_its_outcome_is_proposed_to_be_undone_as_a_whole(
    memory: Journal, late: Batched[int], proposed: list[Any]
) -> None:
    """One that leaves an item open is a person's to read first; one that did nothing has nothing to undo."""
    carrier, clock = Carrier(None), ManualClock()

    @workflow
    def order(run: Run) -> None:
        run.perform(carrier.ship(skus=["A", "B"]))

    with Engine(memory, workflows=[order], clock=clock, budget=Budget(max_wait=timedelta(hours=2))) as engine:
        with pytest.raises(errors.EffectInDoubt):
            engine.run("r", order)
        engine.resolve("r", "ship#1", OutcomeKind.NOT_EXECUTED, evidence="ticket 12", by="ann", reason="the depot says so")
        engine.recover("r")
        run, at_us = memory.find("r"), clock.wall_us()
        assert run is not None
        told = Observation(
            step="ship#1",
            source=Source.LATE,
            asked_at_us=at_us,
            observed_at_us=at_us,
            answer=carrier.ship.returned(late),
            attempt=1,
            epoch="0.1",
        )
        memory.add_evidence(Evidence("r", "ship#1", run.epoch, at_us, kind_of(told), codec.dumps(encode(told))))
        [contradiction] = engine.recover("r").contradictions
    applied = [carrier.ship.decode_value(one.arguments["outcome"]).applied for one in contradiction.proposals]
    assert applied == proposed
    assert carrier.recalled == []
