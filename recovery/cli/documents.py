"""Documents: what `--json` prints, as plain data.

Owns the shape of the documents; `output.SCHEMA_VERSION` counts it. Invariant: values are whole, times are ISO 8601 in UTC, and nothing
is left out because it looks unimportant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from recovery.core.entries import Settled, encode
from recovery.core.errors import RecoveryError
from recovery.core.history import EffectStep
from recovery.core.instants import iso
from recovery.definitions.recovered import Contradiction, Receipt, Recovered, RunInfo, StepVerdict
from recovery.definitions.undoing import contradictions
from recovery.storage.kinship import Member
from recovery.storage.listing import Damaged
from recovery.storage.reading import Whole

Document = dict[str, Any]


def run(info: RunInfo) -> Document:
    return {
        "run_id": info.run_id,
        "workflow": info.workflow,
        "status": info.status.value,
        "rests_for": info.rests_for.value,
        "reason": info.reason,
        "owner": info.owner,
        "orphaned": info.orphaned,
        "epoch": info.epoch,
        "entries": info.entries,
        "created_at": time(info.created_at),
        "updated_at": time(info.updated_at),
        "next_look": time(info.next_look),
        "queue": info.queue,
        "priority": info.priority,
    }


def run_and(info: RunInfo, **more: Any) -> Document:
    return {"run": run(info), **more}


def runs(infos: Sequence[RunInfo], broken: Sequence[Damaged], parents: Mapping[str, str], *, more: bool) -> Document:
    return {"runs": [run(info) | {"parent": parents.get(info.run_id)} for info in infos], "damaged": damaged(broken), "more": more}


def damaged(broken: Sequence[Damaged]) -> list[Document]:
    """Runs whose own row cannot be read."""
    return [{"run_id": one.run_id, "problem": one.problem} for one in broken]


def member(of: Member) -> Document:
    """A child in its family."""
    return {
        "run_id": of.run_id,
        "step": of.step,
        "workflow": of.workflow,
        "status": None if of.status is None else of.status.value,
        "rests_for": of.rests_for.value,
        "reason": of.reason,
        "detached": of.detached,
        "adopted": of.adopted,
        "children": [member(child) for child in of.children],
    }


def history(info: RunInfo, loaded: Whole, children: Sequence[Member]) -> Document:
    """The whole journal of a run, entry by entry, with its digests; and its family."""
    first = loaded.opened
    return {
        "run": run(info),
        "parent": {"run_id": first.parent, "step": first.parent_step} if first.parent else None,
        "children": [member(child) for child in children],
        "head_digest": loaded.run.head_digest,
        "entries": [
            {
                "seq": row.seq,
                "kind": row.kind,
                "step": row.step,
                "epoch": str(row.epoch),
                "digest": row.digest,
                "body": encode(entry),
            }
            for row, entry in zip(loaded.rows, loaded.entries, strict=True)
        ],
        "late_evidence": [
            {"kind": item.kind, "step": item.step, "epoch": str(item.epoch), "at": iso(item.at_us), "body": encode(entry)}
            for item, entry in zip(loaded.late, loaded.told, strict=True)
        ],
        "heartbeats": [
            {"step": effect.step, "attempt": said.attempt, "at": iso(said.at_us), "progress": said.progress}
            for effect in loaded.history.effects
            if (said := effect.heard.last) is not None
        ],
        "contradictions": [contradiction(one) for one in contradictions(loaded.history, loaded.contracts, {}, loaded.highest_us)],
        "contracts": {digest: contract.to_json() for digest, contract in loaded.contracts.items()},
    }


def recovered(info: RunInfo, loaded: Whole, what: Recovered[Any], *, appended: int) -> Document:
    ended = loaded.history.ended
    document = {
        "run": run(info),
        "exit_code": int(what.exit_code),
        "outcome": None if ended is None else _settled(ended),
        "appended": appended,
        "head_digest": loaded.run.head_digest,
        "verdicts": [_verdict(verdict) for verdict in what.verdicts],
        "contradictions": [contradiction(one) for one in what.contradictions],
        "unsettled": [effect(step) for step in loaded.history.unsettled],
    }
    return document | ({"error": error(what.error)} if what.error is not None else {})


def error(of: RecoveryError) -> Document:
    return {"type": type(of).__name__, "message": str(of), "exit_code": int(of.exit_code), "fields": of.fields}


def effect(step: EffectStep) -> Document:
    """One effect whole: intent, attempts, answers, verdicts."""
    return {
        "intent": encode(step.intent),
        "attempts": [encode(attempt) for attempt in step.attempts],
        "observations": [encode(noted.observation) for noted in step.observations],
        "verdicts": [encode(verdict) for verdict in step.verdicts],
    }


def contradiction(of: Contradiction) -> Document:
    """What speaks against one outcome, and what would undo a surplus effect."""
    return {
        "step": of.step,
        "effect": of.effect,
        "environment": of.environment,
        "key": of.key,
        "duplicate": of.duplicate,
        "outcome": of.outcome,
        "open": of.open,
        "acknowledged_by": of.acknowledged_by,
        "acknowledged_because": of.acknowledged_because,
        "adopted": None if of.adopted is None else receipt(of.adopted),
        "against": [receipt(item) for item in of.against],
        "proposals": [
            {
                "effect": proposal.effect,
                "environment": proposal.environment,
                "scope": proposal.scope,
                "arguments": dict(proposal.arguments),
                "undoes": receipt(proposal.undoes),
            }
            for proposal in of.proposals
        ],
    }


def receipt(of: Receipt) -> Document:
    return asdict(of) | {"observed_at": time(of.observed_at)}


def _settled(ended: Settled) -> Document:
    return {"kind": ended.outcome.value, "value": ended.value, "error": ended.error, "at": iso(ended.at_us)}


def _verdict(verdict: StepVerdict) -> Document:
    return {
        "step": verdict.step,
        "effect": verdict.effect,
        "key": verdict.key,
        "row": verdict.row,
        "action": verdict.action,
        "reason": verdict.reason,
        "parking": verdict.parking,
        "assumptions": list(verdict.assumptions),
        "next_look": time(verdict.next_look),
    }


def time(at: datetime | None) -> str | None:
    return None if at is None else at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
