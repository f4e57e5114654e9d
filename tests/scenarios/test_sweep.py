"""Sweeps: a crash, two crashes, or a zombie at every place that a run passes, for every class of contract.

A scenario tells one story; these tell all of them that differ only in the place. What must hold is the same everywhere: the promises after
every move, and, with a key, the one outcome. A run of the suite plays a third of the places; `make sweep` plays all.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest

from recovery.storage import open_journal
from recovery.testing import Scenario
from recovery.testing.process import Process
from recovery.testing.stage import Stage
from tests.scenarios.playing import played

CONTRACTS: dict[str, dict[str, Any]] = {
    "keyed": {"contract": "keyed", "window": "24h"},
    "keyed-closing": {"contract": "keyed", "window": "24h", "close": True, "lookup": {}},
    "probeable": {"contract": "probeable"},
    "trusting": {"contract": "probeable", "trust_settle": True},
    "opaque": {"contract": "opaque"},
}
WORKFLOW = [
    {"decide": "plan", "value": {"sku": "A", "qty": 2}},
    {"attempt": "reserve", "with": "$plan", "key": "k1", "applied": [
        {"attempt": "reserve", "with": {"sku": "B", "qty": 2}, "key": "k2", "rejected": [
            {"perform": "reserve", "with": {"sku": "A", "qty": 3}, "key": "k3", "as": "last"},
            {"return": "$last"},
        ]},
    ]},
]  # fmt: skip
"""One effect that happens, one that is declined, one that happens."""

LATER = [{"recover": "C", "max_wait": "0s"}, {"advance": "25m"}, {"recover": "D"}, {"advance": "25m"}]
"""Until everything that can become quiet is quiet; whoever looks again at the end of a play finds the rest."""

COLOURS = [(contract, "sync") for contract in CONTRACTS] + [("keyed", "async")]
"""That both colours do the same is tested elsewhere, scenario by scenario."""


def scenario(contract: str, timeline: list[dict[str, Any]], **expect: Any) -> Scenario:
    return Scenario.model_validate(
        {
            "scenario": "sweep",
            "name": f"sweep {contract}",
            "story": "The same run, stopped at another place each time.",
            "environment": {"stock": {"A": 10, "B": 1}, "effects": {"reserve": CONTRACTS[contract]}},
            "workflow": WORKFLOW,
            "timeline": timeline,
            "expect": expect,
        }
    )


def places(monkeypatch: pytest.MonkeyPatch, contract: str, timeline: list[dict[str, Any]], process: str) -> list[tuple[str, int]]:
    """Every place that a process passes in the last move of a timeline, with its occurrence."""
    passed: list[tuple[str, int]] = []
    reach = Process.reach

    def noted(self: Process, point: str) -> None:
        reach(self, point)
        if point and self.name == process:
            passed.append((point, 1 + sum(point == other for other, _ in passed)))

    with monkeypatch.context() as patched:
        patched.setattr(Process, "reach", noted)
        stage = Stage(scenario(contract, timeline), open_journal("memory://"), is_async=False)
        for move in stage.scenario.timeline:
            stage.make(move)
        stage.end()
    return passed


def sampled(found: list[tuple[str, int]], *about: str) -> list[tuple[str, int]]:
    """A third of the places, the same in each run, or all of them under RECOVERY_SWEEP=full."""
    if os.environ.get("RECOVERY_SWEEP") == "full":
        return found
    return Random(":".join(about)).sample(found, -(-len(found) // 3))


def stop(place: tuple[str, int]) -> dict[str, Any]:
    return {"at": place[0], "occurrence": place[1]}


ONCE = {"k1": 1, "k3": 1}


def outcome(contract: str) -> dict[str, Any]:
    """What must come of it: with a key everything, without one nothing that is not proven."""
    return {"status": "completed", "executions": ONCE} if contract.startswith("keyed") else {}


def starting(place: tuple[str, int]) -> list[dict[str, Any]]:
    """A run that died before it was stored is started again."""
    return [{"run": "B"}] if place[0] == "open.before" else [{"recover": "B"}]


@pytest.mark.parametrize(("contract", "colour"), COLOURS)
def test_a_crash_at_every_place(monkeypatch: pytest.MonkeyPatch, contract: str, colour: str) -> None:
    found = places(monkeypatch, contract, [{"run": "A"}], "A")
    assert len(found) > 25
    for place in sampled(found, contract, colour):
        timeline = [{"run": "A", "kill": stop(place)}, *starting(place), *LATER]
        result = played(scenario(contract, timeline, **outcome(contract)), colour)
        assert result.passed, "\n".join([str(place), *result.problems, result.transcript])


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("first", ["append.intent.after", "environment.received", "environment.committed", "append.settled.before"])
def test_a_second_crash_at_every_place_of_the_recovery(monkeypatch: pytest.MonkeyPatch, contract: str, first: str) -> None:
    begun = [{"run": "A", "kill": {"at": first}}]
    found = places(monkeypatch, contract, [*begun, {"recover": "B"}], "B")
    assert len(found) > 4
    for place in sampled(found, contract, first):
        timeline = [*begun, {"recover": "B", "kill": stop(place)}, *LATER]
        result = played(scenario(contract, timeline, **outcome(contract)))
        assert result.passed, "\n".join([str(place), *result.problems, result.transcript])


@pytest.mark.parametrize(("contract", "colour"), COLOURS)
def test_a_zombie_at_every_place(monkeypatch: pytest.MonkeyPatch, contract: str, colour: str) -> None:
    """It stands still, is taken over when its lease ends, and goes on."""
    found = places(monkeypatch, contract, [{"run": "A"}], "A")
    for place in sampled(found, contract, "zombie", colour):
        if place[0] == "open.before":
            continue
        timeline = [{"run": "A", "pause": stop(place)}, {"recover": "B", "wait": "2m"}, {"resume": "A"}, *LATER]
        result = played(scenario(contract, timeline, **outcome(contract)), colour)
        assert result.passed, "\n".join([str(place), *result.problems, result.transcript])


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_zombie_against_a_paused_recoverer(monkeypatch: pytest.MonkeyPatch, contract: str) -> None:
    """The zombie wakes up at every place of the recovery that took over from it."""
    begun = [{"run": "A", "pause": {"at": "environment.received"}}]
    found = places(monkeypatch, contract, [*begun, {"recover": "B", "wait": "2m"}], "B")
    for place in sampled(found, contract, "both"):
        timeline = [
            *begun, {"recover": "B", "wait": "2m", "pause": stop(place)}, {"resume": "A"}, {"resume": "B"}, *LATER,
        ]  # fmt: skip
        result = played(scenario(contract, timeline, **outcome(contract)))
        assert result.passed, "\n".join([str(place), *result.problems, result.transcript])
