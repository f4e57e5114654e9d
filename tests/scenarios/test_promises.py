"""Each promise can be broken: a doctored copy of a real world is seen through, and the real one is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from recovery.core.entries import Intent, Settled, Verdict
from recovery.core.history import fold
from recovery.core.ids import Epoch
from recovery.storage import open_journal
from recovery.testing.ledger import Claimed, Durable, Ended, Event, Executed, Left
from recovery.testing.promises import PROMISES, broken
from recovery.testing.scenario import PROMISES as NAMES
from recovery.testing.stage import Stage
from recovery.testing.worlds import Again, World
from tests.scenarios.playing import named, written

TWO_STEPS = """
scenario: two
name: two effects in a row
story: Two reservations, one after the other, and a second caller who asks for the outcome.
environment:
  stock: {FILTER-A: 10}
  effects: {reserve: {contract: keyed, window: 24h}}
workflow:
  - perform: reserve
    with: {sku: FILTER-A, qty: 2}
    key: first
  - perform: reserve
    with: {sku: FILTER-A, qty: 3}
    key: second
    name: more
  - return: $more
timeline:
  - run: A
  - run: B
expect: {status: completed}
"""


def finished(name: str = "") -> World:
    scenario = named(name) if name else written(TWO_STEPS)
    stage = Stage(scenario, open_journal("memory://"), is_async=False)
    assert stage.play() == []
    return stage.world()


def with_events(world: World, change: Callable[[list[Event]], list[Event]]) -> World:
    return replace(world, events=tuple(change(list(world.events))))


def with_entries(world: World, change: Callable[[list[Any]], list[Any]]) -> World:
    """The same run with other entries; the chain is not what these promises look at."""
    loaded = world.runs["run-1"]
    entries = change(list(loaded.entries))
    history = fold("run-1", entries)
    return replace(world, runs={"run-1": replace(loaded, found=entries, history=history)})


def first(world: World, kind: type[Event]) -> Any:
    return next(event for event in world.events if type(event) is kind)


def settled_as(entry: Any, **changes: Any) -> Any:
    return replace(entry, **changes) if isinstance(entry, Settled) and entry.step else entry


def once_more_done(world: World) -> World:
    return with_events(world, lambda events: [*events, first(world, Executed)])


def attempted_twice(world: World) -> World:
    """A probeable effect whose second attempt was made on nothing."""
    [intent] = [entry for entry in world.runs["run-1"].entries if isinstance(entry, Intent)]
    again = replace(intent.attempt, number=2)
    return with_entries(world, lambda entries: [*entries[:2], again, *(settled_as(entry, evidence=()) for entry in entries[2:])])


def another_value_heard(world: World) -> World:
    changed = lambda event: replace(event, value={"receipt": "R9"}) if isinstance(event, Ended) else event  # noqa: E731
    return with_events(world, lambda events: [changed(event) for event in events])


def another_value_settled(world: World) -> World:
    return with_entries(world, lambda entries: [settled_as(entry, value={"receipt": "R9"}) for entry in entries])


def proof_lost(world: World) -> World:
    return with_entries(world, lambda entries: [settled_as(entry, observation=None, evidence=()) for entry in entries])


def row_changed(world: World) -> World:
    return with_entries(world, lambda entries: [settled_as(entry, row="operator") for entry in entries])


def assumptions_dropped(world: World) -> World:
    return with_entries(world, lambda entries: [settled_as(entry, assumptions=()) for entry in entries])


def sent_before_durable(world: World) -> World:
    left = first(world, Left)
    return with_events(world, lambda events: [left, *(event for event in events if event is not left)])


def sent_as_another(world: World) -> World:
    left = first(world, Left)
    return with_events(world, lambda events: [replace(event, key="other") if event is left else event for event in events])


def sent_once_more(world: World) -> World:
    return with_events(world, lambda events: [*events, first(world, Left)])


def key_given_twice(world: World) -> World:
    loaded = world.runs["run-1"]
    [intent] = [entry for entry in loaded.entries if isinstance(entry, Intent) and entry.key == "first"]
    other = replace(
        loaded, found=[loaded.entries[0], replace(intent, fingerprint="other")], history=fold("run-2", [loaded.entries[0]])
    )
    return replace(world, runs={**world.runs, "run-2": other})


def stale_epoch_behind(world: World) -> World:
    loaded = world.runs["run-1"]
    rows = [replace(row, epoch=Epoch(0, 2)) if row.seq == 2 else row for row in loaded.rows]
    return replace(world, runs={"run-1": replace(loaded, rows=rows)})


def appended_after_a_claim(world: World) -> World:
    claim = Claimed(at_us=0, process="B", run_id="run-1", epoch="0.9")
    return with_events(world, lambda events: [events[0], claim, *events[1:]])


def entry_lost(world: World) -> World:
    loaded = world.runs["run-1"]
    return replace(world, runs={"run-1": replace(loaded, rows=loaded.rows[:-1])})


def appended_again(world: World) -> World:
    return replace(world, again=(Again("run-1", before=(5, 2), after=(6, 2)),))


def sent_again(world: World) -> World:
    return replace(world, again=(Again("run-1", before=(5, 2), after=(5, 3)),))


def over_budget(world: World) -> World:
    return replace(world, budget=replace(world.budget, attempts=1))


def late_end(world: World) -> World:
    ended = next(event for event in world.events if isinstance(event, Ended) and event.verb == "recover")
    slow = replace(ended, took_us=10**12)
    return with_events(world, lambda events: [slow if event is ended else event for event in events])


def verdict_lost(world: World) -> World:
    return with_entries(world, lambda entries: [entry for entry in entries if not isinstance(entry, Verdict)])


def went_on_in_doubt(world: World) -> World:
    [intent] = [entry for entry in world.runs["run-1"].entries if isinstance(entry, Intent)]
    return with_entries(world, lambda entries: [*entries, replace(intent, step="more#1")])


def second_left_early(world: World) -> World:
    """The second effect leaves before the first one's outcome is durable."""

    def early(events: list[Event]) -> list[Event]:
        [left] = [event for event in events if isinstance(event, Left) and event.key == "second"]
        [settled] = [
            n for n, event in enumerate(events) if isinstance(event, Durable) and getattr(event.entries[-1], "step", "") == "reserve#1"
            and isinstance(event.entries[-1], Settled)
        ]  # fmt: skip
        rest = [event for event in events if event is not left]
        return [*rest[:settled], left, *rest[settled:]]

    return with_events(world, early)


