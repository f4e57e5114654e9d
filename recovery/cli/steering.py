"""What the commands do that say what is to become of a run: one call of the engine, one report.

Owns their JSON documents and exit codes. Invariant: what is printed is what the journal holds when the command ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from recovery.cli import documents, planning
from recovery.cli.output import Output
from recovery.cli.recovering import appended_since
from recovery.cli.target import Target, finished
from recovery.core.entries import Status
from recovery.core.errors import ExitCode
from recovery.core.inheritance import Policy, Term
from recovery.definitions.recovered import Recovered
from recovery.operators.cancelling import Told
from recovery.operators.forking import Forked, Restarted
from recovery.storage.reading import read


@dataclass(frozen=True, slots=True)
class Order:
    """What was said with a fork or a restart."""

    by: str
    reason: str
    policies: Mapping[str, Policy]
    plan: bool


def cancel(output: Output, target: Target, run_id: str, *, by: str, reason: str) -> ExitCode:
    """Cancel, and report the run as a recovery does. Exit 0 where it is cancelled, else as the run stands."""
    engine = target.engine()
    try:
        before = engine.journal.find(run_id)
        what: Recovered[Any] = finished(engine.cancel(run_id, by=by, reason=reason))
        loaded = read(engine.journal, run_id)
        info, appended = engine.info(loaded.run), appended_since(engine, before, loaded)
    finally:
        engine.flush()
    from recovery.console import report, steering

    output.answer(
        lambda: documents.recovered(info, loaded, what, appended=appended),
        lambda paper: steering.cancelled(
            report.recovered(paper, loaded, what, appended=appended, was_settled=before is not None and before.status.settled), info
        ),
    )
    return ExitCode.SETTLED if what.status is Status.CANCELLED else what.exit_code


def plan(output: Output, target: Target, run_id: str, *, by: str, reason: str) -> ExitCode:
    """Say what a cancel would do. The exit code says where the run stands, as for any plan."""
    return planning.plan(output, target, run_id, probe=True, cancel=(by, reason))


def tell(output: Output, target: Target, verb: str, run_id: str, *, by: str, reason: str) -> ExitCode:
    """pause or resume of a run."""
    engine = target.engine()
    try:
        give = {"pause": engine.pause, "resume": engine.resume}[verb]
        told: Told = finished(give(run_id, by=by, reason=reason))
    finally:
        engine.flush()
    from recovery.console import steering

    output.answer(
        lambda: {
            "run_id": run_id,
            "order": verb,
            "by": by,
            "reason": reason,
            "status": told.status.value,
            "taken_in": told.taken_in,
            "owner": told.owner,
        },
        lambda paper: steering.told(paper, told),
    )
    return ExitCode.SETTLED


def fork(output: Output, target: Target, run_id: str, new_run_id: str, said: Order, *, at: str, version: str) -> ExitCode:
    """A fork, stored; with a plan, only shown."""
    engine = target.looking() if said.plan else target.engine()
    try:
        came = engine.fork(
            run_id, new_run_id, at=at, policies=said.policies, version=version, by=said.by, reason=said.reason, plan=said.plan
        )
        forked: Forked = finished(came)
    finally:
        engine.flush()
    from recovery.console import steering

    output.answer(
        lambda: _document(forked) | {"of_run_status": forked.of_run_status.value, "plan": said.plan},
        lambda paper: steering.forked(paper, forked, plan=said.plan),
    )
    return ExitCode.SETTLED


def restart(output: Output, target: Target, run_id: str, step: str, said: Order) -> ExitCode:
    """A new generation, ordered; with a plan, only shown."""
    engine = target.looking() if said.plan else target.engine()
    try:
        came = engine.restart(run_id, step, policies=said.policies, by=said.by, reason=said.reason, plan=said.plan)
        restarted: Restarted = finished(came)
    finally:
        engine.flush()
    from recovery.console import steering

    output.answer(
        lambda: _document(restarted) | {"status": restarted.status.value, "plan": said.plan},
        lambda paper: steering.restarted(paper, restarted, plan=said.plan),
    )
    return ExitCode.SETTLED


def _document(made: Forked | Restarted) -> dict[str, Any]:
    return asdict(made) | {"terms": [_term(term) for term in made.terms]}


def _term(term: Term) -> dict[str, Any]:
    return term.to_json()  # type: ignore[no-any-return]  # an object
