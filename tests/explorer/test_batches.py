"""Batches whose items have results of their own, scripted and faked: explored, and judged item by item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest

from recovery import AsyncRun, Batched, Call, Rejection, Run, contracts, effect, workflow
from recovery.contracts import Batch, Contract, Replay
from recovery.definitions.answer import Answer, Found, Refused
from recovery.testing import AS_IT_STANDS, Explored, ScriptedEnvironment, explore

DAY = timedelta(hours=24)
KEYED = contracts.Keyed(window=DAY, batch=Batch.PER_ITEM_RESULT)


class Broken(Rejection):
    """It arrived broken."""

    at: int


def each(skus: list[str]) -> Batched[str]:
    return Batched(Found(sku.upper()) if sku != "egg" else Refused(Broken(at=at)) for at, sku in enumerate(skus))


def shipping(contract: Contract, body: Callable[[str, list[str]], Batched[str]] | None = None):
    @effect(contract, rejects=(Broken,), name="ship")
    def ship(call: Call, *, skus: list[str]) -> Batched[str]:
        assert body is not None, "a real service must not be reached"
        return body(call.key, skus)

    if contract.lookup is not None:

        @ship.probe
        def find(call: Call, *, skus: list[str]) -> Answer[Batched[str]]:
            raise AssertionError("a real service must not be reached")

    return ship


def explored_with(
    contract: Contract, script: Callable[..., Batched[str]] = each, fresh: Callable[[], object] | None = None
) -> Explored:
    ship = shipping(contract)

    @workflow
    def order(run: Run) -> int:
        came = run.perform(ship(skus=["nut", "egg", "bolt"]))
        return len(came.applied)

    return explore(order, effects=ScriptedEnvironment({ship: script}, fresh=fresh), faults=1, recoverers=1)


@pytest.mark.parametrize(
    "contract",
    [
        KEYED,
        pytest.param(contracts.Probeable(batch=Batch.PER_ITEM_RESULT), marks=pytest.mark.explore),
        pytest.param(contracts.Opaque(batch=Batch.PER_ITEM_RESULT), marks=pytest.mark.explore),
    ],
    ids=lambda contract: contract.kind.value,
)
def test_the_promises_hold_for_a_scripted_batch(contract: Contract) -> None:
    explored = explored_with(contract)
    assert [found.problem for found in explored.violations] == []
    assert explored.complete
    assert explored.histories > 30


def test_a_scripted_batch_comes_to_its_items_in_an_async_workflow() -> None:
    @effect(KEYED, rejects=(Broken,))
    async def ship(call: Call, *, skus: list[str]) -> Batched[str]:
        raise AssertionError("a real service must not be reached")

    @workflow
    async def order(run: AsyncRun) -> None:
        came = await run.perform(ship(skus=["nut", "egg"]))
        assert (came.applied, came.rejected) == ({0: "NUT"}, {1: Broken(at=1)})

    assert explore(order, effects={ship: each}, faults=0)


@pytest.mark.explore
def test_an_item_whose_rejection_is_forgotten_may_be_done_by_a_later_copy() -> None:
    """The script has one egg less to refuse each time: whoever believed the first, forgotten refusal would be wrong."""
    refusals = [1]

    def mending(skus: list[str]) -> Batched[str]:
        refuses = refusals[0] > 0
        refusals[0] -= 1
        return each(skus) if refuses else Batched(Found(sku.upper()) for sku in skus)

    forgetful = contracts.Keyed(window=DAY, batch=Batch.PER_ITEM_RESULT, remembers_rejections=False)
    assert forgetful.replay_rejection is not Replay.ORIGINAL
    explored = explored_with(forgetful, mending, fresh=lambda: refusals.__setitem__(0, 1))
    assert [found.problem for found in explored.violations] == []
    assert explored.complete


@pytest.mark.parametrize("keeps", [True, False])
def test_a_fake_that_does_an_item_twice_is_found(keeps: bool) -> None:
    shipped: Counter[str] = Counter()
    known: dict[str, Batched[str]] = {}

    def body(key: str, skus: list[str]) -> Batched[str]:
        if key not in known:
            shipped.update(skus)
            known[key] = Batched(Found(f"{sku}-{shipped[sku]}") for sku in skus)
        return known[key] if keeps else known.pop(key)

    def fresh() -> None:
        shipped.clear()
        known.clear()

    ship = shipping(KEYED, body)

    @workflow
    def order(run: Run) -> int:
        return len(run.perform(ship(skus=["nut", "bolt"])).applied)

    explored = explore(order, effects=ScriptedEnvironment({ship: AS_IT_STANDS}, fresh=fresh), faults=1, recoverers=1)
    assert [found.promise for found in explored.violations] == ([] if keeps else ["I1"])
    assert keeps or "/0 was carried out 2 times" in explored.violations[0].problem


def test_a_script_that_gives_no_batch_is_its_authors_mistake() -> None:
    [found] = explored_with(KEYED, lambda skus: skus).violations
    assert found.promise == "bug"
    assert "Give Batched(items)" in found.problem
