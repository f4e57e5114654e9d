"""How often something may happen is counted from the journals: each order that allows one more is named, and what no order allows is told."""

from __future__ import annotations

import pytest

from recovery import Forbid, NewKey, Status, errors
from recovery.core import inheriting
from recovery.core.inheritance import Policy
from recovery.ports import Journal
from recovery.storage import open_journal
from recovery.storage.reading import read
from recovery.testing.logical import Happened, repeated
from tests.integration.test_repeats import WHO, House
from tests.model.planted import Change, planted

FORGETS = Change(name="what was ordered is forgotten", patches=((inheriting, "_ordered", lambda *_asked: None),))


@pytest.fixture
def house() -> House:
    """Its run has taken one, and waits."""
    house = House(open_journal("memory://"))
    with pytest.raises(errors.AnswerPending):
        house.engine.run("r", house.order)
    return house


def counted(house: House) -> list[Happened]:
    journal: Journal = house.engine.journal
    return repeated({row.run_id: read(journal, row.run_id) for row in journal.runs()}, house.shop.executions)


def restarted(house: House, policy: Policy, status: Status = Status.WAITING) -> None:
    house.engine.restart("r", "plan#1", policies={"reserve#1": policy}, **WHO)
    house.until(status)


def test_a_new_key_allows_one_more(house: House) -> None:
    restarted(house, NewKey("another one is wanted"))
    [happened] = counted(house)
    assert (happened.times, happened.too_often) == (2, False)
    assert "allowed by a restart with a new key for reserve#1: another one is wanted" in str(happened)


def test_what_no_order_allows_is_told(house: House) -> None:
    with planted(FORGETS):
        restarted(house, Forbid())
    [happened] = counted(house)
    assert happened.too_often
    assert "r: reserve#1 (reserve) happened 2 times: r reserve#1 under" in str(happened)
    assert "no order allows it" in str(happened)


def test_what_is_forbidden_happens_once(house: House) -> None:
    restarted(house, Forbid(), Status.FAILED)
    assert counted(house) == []


def test_a_fork_from_before_its_parent_came_to_it_is_its_order(house: House) -> None:
    house.engine.restart("r", "plan#1", policies={"reserve#1": Forbid()}, **WHO)
    house.engine.fork("r", "f", at="", **WHO)
    house.plan = 2  # both come to another effect now, the parent first
    house.until(Status.WAITING)
    assert house.engine.recover("f").status is Status.WAITING
    [happened] = counted(house)
    assert (happened.times, happened.too_often) == (2, False)
    assert "allowed by a fork from before its parent came to it; the first entry of f" in str(happened)


def test_a_fork_behind_it_is_none(house: House) -> None:
    house.engine.fork("r", "f", at="plan#1", **WHO)
    with planted(FORGETS):
        assert house.engine.recover("f").status is Status.WAITING
    [happened] = counted(house)
    assert happened.too_often
