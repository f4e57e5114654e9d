"""Doubt: everything that a person needs in order to decide about an effect that is not settled.

Owns its layout. Invariant: nothing that is known about the effect is left out, only bounded.
"""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from recovery.console import words
from recovery.console.paper import facts
from recovery.console.timeline import answer, promise
from recovery.core.contracts import Contract
from recovery.core.entries import AnswerKind, Verdict
from recovery.core.history import EffectStep
from recovery.core.reasons import parking
from recovery.operators.advice import SETTLED_BY


def effect(step: EffectStep, contract: Contract | None, verdict: Verdict | None) -> RenderableType:
    """One effect: what was asked, every attempt, every answer, and where that leaves it."""
    intent = step.intent
    scope = f", scope {words.bounded(intent.scope)}" if intent.scope else ""
    rows: list[tuple[str, RenderableType]] = [
        ("step", Text(words.bounded(step.step), style="bold")),
        ("effect", f"{words.bounded(intent.effect)}, {promise(contract)}"),
        ("environment", f"{words.bounded(intent.environment)}{scope}"),
        ("key", Text(words.bounded(intent.key), style="bold")),
        ("arguments", words.value(intent.arguments)),
        ("fingerprint", intent.fingerprint),
        *((("attempts" if i == 0 else ""), text) for i, text in enumerate(_attempts(step))),
        *((("answers" if i == 0 else ""), text) for i, text in enumerate(_answers(step))),
    ]
    rows += _other_request(step)
    if verdict is not None:
        rows += _verdict(verdict)
    return facts(rows)


def _other_request(step: EffectStep) -> list[tuple[str, RenderableType]]:
    """What the key answers for, where that is not what was asked here: a person compares both requests."""
    others = [
        noted.answer
        for noted in step.observations
        if noted.answer.kind is AnswerKind.MISMATCH or noted.answer.fingerprint not in {"", step.intent.fingerprint}
    ]
    if not others:
        return []
    other = others[-1]
    outcome = "" if other.value is None else f", outcome {words.value(other.value)}"
    return [("the key's own", Text(f"fingerprint {words.bounded(other.fingerprint) or 'not told'}{outcome}", style="bold red"))]


def _attempts(step: EffectStep) -> list[str]:
    return [
        f"{attempt.number}: {attempt.purpose} at {words.exact(attempt.sent_at_us)}, until {words.exact(attempt.send_until_us)}, epoch {attempt.epoch}"
        for attempt in step.attempts
    ] or ["none"]


def _answers(step: EffectStep) -> list[str]:
    told = []
    for noted in step.observations:
        seen = noted.observation
        whose = f"{seen.source.value} to attempt {seen.attempt}" if seen.attempt is not None else seen.source.value
        told.append(f"{words.exact(seen.observed_at_us)}, {whose}: {answer(noted.answer)}")
    return told or ["none"]


def _verdict(verdict: Verdict) -> list[tuple[str, RenderableType]]:
    row = f"row {verdict.row}" if verdict.row == verdict.reason else f"row {verdict.row}: {verdict.reason}"
    rows: list[tuple[str, RenderableType]] = [("verdict", f"{verdict.action}, {row}")]
    if verdict.assumptions:
        rows.append(("assumes", words.bounded(", ".join(verdict.assumptions))))
    if verdict.next_look_us is not None:
        rows.append(("next look", words.exact(verdict.next_look_us)))
    if (reason := parking(verdict.action, verdict.reason)) is not None:
        rows += [("to settle it", Text(SETTLED_BY[reason], style="bold")), ("page", f"recover parking {reason.value}")]
    return rows
