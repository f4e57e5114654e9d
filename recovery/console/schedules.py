"""The list of schedules. Owns its columns and wording."""

from __future__ import annotations

from collections.abc import Container, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from recovery.console import words
from recovery.core.instants import moment
from recovery.definitions.schedule import Schedule
from recovery.ports import Scheduled


def schedules(rows: Sequence[Scheduled], unknown: Sequence[Schedule], stored: Container[str] | None = None) -> RenderableType:
    """One line each. unknown: those that are defined, and that no worker has brought up. stored: the last runs that are there, None: nobody has looked. A tick is said before its run
    is stored, and who looks in between would not find it."""
    if not rows and not unknown:
        return Text("no schedules")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("schedule", "cron", "zone", "next tick (UTC)", "last run"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(
            words.bounded(row.name),
            words.bounded(row.cron),
            words.bounded(row.timezone),
            _next(row),
            _last(row, stored),
        )
    for made in unknown:
        waits = Text("no worker has brought it up", style="yellow")
        table.add_row(words.bounded(made.name), words.bounded(made.cron), words.bounded(made.timezone), waits, Text())
    return table


def _last(row: Scheduled, stored: Container[str] | None) -> Text:
    if not row.last_run:
        return Text("none yet", style="dim")
    last = Text(words.bounded(row.last_run))
    return last if stored is None or row.last_run in stored else last.append(", not stored yet", style="yellow")


def _next(row: Scheduled) -> Text:
    if row.paused:
        return Text(f"paused by {words.bounded(row.by)}: {words.bounded(row.reason)}", style="yellow")
    return Text("never" if row.next_us is None else moment(row.next_us).strftime("%Y-%m-%d %H:%M:%S"))
