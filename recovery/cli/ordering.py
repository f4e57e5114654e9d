"""What the operators' commands do: one call of the engine, one report.

Owns their JSON documents and exit codes. Invariant: what is printed is what the journal holds when the command ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from recovery.cli import documents
from recovery.cli.documents import Document
from recovery.cli.output import Output
from recovery.cli.target import Target, finished
from recovery.core.entries import JSON, AnswerKind, OutcomeKind, encode
from recovery.core.errors import ExitCode
from recovery.core.instants import iso
from recovery.core.rows import Action, Row
from recovery.operators.acknowledging import Acknowledged
from recovery.operators.asking import Probed
from recovery.operators.doubting import Disputed, Doubt, Doubts
from recovery.operators.driving import Closed
from recovery.operators.explaining import Explanation
from recovery.operators.forgetting import Forgotten
from recovery.operators.holding import Ordered
from recovery.operators.parking import commands
from recovery.operators.resolving import Resolved
from recovery.operators.whole_runs import WholeRun
from recovery.ports import Hold


@dataclass(frozen=True, slots=True)
class Said:
    """What a person said with `recover resolve`."""

    outcome: OutcomeKind
    by: str
    reason: str
    evidence: str
    value: JSON
    rejection: str


# -- looking -----------------------------------------------------------------------------------------------------------


def doubt(output: Output, target: Target, *, limit: int, older: timedelta) -> ExitCode:
    """What needs a person. Exit 3, or 5 and 6 where a run diverged or cannot be read."""
    engine = target.looking()
    try:
        found: Doubts = finished(engine.doubt(limit=limit, older=older))
    finally:
        engine.flush()
    from recovery.console.operating import doubts as report

    output.answer(
        lambda: {
            "doubts": [_doubt(one) for one in found.doubts],
            "contradicted": [_disputed(one) for one in found.contradicted],
            "contracts": [_hold(hold) for hold in found.contracts],
            "damaged": documents.damaged(found.damaged),
            "more": found.more,
        },
        lambda paper: report(paper, found),
    )
    return found.exit_code


def explain(output: Output, target: Target, run_id: str, step: str) -> ExitCode:
    """Why. Exit 0: the question is answered, whatever the answer."""
    engine = target.looking()
    try:
        told: Explanation = finished(engine.explain(run_id, step))
    finally:
        engine.flush()
    from recovery.console.operating import explanation as report

    output.answer(lambda: {"explanation": _explanation(told)}, lambda paper: report(paper, told))
    return ExitCode.SETTLED


def explain_run(output: Output, target: Target, run_id: str) -> ExitCode:
    """Why, of a run as a whole. Exit 0: the question is answered, whatever the answer."""
    engine = target.looking()
    try:
        told: WholeRun = finished(engine.explain_run(run_id))
    finally:
        engine.flush()
    from recovery.console.operating import whole_run as report

    output.answer(lambda: {"why": _whole_run(told)}, lambda paper: report(paper, told))
    return ExitCode.SETTLED


def parking(output: Output, name: str | None) -> ExitCode:
    """The pages about reasons to park: all, or one whole. Raises InvalidName."""
    from recovery.console.parking import index, page
    from recovery.core.reasons import PARKED
    from recovery.operators.parking import markdown, reason_of, summary

    reasons = PARKED if name is None else (reason_of(name),)
    output.answer(
        lambda: {"reasons": [summary(reason) | {"text": markdown(reason)} for reason in reasons]},
        lambda paper: index() if name is None else page(paper, reasons[0]),
    )
    return ExitCode.SETTLED


# -- asking and ordering -----------------------------------------------------------------------------------------------


def probe(output: Output, target: Target, run_id: str, step: str) -> ExitCode:
    """One question. Exit 0 with an answer, 4 without one."""
    engine = target.engine()
    try:
        asked: Probed = finished(engine.probe(run_id, step))
    finally:
        engine.flush()
    from recovery.console.operating import probed as report

    output.answer(
        lambda: {
            "run_id": run_id,
            "step": step,
            "answer": encode(asked.answer),
            "kept": "evidence" if asked.outside else "journal",
            "because": asked.outside,
            "verdict": _row(asked.judgement.row) | {"next_look": _time(asked.judgement.next_look_us)},
        },
        lambda paper: report(paper, asked),
    )
    return ExitCode.UNRESOLVED if asked.answer.kind is AnswerKind.UNREACHABLE else ExitCode.SETTLED


def resolve(output: Output, target: Target, run_id: str, step: str, said: Said) -> ExitCode:
    """A person's word."""
    engine = target.engine()
    try:
        came = engine.resolve(
            run_id,
            step,
            said.outcome,
            evidence=said.evidence,
            by=said.by,
            reason=said.reason,
            value=said.value,
            rejection=said.rejection,
        )
        resolved: Resolved = finished(came)
    finally:
        engine.flush()
    from recovery.console.operating import resolved as report

    output.answer(
        lambda: {"run_id": run_id, "step": step, "settled": encode(resolved.settled), "checked": resolved.checked},
        lambda paper: report(paper, resolved),
    )
    return ExitCode.SETTLED


