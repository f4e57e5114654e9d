"""A run that has forgotten steps and is then moved to other code, restarted or forked: what an undoing reads back is what stands in the journal by then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from recovery import Call, Compensated, Engine, Environment, Forbid, Migrated, NewKey, Reuse, Run, Secret, Status, errors, workflow
from recovery.core.entries import Intent
from recovery.definitions.effect import Effect, effect
from recovery.ports import Journal
from recovery.testing import ManualClock
from tests.integration.world import QUICK, AnyWorkflow, Killed, keyed

WHO = {"by": "ann", "reason": "another plan"}


@dataclass
class Shelf:
    """Parts that are taken and given back. `killed`: parts at whose giving back the worker dies, once each."""

    done: list[str] = field(default_factory=list)
    given: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    killed: list[str] = field(default_factory=list)

    def effect(self) -> Effect[..., dict[str, int]]:
        @effect(keyed(), environment=Environment("shelf"), name="take")
        def take(call: Call, *, part: str, note: Secret[str]) -> dict[str, int]:
            self.done.append(f"take {part}")
            return {part: len(self.done)}

        @take.compensation(keyed())
        def give(call: Call, outcome: dict[str, int], *, part: str, note: Secret[str]) -> None:
            if call.key not in self.given:
                self.done.append(f"give {part}")
                self.given[call.key] = (outcome, note)
            if part in self.killed:
                self.killed.remove(part)
                raise Killed

        return take

    def flow(self, version: str, steps: Sequence[tuple[str, str]], *, stops: bool = False) -> AnyWorkflow:
        """Takes a part at each of these steps, and gives all of them back; or stops behind them."""
        take = self.effect()

        @workflow(name="trip", version=version)
        def trip(run: Run) -> Compensated:
            for name, part in steps:
                run.perform(take(part=part, note=f"hush-{part}"), name=name)
            if stops:
                raise Killed
            return run.compensate()

        return trip


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


ABC = [(part, part) for part in "abc"]


def begun(journal: Journal, shelf: Shelf) -> None:
    flow = shelf.flow("1", ABC, stops=True)
    with engine_of(journal, flow) as engine, pytest.raises(Killed):
        engine.run("r", flow)
    assert shelf.done == ["take a", "take b", "take c"]


def engine_of(journal: Journal, *flows: AnyWorkflow) -> Engine:
    return Engine(journal, workflows=flows, budget=QUICK, clock=ManualClock())


def undone(engine: Engine, run_id: str, *killed: str) -> tuple[str, ...]:
    """What a recovery undoes, whose worker dies at each of these parts."""
    for _ in killed:
        with pytest.raises(Killed):
            engine.recover(run_id)
    came = engine.recover(run_id)
    assert came.status is Status.COMPLETED, came
    assert engine.recover(run_id).result() == came.result()
    assert engine.verify().broken == []
    result = came.result()
    assert (result.by_hand, result.left) == ((), ())
    return tuple(result.undone)


@pytest.mark.parametrize("killed", [(), ("c",), ("d", "a")], ids=["at once", "killed once", "killed twice"])
def test_what_was_moved_is_undone_under_its_new_name(journal: Journal, shelf: Shelf, killed: tuple[str, ...]) -> None:
    begun(journal, shelf)
    second = shelf.flow("2", [("first", "a"), ("new", "d"), ("b", "c")])
    second.migrates(from_version="1")(lambda _: Migrated({"first#1": "a#1", "new#1": None, "b#1": "c#1"}, dropped=["b#1"]))
    shelf.killed += killed
    with engine_of(journal, second) as engine:
        engine.change_version("r", **WHO)
        assert undone(engine, "r", *killed) == ("new#1", "b#1", "first#1")
        undoings = [(entry.undoes, entry.key) for entry in engine.history("r") if isinstance(entry, Intent) and entry.undoes]
    assert [step for step, _ in undoings] == ["new#1", "b#1", "first#1"]
    assert shelf.done[3:] == ["take d", "give d", "give c", "give a"]
    assert [shelf.given[key] for _, key in undoings] == [({"d": 4}, "hush-d"), ({"c": 3}, "hush-c"), ({"a": 1}, "hush-a")]


@pytest.mark.parametrize("killed", [(), ("c", "a")], ids=["at once", "killed twice"])
def test_what_was_restarted_is_undone_once_and_what_it_superseded_is_not(
    journal: Journal, shelf: Shelf, killed: tuple[str, ...]
) -> None:
    begun(journal, shelf)
    whole = shelf.flow("1", ABC)
    shelf.killed += killed
    with engine_of(journal, whole) as engine:
        engine.restart("r", "b#1", policies={"b#1": Reuse(), "c#1": NewKey("the first one was lost")}, **WHO)
        assert undone(engine, "r", *killed) == ("c#1@2", "b#1@2", "a#1")
    assert shelf.done[3:] == ["take c", "give c", "give b", "give a"]
    assert list(shelf.given.values()) == [({"c": 4}, "hush-c"), ({"b": 2}, "hush-b"), ({"a": 1}, "hush-a")]


def test_a_fork_undoes_its_own_and_its_parent_all_of_its_own(journal: Journal, shelf: Shelf) -> None:
    begun(journal, shelf)
    with engine_of(journal, shelf.flow("1", ABC)) as engine:
        engine.fork("r", "f", at="c#1", policies={"c#1": NewKey("a second one is wanted")}, **WHO)
        shelf.killed.append("c")
        assert undone(engine, "f", "c") == ("c#1",)
        assert shelf.done[3:] == ["take c", "give c"]
        assert undone(engine, "r") == ("c#1", "b#1", "a#1")
    assert shelf.done[5:] == ["give c", "give b", "give a"]
    assert list(shelf.given.values()) == [
        ({"c": 4}, "hush-c"),
        *(({part: n}, f"hush-{part}") for n, part in ((3, "c"), (2, "b"), (1, "a"))),
    ]


@pytest.mark.parametrize("order", ["move", "restart"])
def test_what_was_secret_in_a_step_that_was_left_behind_is_shown_by_no_message(journal: Journal, shelf: Shelf, order: str) -> None:
    begun(journal, shelf)
    take = shelf.effect()

    @workflow(name="trip", version="1" if order == "restart" else "2")
    def other(run: Run) -> None:
        run.perform(take(part="a", note="hush-a"), name="a")
        raise ValueError("neither hush-a nor hush-b")

    with engine_of(journal, other) as engine:
        if order == "move":
            other.migrates(from_version="1")(lambda _: Migrated({"a#1": "a#1"}, dropped=["b#1", "c#1"]))
            engine.change_version("r", **WHO)
        else:
            engine.restart("r", "b#1", policies={"b#1": Forbid(), "c#1": Forbid()}, **WHO)
        with pytest.raises(errors.RunFailed, match="neither <secret> nor <secret>"):
            engine.recover("r").result()
