"""Undoings by order, for people. Owns their wording; takes what the operators' procedures came to."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from recovery.console import words
from recovery.console.paper import Paper, facts
from recovery.console.runs import status
from recovery.core.instants import instant_us
from recovery.operators.compensating import Offered, Undone


def offered(paper: Paper, run_id: str, step: str, offers: Sequence[Offered]) -> RenderableType:
    """What an order would undo, one panel each."""
    about = f"would undo, of {words.bounded(step)} of run {words.bounded(run_id)}"
    return Group(*(paper.panel(about, facts(_rows(each)), "yellow") for each in offers))


def undone(paper: Paper, run_id: str, step: str, done: Sequence[Undone]) -> RenderableType:
    """What was ordered, and how far it has come."""
    panels: list[RenderableType] = []
    for each in done:
        rows = [*_rows(each.offered), ("status", status(each.recovered.status))]
        if each.recovered.error is not None:
            rows.append(("because", words.bounded(str(each.recovered.error))))
            rows.append(("go on", f"recover --run-id {words.bounded(each.offered.run_id)}"))
        panels.append(paper.panel(f"undoing, of {words.bounded(step)} of run {words.bounded(run_id)}", facts(rows), "yellow"))
    if all(each.recovered.error is None for each in done):
        acknowledge = f"recover acknowledge {words.bounded(run_id)} {words.bounded(step)} --by WHO --reason TEXT"
        panels.append(Text(f"Undone. The outcome stands; say that it was seen to with `{acknowledge}`.", style="bold green"))
    return Group(*panels)


def _rows(each: Offered) -> list[tuple[str, RenderableType]]:
    proposal, order = each.proposal, each.order
    bound = ", ".join(f"{name}={words.value(value)}" for name, value in proposal.arguments.items())
    where = "/".join(words.bounded(part) for part in (proposal.environment, proposal.scope) if part)
    rows: list[tuple[str, RenderableType]] = [
        ("by", Text(f"{words.bounded(proposal.effect)}({bound})", style="bold")),
        ("in", where),
        ("receipt", words.bounded(proposal.undoes.receipt) or f"entry {order.entry}"),
        ("run", words.bounded(each.run_id)),
    ]
    if order.not_before is not None:
        rows.append(("not before", f"{words.exact(instant_us(order.not_before))}: until then a copy of the step could still act"))
    return rows
