"""What the command `compensate` does: one call of the engine, one report.

Owns its JSON document and its exit code. Invariant: what is printed as undone is what the journal holds as undone.
"""

from __future__ import annotations

from recovery.cli.documents import Document
from recovery.cli.output import Output
from recovery.cli.target import Target, finished
from recovery.core.errors import ExitCode
from recovery.core.instants import instant_us, iso
from recovery.operators.compensating import Offered, Undone


def plan(output: Output, target: Target, run_id: str, step: str) -> ExitCode:
    """Say what an order would undo. Exit 0."""
    engine = target.engine()
    try:
        offered: tuple[Offered, ...] = finished(engine.undoable(run_id, step))
    finally:
        engine.flush()
    from recovery.console import undoing

    output.answer(
        lambda: {"run_id": run_id, "step": step, "undoings": [_offered(each) for each in offered]},
        lambda paper: undoing.offered(paper, run_id, step, offered),
    )
    return ExitCode.SETTLED


def compensate(output: Output, target: Target, run_id: str, step: str, *, by: str, reason: str) -> ExitCode:
    """Order it, and say where each undoing stands. Exit 0, or the gravest of theirs."""
    engine = target.engine()
    try:
        done: tuple[Undone, ...] = finished(engine.compensate(run_id, step, by=by, reason=reason))
    finally:
        engine.flush()
    from recovery.console import undoing

    output.answer(
        lambda: {"run_id": run_id, "step": step, "undoings": [_undone(each) for each in done]},
        lambda paper: undoing.undone(paper, run_id, step, done),
    )
    return ExitCode.worst([each.recovered.exit_code for each in done])


def _offered(each: Offered) -> Document:
    not_before = each.order.not_before
    return {
        "run_id": each.run_id,
        "effect": each.proposal.effect,
        "environment": each.proposal.environment,
        "scope": each.proposal.scope,
        "arguments": dict(each.proposal.arguments),
        "receipt": each.proposal.undoes.receipt,
        "entry": each.order.entry,
        "not_before": None if not_before is None else iso(instant_us(not_before)),
    }


def _undone(each: Undone) -> Document:
    recovered = each.recovered
    return _offered(each.offered) | {
        "status": recovered.status.value,
        "error": None if recovered.error is None else type(recovered.error).__name__,
        "message": None if recovered.error is None else str(recovered.error),
    }
