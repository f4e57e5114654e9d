"""What the commands for signals, queries and listening do: one call of the engine, one report.

Owns their JSON documents and exit codes. Invariant: what is printed is durable.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from recovery.cli.documents import Document
from recovery.cli.output import Output
from recovery.cli.target import Target, finished
from recovery.core.entries import JSON
from recovery.core.errors import ExitCode
from recovery.core.instants import iso
from recovery.engine import Engine
from recovery.operators.awaiting import Awaited
from recovery.operators.signalling import Signalled
from recovery.operators.telling import Event, Published


def signal(
    output: Output,
    target: Target,
    run_id: str,
    name: str,
    value: JSON,
    *,
    by: str,
    about: str,
    valid_until: datetime | None,
    token: str | None,
) -> ExitCode:
    """Exit 0: it is taken, or was before. Raises SignalRefused."""
    engine = target.engine()
    try:
        told: Signalled = finished(engine.signal(run_id, name, value, by=by, about=about, valid_until=valid_until, token=token))
        waits: tuple[Awaited, ...] = () if told.waited_for else finished(engine.waits(run_id))
    finally:
        engine.flush()
    from recovery.console.talking import signalled as report

    output.answer(lambda: {"signal": _signalled(told)}, lambda paper: report(paper, told, waits))
    return ExitCode.SETTLED


def send(output: Output, target: Target, run_id: str, topic: str, value: JSON, *, by: str, token: str | None) -> ExitCode:
    """Exit 0: it stands in line."""
    engine = target.engine()
    try:
        told: Signalled = finished(engine.send(run_id, topic, value, by=by, token=token))
    finally:
        engine.flush()
    from recovery.console.talking import sent as report

    output.answer(lambda: {"message": _signalled(told)}, lambda paper: report(paper, told))
    return ExitCode.SETTLED


def waits(output: Output, target: Target, run_id: str | None) -> ExitCode:
    """Exit 0, whether something is waited for or not."""
    engine = target.looking()
    try:
        found: tuple[Awaited, ...] = finished(engine.waits(run_id))
    finally:
        engine.flush()
    from recovery.console.talking import waits as report

    output.answer(lambda: {"waits": [_awaited(one) for one in found]}, lambda paper: report(paper, found))
    return ExitCode.SETTLED


def query(output: Output, target: Target, run_id: str, name: str | None) -> ExitCode:
    """Exit 0, also where nothing was published."""
    with Engine(target.journal()) as engine:
        found = engine.query(run_id)
    shown = {key: one for key, one in found.items() if name in {None, key}}
    from recovery.console.talking import published as report

    output.answer(
        lambda: {"run_id": run_id, "published": {key: _published(one) for key, one in shown.items()}},
        lambda _paper: report(shown, name if found else None),
    )
    return ExitCode.SETTLED


def listen(output: Output, target: Target, run_id: str, *, after: int, wait: timedelta | None) -> ExitCode:
    """Exit 0. In a report each event is printed when it comes."""
    from recovery.console.talking import event as report

    events: list[Event] = []
    with Engine(target.journal()) as engine:
        for event in engine.listen(run_id, after=after, wait=wait):
            events.append(event)
            if not output.as_json:
                output.answer(lambda event=event: _event(event), lambda _paper, event=event: report(event))  # type: ignore[misc]  # bound now
    if output.as_json:
        position = events[-1].position if events else after
        body: dict[str, Any] = {"run_id": run_id, "position": position, "events": [_event(event) for event in events]}
        output.answer(lambda: body, lambda _paper: "")
    return ExitCode.SETTLED


# -- documents ---------------------------------------------------------------------------------------------------------


def _signalled(told: Signalled) -> Document:
    return {
        "run_id": told.run_id,
        "name": told.name,
        "step": told.step,
        "value": told.value,
        "by": told.by,
        "at": iso(told.at_us),
        "number": told.number,
        "waited_for": told.waited_for,
        "repeated": told.repeated,
    }


def _awaited(one: Awaited) -> Document:
    return {
        "run_id": one.run_id,
        "workflow": one.workflow,
        "step": one.step,
        "name": one.name,
        "queue": one.queue,
        "type": one.type,
        "by": list(one.by),
        "about": one.about,
        "effect": one.effect,
        "arguments": one.arguments,
        "since": iso(one.since_us),
        "until": None if one.until_us is None else iso(one.until_us),
        "unfit": list(one.unfit),
        "said_by": one.said_by,
    }


def _published(one: Published) -> Document:
    return {"value": one.value, "at": iso(one.at_us), "position": one.position}


def _event(event: Event) -> Document:
    return {
        "position": event.position,
        "happened": event.happened.value,
        "at": iso(event.at_us),
        "step": event.step,
        "name": event.name,
        "value": event.value,
        "error": event.error,
    }
