"""Every history comes through the same moments, whether an ordinary step goes the way of its own or that of every step."""

from __future__ import annotations

import pytest

from recovery.core.machine import Machine
from recovery.testing.casting import coloured_cast
from recovery.testing.exploration.bounds import Bounds
from recovery.testing.exploration.search import Search
from recovery.testing.scenario import Scenario
from tests.explorer.subjects import CONTRACTS, subject


def search(scenario: Scenario, *, is_async: bool) -> Search:
    """All of it within a small bound, without a broken promise."""
    searched = Search(scenario, coloured_cast(scenario, is_async), Bounds(1, 1), is_async=is_async)
    counts = searched.go()
    assert counts.complete
    assert counts.violations == []
    return searched


def both(scenario: Scenario, monkeypatch: pytest.MonkeyPatch, *, is_async: bool = False) -> tuple[Search, Search]:
    with monkeypatch.context() as general:
        general.setattr(Machine, "straight", False)
        of_every_step = search(scenario, is_async=is_async)
    return search(scenario, is_async=is_async), of_every_step


@pytest.mark.parametrize("riding", [False, True], ids=["strict", "riding"])
def test_every_moment_is_the_same(riding: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = both(subject("keyed", effects=1).model_copy(update={"riding": riding}), monkeypatch)
    assert one.timelines == other.timelines
    assert one.seen.told() == other.seen.told()
    assert len(one.seen) > 50


SUBJECTS = [*((contract, False, False) for contract in CONTRACTS), ("keyed", True, False), ("keyed", True, True)]


@pytest.mark.explore
@pytest.mark.parametrize(("contract", "riding", "is_async"), SUBJECTS)
def test_the_canonical_workflow_comes_to_the_same_where_it_may_be_cancelled(
    contract: str, riding: bool, is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any moment, or killed, paused, with a lost or doubled message. An inbox in which an order has come is looked at once more, and a process is told
    from another one by all that it has read: so moments on the way to the order are counted, and those at the end compared."""
    scenario = subject(contract).model_copy(update={"riding": riding, "cancels": True})
    one, other = both(scenario, monkeypatch, is_async=is_async)
    assert one.timelines == other.timelines
    assert one.ends == other.ends
    assert len(one.seen) == len(other.seen)
    assert len(one.seen) > 500
