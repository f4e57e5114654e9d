"""The list of queues. Owns its columns and wording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from recovery.console import words
from recovery.core.contracts import microseconds
from recovery.core.instants import moment
from recovery.core.limits import Queue
from recovery.ports import Standing


def queues(found: Sequence[Standing], limits: Mapping[str, Queue], now_us: int, *, limits_known: bool) -> RenderableType:
    """One line each. limits_known: without the app nobody knows any."""
    if not found:
        return Text("no queues: no run can go on")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    rates = any(limit.rate is not None for limit in limits.values())
    numbers = {"at work", "due", "later"}
    for column in ("queue", *(["rate"] if rates else []), "at work", "later", "next due (UTC)", "due", "first due"):
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for each in found:
        limit = limits.get(each.queue)
        table.add_row(
            words.bounded(each.queue) or '""',
            *([_rate(limit)] if rates else []),
            _at_work(each, limit),
            f"{each.later:,}",
            "" if each.next_due_us is None else moment(each.next_due_us).strftime("%Y-%m-%d %H:%M:%S"),
            f"{each.due:,}",
            "" if each.due_since_us is None else f"{words.duration(max(0, now_us - each.due_since_us))} ago",
        )
    unknown = [] if limits_known else [Text("limits are the app's: name it with --app module:engine", style="dim")]
    return Group(table, *unknown)


def _at_work(standing: Standing, limit: Queue | None) -> Text:
    if limit is None or limit.concurrency is None:
        return Text(f"{standing.at_work:,}")
    full = standing.at_work >= limit.concurrency and standing.due > 0
    return Text(f"{standing.at_work:,} of {limit.concurrency:,}", style="yellow" if full else "")


def _rate(limit: Queue | None) -> str:
    return "" if limit is None or limit.rate is None else f"{limit.rate.count:,} in {words.duration(microseconds(limit.rate.per))}"
