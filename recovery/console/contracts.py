"""The catalogue of contracts: a list of providers, and one provider with what its contract means after a crash.

Owns the words for what a verdict means to somebody who chooses a contract. Invariant: a number is never shown without how we know it, nor on the page of one
provider without where it was read.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from recovery.catalogue.consequences import TIMEOUT_US, Consequence, consequences, resend_until_us
from recovery.catalogue.entry import CONSTRUCTORS, Basis, Entry, Note, Promise, Source, Status
from recovery.console import words
from recovery.console.paper import Paper, facts
from recovery.core.contracts import FOR_EVER, Contract, Kind, WindowStart, microseconds
from recovery.core.rows import Action

DISCLAIMER: Final = "As the vendors document it. Pages were read on the day beside each source, in stored copies that can be older. None of it was measured."

KNOWN: Final[dict[Status, str]] = {
    Status.READ: "vendor",
    Status.EARLIER: "earlier edition",
    Status.REPORTED: "third party",
    Status.NOT_PUBLISHED: "not published",
    Status.INFERRED: "inferred",
    Status.UNVERIFIED: "not verified",
}
"""Each status in a word or two, where many stand in a column."""

_ALWAYS: Final = "at any time"

WIDE: Final = 112
"""Columns that the whole list of providers takes; narrower terminals get its first four."""

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
    return words.window(contract.window_us)


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


_COUNTED: Final[dict[WindowStart, str]] = {
    WindowStart.FIRST_SEEN: "After {}",
    WindowStart.COMPLETED: "{} after the first has completed",
    WindowStart.TERMINATED: "{} after the end of what it made",
}


def a_copy(entry: Entry) -> str:
    """What one more request does, and from when: the sentence that says why nothing is sent again then."""
    contract = entry.contract()
    if contract.kind is Kind.READ:
        return "A copy changes nothing."
    if contract.kind is Kind.FIRST_SENT:
        return f"After {window(contract)} a copy is refused, and does nothing."
    if contract.fail_open:
        return f"While the key store is down a copy is {entry.second}, and after {window(contract)} always."
    if contract.kind in {Kind.PROBEABLE, Kind.OPAQUE}:
        return f"Nothing stops a copy: it is {entry.second}."
    if contract.kind is Kind.PREPARED:
        return f"Once the first is resolved, a copy is {entry.second}."
    if contract.kind is Kind.NAMED:
        return f"A copy is refused while the name is taken; after that it is {entry.second}."
    if contract.window_us is None:
        return f"Nobody says when a key is forgotten; from then on a copy is {entry.second}."
    if contract.window_us >= microseconds(FOR_EVER):
        return "A copy never acts again."
    return f"{_COUNTED[contract.window_starts].format(window(contract))} a copy is {entry.second}."


def _sent_again(contract: Contract) -> str:
    until_us = resend_until_us(contract)
    if contract.kind is Kind.READ or (until_us is not None and (contract.window_us or 0) >= microseconds(FOR_EVER)):
        return _ALWAYS
    return "never" if until_us is None else words.duration(until_us)


def _a_late_copy(entry: Entry) -> str:
    """Three words of `a_copy`."""
    contract = entry.contract()
    if contract.kind in {Kind.READ, Kind.COTRANSACTIONAL}:
        return "nothing new"
    return "refused" if contract.kind is Kind.FIRST_SENT else entry.second.removeprefix("a ")


def how_known(entry: Entry, field: str) -> Status | None:
    """How well a field is known; None where the provider says nothing of it."""
    promise = entry.promise(field)
    return None if promise is None else entry.status(promise)


def means(kind: Kind) -> str:
    """What a class promises: the first sentence of its constructor."""
    text = inspect.cleandoc(CONSTRUCTORS[kind].__doc__ or "").partition("\n\n")[0]
    return text.replace("\n", " ").replace("`", "")


def shelf(paper: Paper, entries: Iterable[Entry]) -> RenderableType:
    """One line per provider. The window has a mark where it was not read at the vendor."""
    columns: tuple[str, ...] = ("name", "window", "sent again", "a late copy", "else", "class")
    if paper.terminal and paper.console.width < WIDE:
        columns = columns[:4]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        table.add_column(column, no_wrap=column == "name", overflow="fold", style="bold" if column == "name" else "")
    for entry in entries:
        contract, known = entry.contract(), how_known(entry, "window")
        mark = " *" if known in {Status.EARLIER, Status.REPORTED, Status.UNVERIFIED} else ""
        again = _sent_again(contract)
        otherwise = "-" if again == _ALWAYS else "asked" if contract.lookup is not None else "a person decides"
        row = (entry.name, window(contract) + mark, again, _a_late_copy(entry), otherwise, entry.kind.value)
        table.add_row(*row[: len(columns)])
    legend = "* not on the vendor's page today. `recover contracts show NAME`: every promise, how it is known, what follows."
    return Group(table, Text(), Text(legend, style="dim"), Text(DISCLAIMER, style="dim"))


def provider(paper: Paper, entry: Entry) -> RenderableType:
    """One entry: its promises, how each is known and where from, and what follows from them."""
    contract = entry.contract()
    head = facts(
        [
            ("provider", Text(entry.title, style="bold")),
            ("class", f"{entry.kind.value}: {means(entry.kind)}"),
            ("window", window(contract)),
            ("after a crash", Text(after_a_crash(contract), style="bold")),
            ("one more request", Text(a_copy(entry), style="bold")),
            ("version", f"{entry.version}, digest {words.digest(contract.digest)}"),
        ]
    )
    numbers = {key: number for number, key in enumerate(entry.sources, 1)}
    parts: list[RenderableType] = [
        paper.panel(entry.name, head),
        paper.panel("what it documents", _promised(entry, numbers)),
    ]
    if entry.notes:
        parts.append(paper.panel("what an effect needs to know", _noted(entry, numbers)))
    parts.append(paper.panel("what follows", _followed(consequences(contract)), "yellow"))
    parts.append(paper.panel("what it does not say", Text(_unsaid(contract)), "dim"))
    parts.append(
        paper.panel("where it was read", facts((f"[{numbers[key]}]", _where(source)) for key, source in entry.sources.items()))
    )
    parts.append(Text(DISCLAIMER, style="dim"))
    return Group(*parts)


def _promised(entry: Entry, numbers: Mapping[str, int]) -> RenderableType:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for promise in entry.promises:
        table.add_row(promise.field, shown(promise), Text(promise.says) + _known(entry, promise, numbers))
    return table


def _noted(entry: Entry, numbers: Mapping[str, int]) -> RenderableType:
    return facts(("-", Text(note.says) + _known(entry, note, numbers)) for note in entry.notes)


def _known(entry: Entry, note: Note, numbers: Mapping[str, int]) -> Text:
    status = entry.status(note)
    return Text(f" ({KNOWN[status]} [{numbers[note.source]}])", style="dim" if status is Status.READ else "yellow")


def shown(promise: Promise) -> str:
    """The value of a promise as a person reads it."""
    stated = promise.stated
    if isinstance(stated, timedelta):
        return words.window(microseconds(stated))
    if isinstance(stated, bool):
        return "yes" if stated else "no"
    return str(promise.value).replace("_", " ") if isinstance(stated, StrEnum) else str(promise.value)


def _where(source: Source) -> Text:
    return Text(cited(source)) + Text("" if source.url is None else f"\n{source.url}", style="dim")


def _unsaid(contract: Contract) -> str:
    return ", ".join(name.removesuffix("_us") for name in contract.unstated) + ": as the defaults say"


_HOW: Final[dict[Basis, str]] = {
    Basis.VENDOR: "; read {}",
    Basis.EARLIER: "; read {}",
    Basis.THIRD_PARTY: "; third party, read {}",
    Basis.AS_GIVEN: "; as given in {}",
    Basis.INFERRED: "",
}


def cited(source: Source) -> str:
    """A source on one line."""
    return source.title + _HOW[source.basis].format(source.read)


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
