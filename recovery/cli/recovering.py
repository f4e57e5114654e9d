"""`recover --run-id`: one run, as far as it can be brought.

Owns the order of that command: find, recover, read again, report. Invariant: what it reports was read from the journal after the
recovery, so it is what everybody else will see.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from recovery.cli import documents
from recovery.cli.output import Output
from recovery.cli.target import Target, finished
from recovery.core.errors import AppNotFound, ExitCode, WorkflowUnknown
from recovery.core.ids import check_run_id
from recovery.core.operations import Sleep
from recovery.core.policy import Budget
from recovery.definitions.recovered import Recovered
from recovery.engine import AsyncEngine
from recovery.ports import RunRow
from recovery.storage.reading import Whole, read

if TYPE_CHECKING:
    from recovery.cli.target import AnyEngine


MAX_WAIT: Final = timedelta(seconds=60)
"""A command ends: where the app's engine would wait for ever, as a worker may, this is how long."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the command may wait, for a run's owner, for named times and, where somebody said how long, for an answer. None: nobody said."""

    max_wait: timedelta | None = None

    def for_times(self, engine: AnyEngine) -> timedelta:
        own = MAX_WAIT if engine.budget.max_wait is None else engine.budget.max_wait
        return own if self.max_wait is None else self.max_wait

    def budget(self, engine: AnyEngine) -> Budget:
        """The engine's, with this patience."""
        answers = engine.budget.max_answer_wait if self.max_wait is None else self.max_wait
        return replace(engine.budget, max_wait=self.for_times(engine), max_answer_wait=answers)

    def for_owner(self, engine: AnyEngine) -> timedelta:
        """Unless somebody said less, long enough for the lease of a silent owner to end."""
        return max(self.for_times(engine), engine.lease.term + timedelta(seconds=5)) if self.max_wait is None else self.max_wait


@dataclass(frozen=True, slots=True)
class Redrive:
    """An order that comes before the recovery: one attempt more."""

    step: str
    by: str
    reason: str


def recover(
    output: Output, target: Target, run_id: str, patience: Patience, *, if_head: str | None = None, redrive: Redrive | None = None
) -> ExitCode:
    """Recover and report. Raises what the engine raises: RunNotFound, LeaseUnavailable, JournalCorrupt, HeadMoved, NotLicensed, ..."""
    check_run_id(run_id)
    engine = target.engine()
    try:
        before = engine.journal.find(run_id)
        with progress(output) as tell:
            if redrive is not None:
                budget = patience.budget(engine)
                what: Recovered[Any] = finished(
                    engine.redrive(run_id, redrive.step, by=redrive.by, reason=redrive.reason, budget=budget)
                )
            else:
                what = _recovered(target, engine, run_id, patience, tell, if_head)
        loaded = read(engine.journal, run_id)
        info, appended = engine.info(loaded.run), appended_since(engine, before, loaded)
    finally:
        engine.flush()
    from recovery.console import report

    output.answer(
        lambda: documents.recovered(info, loaded, what, appended=appended),
        lambda paper: report.recovered(
            paper, loaded, what, appended=appended, was_settled=before is not None and before.status.settled
        ),
    )
    return what.exit_code


def appended_since(engine: AnyEngine, before: RunRow | None, loaded: Whole) -> int:
    """How many entries are this call's own: those of the epoch that it claimed, if it claimed one."""
    run = loaded.run
    us = engine.identify("")
    ours = run.owner is None or replace(run.owner, token="") == us
    if not ours or (before is not None and before.epoch == run.epoch):
        return 0
    return sum(row.epoch == run.epoch for row in loaded.rows)


def _recovered(
    target: Target, engine: AnyEngine, run_id: str, patience: Patience, tell: Any, if_head: str | None
) -> Recovered[Any]:
    budget, owner_wait = patience.budget(engine), patience.for_owner(engine)
    try:
        if isinstance(engine, AsyncEngine):
            return asyncio.run(engine.recover(run_id, wait_for_owner=owner_wait, budget=budget, progress=tell, if_head=if_head))
        return engine.recover(run_id, wait_for_owner=owner_wait, budget=budget, progress=tell, if_head=if_head)
    except WorkflowUnknown as error:
        if target.app is not None:
            raise
        raise AppNotFound(
            problem=f"Run {run_id!r} is not settled, and recovering it needs the app that has its workflow {error.workflow!r}",
            advice="Name it with --app module:engine, RECOVERY_APP or [tool.recovery] in pyproject.toml; "
            "`recover show` and --plan work without one.",
        ) from error


@contextmanager
def progress(output: Output) -> Iterator[Any]:
    """Tells on stderr what is waited for: one moving line on a terminal, one line for each new reason in a pipe."""
    if not sys.stderr.isatty():
        told: set[str] = set()

        def say(sleep: Sleep, seconds: float) -> None:  # noqa: ARG001  # a line that is printed once says no time
            if sleep.why not in told:
                told.add(sleep.why)
                output.say(f"{sleep.why} ...")

        yield say
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("recovering", total=None)
        yield lambda sleep, seconds: bar.update(task, description=sleep.why)  # noqa: ARG005  # the elapsed time is shown
