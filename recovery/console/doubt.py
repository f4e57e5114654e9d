"""Doubt: everything that a person needs in order to decide about an effect that is not settled.

Owns what would settle each kind of doubt. Invariant: nothing that is known about the effect is left out, only bounded.
"""

from __future__ import annotations

from typing import Final

from rich.console import RenderableType
from rich.text import Text

from recovery.console import words
from recovery.console.paper import facts
from recovery.console.timeline import answer, promise
from recovery.core.contracts import Contract
from recovery.core.entries import Verdict
from recovery.core.history import EffectStep
from recovery.core.rows import Reason

SETTLED_BY: Final[dict[Reason, str]] = {
    Reason.CONTRACT_BROKEN: "The environment said that nothing was there, finally, and then showed a receipt. Its contract is wrong: find out which "
    "of its promises does not hold before anything else is sent there.",
    Reason.KEY_MISMATCH: "The environment holds another request under this key. Compare both requests in its records: whose is it?",
    Reason.RECEIPT_MISMATCH: "The environment holds a receipt under this key that is not what was asked for. Compare both in its records.",
    Reason.VALUE_UNKNOWN: "It happened. Only its value is missing: read it in the environment's records. Do not repeat it.",
    Reason.NAME_TAKEN_DOUBTFUL: "Something has this name. Look at it in the environment: is it ours?",
    Reason.HELD: "It was stopped on purpose. Whoever stopped it releases it.",
    Reason.SCOPE_CHANGED: "Go back to the account, region and credential that are named above and recover again: another one cannot tell.",
    Reason.RESTORED: "The journal was restored from a backup, so what was sent after it is unknown. Look in the environment's records by the key.",
    Reason.BUDGET_SPENT: "The attempts or questions of this effect are used up. See why they brought nothing; a later call with a larger budget goes on.",
    Reason.ABSENCE_UNPROVEN: "The environment shows nothing, and a late copy could still act or be hidden. Look in its records by the key.",
    Reason.CACHED_FAILURE: "The environment remembers a failure under this key that does not say whether it happened. Look in its records.",
    Reason.KEY_EXPIRED: "The environment no longer remembers the key, so sending again could repeat it. Look in its records by the key and the time.",
    Reason.FAIL_OPEN: "The environment may act twice on one key while its key store is down. Look in its records by the key.",
    Reason.OPAQUE: "The environment has no key, no receipt and nothing to ask. Look in its records by the arguments and the time of the attempts.",
    Reason.UNWANTED_UNDECIDABLE: "It is no longer wanted, and whether it happened cannot be asked. Look in the environment's records by the key.",
    Reason.NOTHING_LEFT: "Nothing is left to ask. Look in the environment's records by the key and the time of the attempts.",
}
"""For each reason to park: what a person must bring."""


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
    if verdict is not None:
        rows += _verdict(verdict)
    return facts(rows)


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
    rows: list[tuple[str, RenderableType]] = [
        ("verdict", f"{verdict.action}, row {verdict.row}: {verdict.reason}"),
        ("assumes", words.bounded(", ".join(verdict.assumptions)) or "nothing"),
    ]
    if verdict.next_look_us is not None:
        rows.append(("next look", words.exact(verdict.next_look_us)))
    if wanted := next((text for reason, text in SETTLED_BY.items() if reason.value == verdict.reason), None):
        rows.append(("to settle it", Text(wanted, style="bold")))
    return rows
