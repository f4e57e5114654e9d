"""Drawing: random workflows of scenario steps, as Hypothesis strategies.

Owns what a random workflow is made of, and which features one has. Knows no meaning. Invariant: keys and the names of values are different
within a workflow, so that no step means another one's key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.model.workflows.plain import GONE

EFFECTS: dict[str, dict[str, Any]] = {
    "reserve": {"contract": "keyed", "window": "24h", "settle_window": "30s"},
    "close": {"contract": "keyed", "window": "24h", "settle_window": "30s", "close": True, "lookup": {}},
    "name": {"contract": "named", "settle_window": "30s", "trust_settle": True},
    "find": {"contract": "probeable", "settle_window": "30s", "trust_settle": True},
}
DEPTH_MAX = 2
STEPS_MAX = 4

FEATURES = ("sequence", "branches", "timers", "rejections", "errors caught", "failures", "own keys", "decisions")
"""What a workflow may have. Each must be in a twentieth of all histories at least."""


@dataclass(slots=True)
class Workflow:
    """Steps as a scenario file has them, and which of the features are in it."""

    steps: list[dict[str, Any]] = field(default_factory=list)
    features: set[str] = field(default_factory=set)
    names: int = 0

    def named(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"


@st.composite
def workflows(draw: DrawFn) -> Workflow:
    """A workflow of a handful of steps, whose value is all that it has come to know."""
    made, known = Workflow(), []
    made.steps = _block(draw, made, known, DEPTH_MAX)
    if sum("gather" not in step for step in made.steps) > 1:
        made.features.add("sequence")
    if draw(st.integers(0, 9)) == 0:
        made.steps.append({"fail": "as it was meant to"})
        made.features.add("failures")
    made.steps.append({"return": [f"${name}" for name in known]})
    return made


def _block(draw: DrawFn, made: Workflow, known: list[str], depth: int) -> list[dict[str, Any]]:
    many = draw(st.integers(1, STEPS_MAX if depth == DEPTH_MAX else 2))
    return [_step(draw, made, known, depth) for _ in range(many)]


def _step(draw: DrawFn, made: Workflow, known: list[str], depth: int) -> dict[str, Any]:
    nested = ["gather", "try"] if depth else []
    match draw(st.sampled_from(["perform", "perform", "perform", "attempt", "decide", "sleep", *nested])):
        case "decide":
            made.features.add("decisions")
            name = made.named("d")
            known.append(name)
            return {"decide": name, "value": draw(st.integers(1, 3))}
        case "sleep":
            made.features.add("timers")
            return {"sleep": draw(st.sampled_from(["1s", "40s", "10m", "1h"]))}
        case "gather":
            return _gather(draw, made, known, depth)
        case "try":
            return _try(draw, made, known, depth)
        case "attempt":
            asked = _effect(draw, made, known, GONE if draw(st.booleans()) else "A")
            if asked["with"]["sku"] == GONE:
                made.features.add("rejections")
            follows = {"applied": _block(draw, made, [], 0), "rejected": _block(draw, made, [], 0)}
            return {"attempt": asked.pop("effect"), **asked, **follows}
        case _:
            asked = _effect(draw, made, known, "A")
            return {"perform": asked.pop("effect"), **asked}


def _effect(draw: DrawFn, made: Workflow, known: list[str], sku: str) -> dict[str, Any]:
    name = made.named("v")
    decided = [one for one in known if one.startswith("d")]
    quantity: Any = f"${draw(st.sampled_from(decided))}" if decided and draw(st.booleans()) else draw(st.integers(1, 3))
    asked = {"effect": draw(st.sampled_from(list(EFFECTS))), "with": {"sku": sku, "qty": quantity}, "as": name}
    known.append(name)
    if draw(st.booleans()):
        made.features.add("own keys")
        asked["key"] = f"key-{name}"
    return asked


def _gather(draw: DrawFn, made: Workflow, known: list[str], depth: int) -> dict[str, Any]:
    """Each branch gives back what it has come to know; what failed in it is caught outside, or nowhere."""
    made.features.add("branches")
    branches = []
    for _ in range(draw(st.integers(2, 3))):
        inner = [name for name in known if name.startswith("d")]
        steps = _block(draw, made, inner, depth - 1)
        fresh = [name for name in inner if name not in known]
        branches.append([*steps, {"return": [f"${name}" for name in fresh]}])
    name = made.named("g")
    known.append(name)
    return {"gather": branches, "as": name}


def _try(draw: DrawFn, made: Workflow, known: list[str], depth: int) -> dict[str, Any]:
    """A declined effect, or a failure of the workflow's own, in the midst of something, and what follows it."""
    made.features.add("errors caught")
    asked = _effect(draw, made, [], GONE)
    fails = draw(st.sampled_from([{"fail": "caught"}, {"perform": asked.pop("effect"), **asked}]))
    return {
        "try": [*_block(draw, made, [], depth - 1), fails],
        "except": _block(draw, made, [], depth - 1),
        "finally": _block(draw, made, [], 0) if draw(st.booleans()) else [],
    }
