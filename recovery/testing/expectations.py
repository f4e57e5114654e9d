"""Expectations: what a scenario says must be so, against what is.

Owns the comparison and its sentences. Must not know how anything came about. Invariant: what is not said is not looked at; what is said is
compared exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recovery.core.entries import Entry, Settled, Verdict, kind_of
from recovery.core.history import EffectStep
from recovery.core.ids import ROOT
from recovery.storage.reading import Whole
from recovery.testing.ledger import Ended
from recovery.testing.moves import Came, Settlement, Standing
from recovery.testing.moves import World as Wanted
from recovery.testing.worlds import World, attempts_in

DEFAULT_RUN = "run-1"


def unmet(wanted: Wanted, world: World) -> Iterator[str]:
    """A sentence per expectation that does not hold."""
    if wanted.stock is not None:
        yield from _differs("stock", wanted.stock, {sku: world.stock.get(sku) for sku in wanted.stock})
    if wanted.executions is not None:
        keys = {intent.step: intent.key for _, intent in world.intents()}
        by_key = {keys.get(name, name): times for name, times in wanted.executions.items() if times}
        yield from _differs("executions", by_key, world.executions())
    if wanted.asked is not None:
        yield from _differs("asked", wanted.asked, {name: world.asked.get(name, 0) for name in wanted.asked})
    for run_id in wanted.unreadable:
        if run_id not in world.unreadable:
            yield f"run {run_id} is not refused as corrupt"
    for run_id in wanted.absent:
        if run_id in world.runs:
            yield f"run {run_id} exists"
    for run_id, standing in ((DEFAULT_RUN, wanted), *wanted.runs.items()):
        yield from _standing(run_id, standing, world.runs.get(run_id))


def came_differently(wanted: Came, ended: Ended) -> Iterator[str]:
    """A sentence per expectation about one call that does not hold."""
    if wanted.exit is not None and wanted.exit != ended.exit:
        yield f"exit is {ended.exit}, expected {wanted.exit}{': ' + ended.message if ended.message else ''}"
    if "outcome" in wanted.model_fields_set:
        yield from _differs("outcome", wanted.outcome, ended.value)
    if wanted.error is not None:
        yield from _differs("error", wanted.error, ended.error)
    if wanted.says is not None and wanted.says not in ended.message:
        yield f"it says {ended.message!r}, expected {wanted.says!r} in it"
    if wanted.verdicts is not None:
        yield from _differs("verdicts", wanted.verdicts, list(ended.rows))


def _standing(run_id: str, wanted: Standing, loaded: Whole | None) -> Iterator[str]:
    said = wanted.model_fields_set & set(Standing.model_fields)
    if not said:
        return
    if loaded is None:
        yield f"run {run_id} does not exist"
        return
    history, about = loaded.history, f"{run_id}: "
    ended = history.ended
    actual: dict[str, Any] = {
        "status": loaded.run.status,
        "outcome": None if ended is None or ended.error else ended.value,
        "failure": None if ended is None else ended.error,
        "epoch": str(loaded.run.epoch),
        "verdicts": _rows(loaded.entries),
        "late_evidence": len(loaded.late),
    }
    for name in sorted(said & set(actual)):
        yield from _differs(about + name, getattr(wanted, name), actual[name])
    if wanted.entries is not None:
        counts = {kind: _count(loaded.entries, kind) for kind in wanted.entries}
        yield from _differs(about + "entries", wanted.entries, counts)
    for step, settlement in (wanted.settled or {}).items():
        effect = history.steps.get(step)
        yield from _settlement(about + step, settlement, effect.settled if isinstance(effect, EffectStep) else None)


def _settlement(about: str, wanted: Settlement, settled: Settled | None) -> Iterator[str]:
    if settled is None:
        yield f"{about} is not settled"
        return
    for name in sorted(wanted.model_fields_set):
        yield from _differs(f"{about}: {name}", getattr(wanted, name), getattr(settled, name))


def _rows(entries: list[Entry]) -> list[str]:
    return [entry.row for entry in entries if isinstance(entry, Verdict | Settled) and entry.step != ROOT and entry.row]


def _count(entries: list[Entry], kind: str) -> int:
    if kind == "attempt":
        return sum(len(attempts_in(entry)) for entry in entries)
    return sum(kind_of(entry) == kind for entry in entries)


def _differs(what: str, wanted: Any, actual: Any) -> Iterator[str]:
    if wanted != actual:
        yield f"{what} is {_shown(actual)}, expected {_shown(wanted)}"


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, str) else repr(value)
