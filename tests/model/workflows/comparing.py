"""Comparing: a run that has settled, and the world that it left, with what plain Python comes to.

Owns what "no difference" means: the outcome or the failure; which effects happened, each once, with their arguments; the order of the steps of
each branch, and of what was done outside; timers that lasted. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recovery.core.contracts import microseconds
from recovery.core.entries import TIMER, Decision, Entry, Intent
from recovery.core.ids import branch_of
from recovery.storage.reading import Loaded, read
from recovery.testing.exploration.branching import RUN
from recovery.testing.exploration.playing import Play
from recovery.testing.ledger import Executed
from tests.model.workflows.plain import Meaning, ReceiptOf


def differences(meaning: Meaning, play: Play) -> list[str]:
    """Everything that is otherwise, one sentence each."""
    loaded = read(play.journal, RUN)
    events = [event for event in play.stage.ledger.events if isinstance(event, Executed)]
    return [
        *_of_effects(meaning, loaded, events),
        *_of_outcomes(meaning, loaded, events),
        *_of_order(meaning, loaded, events),
        *_of_timers(meaning, loaded),
    ]


def _intents(loaded: Loaded) -> dict[str, Intent]:
    return {entry.step: entry for entry in loaded.entries if isinstance(entry, Intent)}


def _of_effects(meaning: Meaning, loaded: Loaded, events: list[Executed]) -> Iterator[str]:
    intents = _intents(loaded)
    if set(intents) != set(meaning.effects):
        yield f"effects {sorted(intents)} were asked for; plain Python asks for {sorted(meaning.effects)}"
        return
    for step, wanted in meaning.effects.items():
        done = [event for event in events if event.key == intents[step].key]
        if [dict(event.arguments) for event in done] != ([] if wanted.declined else [wanted.arguments]):
            yield f"{step} happened as {[dict(event.arguments) for event in done]}; plain Python does {wanted}"
        if intents[step].effect != wanted.effect:
            yield f"{step} is an effect {intents[step].effect}; plain Python makes it {wanted.effect}"
    if strangers := {event.key for event in events} - {intent.key for intent in intents.values()}:
        yield f"effects happened that no step has: {sorted(strangers)}"


def _of_outcomes(meaning: Meaning, loaded: Loaded, events: list[Executed]) -> Iterator[str]:
    ended = loaded.history.ended
    if ended is None:
        yield "the run has no outcome"
        return
    receipts = {
        step: event.value["receipt"] for step, intent in _intents(loaded).items() for event in events if event.key == intent.key
    }
    came = (ended.error or "", None if ended.error else ended.value)
    if came != (wanted := (meaning.failure, None if meaning.failure else _known(meaning.outcome, receipts))):
        yield f"the run came to {came}; plain Python comes to {wanted}"
    decided = {entry.step: entry.value for entry in loaded.entries if isinstance(entry, Decision) and entry.form == ""}
    if decided != meaning.decisions:
        yield f"it decided {decided}; plain Python decides {meaning.decisions}"


def _of_order(meaning: Meaning, loaded: Loaded, events: list[Executed]) -> Iterator[str]:
    places: dict[str, int] = {}
    order: dict[str, list[str]] = {}
    for place, step in enumerate(step_of(entry) for entry in loaded.entries):
        if step in meaning.after and step not in places:
            places[step] = place
            order.setdefault(branch_of(step), []).append(step)
    if order != meaning.order:
        yield f"steps were recorded as {order}; plain Python takes them as {meaning.order}"
        return
    keys = {intent.key: step for step, intent in _intents(loaded).items()}
    done = {keys[event.key]: number for number, event in enumerate(events)}
    for step, earlier in meaning.after.items():
        for before in earlier:
            if places[before] > places[step]:
                yield f"{step} was recorded before {before}"
            if done.get(before, -1) > done.get(step, len(done)):
                yield f"{step} happened before {before}"


def _of_timers(meaning: Meaning, loaded: Loaded) -> Iterator[str]:
    began: dict[str, int] = {}
    for entry in loaded.entries:
        began.setdefault(step_of(entry), getattr(entry, "at_us", 0))
    timers: dict[str, Decision] = {}
    for entry in loaded.entries:
        if isinstance(entry, Decision) and entry.form == TIMER:
            timers.setdefault(entry.step, entry)  # it may be said again, as it was
    if set(timers) != set(meaning.sleeps):
        yield f"it slept at {sorted(timers)}; plain Python sleeps at {sorted(meaning.sleeps)}"
        return
    for step, lasts in meaning.sleeps.items():
        due_us = timers[step].value
        if due_us != timers[step].at_us + microseconds(lasts):
            yield f"{step} was due after {due_us - timers[step].at_us} us instead of {lasts}"
        for follower, earlier in meaning.after.items():
            if step in earlier and began[follower] < due_us:
                yield f"{follower} began {due_us - began[follower]} us before {step} was over"


def step_of(entry: Entry) -> str:
    """Of an entry that is about the whole run: none."""
    return getattr(entry, "step", "")


def _known(value: Any, receipts: dict[str, str]) -> Any:
    """With the ids that the environment chose."""
    match value:
        case ReceiptOf(step):
            return receipts.get(step)
        case dict():
            return {name: _known(item, receipts) for name, item in value.items()}
        case list():
            return [_known(item, receipts) for item in value]
        case _:
            return value
