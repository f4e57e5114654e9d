"""Code that changes while runs are open: versions side by side, and patches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from recovery import Engine, Run, errors, workflow
from recovery.core.entries import Decision
from recovery.ports import Journal

from .world import QUICK, Killed, Shop, keyed, once


def test_a_run_goes_on_with_the_version_that_it_started_with(journal: Journal) -> None:
    shop = Shop(fail=once(Killed()))
    reserve = shop.effect(keyed())

    @workflow(name="order", version="1")
    def first(run: Run) -> str:
        run.perform(reserve(units=1), key="old")
        return "first"

    @workflow(name="order", version="2")
    def second(run: Run) -> str:
        run.perform(reserve(units=2), key="new")
        return "second"

    with Engine(journal, workflows=[first]) as engine, pytest.raises(Killed):
        engine.run("old", first)
    with Engine(journal, workflows=[first, second]) as engine:
        assert engine.run("new", second) == "second"
        assert engine.recover("old").result() == "first"
        assert engine.get("old").result() == "first"
    assert dict(shop.executions) == {"old": 1, "new": 1}


def test_without_its_own_version_a_run_that_no_longer_fits_says_what_can_be_done(journal: Journal) -> None:
    shop = Shop(fail=once(Killed()))
    reserve = shop.effect(keyed())

    def ordering(units: int, version: str) -> Any:
        @workflow(name="order", version=version)
        def order(run: Run) -> int:
            return run.perform(reserve(units=units), key="k")

        return order

    first = ordering(1, "1")
    with Engine(journal, workflows=[first]) as engine, pytest.raises(Killed):
        engine.run("r", first)
    with Engine(journal, workflows=[ordering(2, "2")], budget=QUICK) as engine:
        error = engine.recover("r").error
    assert isinstance(error, errors.Diverged)
    for offered in (
        "Pin it: register the version that it started with",
        "Migrate it: ",
        "`recover change-version r`",
        "Or fork it",
        "`recover fork r NEW-RUN`",
    ):
        assert offered in str(error)
    assert "run.patched(" in str(error)
    assert shop.sent["k"] == 1


def patching(shop: Shop, *, new: bool, die: Callable[[], None] = lambda: None) -> Any:
    reserve = shop.effect(keyed())

    @workflow
    def order(run: Run) -> str:
        run.perform(reserve(units=1), key="before")
        patched = run.patched("two-units") if new else False
        run.perform(reserve(units=2 if patched else 1), key="in-between")
        die()
        run.perform(reserve(units=1), key="after")
        if new and run.patched("two-units") is not patched:
            return "changed its mind"
        return "new" if patched else "old"

    return order


@pytest.mark.parametrize(("reached", "came"), [("in-between", "old"), ("before", "new")])
def test_a_patch_takes_what_is_behind_all_that_is_recorded(journal: Journal, reached: str, came: str) -> None:
    shop = Shop()
    shop.fail = lambda: _die_at(shop, reached)
    old = patching(shop, new=False)
    with Engine(journal, workflows=[old]) as engine, pytest.raises(Killed):
        engine.run("r", old)
    shop.fail = lambda: None
    with Engine(journal, workflows=[patching(shop, new=True)]) as engine:
        assert engine.recover("r").result() == came
    assert dict(shop.executions) == {"before": 1, "in-between": 1, "after": 1}
    assert shop.stock == (7 if came == "old" else 6)


def _die_at(shop: Shop, key: str) -> None:
    if shop.executions[key]:
        raise Killed


def test_a_patch_is_recorded_with_what_builds_on_it_and_stays_what_it_was(journal: Journal) -> None:
    shop, deaths = Shop(), once(Killed())
    new = patching(shop, new=True, die=deaths)
    with Engine(journal, workflows=[new]) as engine:
        with pytest.raises(Killed):
            engine.run("r", new)
        recorded = [entry.step for entry in engine.history("r") if isinstance(entry, Decision)]
        assert recorded == ["patched/two-units#1"]
        assert engine.recover("r").result() == "new"
        assert [entry.step for entry in engine.history("r") if isinstance(entry, Decision)] == recorded
    assert shop.stock == 6


def test_a_patch_that_is_no_longer_asked_for_stops_nothing(journal: Journal) -> None:
    """Once no open run stands in front of it, the call can go."""
    shop, deaths = Shop(), once(Killed())
    with Engine(journal, workflows=[new := patching(shop, new=True, die=deaths)]) as engine, pytest.raises(Killed):
        engine.run("r", new)
    reserve = shop.effect(keyed())

    @workflow
    def order(run: Run) -> str:
        for key, units in (("before", 1), ("in-between", 2), ("after", 1)):
            run.perform(reserve(units=units), key=key)
        return "cleaned up"

    with Engine(journal, workflows=[order]) as engine:
        assert engine.recover("r").result() == "cleaned up"


def test_one_patch_is_one_answer_for_all_branches(journal: Journal) -> None:
    shop = Shop(fail=once(Killed()))
    reserve, asked = shop.effect(keyed()), []

    @workflow
    def order(run: Run) -> list[bool]:
        answers = list(run.gather(lambda b: b.patched("p"), lambda b: b.patched("p")))
        asked.append(answers)
        run.perform(reserve(units=1))
        return answers

    with Engine(journal, workflows=[order]) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        assert engine.recover("r").result() == [True, True]
    assert asked == [[True, True], [True, True]]
