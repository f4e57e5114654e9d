"""Recorded journals as tests: replayed against today's code, without any effect.

Owns how a test names the journals that it means. What a replay compares is `recovery.operators.fitting`'s. Invariant: the journals are only
read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

from recovery.clocks import SystemClock
from recovery.core.errors import WorkflowUnknown
from recovery.definitions.registry import Registry, Workflows
from recovery.definitions.workflow import Workflow
from recovery.drivers.asking import Surroundings
from recovery.drivers.asynchronous import AsyncDriver
from recovery.drivers.sync import SyncDriver, finish
from recovery.operators.fitting import Fit, fit
from recovery.ports import Journal
from recovery.storage.committing import Committer
from recovery.storage.exported import imported, imported_file
from recovery.storage.memory import MemoryJournal
from recovery.storage.reading import Whole, read

Recorded: TypeAlias = Path | str | Journal
"""Where recorded runs are: a file that `recover export` wrote or a directory of such, the text of one, or a journal."""


def replay_journal(
    workflow: Workflow[..., Any] | Iterable[Workflow[..., Any]], recorded: Recorded, *, run_id: str | None = None
) -> list[Fit]:
    """Replay recorded runs against today's code, settled ones too: each is compared step by step, and nothing is decided or sent.

    workflow: one, or versions and other workflows side by side; a run is replayed by its own version where that is among them.
    recorded: a file or directory of files (`*.journal`) that `recover export` wrote, the text of one, or a journal.
    run_id: only this run; else all there are. Call `check()` on what comes back to have a misfit raised.
    Raises WorkflowUnknown for a run whose workflow is not given, SchemaMismatch, JournalCorrupt and RunNotFound.
    """
    workflows = Registry(workflows=[workflow] if isinstance(workflow, Workflow) else workflow).workflows
    return [_fit(namespace, loaded, workflows) for namespace, loaded in _runs(recorded, run_id)]


def _runs(recorded: Recorded, run_id: str | None) -> Sequence[tuple[str, Whole]]:
    if isinstance(recorded, Path):
        files = sorted(recorded.rglob("*.journal")) if recorded.is_dir() else [recorded]
        return _only([imported_file(path) for path in files], run_id)
    if isinstance(recorded, str):
        return _only([imported(recorded, where="the given text")], run_id)
    ids = [run_id] if run_id is not None else [row.run_id for row in recorded.runs(limit=10**6)]
    return [(recorded.namespace(), read(recorded, one)) for one in ids]


def _only(runs: list[tuple[str, Whole]], run_id: str | None) -> list[tuple[str, Whole]]:
    return [one for one in runs if run_id in {None, one[1].run.run_id}]


def _fit(namespace: str, loaded: Whole, workflows: Workflows) -> Fit:
    workflow = workflows.of(loaded.run.workflow, loaded.history.version)
    if workflow is None:
        raise WorkflowUnknown(run_id=loaded.run.run_id, workflow=loaded.run.workflow, known=", ".join(sorted(workflows)) or "none")
    journal = MemoryJournal(namespace)
    surroundings = Surroundings(journal, SystemClock(), Committer(journal))
    if workflow.is_async:
        return _awaited(AsyncDriver(surroundings).drive(fit(loaded, workflow)))
    return finish(SyncDriver(surroundings).drive(fit(loaded, workflow)))


def _awaited(fitting: Coroutine[Any, Any, Fit]) -> Fit:
    """In a loop of its own: in another thread where the test itself is an `async def`."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(fitting)
    with ThreadPoolExecutor(max_workers=1) as aside:
        return aside.submit(asyncio.run, fitting).result()
