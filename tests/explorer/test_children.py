"""A parent and its child, with a fault between any two steps of either, and recoverers of the parent."""

from __future__ import annotations

import pytest

from recovery import AsyncRun, Run, workflow
from recovery.core import children
from recovery.testing import Exploration, explore
from recovery.testing.reaching import children_of
from tests.explorer.editing import edited
from tests.explorer.flows import areserve, booked, reserve
from tests.model.planted import Change, planted


@workflow
def picking(run: Run, sku: str) -> str:
    return run.perform(reserve(sku=sku, units=1)).id


@workflow
def ordering(run: Run) -> str:
    return run.call_child(picking("A")) + run.perform(reserve(sku="B", units=1)).id


@workflow
async def apicking(run: AsyncRun, sku: str) -> str:
    return (await run.perform(areserve(sku=sku, units=1))).id


@workflow
async def aordering(run: AsyncRun) -> str:
    await run.start(apicking("B"), name="unasked")
    return await run.call_child(apicking("A"))


FAMILY = Exploration(ordering, effects={reserve: booked})
ASYNC_FAMILY = Exploration(aordering, effects={areserve: booked})


@pytest.mark.parametrize(("what", "most"), [(FAMILY, 100), (ASYNC_FAMILY, 60)], ids=["sync", "async"])
def test_the_promises_hold_for_a_family(what: Exploration[..., object], most: int) -> None:
    explored = explore(what, faults=1, recoverers=1, histories_max=most)
    assert [f"{found.promise}: {found.problem}" for found in explored.violations] == []
    assert explored.histories >= 50


def test_the_children_of_a_workflow_are_read_from_its_code() -> None:
    assert children_of(ordering) == (picking,)
    assert children_of(picking) == ()


_NOTES = "        await machine.append(step, [child.recorded(await Now(), CHILD)])\n"
_STORES = "        await machine.kin.family.store(child)\n"
_ADOPTS = "    return Decision(step=step, "
_FORGETS = "    value['settled'].pop('value', None)\n"

BUGS = {
    "a child that is stored before its start is durable": ("I10", "start", (_NOTES, _STORES + _NOTES)),
    "an outcome that is adopted in part": ("I2", "_ending", (_ADOPTS, _FORGETS + _ADOPTS)),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    promise, name, change = BUGS[bug]
    with planted(Change(name=bug, patches=((children, name, edited(getattr(children, name), change)),))):
        explored = explore(FAMILY, faults=1, recoverers=1, histories_max=50)
    assert [found.promise for found in explored.violations] == [promise]
