"""Runs that are moved to another version of their code: settled steps keep their outcomes and keys, whatever they are called now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from recovery import AsyncEngine, AsyncRun, Engine, Migrated, Run, Status, errors, workflow
from recovery.codec import dumps
from recovery.core.entries import Answered, AnswerKind, Decision, Intent, Observation, Override, Source, Verb, encode
from recovery.core.ids import Epoch
from recovery.ports import Evidence, Journal
from recovery.storage import open_journal
from recovery.storage.exported import exported
from recovery.storage.reading import read
from recovery.testing import replay_journal
from recovery.testing.pieces import in_one_piece

from .world import QUICK, AnyWorkflow, Killed, Shop, keyed


def finished(came: Any) -> Any:
    return asyncio.run(came) if asyncio.iscoroutine(came) else came


def engine_of(journal: Journal, *flows: AnyWorkflow) -> Any:
    return (AsyncEngine if flows[0].is_async else Engine)(journal, workflows=flows, budget=QUICK)


def ordering(shop: Shop, body: str, version: str, *, colour: str = "sync", die: bool = False) -> AnyWorkflow:
    """A workflow whose steps are the letters of `body`: a lower one is a decision, an upper one an effect with a derived key. With `die` it
    dies behind them."""

    def stop() -> None:
        if die:
            raise Killed

    if colour == "sync":
        reserve = shop.effect(keyed())

        @workflow(name="order", version=version)
        def order(run: Run) -> list[int]:
            came = [
                run.decide(name, lambda: ord(name)) if name.islower() else run.perform(reserve(units=1), name=name)  # noqa: B023
                for name in body
            ]
            stop()
            return came

        return order
    awaited = shop.async_effect(keyed())

    @workflow(name="order", version=version)
    async def async_order(run: AsyncRun) -> list[int]:
        came = []
        for name in body:
            if name.islower():
                came.append(await run.decide(name, lambda: ord(name)))  # noqa: B023
            else:
                came.append(await run.perform(awaited(units=1), name=name))
        stop()
        return came

    return async_order


def recorded(journal: Journal, shop: Shop, body: str, colour: str = "sync") -> AnyWorkflow:
    flow = ordering(shop, body, "1", colour=colour, die=True)
    with pytest.raises(Killed):
        finished(engine_of(journal, flow).run("r", flow))
    return ordering(shop, body, "1", colour=colour)


def by(steps: dict[str, str | None], dropped: Sequence[str] = ()) -> Callable[[Sequence[str]], Migrated]:
    return lambda _recorded: Migrated(steps, dropped)


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize(
    ("new", "steps", "dropped", "came", "executed"),
    [
        ("AC", {"A#1": "A#1", "C#1": "C#1"}, ["B#1"], [1, 3], 3),
        ("AXBC", {"A#1": "A#1", "X#1": None, "B#1": "B#1", "C#1": "C#1"}, [], [1, 4, 2, 3], 4),
        ("CBA", {"C#1": "C#1", "B#1": "B#1", "A#1": "A#1"}, [], [3, 2, 1], 3),
        ("BAC", {"A#1": "B#1", "B#1": "A#1", "C#1": "C#1"}, [], [1, 2, 3], 3),
        ("ABA", {"A#1": None, "B#1": "B#1", "A#2": "A#1"}, ["C#1"], [4, 2, 1], 4),
        ("xBC", {"x#1": None, "B#1": "B#1", "C#1": "C#1"}, ["A#1"], [120, 2, 3], 3),
    ],
    ids=["removed", "added", "reordered", "renamed", "an old name for a new step", "effect into decision"],
)  # fmt: skip
def test_a_moved_run_goes_on_with_its_recorded_outcomes(
    new: str, steps: dict[str, str | None], dropped: list[str], came: list[int], executed: int, colour: str
) -> None:
    """The receipts are numbered in the order of the effects, so that each outcome says whose it is; a step that came later has the next one."""
    shop, journal = Shop(), open_journal("memory://")
    if new == "BAC":
        steps = {"B#1": "A#1", "A#1": "B#1", "C#1": "C#1"}
    recorded(journal, shop, "ABC", colour)
    second = ordering(shop, new, "2", colour=colour)
    second.migrates(from_version="1")(by(steps, dropped))
    engine = engine_of(journal, second)
    if new != "BAC":
        assert finished(engine.recover("r")).status is Status.DIVERGED
    done = finished(engine.change_version("r", by="ann", reason="it changed"))
    assert (done.before, done.after, done.dropped) == ("1", "2", tuple(dropped))
    assert finished(engine.recover("r")).result() == came
    assert sum(shop.executions.values()) == executed
    assert set(shop.executions.values()) == {1}
    [fit] = replay_journal(second, exported(journal, "r"))
    assert (fit.fits, fit.same_outcome, fit.version) == (True, True, "2")
    assert finished(engine.get("r")).result() == came


def test_the_order_is_recorded_and_holds_on_every_store(journal: Journal) -> None:
    shop = Shop()
    first = recorded(journal, shop, "aBc")
    second = ordering(shop, "cB", "2")
    seen: list[Sequence[str]] = []

    @second.migrates(from_version="1")
    def from_1(steps: Sequence[str]) -> Migrated:
        seen.append(steps)
        return Migrated({"c#1": "c#1", "B#1": "B#1"}, dropped=["a#1"])

    with engine_of(journal, first, second) as engine:
        before = in_one_piece(journal, "r")
        plan = engine.plan_version("r")
        assert (plan.steps, plan.dropped) == ({"c#1": "c#1", "B#1": "B#1"}, ("a#1",))
        assert in_one_piece(journal, "r") == before
        engine.change_version("r", by="ann", reason="fewer steps")
        assert set(seen) == {("a#1", "B#1", "c#1")}
        [order] = [entry for entry in engine.history("r") if isinstance(entry, Override)]
        assert (order.verb, order.by, order.version, order.steps) == (Verb.MOVE, "ann", "2", [["c#1", "c#1"], ["B#1", "B#1"]])
        [info] = engine.list()
        assert (info.status, info.owner) == (Status.RUNNING, None)
        in_use = {one.version: one.open for one in engine.versions().in_use}
        assert in_use == {"1": 0, "2": 1}
        assert engine.recover("r").result() == [99, 1]
        with pytest.raises(errors.OverrideRefused, match="it has ended"):
            engine.change_version("r", by="ann", reason="again")


def test_a_run_is_moved_twice_and_no_key_is_used_again(journal: Journal) -> None:
    """A name that was given up, taken by another step and given up again names three effects with three keys."""
    shop = Shop()
    recorded(journal, shop, "A")
    second = ordering(shop, "AB", "2", die=True)
    second.migrates(from_version="1")(by({"A#1": None, "B#1": "A#1"}))
    third = ordering(shop, "ABC", "3")
    third.migrates(from_version="2")(by({"A#1": None, "B#1": "A#1", "C#1": "B#1"}))
    with engine_of(journal, second) as engine:
        engine.change_version("r", by="ann", reason="two")
        with pytest.raises(Killed):
            engine.recover("r")
    with engine_of(journal, third) as engine:
        engine.change_version("r", by="ann", reason="three")
        assert engine.recover("r").result() == [3, 2, 1]
        keys = [entry.key for entry in engine.history("r") if isinstance(entry, Intent)]
    assert len(set(keys)) == 3
    assert dict(shop.executions) == dict.fromkeys(keys, 1)


def test_what_lies_inside_a_gather_goes_with_it(journal: Journal) -> None:
    shop = Shop()

    def flow(version: str, *, early: bool, die: bool) -> AnyWorkflow:
        reserve = shop.effect(keyed())

        @workflow(name="order", version=version)
        def order(run: Run) -> list[int]:
            if early:
                run.gather(lambda b: b.now(), name="first")
            run.sleep_until(run.now())
            came = list(run.gather(lambda b: b.perform(reserve(units=1)), lambda b: b.decide("two", lambda: 2)))
            if die:
                raise Killed
            return came

        return order

    first = flow("1", early=False, die=True)
    with Engine(journal) as engine, pytest.raises(Killed):
        engine.run("r", first)
    second = flow("2", early=True, die=False)
    kept = {step: step for step in ("now#1", "sleep#1", "gather#1")}
    second.migrates(from_version="1")(by({"first#1": None, **kept}))
    with Engine(journal, workflows=[second]) as engine:
        engine.change_version("r", by="ann", reason="a reading first")
        assert engine.recover("r").result() == [1, 2]
    assert sum(shop.executions.values()) == 1


def test_late_evidence_of_the_old_names_is_weighed_with_the_step_that_it_is_about(journal: Journal) -> None:
    shop = Shop()
    recorded(journal, shop, "AB")
    second = ordering(shop, "BA", "2")
    second.migrates(from_version="1")(by({"B#1": "A#1", "A#1": "B#1"}))
    with engine_of(journal, second) as engine:
        engine.change_version("r", by="ann", reason="swapped")
        assert engine.recover("r").result() == [1, 2]
        late = Observation(
            step="A#1", source=Source.LATE, asked_at_us=1, observed_at_us=1, epoch="0.1",
            answer=Answered(kind=AnswerKind.FOUND, value=7, receipt="7"),
        )  # fmt: skip
        journal.add_evidence(Evidence("r", "A#1", Epoch(0, 1), 1, "observation", dumps(encode(late))))
        told = {step.step: [noted.answer.value for noted in step.observations] for step in read(journal, "r").history.effects}
        assert told == {"B#1": [1, 7], "A#1": [2]}


REFUSED: dict[str, tuple[str, str, Any, str]] = {
    "a step is forgotten": ("AB", "A", by({"A#1": "A#1"}), "step B#1 has no place and is not dropped"),
    "a step is unknown": ("AB", "A", by({"A#1": "X#1"}), "step X#1 is not recorded"),
    "a step has two places": ("AB", "A", by({"A#1": "A#1", "A#2": "A#1"}, ["B#1"]), "step A#1 has two places"),
    "kept and dropped": ("AB", "A", by({"A#1": "A#1"}, ["A#1", "B#1"]), "step A#1 has two places"),
    "no Migrated": ("AB", "A", lambda _steps: {}, "its migration gave a dict"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_migration_that_is_not_whole_is_refused_and_nothing_is_written(name: str) -> None:
    old, new, migration, problem = REFUSED[name]
    shop, journal = Shop(), open_journal("memory://")
    recorded(journal, shop, old)
    second = ordering(shop, new, "2")
    second.migrates(from_version="1")(migration)
    rows = in_one_piece(journal, "r")[1]  # type: ignore[index]  # it is there
    with pytest.raises(errors.OverrideRefused, match=problem):
        engine_of(journal, second).change_version("r", by="ann", reason="x")
    assert in_one_piece(journal, "r")[1] == rows  # type: ignore[index]


def test_a_run_is_moved_only_where_it_can_be() -> None:
    shop, journal = Shop(), open_journal("memory://")
    first = recorded(journal, shop, "AB")
    second, other = ordering(shop, "BA", "2"), ordering(shop, "BA", "3")
    other.migrates(from_version="1")(by({"A#1": "A#1", "B#1": "B#1"}))
    engine = engine_of(journal, first, second, other)
    rows = in_one_piece(journal, "r")[1]  # type: ignore[index]
    for version, problem in (
        ("1", "it goes by version '1' already"),
        ("2", "has no migration from version '1'"),
        ("9", r"there is no version '9' of 'order' here \(known: 1, 2, 3\)"),
    ):
        with pytest.raises(errors.OverrideRefused, match=problem):
            engine.change_version("r", by="ann", reason="x", version=version)
    with pytest.raises(errors.OverrideRefused, match="it needs reason"):
        engine.change_version("r", by="ann", reason=" ")
    with pytest.raises(errors.Diverged) as diverged:  # the new code asks for B first
        engine.change_version("r", by="ann", reason="x")
    assert (diverged.value.seq, diverged.value.attempted) == (2, "step B#1")
    assert in_one_piece(journal, "r")[1] == rows  # type: ignore[index]
    for version in ("1", "2"):
        with pytest.raises(errors.DefinitionError):
            other.migrates(from_version="1" if version == "1" else "3")(by({}))


def test_an_unsettled_step_is_settled_first() -> None:
    shop, journal = Shop(), open_journal("memory://")
    shop.fail = lambda: _killed()
    first = ordering(shop, "aB", "1")
    with pytest.raises(Killed):
        engine_of(journal, first).run("r", first)
    shop.fail = lambda: None
    second = ordering(shop, "B", "2")
    second.migrates(from_version="1")(by({"B#1": "B#1"}, ["a#1"]))
    with pytest.raises(errors.OverrideRefused, match="step B#1 is not settled"):
        engine_of(journal, second).change_version("r", by="ann", reason="x")
    assert sum(shop.sent.values()) == 1


def _killed() -> None:
    raise Killed


def test_a_decision_that_was_moved_is_not_made_again(journal: Journal) -> None:
    shop = Shop()
    recorded(journal, shop, "ab")
    second = ordering(shop, "bz", "2")
    second.migrates(from_version="1")(by({"b#1": "a#1", "z#1": "b#1"}))
    with engine_of(journal, second) as engine:
        engine.change_version("r", by="ann", reason="renamed")
        assert engine.recover("r").result() == [ord("a"), ord("b")]
        assert [entry.step for entry in engine.history("r") if isinstance(entry, Decision)] == ["a#1", "b#1"]


def test_a_moved_run_is_neither_restarted_nor_forked() -> None:
    shop, journal = Shop(), open_journal("memory://")
    recorded(journal, shop, "Ab")
    second = ordering(shop, "bA", "2")
    second.migrates(from_version="1")(by({"b#1": "b#1", "A#1": "A#1"}))
    engine = engine_of(journal, second)
    engine.change_version("r", by="ann", reason="other order")
    with pytest.raises(errors.OverrideRefused, match="it was moved to another version"):
        engine.restart("r", "A#1", by="ann", reason="x")


def test_a_restarted_run_is_not_moved() -> None:
    shop, journal = Shop(), open_journal("memory://")
    first = recorded(journal, shop, "Ab")
    second = ordering(shop, "bA", "2")
    second.migrates(from_version="1")(by({"b#1": "b#1", "A#1": "A#1"}))
    engine = engine_of(journal, first, second)
    engine.restart("r", "b#1", by="ann", reason="chosen wrongly")
    with pytest.raises(errors.OverrideRefused, match="it was forked or restarted"):
        engine.change_version("r", by="ann", reason="x")
