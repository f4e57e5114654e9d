"""Misfits: what a journal records in one place, beside what the code asks for there.

Owns how the two are told: as two short phrases for a sentence, and as two plain documents of the same fields for whoever looks closer. Knows
nothing of how they came to be compared. Invariant: a phrase names arguments and never quotes them; the documents hold them
as they may be shown: what is declared secret is withheld, and only its argument's name tells that it differs.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from recovery.core.entries import FORMS, JSON
from recovery.core.history import DecisionStep, EffectStep, Step
from recovery.core.request import Request
from recovery.core.showing import shown

Side: TypeAlias = dict[str, JSON]
"""One of the two, as plain JSON. Fields that it does not have are unknown there, not empty."""

EFFECT: Final = "an effect"
SHOWN: Final = 12  # characters of a fingerprint


def recorded_side(step: Step) -> Side:
    """What a journal records about one step, as far as a replay compares it."""
    if isinstance(step, DecisionStep):
        decision = step.decision
        return asked_decision(decision.step, decision.form, decision.fingerprint)
    intent = step.intent
    return _effect(
        step.step, intent.effect, intent.environment, intent.scope, intent.key, intent.fingerprint, arguments=intent.arguments
    )


def asked_effect(step: str, request: Request) -> Side:
    """What the code asks for now: an effect."""
    return _effect(
        step, request.effect, request.environment, request.scope, request.key, request.fingerprint, arguments=request.arguments
    )


def asked_decision(step: str, form: str, fingerprint: str = "") -> Side:
    """What the code asks for now: a decision, or one of the facts that a run notes for itself."""
    return {"step": step, "kind": FORMS[form]} | ({"fingerprint": fingerprint} if fingerprint else {})


def other_meaning(recorded: EffectStep, request: Request) -> tuple[str, str] | None:
    """The first of effect, environment and key that differs, as two phrases; None where the step still means the same effect."""
    for what in ("effect", "environment", "key"):
        before, after = getattr(recorded.intent, what), getattr(request, what)
        if before != after:
            return f"{what} {before}", f"{what} {after}"
    return None


def other_request(recorded: EffectStep, request: Request) -> tuple[str, str]:
    """Two requests of one effect, as two phrases."""
    names = ", ".join(differing(recorded.intent.arguments, request.arguments))
    before, after = recorded.intent.fingerprint[:SHOWN], request.fingerprint[:SHOWN]
    return f"a request with fingerprint {before}", f"one with {after}" + (f", which differs in {names}" if names else "")


def differing(before: JSON, after: JSON) -> list[str]:
    """The names of the arguments that differ, in the order of the code and then of the record."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return []
    names = [*after, *(name for name in before if name not in after)]
    return [name for name in names if name not in before or name not in after or before[name] != after[name]]


def _effect(step: str, effect: str, environment: str, scope: str, key: str, fingerprint: str, *, arguments: JSON) -> Side:
    return {
        "step": step,
        "kind": EFFECT,
        "effect": effect,
        "environment": environment,
        "scope": scope,
        "key": key,
        "arguments": shown(arguments),
        "fingerprint": fingerprint,
    }
