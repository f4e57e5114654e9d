"""Contradictions for people: both receipts, whose they are, and what would undo a surplus effect.

Owns their wording. Invariant: it says that the outcome stands, and that nothing was undone.
"""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from recovery.console import words
from recovery.console.paper import Paper, facts
from recovery.definitions.recovered import Contradiction, Receipt

_WHOSE = {
    "reply": "the worker's own reply",
    "late": "the reply of a superseded worker",
    "push": "told by the environment",
    "probe": "the answer to a question",
    "close": "the answer to a close",
}


def panel(paper: Paper, of: Contradiction) -> RenderableType:
    """One step's contradictions."""
    rows: list[tuple[str, RenderableType]] = [
        ("step", Text(words.bounded(of.step), style="bold")),
        ("effect", f"{words.bounded(of.effect)} in {words.bounded(of.environment)}"),
        ("key", words.bounded(of.key)),
        ("outcome", f"{of.outcome.replace('_', ' ')}; it stands, since later steps have run on it"),
    ]
    if of.adopted is not None:
        rows.append(("adopted", _receipt(of.adopted)))
    rows += [("against it" if index == 0 else "", _receipt(item)) for index, item in enumerate(of.against)]
    for proposal in of.proposals:
        bound = ", ".join(f"{name}={words.value(value)}" for name, value in proposal.arguments.items())
        named = f" (undoes receipt {words.bounded(proposal.undoes.receipt)})" if proposal.undoes.receipt else ""
        rows.append(("to undo it", Text(f"{words.bounded(proposal.effect)}({bound}){named}; proposed only", style="bold")))
    if of.proposals and of.open:
        rows.append(("order it", f"recover compensate RUN {words.bounded(of.step)} --by WHO --reason TEXT"))
    if of.duplicate and not of.proposals:
        rows.append(
            ("to undo it", "no compensation is known here: name the app that defines one, or look in the environment's records")
        )
    if of.acknowledged_by:
        since = "; more has come since" if of.open else ""
        why = f" ({words.bounded(of.acknowledged_because)})" if of.acknowledged_because else ""
        rows.append(("seen to", f"by {words.bounded(of.acknowledged_by)}{why}{since}"))
    if of.open:
        rows.append(("when done", f"recover acknowledge RUN {words.bounded(of.step)} --by WHO --reason TEXT"))
    return paper.panel("duplicate detected" if of.duplicate else "contradicted", facts(rows), "red")


def _receipt(item: Receipt) -> str:
    parts = [item.said.replace("_", " ")]
    if item.error:
        parts.append(words.bounded(item.error))
    if item.value is not None:
        parts.append(words.value(item.value))
    if item.receipt:
        parts.append(f"receipt {words.bounded(item.receipt)}")
    attempt = f" to attempt {item.attempt}" if item.attempt is not None else ""
    epoch = f", epoch {item.epoch}" if item.epoch else ""
    at = item.observed_at.strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{' '.join(parts)}: {_WHOSE.get(item.source, item.source)}{attempt}{epoch}, {at}"