def close(output: Output, target: Target, run_id: str, step: str, *, by: str, reason: str) -> ExitCode:
    """A close. Exit 0 if it settled the step, 3 if a person must look, else 4."""
    engine = target.engine()
    try:
        closed: Closed = finished(engine.close_key(run_id, step, by=by, reason=reason))
    finally:
        engine.flush()
    from recovery.console.operating import closed as report

    output.answer(
        lambda: {
            "run_id": run_id,
            "step": step,
            "answer": encode(closed.answer),
            "settled": None if closed.settled is None else encode(closed.settled),
            "verdict": _row(closed.judgement.row) | {"next_look": _time(closed.judgement.next_look_us)},
        },
        lambda paper: report(paper, closed),
    )
    if closed.settled is not None:
        return ExitCode.SETTLED
    return ExitCode.IN_DOUBT if closed.judgement.action is Action.PARK else ExitCode.UNRESOLVED


def acknowledge(output: Output, target: Target, run_id: str, step: str, *, by: str, reason: str) -> ExitCode:
    """A person's word about what speaks against an outcome."""
    engine = target.engine()
    try:
        done: Acknowledged = finished(engine.acknowledge(run_id, step, by=by, reason=reason))
    finally:
        engine.flush()
    from recovery.console.operating import acknowledged as report

    output.answer(
        lambda: {"run_id": run_id, "step": step, "order": encode(done.order), "left": done.left},
        lambda _paper: report(done),
    )
    return ExitCode.SETTLED


def order(output: Output, target: Target, verb: str, run_id: str, *, by: str, reason: str) -> ExitCode:
    """hold, release or fence of a run."""
    engine = target.engine()
    try:
        give = {"hold": engine.hold, "release": engine.release, "fence": engine.fence}[verb]
        ordered: Ordered = finished(give(run_id, by=by, reason=reason))
    finally:
        engine.flush()
    from recovery.console.operating import ordered as report

    output.answer(
        lambda: {
            "run_id": run_id,
            "order": encode(ordered.order),
            "status": ordered.status.value,
            "epoch": ordered.epoch,
            "was_owned_by": ordered.was_owned_by,
            "acts_until": _time(ordered.acts_until_us),
        },
        lambda paper: report(paper, ordered),
    )
    return ExitCode.SETTLED


def contract(output: Output, target: Target, subject: str, *, held: bool, by: str, reason: str) -> ExitCode:
    """hold or release of a contract."""
    engine = target.engine()
    try:
        give = engine.hold_contract if held else engine.release_contract
        said: Hold = finished(give(subject, by=by, reason=reason))
    finally:
        engine.flush()
    from recovery.console.operating import contract as report

    output.answer(lambda: {"contract": _hold(said)}, lambda _paper: report(said))
    return ExitCode.SETTLED


