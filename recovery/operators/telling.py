"""Telling: how far a run is, for whoever watches it.

Owns the events of a run and what it published last. Procedures over operations. Invariants: everything here was read from durable, verified entries, so nothing is shown
that a crash could take back (I10); one entry is one event, and its place in the journal is the event's position, so that a listener that goes on behind the last position
it has seen misses nothing and hears nothing twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from recovery.claims import existing
from recovery.core.entries import (
    ANSWER,
    JSON,
    LAPSED,
    PUBLISHED,
    UNFIT,
    WAIT,
    Attempt,
    Decision,
    Entry,
    Intent,
    Observation,
    Opened,
    Override,
    Settled,
    Verdict,
    latest_us,
    step_of,
)
from recovery.core.errors import ListenerAhead, RunNotFound
from recovery.core.ids import ROOT, branch_of
from recovery.core.operations import Now, Poll, Use
from recovery.ports import Journal, Reading
from recovery.storage.reading import Whole, read


class Happened(StrEnum):
    """What an event is about."""

    OPENED = "opened"  # the run began; value: its input
    DECIDED = "decided"  # a choice was made, or something that the run notes for itself; value: it
    WAITS = "waits"  # for an answer or a message; name: which
    ANSWERED = "answered"  # value: the answer
    UNFIT = "unfit"  # something was said that does not answer the wait; value: why not
    LAPSED = "lapsed"  # nobody answered in time
    PUBLISHED = "published"  # value: what the workflow published under `name`
    INTENDED = "intended"  # an effect is about to be sent; name: the effect, value: its arguments
    ATTEMPTED = "attempted"  # it is sent once more, or closed
    OBSERVED = "observed"  # the environment said something that did not settle the step
    JUDGED = "judged"  # a verdict that waits or parks; value: why
    SETTLED = "settled"  # an effect has its outcome; value: it
    ORDERED = "ordered"  # a person ordered something; name: what
    ENDED = "ended"  # the run has its outcome; value: it


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One durable thing that happened in a run. position: its entry's number, from 1 and without gaps. error: of what failed, else ""."""

    run_id: str
    position: int
    happened: Happened
    at_us: int
    step: str
    name: str = ""
    value: JSON = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What a workflow published last under a name."""

    run_id: str
    name: str
    value: JSON
    at_us: int
    position: int


@dataclass(frozen=True, slots=True)
class Heard:
    """Some events, in order. over: the run has ended, and nothing comes after them."""

    events: tuple[Event, ...]
    over: bool


async def query(run_id: str) -> dict[str, Published]:
    """What a run published last under each name, in the order in which the names were published first. Raises RunNotFound, JournalCorrupt."""
    await existing(run_id)
    loaded = await Use(lambda journal: read(journal, run_id))
    found: dict[str, Published] = {}
    for event in _events(loaded):
        if event.happened is Happened.PUBLISHED:
            found[event.name] = Published(
                run_id=run_id, name=event.name, value=event.value, at_us=event.at_us, position=event.position
            )
    return found


async def heard(run_id: str, after: int, patience_us: int) -> Heard:
    """The events behind a position; where there are none, those that come while it waits. Raises RunNotFound, JournalCorrupt, ListenerAhead."""
    found = await Use(partial(_behind, run_id, after))
    if not found.events and not found.over and patience_us:
        await Poll(await Now() + patience_us, partial(_has_more, run_id, after), f"{run_id}: listening behind entry {after}")
        found = await Use(partial(_behind, run_id, after))
    return found


def _behind(run_id: str, after: int, journal: Journal) -> Heard:
    """Reads the whole run only where something has come."""
    row = journal.find(run_id)
    if row is None:
        raise RunNotFound(run_id=run_id, database=journal.url)
    if after > row.head:
        raise ListenerAhead(run_id=run_id, position=after, head=row.head)
    if after == row.head and not row.status.settled:
        return Heard((), over=False)
    loaded = read(journal, run_id)
    events = [event for event in _events(loaded) if event.position > after]
    end = next((place for place, event in enumerate(events) if event.happened is Happened.ENDED), None)
    if end is not None:
        events = events[: end + 1]
    return Heard(tuple(events), over=loaded.history.ended is not None)


def _has_more(run_id: str, after: int, journal: Reading) -> bool:
    row = journal.find(run_id)
    return row is None or row.head != after


def _events(loaded: Whole) -> list[Event]:
    return [_event(loaded.run.run_id, seq, entry) for seq, entry in enumerate(loaded.entries, 1)]


def _event(run_id: str, seq: int, entry: Entry) -> Event:
    happened, step, name, value, error = _told(entry)
    return Event(
        run_id=run_id, position=seq, happened=happened, at_us=latest_us(entry), step=step, name=name, value=value, error=error
    )


def _told(entry: Entry) -> tuple[Happened, str, str, JSON, str]:
    """What happened, in which step, the name that belongs to it, its value and its error."""
    step = step_of(entry)
    match entry:
        case Opened():
            return Happened.OPENED, step, entry.workflow, entry.input, ""
        case Decision():
            return _decided(entry)
        case Intent():
            return Happened.INTENDED, step, entry.effect, entry.arguments, ""
        case Attempt():
            return Happened.ATTEMPTED, step, entry.purpose, None, ""
        case Observation():
            return Happened.OBSERVED, step, entry.answer.kind.value, entry.answer.value, entry.answer.error
        case Verdict():
            return Happened.JUDGED, step, entry.action, entry.reason, ""
        case Override():
            return Happened.ORDERED, step, entry.verb.value, entry.reason, ""
        case Settled():
            happened = Happened.ENDED if step == ROOT else Happened.SETTLED
            return happened, step, entry.outcome.value, entry.value, entry.error


_ANSWERS = {ANSWER: (Happened.ANSWERED, "value"), UNFIT: (Happened.UNFIT, "problem")}


def _decided(entry: Decision) -> tuple[Happened, str, str, JSON, str]:
    step, value = entry.step, entry.value
    if entry.form == WAIT:
        return Happened.WAITS, step, value["name"], None, ""
    if entry.form in _ANSWERS:
        happened, field = _ANSWERS[entry.form]
        return happened, branch_of(step), value["by"], value[field], ""
    if entry.form == LAPSED:
        return Happened.LAPSED, branch_of(step), "", None, ""
    if entry.form == PUBLISHED:
        return Happened.PUBLISHED, step, value["name"], value["value"], ""
    return Happened.DECIDED, step, entry.form, value, entry.error
