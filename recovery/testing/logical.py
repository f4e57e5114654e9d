"""Logical effects: what a workflow asks for at one step, whichever run, generation or key it happens under; how often it did, and how often it may.

Owns what counts as the same effect once more, and which durable orders allow that. Reads journals and counts from outside; must not know what the engine
would have done. Invariant: of one logical effect at most one more happens than there are orders in the journals that allow one more, each named here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from recovery.core.contracts import Kind
from recovery.core.entries import INHERITED, Override, Verb
from recovery.core.history import DecisionStep, EffectStep
from recovery.core.ids import base_of
from recovery.core.inheritance import NEW_KEY, Term
from recovery.core.repeating import place_of
from recovery.storage.reading import Whole

Path: TypeAlias = tuple[str, ...]
"""Of a run: the id of the first run of its line, and the steps at which each child below that was started."""

_CHILD: Final = "child "
"""Before the name of a workflow, in what a term says of a child's start."""


@dataclass(frozen=True, slots=True)
class Logical:
    """Which effect: the path of its run, its step without generations and further sendings, its name, its environment and what was asked for."""

    path: Path
    step: str
    effect: str
    environment: str
    fingerprint: str

    def __str__(self) -> str:
        return f"{' > '.join(self.path)}: {self.step} ({self.effect})"


@dataclass(slots=True)
class Happened:
    """One logical effect. under: run, step and key of each that happened. allowed_by: the orders that allow one more, in words."""

    which: Logical
    under: list[tuple[str, str, str]] = field(default_factory=list)
    times: int = 0
    allowed_by: list[str] = field(default_factory=list)

    @property
    def too_often(self) -> bool:
        return self.times > 1 + len(self.allowed_by)

    def __str__(self) -> str:
        where = ", ".join(f"{run_id} {step} under {key}" for run_id, step, key in self.under)
        orders = "".join(f"; allowed by {order}" for order in self.allowed_by) or "; no order allows it"
        return f"{self.which} happened {self.times} times: {where}{orders}"


def repeated(runs: Mapping[str, Whole], executions: Mapping[str, int]) -> list[Happened]:
    """Every logical effect that happened more than once, with what allows that. executions: how often each key's effect happened."""
    paths = {run_id: path_of(runs, run_id) for run_id in runs}
    found: dict[Logical, Happened] = {}
    for run_id, loaded in runs.items():
        for effect in effects_of(loaded):
            times = executions.get(effect.intent.key, 0)
            if not times or loaded.contracts[effect.intent.contract].kind is Kind.READ:
                continue
            which = _logical(loaded, paths[run_id], effect)
            happened = found.setdefault(which, Happened(which))
            if all(effect.intent.key != key for _, _, key in happened.under):
                happened.times += times
            happened.under.append((run_id, effect.step, effect.intent.key))
    several = [happened for happened in found.values() if happened.times > 1]
    for happened in several:
        happened.allowed_by += _allowing(runs, paths, happened.which)
    return several


def effects_of(loaded: Whole) -> list[EffectStep]:
    """Those of every generation."""
    known = (*loaded.history.superseded.values(), *loaded.history.steps.values())
    return [step for step in known if isinstance(step, EffectStep)]


def is_ordered(loaded: Whole) -> bool:
    """Whether the run is a fork, or was restarted."""
    return any(order.verb in {Verb.FORK, Verb.RESTART} for order in loaded.history.overrides)


def path_of(runs: Mapping[str, Whole], run_id: str) -> Path:
    """Where a run stands. One whose origin is not among `runs` is its own."""
    loaded = runs[run_id]
    opened = loaded.opened
    if opened.forked_from in runs:
        return path_of(runs, opened.forked_from)
    if opened.parent in runs:
        return (*path_of(runs, opened.parent), base_of(opened.parent_step))
    return (run_id,)


def _logical(loaded: Whole, path: Path, effect: EffectStep) -> Logical:
    intent = effect.intent
    # An undoing is of one receipt: those of two generations are two effects, whatever they are called.
    step = f"the undoing of {_receipt(loaded, intent.undoes)}" if intent.undoes else place_of(base_of(effect.step))
    return Logical(path, step, intent.effect, intent.environment, intent.fingerprint)


def _receipt(loaded: Whole, step: str) -> str:
    """The key of the effect at a step, or of the one whose outcome it reuses."""
    there: Any = loaded.history.known(step)
    if isinstance(there, DecisionStep) and there.decision.form == INHERITED:
        return str(there.decision.value["key"])
    return there.intent.key if isinstance(there, EffectStep) else step


def _allowing(runs: Mapping[str, Whole], paths: Mapping[str, Path], which: Logical) -> Iterator[str]:
    """The orders about the effect itself, and about each child's start above it: each adds one more that may happen."""
    for run_id, loaded in runs.items():
        path = paths[run_id]
        if which.path[: len(path)] != path:
            continue
        before: list[Term] = []
        for order in loaded.history.overrides:
            if order.verb not in {Verb.FORK, Verb.RESTART}:
                continue
            terms = [term for term in map(Term.from_json, order.terms or ()) if _is_about(term, which, len(path))]
            word = _word(order, terms, before)
            if word:
                yield f"{word} of {run_id}, by {order.by} ({order.reason})"
            before += terms


def _is_about(term: Term, which: Logical, depth: int) -> bool:
    if depth < len(which.path):
        return term.step == which.path[depth] and term.effect.startswith(_CHILD)
    return place_of(term.step) == which.step and term.is_about(which.effect, which.environment, which.fingerprint)


def _word(order: Override, terms: list[Term], before: list[Term]) -> str:
    """How an order allows one more; "" where it does not. What only carries on an earlier order of the run allows nothing by itself."""
    anew = [term for term in terms if term.policy == NEW_KEY and term.said and term not in before]
    if anew:
        return f"a {order.verb.value} with a new key for {anew[0].of_step}: {anew[0].reason}; an order"
    if order.verb is Verb.FORK and all(term.policy == NEW_KEY for term in terms):
        return "a fork from before its parent came to it; the first entry"
    return ""
