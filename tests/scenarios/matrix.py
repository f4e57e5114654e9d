"""The matrix: every contract, stopped at every crash point, with every fault behind it. What a cell is, and how it is played."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from recovery.storage import open_journal
from recovery.testing import Scenario
from recovery.testing.stage import Stage
from tests.scenarios.oracle import IN_DOUBT, Nature, Truth

DAY = {"window": "24h"}

CONTRACTS: dict[str, tuple[dict[str, Any], dict[str, Any], Nature]] = {
    # name: (the contract, the environment's knobs, what it is)
    "read": ({"contract": "read"}, {}, Nature(harmless=True)),
    "keyed": ({"contract": "keyed", **DAY}, DAY, Nature(deduplicates=True, hours=24)),
    "keyed, look-up": ({"contract": "keyed", **DAY, "lookup": {}}, DAY, Nature(deduplicates=True, hours=24, shows=True)),
    "keyed, close": ({"contract": "keyed", **DAY, "lookup": {}, "close": True}, DAY, Nature(deduplicates=True, hours=24, shows=True)),
    "keyed, only successes remembered": (
        {"contract": "keyed", **DAY, "remembers_rejections": False},
        {**DAY, "remembers": ["success"]},
        Nature(deduplicates=True, hours=24),
    ),
    "keyed, current state": (
        {"contract": "keyed", **DAY, "replay": "current", "stable_fields": ["receipt", "sku", "qty"]},
        {**DAY, "replay": "current"},
        Nature(deduplicates=True, hours=24),
    ),
    "keyed, window of 10 min": ({"contract": "keyed", "window": "10m"}, {"window": "10m"}, Nature()),
    "keyed, fails open": ({"contract": "keyed", **DAY, "fail_open": True}, {**DAY, "fail_open": True}, Nature()),
    "swallow": ({"contract": "swallow", **DAY}, DAY, Nature(deduplicates=True, hours=24)),
    "first-sent fence": (
        {"contract": "first_sent", **DAY, "lookup": {}},
        DAY,
        Nature(deduplicates=True, hours=24, shows=True, absence_ends="fence"),
    ),
    "named": ({"contract": "named"}, {}, Nature(shows=True)),
    "co-transactional": ({"contract": "cotransactional"}, {}, Nature(deduplicates=True, shows=True)),
    "prepared": ({"contract": "prepared"}, {}, Nature(shows=True)),
    "probeable": ({"contract": "probeable"}, {}, Nature(shows=True)),
    "probeable, settling trusted": (
        {"contract": "probeable", "trust_settle": True}, {}, Nature(shows=True, absence_ends="settling"),
    ),
    "probeable, deadline enforced": (
        {"contract": "probeable", "enforced": "deadline"}, {"enforces": "deadline"}, Nature(shows=True, absence_ends="deadline"),
    ),
    "opaque": ({"contract": "opaque"}, {}, Nature()),
}  # fmt: skip

POINTS = {
    "before the intent": "append.intent.before",
    "intent durable": "append.intent.after",
    "about to send": "send.before",
    "on its way": "environment.held",
    "arrived": "environment.received",
    "done": "environment.committed",
    "reply in memory": "append.settled.before",
    "outcome durable": "append.settled.after",
}

FAULTS: dict[str, list[dict[str, Any]]] = {
    "reply lost": [{"environment": {"drop_replies": 1}}],
    "request held": [{"environment": {"hold": "10m"}}],
    "never sent": [{"environment": {"down": "refused"}}],
    "environment down": [{"environment": {"down": True}}],
    "expired": [{"advance": "30h"}],
}
"""What hits the first recovery. An environment that is down is up again for the next one."""

CELLS = list(product(CONTRACTS, POINTS, FAULTS))


@dataclass(frozen=True)
class Cell:
    """One cell, played. problems: of the promises, which are looked at after every move."""

    verdict: str
    truth: Truth
    problems: list[str]
    transcript: str


def play(contract: str, point: str, fault: str, colour: str) -> Cell:
    """Play one cell on memory."""
    stage = Stage(_scenario(contract, point, fault), open_journal("memory://"), is_async=colour == "async")
    problems = stage.play()
    world = stage.world()
    order = list(POINTS)
    truth = Truth(
        begun=order.index(point) >= order.index("intent durable"),
        recorded=point == "outcome durable",
        fault=fault,
        executed=sum(world.executions().values()),
    )
    effects = world.runs["run-1"].history.effects
    settled = effects[0].settled if effects else None
    if settled is not None:
        verdict = settled.outcome.value.replace("applied_without_value", "applied").replace("_", " ")
    else:
        last = effects[0].verdicts[-1] if effects and effects[0].verdicts else None
        verdict = IN_DOUBT if last is not None and last.action == "park" else "unresolved"
    return Cell(verdict, truth, problems, stage.ledger.transcript())


def _scenario(contract: str, point: str, fault: str) -> Scenario:
    stated, knobs, _ = CONTRACTS[contract]
    held = [{"environment": {"hold": "10m"}}] if point == "on its way" and contract != "read" else []
    at = POINTS[point] if contract != "read" or not POINTS[point].startswith("environment") else "send.before"
    timeline = [
        *held,
        {"run": "A", "kill": {"at": at}},
        *FAULTS[fault],
        {"recover": "B"},
        {"environment": {"down": False}},
        {"advance": "25m"},
        {"recover": "C", "max_wait": "30m"},
        {"advance": "25m"},
        {"recover": "D", "max_wait": "30m"},
    ]
    return Scenario.model_validate(
        {
            "scenario": "matrix",
            "name": f"{contract}, {point}, {fault}",
            "story": "One cell of the matrix of contracts, crash points and faults.",
            "environment": {"stock": {"A": 10}, "effects": {"reserve": stated}, **knobs},
            "workflow": [{"perform": "reserve", "with": {"sku": "A", "qty": 2}, "key": "k"}, {"return": "done"}],
            "timeline": timeline,
            "expect": {},
        }
    )


def table(verdicts: dict[tuple[str, str, str], str]) -> str:
    """Contract x fault -> the verdicts, with the crash points of each where there are several."""
    lines = ["| contract | " + " | ".join(FAULTS) + " |", "| --- |" + " --- |" * len(FAULTS)]
    for contract in CONTRACTS:
        cells = []
        for fault in FAULTS:
            by_verdict: dict[str, list[str]] = {}
            for point in POINTS:
                by_verdict.setdefault(verdicts[contract, point, fault], []).append(point)
            most = max(by_verdict, key=lambda verdict: len(by_verdict[verdict]))
            rest = [f"{verdict}: {', '.join(points)}" for verdict, points in by_verdict.items() if verdict != most]
            cells.append(most + (f" ({'; '.join(rest)})" if rest else ""))
        lines.append(f"| {contract} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
