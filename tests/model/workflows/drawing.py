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

_UNDONE = {"contract": "keyed", "window": "24h", "settle_window": "30s"}
EFFECTS: dict[str, dict[str, Any]] = {
    "reserve": {**_UNDONE, "compensation": _UNDONE},
    "close": {**_UNDONE, "close": True, "lookup": {}, "compensation": _UNDONE},
    "name": {"contract": "named", "settle_window": "30s", "trust_settle": True, "compensation": _UNDONE},
    "find": {"contract": "probeable", "settle_window": "30s", "trust_settle": True, "compensation": _UNDONE},
}
DEPTH_MAX = 2
STEPS_MAX = 4

FEATURES = (
    "sequence", "branches", "timers", "signals", "compensation", "children", "rejections", "errors caught", "failures", "own keys", "decisions",
)  # fmt: skip
"""What a workflow may come to on its way. Each must be in a twentieth of all histories at least."""


@dataclass(slots=True)
class Workflow:
    """Steps as a scenario file has them. asked: what people answer in it; topics: of which messages are sent to it. alone: inside a child, to
    which nobody speaks."""

    steps: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)
    alone: bool = False
    names: int = 0

    def named(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"


@st.composite
def workflows(draw: DrawFn) -> Workflow:
    """A workflow of a handful of steps, whose value is all that it has come to know."""
    made, known = Workflow(), []
    made.steps = _block(draw, made, known, DEPTH_MAX)
    if draw(st.integers(0, 9)) == 0:
        made.steps.append({"fail": "as it was meant to"})
    made.steps.append({"return": [f"${name}" for name in known]})
    return made


def _block(draw: DrawFn, made: Workflow, known: list[str], depth: int) -> list[dict[str, Any]]:
    many = draw(st.integers(1, STEPS_MAX if depth == DEPTH_MAX else 2))
    return [_step(draw, made, known, depth) for _ in range(many)]


def _step(draw: DrawFn, made: Workflow, known: list[str], depth: int) -> dict[str, Any]:
    nested = ["gather", "try", "saga", "child"] if depth else []
    spoken = [] if made.alone else ["wait_for", "receive"]
    match draw(st.sampled_from(["perform", "perform", "perform", "attempt", "decide", "sleep", *spoken, *nested])):
        case "wait_for":
            made.asked.append(made.named("w"))
            known.append(made.asked[-1])
            return {"wait_for": made.asked[-1]}
        case "receive":
            made.topics.append(made.named("t"))
            known.append(made.topics[-1])
            return {"receive": made.topics[-1]}
        case "decide":
            name = made.named("d")
            known.append(name)
            return {"decide": name, "value": draw(st.integers(1, 3))}
        case "sleep":
            return {"sleep": draw(st.sampled_from(["1s", "40s", "10m", "1h"]))}
        case "gather":
            return _gather(draw, made, known, depth)
        case "saga":
            return _saga(draw, made, depth)
        case "child":
            return _child(draw, made, known)
        case "try":
            return _try(draw, made, known, depth)
        case "attempt":
            asked = _effect(draw, made, known, GONE if draw(st.booleans()) else "A")
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
        asked["key"] = f"key-{name}"
    return asked


def _gather(draw: DrawFn, made: Workflow, known: list[str], depth: int) -> dict[str, Any]:
    """Each branch gives back what it has come to know; what failed in it is caught outside, or nowhere."""
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
    asked = _effect(draw, made, [], GONE)
    fails = draw(st.sampled_from([{"fail": "caught"}, {"perform": asked.pop("effect"), **asked}]))
    return {
        "try": [*_block(draw, made, [], depth - 1), fails],
        "except": _block(draw, made, [], depth - 1),
        "finally": _block(draw, made, [], 0) if draw(st.booleans()) else [],
    }


def _saga(draw: DrawFn, made: Workflow, depth: int) -> dict[str, Any]:
    """Some effects, and mostly a failure behind them, mostly caught around it."""
    done = [_step(draw, made, [], 0) for _ in range(draw(st.integers(1, 3)))]
    asked = _effect(draw, made, [], GONE)
    fails = (
        [draw(st.sampled_from([{"fail": "undone"}, {"perform": asked.pop("effect"), **asked}]))] if draw(st.integers(0, 4)) else []
    )
    saga = {"saga": made.named("s"), "do": [*done, *fails]}
    return {"try": [saga], "except": _block(draw, made, [], depth - 1)} if draw(st.integers(0, 4)) else saga


def _child(draw: DrawFn, made: Workflow, known: list[str]) -> dict[str, Any]:
    """A child that comes to something, waited for here, at the end, or not at all."""
    inner: list[str] = []
    made.alone = True
    steps = [_step(draw, made, inner, 0) for _ in range(draw(st.integers(1, 3)))]
    made.alone = False
    name = made.named("c")
    known.append(name)
    how = draw(st.sampled_from(["call", "call", "start", "detach"]))
    returned = {"return": ["$input", *(f"${one}" for one in inner)]}
    return {
        "child": f"child-{name}",
        "run_id": f"run-{name}",
        "how": how,
        "with": draw(st.integers(0, 9)),
        "do": [*steps, returned],
        "as": name,
    }
