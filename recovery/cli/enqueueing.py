"""`recover enqueue`: store a run for a worker.

Owns how an input is read from a command line. Invariant: what does not fit the workflow's parameters is refused before anything is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from recovery import codec
from recovery.cli.output import Output
from recovery.cli.target import Target, finished
from recovery.core.entries import JSON
from recovery.core.errors import AppNotFound, DefinitionError, ExitCode
from recovery.definitions.child import BoundWorkflow
from recovery.definitions.workflow import Workflow
from recovery.operators.enqueueing import Enqueued


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What was asked for. given: the input, as JSON."""

    workflow: str
    given: str | None
    run_id: str | None
    key: str | None
    queue: str
    priority: int | None
    not_before: datetime | None


def enqueue(output: Output, target: Target, order: Order) -> ExitCode:
    """Store the run and say its id."""
    if target.app is None:
        advice = "Name it with --app module:engine, RECOVERY_APP or [tool.recovery] in pyproject.toml."
        raise AppNotFound(problem="The input is checked against the app's workflow, and there is no app", advice=advice)
    engine = target.engine()
    if order.workflow not in engine.workflows:
        known = ", ".join(sorted(engine.workflows)) or "none"
        problem = f"the app has no workflow {order.workflow!r} (it has: {known})"
        raise DefinitionError(what="call", name="enqueue", problem=problem, advice="Name one of them, or another app with --app.")
    workflow = engine.workflows[order.workflow]
    try:
        came: Enqueued = finished(
            engine.enqueue(
                BoundWorkflow(workflow, _stored(workflow, order.given)),
                run_id=order.run_id,
                key=order.key,
                queue=order.queue,
                priority=order.priority,
                not_before=order.not_before,
            )
        )
    finally:
        engine.flush()
    from rich.text import Text

    from recovery.console import words

    told = "enqueued; a worker takes it up" if came.is_new else f"was there already: {came.status.value}"
    output.answer(
        lambda: {"run_id": came.run_id, "status": came.status.value, "is_new": came.is_new},
        lambda _: Text(f"run {words.bounded(came.run_id)} {told}"),
    )
    return ExitCode.SETTLED


def _stored(workflow: Workflow[..., Any], given: str | None) -> dict[str, JSON]:
    """The input in stored form. Raises DefinitionError, ValueNotStorable."""
    codecs, defaults = workflow.signature.parameters, workflow.signature.defaults
    takes = ", ".join(f"{name} ({taken.title})" for name, taken in codecs.items()) or "nothing"
    try:
        said = {} if given is None else codec.loads(given)
    except ValueError as error:
        raise _refused(workflow, f"the input is not JSON ({error})", takes) from error
    if not isinstance(said, dict):
        raise _refused(workflow, "the input is no object with the names of its parameters", takes)
    if unknown := [name for name in said if name not in codecs]:
        raise _refused(workflow, f"the input has {', '.join(unknown)}, which is no parameter of it", takes)
    if missing := [name for name in codecs if name not in said and name not in defaults]:
        raise _refused(workflow, f"the input has no {', '.join(missing)}", takes)
    return workflow.signature.parse(said)


def _refused(workflow: Workflow[..., Any], problem: str, takes: str) -> DefinitionError:
    return DefinitionError(
        what="call", name="enqueue", problem=problem, advice=f"{workflow.name} takes {takes}; give it with --input."
    )
