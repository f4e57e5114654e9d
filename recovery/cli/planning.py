"""`recover --run-id ID --plan`: what would be done. Claims, appends and sends nothing; asks only what changes nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from recovery.cli import documents
from recovery.cli.output import Output
from recovery.cli.target import Target, finished
from recovery.core.entries import encode
from recovery.core.errors import ExitCode
from recovery.core.instants import iso
from recovery.engine.wiring import Wiring
from recovery.operators.planning import Plan
from recovery.ports import RunRow
from recovery.storage.reading import read


def plan(output: Output, target: Target, run_id: str, *, probe: bool, cancel: tuple[str, str] | None = None) -> ExitCode:
    """Say what a recovery would do next; with `cancel` (by whom, and why), once it is cancelled. The exit code says where the run stands."""
    engine = target.looking()
    try:
        made: Plan = finished(engine.plan(run_id, probe=probe, cancel=cancel))
        loaded = read(engine.journal, run_id)
        info, owner = engine.info(loaded.run), _owner(engine, loaded.run)
        code = ExitCode.OWNED if _is_owned(engine, loaded.run) else made.exit_code
    finally:
        engine.flush()
    from recovery.console.plan import plan as report

    output.answer(
        lambda: documents.run_and(info, exit_code=int(code), plan=_document(made), owner=owner),
        lambda paper: report(paper, made, owner),
    )
    return code


def _is_owned(engine: Wiring, run: RunRow) -> bool:
    return run.owner is not None and not run.status.settled and not engine.proven_dead(run.owner)


def _owner(engine: Wiring, run: RunRow) -> str:
    if run.owner is None or run.status.settled:
        return ""
    if not _is_owned(engine, run):
        return f"{run.owner} has the run at epoch {run.epoch} and is proven dead: it would be taken over at once"
    return (
        f"{run.owner} has the run at epoch {run.epoch} and is not proven dead: a recovery would wait for it or for its lease to end"
    )


def _document(made: Plan) -> dict[str, Any]:
    steps = [
        asdict(step) | {"next_look": _time(step.next_look_us), "asked": [encode(answer) for answer in step.asked]}
        for step in made.steps
    ]
    for step in steps:
        del step["next_look_us"]
    return {
        "steps": steps,
        "then": made.then,
        "from_journal_alone": made.from_journal_alone,
        "at": iso(made.at_us),
        "head": made.head,
        "head_digest": made.head_digest,
    }


def _time(at_us: int | None) -> str | None:
    return None if at_us is None else iso(at_us)
