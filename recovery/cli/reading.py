"""`recover runs` and `recover show`: looking, and nothing else.

Owns those two commands. Invariant: they neither create nor migrate a database, and claim nothing.
"""

from __future__ import annotations

from contextlib import closing

from recovery.cli import documents
from recovery.cli.output import Output
from recovery.cli.target import Target
from recovery.core.entries import Status
from recovery.core.errors import ExitCode
from recovery.core.ids import check_run_id
from recovery.operators.informing import info_of
from recovery.ports import RunRow
from recovery.processes import proven_dead
from recovery.storage.kinship import members, parents_of
from recovery.storage.listing import Damaged, listed
from recovery.storage.reading import read


def runs(output: Output, target: Target, *, status: Status | None, limit: int) -> ExitCode:
    """The runs by id. Exit 6 where the row of one cannot be read; the others are shown all the same."""
    with closing(target.journal()) as journal:
        found = listed(journal, statuses=None if status is None else [status], limit=limit + 1)
        shown, more = found[:limit], len(found) > limit
        infos = [info_of(row, proven_dead) for row in shown if isinstance(row, RunRow)]
        parents = parents_of(journal, [info.run_id for info in infos])
    damaged = [one for one in shown if isinstance(one, Damaged)]
    from recovery.console.runs import runs as table

    output.answer(
        lambda: documents.runs(infos, damaged, parents, more=more), lambda _paper: table(infos, damaged, parents, cut=more)
    )
    return ExitCode.CORRUPT if damaged else ExitCode.SETTLED


def show(output: Output, target: Target, run_id: str, *, limit: int) -> ExitCode:
    """One run as a timeline, verified. Raises RunNotFound, JournalCorrupt, IncompatibleVersion."""
    check_run_id(run_id)
    with closing(target.journal()) as journal:
        loaded = read(journal, run_id, values=False)
        info = info_of(loaded.run, proven_dead)
        children = members(journal, loaded.history)
    from recovery.console.show import show as report

    output.answer(
        lambda: documents.history(info, loaded, children), lambda paper: report(paper, info, loaded, children, limit=limit)
    )
    return ExitCode.SETTLED