def forget(output: Output, target: Target, run_id: str, *, by: str, reason: str) -> ExitCode:
    """What stays of a run."""
    engine = target.engine()
    try:
        forgotten: Forgotten = finished(engine.forget(run_id, by=by, reason=reason))
    finally:
        engine.flush()
    from recovery.console.operating import forgotten as report

    output.answer(
        lambda: {
            "run_id": run_id,
            "status": forgotten.status,
            "outcome_digest": forgotten.stub.outcome_digest,
            "keys": [{"environment": environment, "scope": scope, "key": key} for environment, scope, key in forgotten.keys],
            "by": forgotten.stub.by,
            "reason": forgotten.stub.reason,
            "at": iso(forgotten.stub.at_us),
        },
        lambda paper: report(paper, forgotten),
    )
    return ExitCode.SETTLED


# -- documents ---------------------------------------------------------------------------------------------------------


def _doubt(one: Doubt) -> Document:
    return {
        "run_id": one.run_id,
        "workflow": one.workflow,
        "status": one.status.value,
        "since": iso(one.since_us),
        "age_seconds": one.age_us / 1_000_000,
        "reason": one.reason,
        "parking": one.parking,
        "page": "" if one.parking is None else one.parking.page,
        "step": one.step,
        "effect": one.effect,
        "environment": one.environment,
        "scope": one.scope,
        "key": one.key,
        "contract": one.contract,
        "problem": one.problem,
    }


def _disputed(one: Disputed) -> Document:
    return {
        "run_id": one.run_id,
        "workflow": one.workflow,
        "status": one.status.value,
        "since": iso(one.since_us),
        "age_seconds": one.age_us / 1_000_000,
        "contradiction": documents.contradiction(one.contradiction),
    }


def _hold(hold: Hold) -> Document:
    return {"subject": hold.subject, "held": hold.held, "by": hold.by, "reason": hold.reason, "at": iso(hold.at_us)}


def _row(row: Row) -> Document:
    return {"number": row.number, "row": row.name, "action": row.action.value, "reason": row.reason.value}


def _explanation(told: Explanation) -> Document:
    timing = told.timing
    times = {
        "not_after": timing.not_after_us,
        "quiet_at": timing.quiet_at_us,
        "receipt_until": timing.receipt_until_us,
        "absence_until": timing.absence_until_us,
        "close_until": timing.close_until_us,
    }
    return {
        "run_id": told.run_id,
        "at": iso(told.at_us),
        "effect": documents.effect(told.effect),
        "contract": told.contract.digest,
        "verdict": _row(told.row) | {"condition": told.row.condition, "paragraph": told.row.paragraph},
        "settled": None if told.settled is None else encode(told.settled),
        "contradicted": told.contradicted,
        "evidence": [_piece(piece) for piece in told.evidence],
        "also": [_piece(piece) for piece in told.also],
        "assumptions": list(told.assumptions),
        "advice": told.advice,
        "page": "" if told.parking is None else told.parking.page,
        "commands": [] if told.parking is None else list(commands(told.parking, told.run_id, told.effect.step)),
        "next_look": _time(told.next_look_us),
        "times": {name: _time(at_us) for name, at_us in times.items()},
        "changes": [{"what": change.what, "at": _time(change.at_us)} | _row(change.row) for change in told.changes],
        "same": list(told.same),
        "unknown": list(told.unknown),
        "problem": told.problem,
    }


def _whole_run(told: WholeRun) -> Document:
    died, last = told.deaths, told.last
    return {
        "run_id": told.run_id,
        "workflow": told.workflow,
        "status": told.status.value,
        "reason": told.reason,
        "since": iso(told.since_us),
        "parking": told.parking,
        "page": "" if told.parking is None else told.parking.page,
        "deaths": None if died is None else {"workers": died.workers, "last_alone": died.last_alone},
        "crashes": told.crashes,
        "last": None if last is None else {"seq": last.seq, "kind": last.kind, "step": last.step},
        "unsettled": list(told.steps),
        "acts": told.acts,
        "advice": told.advice,
        "commands": list(told.commands),
    }


def _piece(piece: Any) -> Document:
    said = None if piece.answer is None else encode(piece.answer)
    return {"seq": piece.seq, "kind": piece.kind, "at": iso(piece.at_us), "source": piece.source, "answer": said}


def _time(at_us: int | None) -> str | None:
    return None if at_us is None else iso(at_us)
