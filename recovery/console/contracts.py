"""The catalogue of contracts: a list of providers, and one provider with what its contract means after a crash.

Owns the words for what a verdict means to somebody who chooses a contract. Invariant: a number is never shown without where it was read.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from recovery.catalogue.consequences import TIMEOUT_US, Consequence, consequences, resend_until_us
from recovery.catalogue.entry import CONSTRUCTORS, Basis, Entry, Source
from recovery.console import words
from recovery.console.paper import Paper, facts
from recovery.core.contracts import FOR_EVER, Contract, Kind, microseconds
from recovery.core.rows import Action

DISCLAIMER: Final = "As the vendors document it, read in the months named beside each source. None of it was measured."

FOLLOWS: Final[dict[Action, str]] = {
    Action.KEEP: "the recorded outcome stands",
    Action.DIVERGE: "the run stops before it sends",
    Action.ADOPT: "settled: it happened",
    Action.REJECT: "settled: rejected with that error",
    Action.NOT_EXECUTED: "settled: it did not happen",
    Action.WAIT: "it waits",
    Action.ASK: "the environment is asked",
    Action.SEND: "it is sent",
    Action.RESEND: "it is sent again under the same key",
    Action.CLOSE: "the key is closed",
    Action.PARK: "in doubt: a person decides",
}
"""What each action means to somebody who chooses a contract."""

_STYLES: Final[dict[Action, str]] = {Action.PARK: "bold red", Action.WAIT: "yellow", Action.ASK: "yellow"}


def window(contract: Contract) -> str:
    """A window in a few words."""
    if contract.window_us is None:
        return "not published" if contract.kind in {Kind.KEYED, Kind.SWALLOW} else "-"
    return "for ever" if contract.window_us >= microseconds(FOR_EVER) else words.duration(contract.window_us)


def after_a_crash(contract: Contract) -> str:
    """The one sentence that matters most."""
    if contract.kind is Kind.READ:
        return "It is read again."
    if contract.kind is Kind.OPAQUE:
        return "Never sent twice; a person decides."
    if (until_us := resend_until_us(contract)) is not None:
        for_ever = contract.window_us is not None and contract.window_us >= microseconds(FOR_EVER)
        return (
            "Sent again under the same key, at any time."
            if for_ever
            else f"Sent again for {words.duration(until_us)}, then in doubt."
        )
    return "Never sent twice; asked." if contract.lookup is not None else "Never sent twice; in doubt."


def means(kind: Kind) -> str:
    """What a class promises: the first sentence of its constructor."""
    text = inspect.cleandoc(CONSTRUCTORS[kind].__doc__ or "").partition("\n\n")[0]
    return text.replace("\n", " ").replace("`", "")


def shelf(entries: Iterable[Entry]) -> RenderableType:
    """One line per provider."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("name", no_wrap=True, style="bold")
    for column in ("class", "window", "after a crash in the wrong moment"):
        table.add_column(column, overflow="fold")
    for entry in entries:
        contract = entry.contract()
        table.add_row(entry.name, entry.kind.value, window(contract), after_a_crash(contract))
    return Group(table, Text(), Text(DISCLAIMER, style="dim"))


def provider(paper: Paper, entry: Entry) -> RenderableType:
    """One entry: its promises and their sources, and what follows from them."""
    contract = entry.contract()
    head = facts(
        [
            ("provider", Text(entry.title, style="bold")),
            ("class", f"{entry.kind.value}: {means(entry.kind)}"),
            ("window", window(contract)),
            ("after a crash", Text(after_a_crash(contract), style="bold")),
            ("version", f"{entry.version}, digest {words.digest(contract.digest)}"),
        ]
    )
    parts: list[RenderableType] = [paper.panel(entry.name, head)]
    parts.append(
        paper.panel("what it documents", facts((p.field, _cited(p.says, entry.sources[p.source])) for p in entry.promises))
    )
    if entry.notes:
        parts.append(
            paper.panel("what an effect needs to know", facts(("-", _cited(n.says, entry.sources[n.source])) for n in entry.notes))
        )
    parts.append(paper.panel("what follows", _followed(consequences(contract)), "yellow"))
    parts.append(paper.panel("what it does not say", Text(_unsaid(contract)), "dim"))
    parts.append(Padding(Text(DISCLAIMER, style="dim"), (0, 0)))
    return Group(*parts)


def _unsaid(contract: Contract) -> str:
    return ", ".join(name.removesuffix("_us") for name in contract.unstated) + ": as the defaults say"


def _cited(says: str, source: Source) -> Text:
    return Text(says) + Text(f" [{cited(source)}]", style="dim")


def cited(source: Source) -> str:
    """A source on one line."""
    how = source.read if source.basis is Basis.VENDOR else " ".join(part for part in (source.basis.value, source.read) if part)
    return f"{source.title}; {how}"


def _followed(told: list[Consequence]) -> RenderableType:
    rows = [(consequence.when, Text(follows(consequence), style=_STYLES.get(consequence.action, ""))) for consequence in told]
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(overflow="fold", ratio=3)
    table.add_column(overflow="fold", ratio=2)
    for when, then in rows:
        table.add_row(when, then)
    assumed = Text(f"An attempt is taken to last {words.duration(TIMEOUT_US)} at most.", style="dim")
    return Group(table, assumed)


def follows(consequence: Consequence) -> str:
    """A verdict in a few words, with its row."""
    until = ""
    if consequence.action is Action.WAIT and consequence.next_look_us is not None:
        until = f" until {words.duration(consequence.next_look_us)} after the first attempt"
    return f"{FOLLOWS[consequence.action]}{until} ({consequence.row.name})"
