"""Foreseeing: what would be done about each of many runs.

Owns how many of them are read in one go. Knows neither which runs there are nor what is said of them. Invariant: nothing is claimed, appended or sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from recovery.claims import short_ones
from recovery.operators import planning
from recovery.operators.planning import Beforehand, Plan
from recovery.ports import RunRow

if TYPE_CHECKING:
    from recovery.engine.operating import AsyncOperating, SyncOperating

TOGETHER: Final = 64
"""Runs that are read in one go."""


class Foreseen(NamedTuple):
    """What one run is about to do: `plan()` makes it, or raises."""

    row: RunRow
    plan: Callable[[], Plan]


def foreseen(engine: SyncOperating | AsyncOperating, rows: Iterator[RunRow], *, probe: bool) -> Iterator[Foreseen]:
    """The plan of each of these runs, in their order. probe: ask read-only questions."""
    world, journal = engine.world(), engine.opened()
    with asyncio.Runner() as runner:  # all of them on one event loop

        def made(row: RunRow, before: Beforehand | None) -> Plan:
            came: Any = engine._operate(row.run_id, planning.plan(world, row.run_id, probe=probe, beforehand=before))  # noqa: SLF001  # whichever its colour
            return runner.run(came) if asyncio.iscoroutine(came) else came  # type: ignore[no-any-return]  # a plan

        while chunk := list(islice(rows, TOGETHER)):
            read = short_ones(journal, chunk)
            holds = frozenset(hold.subject for hold in journal.holds())
            for row in chunk:
                before = Beforehand(read[row.run_id][0], holds) if row.run_id in read else None
                yield Foreseen(row, partial(made, row, before))
