"""Comparing: a run that has settled, and the world that it left, with what plain Python comes to.

Owns what "no difference" means: the outcome or the failure; which effects happened, each once, with their arguments; the order of the steps of
each branch, and of what was done outside; timers that lasted. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from recovery.core.compensating import QUIET
from recovery.core.contracts import microseconds
from recovery.core.entries import TIMER, Decision, Entry, Intent
from recovery.core.ids import branch_of
from recovery.storage.reading import Loaded, read
from recovery.testing.exploration.playing import Play
from recovery.testing.ledger import Executed
from tests.model.workflows.plain import At, Meaning, ReceiptOf


def differences(meaning: Meaning, play: Play) -> list[str]:
    """Everything that is otherwise, one sentence each."""
    runs = {row.run_id: read(play.journal, row.run_id) for row in play.journal.runs()}
    wanted = {*meaning.outcomes, *meaning.failures}
    if set(runs) != wanted:
        return [f"there are runs {sorted(runs)}; plain Python has {sorted(wanted)}"]
    seen = _Seen(
        [event for event in play.stage.ledger.events if isinstance(event, Executed)],
        {(run, entry.step): entry for run, loaded in runs.items() for entry in loaded.entries if isinstance(entry, Intent)},
    )
    found = list(_of_effects(meaning, seen))
    for run, loaded in runs.items() if not found else ():
        found += [*_of_outcomes(meaning, run, loaded, seen), *_of_order(meaning, run, loaded), *_of_timers(meaning, run, loaded)]
    return found or list(_of_the_world(meaning, seen))


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was done outside, in its order, and what was asked for."""

    events: list[Executed]
    intents: dict[At, Intent]

    def done(self, step: At) -> list[Executed]:
        return [event for event in self.events if event.key == self.intents[step].key]

    @property
    def receipts(self) -> dict[At, str]:
        return {step: event.value["receipt"] for step in self.intents for event in self.done(step)}


def _of_effects(meaning: Meaning, seen: _Seen) -> Iterator[str]:
    if set(seen.intents) != set(meaning.effects):
        yield f"effects {sorted(seen.intents)} were asked for; plain Python asks for {sorted(meaning.effects)}"
        return
    receipts = seen.receipts
    for step, wanted in meaning.effects.items():
        done = [dict(event.arguments) for event in seen.done(step)]
        if done != ([] if wanted.declined else [_known(wanted.arguments, receipts)]):
            yield f"{step} happened as {done}; plain Python does {wanted}"
        if seen.intents[step].effect != wanted.effect:
            yield f"{step} is an effect {seen.intents[step].effect}; plain Python makes it {wanted.effect}"
    if strangers := {event.key for event in seen.events} - {intent.key for intent in seen.intents.values()}:
        yield f"effects happened that no step has: {sorted(strangers)}"


def _of_outcomes(meaning: Meaning, run: str, loaded: Loaded, seen: _Seen) -> Iterator[str]:
    ended = loaded.history.ended
    if ended is None:
        yield f"{run} has no outcome"
        return
    failure = meaning.failures.get(run, "")
    came = (ended.error or "", None if ended.error else ended.value)
    if came != (wanted := (failure, None if failure else _known(meaning.outcomes[run], seen.receipts))):
        yield f"{run} came to {came}; plain Python comes to {wanted}"
    decided = {(run, entry.step): entry.value for entry in loaded.entries if isinstance(entry, Decision) and entry.form == ""}
    if decided != (wanted_here := {step: value for step, value in meaning.decisions.items() if step[0] == run}):
        yield f"it decided {decided}; plain Python decides {wanted_here}"


def _of_order(meaning: Meaning, run: str, loaded: Loaded) -> Iterator[str]:
    places: dict[At, int] = {}
    order: dict[At, list[str]] = {}
    for place, step in enumerate(step_of(entry) for entry in loaded.entries):
        if (run, step) in meaning.after and (run, step) not in places:
            places[run, step] = place
            order.setdefault((run, branch_of(step)), []).append(step)
    if order != (wanted := {branch: steps for branch, steps in meaning.order.items() if branch[0] == run}):
        yield f"steps were recorded as {order}; plain Python takes them as {wanted}"
        return
    for step in places:
        for before in meaning.after[step]:
            if places.get(before, -1) > places[step]:
                yield f"{step} was recorded before {before}"


def _of_the_world(meaning: Meaning, seen: _Seen) -> Iterator[str]:
    """What was done outside, in the order of plain Python, over all runs: behind everything that comes before it, however far before."""
    numbers = {
        step: number for step in seen.intents for number, event in enumerate(seen.events) if event.key == seen.intents[step].key
    }
    last: dict[At, int] = {}  # of everything that must be over before a step, and of itself
    for step, earlier in meaning.after.items():  # in an order in which plain Python takes them
        before = max((last[one] for one in earlier), default=-1)
        if before > numbers.get(step, len(seen.events)):
            yield f"{step} happened before something that comes before it"
        last[step] = max(before, numbers.get(step, -1))


def _of_timers(meaning: Meaning, run: str, loaded: Loaded) -> Iterator[str]:
    began: dict[str, int] = {}
    for entry in loaded.entries:
        began.setdefault(step_of(entry), getattr(entry, "at_us", 0))
    timers: dict[str, Decision] = {}
    for entry in loaded.entries:
        if isinstance(entry, Decision) and entry.form == TIMER and not entry.step.endswith(f"/{QUIET}#1"):
            timers.setdefault(entry.step, entry)  # it may be said again, as it was
    wanted = {step: lasts for (of, step), lasts in meaning.sleeps.items() if of == run}
    if set(timers) != set(wanted):
        yield f"{run} slept at {sorted(timers)}; plain Python sleeps at {sorted(wanted)}"
        return
    for step, lasts in wanted.items():
        due_us = timers[step].value
        if due_us != timers[step].at_us + microseconds(lasts):
            yield f"{step} was due after {due_us - timers[step].at_us} us instead of {lasts}"
        for (of, follower), earlier in meaning.after.items():
            if of == run and (run, step) in earlier and began[follower] < due_us:
                yield f"{follower} began {due_us - began[follower]} us before {step} was over"


def step_of(entry: Entry) -> str:
    """Of an entry that is about the whole run: none."""
    return getattr(entry, "step", "")


def _known(value: Any, receipts: dict[At, str]) -> Any:
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
