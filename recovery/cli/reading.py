"""`recover runs` and `recover show`: looking, and nothing else.

Owns those two commands. Invariant: they neither create nor migrate a database, and claim nothing.
"""

from __future__ import annotations

from recovery.cli import documents
from recovery.cli.output import Output
from recovery.cli.target import Target
from recovery.core.entries import Status
from recovery.core.errors import ExitCode
from recovery.core.ids import check_run_id
from recovery.engine import Engine
from recovery.storage.reading import read


def runs(output: Output, target: Target, *, status: Status | None, limit: int) -> ExitCode:
    """The runs by id."""
    with Engine(target.journal()) as engine:
        found = engine.list(status=status, limit=limit + 1)
    infos, more = found[:limit], len(found) > limit
    from recovery.console.runs import runs as table

    output.answer(lambda: documents.runs(infos, more=more), lambda _paper: table(infos, cut=more))
    return ExitCode.SETTLED


def show(output: Output, target: Target, run_id: str, *, limit: int) -> ExitCode:
    """One run as a timeline, verified. Raises RunNotFound, JournalCorrupt, IncompatibleVersion."""
    check_run_id(run_id)
    with Engine(target.journal()) as engine:
        loaded = read(engine.journal, run_id)
        info = engine.info(loaded.run)
    from recovery.console.show import show as report

    output.answer(lambda: documents.history(info, loaded), lambda paper: report(paper, info, loaded, limit=limit))
    return ExitCode.SETTLED