def told_before_durable(world: World) -> World:
    ended = first(world, Ended)
    return with_events(world, lambda events: [ended, *events])


DOUBT = "lost reply, opaque, in doubt"
ASKED = "lost reply, probeable, asked"
RESENT = "lost reply, keyed, asked by sending the key again"


@pytest.mark.parametrize(
    ("promise", "name", "doctor"),
    [
        ("I1", "", once_more_done),
        ("I1", ASKED, attempted_twice),
        ("I2", "", another_value_heard),
        ("I2", "", another_value_settled),
        ("I3", "", proof_lost),
        ("I3", "", row_changed),
        ("I3", RESENT, assumptions_dropped),
        ("I4", "", sent_before_durable),
        ("I4", "", sent_as_another),
        ("I4", "", sent_once_more),
        ("I5", "", key_given_twice),
        ("I5", "", sent_as_another),
        ("I6", "", stale_epoch_behind),
        ("I6", "", appended_after_a_claim),
        ("I6", "", entry_lost),
        ("I7", "", appended_again),
        ("I7", "", sent_again),
        ("I8", RESENT, over_budget),
        ("I8", RESENT, late_end),
        ("I8", DOUBT, verdict_lost),
        ("I9", DOUBT, went_on_in_doubt),
        ("I10", "", second_left_early),
        ("I10", "", told_before_durable),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_broken_promise_is_seen(promise: str, name: str, doctor: Callable[[World], World]) -> None:
    world = finished(name)
    assert broken(world) == []
    assert list(PROMISES[promise](doctor(world))) != []


def test_every_promise_has_its_function() -> None:
    assert tuple(PROMISES) == NAMES


def test_a_stated_exemption_is_left_out() -> None:
    world = once_more_done(finished())
    assert broken(world) != []
    assert broken(world, frozenset({"I1"})) == []


def test_a_rejection_that_nobody_gave_is_seen() -> None:
    world = finished("rejection heard at once, keyed")
    silent = with_events(world, lambda events: [event for event in events if type(event).__name__ != "Declined"])
    assert list(PROMISES["I2"](silent)) != []


def test_virtual_time_is_what_budgets_are_measured_in() -> None:
    """The control of I8: a recovery that waits out a lease is inside its budget."""
    world = finished("zombie, keyed, sends after the takeover")
    waited = max(event.took_us for event in world.of(Ended))
    assert waited >= timedelta(seconds=30) / timedelta(microseconds=1)
