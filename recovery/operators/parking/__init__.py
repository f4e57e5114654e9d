"""Parking: one page for each reason to park, for whoever is woken by one.

Owns the form of a page and its text as Markdown; the words are the YAML files beside it, so that they are there without the documentation.
Knows no run. Invariants: each reason to park or to hold has a page and each page a reason; what a page says about the table (its row, which orders are
open, where an answer leads) is compared with the table by the tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from recovery.core.errors import InvalidName
from recovery.core.reasons import PARKED, HoldReason, Parked, ParkingReason
from recovery.core.rows import Row
from recovery.core.verdicts import ROWS

Text = Annotated[str, StringConstraints(min_length=1, max_length=600)]
Texts = Annotated[tuple[Text, ...], Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Open(StrEnum):
    """Whether an order may be given about a step that is parked for this reason."""

    OPEN = "open"  # it may
    DEPENDS = "depends"  # it may where the effect, or what is spent, allows it
    REFUSED = "refused"  # it is refused, always


class If(StrEnum):
    """Something that could happen to a parked step."""

    COUNTS = "counts"
    LAPSED = "lapsed"
    LATE_FOUND = "late-found"
    LATE_REFUSED = "late-refused"
    PROBE_ABSENT = "probe-absent"
    RELEASED = "released"
    SCOPE_RESTORED = "scope-restored"
    REDRIVEN = "redriven"


_HAPPENS = {
    If.COUNTS: "the time comes from which an answer of the look-up counts, and the last one was given before it",
    If.LAPSED: "nobody wants it any more (`valid_for` is over)",
    If.LATE_FOUND: "a receipt becomes known (a late reply, a webhook told with `engine.observe`)",
    If.LATE_REFUSED: "a late reply says that it was refused",
    If.PROBE_ABSENT: "a probe answers that nothing is there",
    If.RELEASED: "it is released",
    If.SCOPE_RESTORED: "the old scope is back",
    If.REDRIVEN: "it is redriven",
}


class Order(_Strict):
    """One verb: whether it is open, and why."""

    is_: Open = Field(alias="is")
    because: Text


class Orders(_Strict):
    """The verbs of operators about a parked step."""

    probe: Order
    redrive: Order
    resolve: Order
    close: Order
    release: Order


_COMMANDS = {
    "probe": "recover probe {run} {step}",
    "redrive": "recover redrive {run} {step} --by WHO --reason TEXT",
    "resolve": "recover resolve {run} {step} (--applied --value JSON | --not-executed) --by WHO --reason TEXT --evidence FILE-or-TEXT",
    "close": "recover close {run} {step} --by WHO --reason TEXT",
    "release": "recover release {run} --by WHO --reason TEXT",
}


def commands(reason: Parked, run_id: str, step: str) -> tuple[str, ...]:
    """The orders that may be given about such a step, as they are typed; those first that need nothing else to be so."""
    said = [(verb, getattr(page_of(reason).orders, verb).is_) for verb in Orders.model_fields]
    return tuple(
        _COMMANDS[verb].format(run=run_id, step=step) for is_ in (Open.OPEN, Open.DEPENDS) for verb, each in said if each is is_
    )


class Change(_Strict):
    """Where something leads, by the name of the row."""

    if_: If = Field(alias="if")
    row: str
    then: Text


class Avoidance(_Strict):
    """What leaves fewer of these. `with_`: a field of the contract or the budget, a probe or a close, or a practice."""

    with_: str = Field(alias="with")
    how: Text


class Counterexample(_Strict):
    """Why a cleverer verdict would break: the idea, step by step, to its end."""

    idea: Text
    story: Texts
    ends: Text


class Page(_Strict):
    """What an operator must know about one reason."""

    title: Text
    tonight: Text
    leads: Texts
    known: Texts
    unknown: Texts
    cleverer: Counterexample
    look: Texts
    orders: Orders
    changes: Annotated[tuple[Change, ...], Field(min_length=1)]
    avoid: Annotated[tuple[Avoidance, ...], Field(min_length=1)]


def reason_of(name: str) -> Parked:
    """The reason of this name. Raises InvalidName, which names those that there are."""
    found = next((reason for reason in PARKED if reason.value == name), None)
    if found is None:
        raise InvalidName(what="reason", name=name, rule=f"one of: {', '.join(PARKED)}")
    return found


@cache
def page_of(reason: Parked) -> Page:
    """The page about a reason."""
    text = (files(__name__) / f"{reason.value}.yaml").read_text(encoding="utf-8")
    return Page.model_validate(yaml.safe_load(text))


def row_of(reason: Parked) -> Row:
    """The one row that parks for this reason; of a reason to hold a run, the one by which its steps are parked."""
    parks = ParkingReason.HELD if isinstance(reason, HoldReason) else reason
    return next(row for row in ROWS if row.parking is parks)


# -- as Markdown -------------------------------------------------------------------------------------------------------


def markdown(reason: Parked) -> str:
    """The page as text: what to do first, the reasons after it."""
    page, row = page_of(reason), row_of(reason)
    held = row.parking is ParkingReason.HELD
    assumed = f" It assumes {', '.join(row.assumes)}." if row.assumes else ""
    sections: list[tuple[str, Iterable[str]]] = [
        ("What to do", [*_numbered(page.look), "", _NEVER]),
        ("What is known", _listed(page.known)),
        ("What is not known", _listed(page.unknown)),
        ("Which crashes lead here", _listed(page.leads)),
        ("Why it does not decide by itself", [row.paragraph, "", *_counterexample(page.cleverer)]),
        ("What can be ordered", _orders(page.orders)),
        ("What would change it", [*_changes(page), "", _NO_TIME]),
        ("How to have fewer of these", _listed(f"{_named(one.with_)}: {one.how}" for one in page.avoid)),
    ]
    lines = [
        f"# {reason.value}: {page.title[0].lower()}{page.title[1:]}",
        "",
        page.tonight,
        "",
        f"Row {row.number}, `{row.name}`: {row.condition}.{assumed} The run is `{'held' if held else 'in_doubt'}` and its recovery ends with exit code 3.",
    ]
    for title, body in sections:
        lines += ["", f"## {title}", "", *body]
    return "\n".join(lines)


_NEVER = "Do not start the same work under another run id before you know: that is a new effect with a new key."
_NO_TIME = "Nothing else that time brings: a parked step waits until somebody brings something."


def _listed(texts: Iterable[str]) -> list[str]:
    return [f"- {text}" for text in texts]


def _numbered(texts: Iterable[str]) -> list[str]:
    return [f"{number}. {text}" for number, text in enumerate(texts, start=1)]


def _counterexample(of: Counterexample) -> list[str]:
    return [f"A cleverer verdict would be: *{of.idea}* Then this breaks it:", "", *_numbered((*of.story, of.ends))]


def _orders(orders: Orders) -> list[str]:
    told: list[tuple[str, Order]] = [(name, getattr(orders, name)) for name in Orders.model_fields]
    return [f"- `{name}` {_WORDS[order.is_]}: {order.because}" for name, order in told]


_WORDS = {Open.OPEN: "is open", Open.DEPENDS: "may be open", Open.REFUSED: "is refused"}


def _changes(page: Page) -> list[str]:
    return [f"- If {_HAPPENS[change.if_]}, row `{change.row}`: {change.then}" for change in page.changes]


def _named(field: str) -> str:
    return "Practice" if field == "practice" else f"`{field}`"


def summary(reason: Parked) -> dict[str, Any]:
    """One line of an index, as data."""
    page, row = page_of(reason), row_of(reason)
    return {"reason": reason.value, "row": row.name, "number": row.number, "title": page.title, "page": reason.page}
