"""Wandering: timelines that nobody thought of, drawn at random, inside what the contracts promise.

Whatever is killed, paused, resumed, held, dropped or down, in whatever order: the promises hold after every move. Contracts that trust a
settle window are left out, since a process that stands still between its last look at the clock and its first byte breaks assumption A2.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from recovery.core import evidence
from recovery.core.facts import Absence
from recovery.crashpoints import POINTS
from recovery.storage import open_journal
from recovery.testing.environment import PLACES
from recovery.testing.moves import Move
from recovery.testing.promises import broken
from recovery.testing.stage import Failed, Stage
from tests.scenarios.test_sweep import scenario

MOVE: TypeAdapter[Any] = TypeAdapter(Move)

ACTORS = st.sampled_from(["A", "B", "C"])
STOPS = st.fixed_dictionaries({"at": st.sampled_from([*POINTS, *PLACES]), "occurrence": st.integers(1, 3)})
STOPPED = st.one_of(st.just({}), st.fixed_dictionaries({"kill": STOPS}), st.fixed_dictionaries({"pause": STOPS}))
WAITS = st.sampled_from(["0s", "2m"])
EVENTS = st.sampled_from(
    [{"hold": "3s"}, {"hold": "40s"}, {"hold": "10m"}, {"drop_replies": 1}, {"fail": "before"}, {"down": True}, {"down": "refused"},
     {"down": False}, {"restock": {"A": 5}}, {"restock": {"B": 5}}]
)  # fmt: skip


def act(verb: str) -> st.SearchStrategy[dict[str, Any]]:
    more = {"recover": st.fixed_dictionaries({"wait": WAITS, "max_wait": st.sampled_from(["0s", "1m", "30m"])})}
    return st.builds(lambda actor, stop, rest: {verb: actor, **stop, **rest}, ACTORS, STOPPED, more.get(verb, st.just({})))


MOVES = st.one_of(
    act("run"),
    act("recover"),
    act("recover"),
    act("resume"),
    st.builds(lambda actor: {"kill": actor}, ACTORS),
    st.builds(lambda time: {"advance": time}, st.sampled_from(["1s", "35s", "5m", "25m"])),
    st.builds(lambda event: {"environment": event}, EVENTS),
)


def made(stage: Stage, move: dict[str, Any]) -> str:
    """Make a move; why it could not be made as it says: a place that was not passed, or an actor who cannot do that now."""
    try:
        stage.make(MOVE.validate_python(move))
    except Failed as failed:
        return str(failed)
    return ""


def wander(contract: str, moves: list[dict[str, Any]], *, is_async: bool = False) -> Stage:
    stage = Stage(scenario(contract, [{"advance": "1s"}]), open_journal("memory://"), is_async=is_async)
    try:
        for move in moves:
            impossible = made(stage, move)
            assert "Traceback" not in impossible, stage.ledger.transcript()
            assert "never ended" not in impossible, stage.ledger.transcript()
            problems = broken(stage.world())
            assert problems == [], "\n".join([str(move), *problems, stage.ledger.transcript()])
        stage.environment.faults.down = False
        stage.recover_again()
        problems = broken(stage.world())
        assert problems == [], "\n".join([*problems, stage.ledger.transcript()])
    finally:
        stage.end()
    return stage


@pytest.mark.parametrize("contract", ["keyed", "keyed-closing", "probeable", "opaque"])
@settings(max_examples=40, deadline=None)
@given(moves=st.lists(MOVES, min_size=2, max_size=12), is_async=st.booleans())
def test_the_promises_hold_on_any_way(contract: str, moves: list[dict[str, Any]], is_async: bool) -> None:
    wander(contract, moves, is_async=is_async)


def test_a_walk_gets_somewhere() -> None:
    """The control: these moves do act on a run, and what is not possible is passed over."""
    stage = wander(
        "keyed", [{"resume": "A"}, {"run": "A", "pause": {"at": "send.before"}}, {"run": "A"}, {"kill": "A"}, {"recover": "B"}]
    )
    assert stage.environment.executions() == {"k1": 1, "k3": 1}


def test_a_walk_sees_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other control: an early absence is taken for proof, and a walk past a held request says so."""
    weigh_absence = evidence._Weighing.absence

    def rash(self: Any, *given: Any) -> Absence:
        found = weigh_absence(self, *given)
        return found if found is Absence.NONE else Absence.ENFORCED

    monkeypatch.setattr(evidence._Weighing, "absence", rash)
    walk = [{"environment": {"hold": "40s"}}, {"run": "A", "kill": {"at": "environment.held"}}, {"recover": "B"}, {"advance": "5m"}]
    with pytest.raises(AssertionError, match="I1: "):
        wander("probeable", walk)
