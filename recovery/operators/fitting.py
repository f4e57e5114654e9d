"""Fitting: whether a recorded run still fits the code, found out by replaying all of it and doing nothing.

Owns the replay of a whole journal against a workflow, of settled runs too. Invariants: no operation but the clock's is carried out, so
nothing is decided, sent, asked, appended or waited for, whatever the code has become; and a run that fits here does not diverge at any entry
that it has.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from recovery.claims import World, existing
from recovery.core.entries import PATCHED, PUBLISHED, OutcomeKind, Status
from recovery.core.errors import ExitCode, RecoveryError, ReplayError, RunForgotten, RunUnsettled, UsageError
from recovery.core.ids import ROOT, Epoch, branch_of, check_run_id, step_id
from recovery.core.machine import Unwind
from recovery.core.operations import Execute, Now, Raised, Returned, Use
from recovery.core.policy import Budget
from recovery.definitions.workflow import Workflow
from recovery.operators.rehearsal import Rehearsal
from recovery.ports import Journal, RunRow
from recovery.storage.listing import Damaged, listed
from recovery.storage.reading import Loaded, read

PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One run beside the code that would go on with it. version: what the run started with; against: what was replayed.

    error: why it does not fit: Diverged and ValueUnreadable name the first entry. None: it fits. then: what would follow behind the last
    entry. same_outcome: whether a settled run came to its recorded outcome again; None where it has none, or was not replayed to its end.
    """

    run_id: str
    workflow: str
    version: str
    against: str
    status: Status
    then: str = ""
    same_outcome: bool | None = None
    error: RecoveryError | None = None

    @property
    def fits(self) -> bool:
        """Whether the code would go on with it."""
        return self.error is None

    def check(self) -> None:
        """Raises what speaks against it."""
        if self.error is not None:
            raise self.error


@dataclass(slots=True)
class Checked:
    """Recorded runs beside the code. unknown: runs whose workflow is not here, by run id; broken: runs that cannot be read, and why."""

    fits: list[Fit] = field(default_factory=list)
    unknown: dict[str, str] = field(default_factory=dict)
    broken: dict[str, RecoveryError | str] = field(default_factory=dict)

    @property
    def misfits(self) -> list[Fit]:
        """Those that do not fit."""
        return [fit for fit in self.fits if not fit.fits]

    @property
    def exit_code(self) -> ExitCode:
        """5 where a run does not fit, 6 where one cannot be read, else 0."""
        codes = [ExitCode.DIVERGED for _ in self.misfits]
        codes += [ExitCode.CORRUPT if isinstance(why, str) else why.exit_code for why in self.broken.values()]
        return ExitCode.worst(codes)


_UNASKED = frozenset({PATCHED, PUBLISHED})
"""Notes that have no place among the steps: a replay may make one that was not made."""


@dataclass(slots=True)
class Fitting(Rehearsal):
    """A machine that goes on in every branch as far as its record goes. came_to: how the run was settled; None: it is open."""

    came_to: OutcomeKind | None = field(default=None, kw_only=True)

    def patched(self, name: str, branch: str = ROOT) -> bool:
        """A run that has ended without having been asked went by the code as it was."""
        if self.came_to is not None and step_id(PATCHED, name, 1) not in self.history.steps:
            return False
        return Rehearsal.patched(self, name, branch)

    def _stop(self, step: str) -> Unwind:
        """Only this branch goes no further, unless the run has come to its end without what the code asks for here.

        A run that failed may have done so in a step that left no entry."""
        if self.came_to is OutcomeKind.APPLIED:
            return self.diverge(step, "the end of the run", f"step {step}")
        return self.stop(RunUnsettled(run_id=self.history.run_id, status="replayed", reason=""), branch_of(step))

    def _rests(self, step: str) -> Unwind:
        return self._stop(step)

    def misses(self) -> bool:
        """Whether the code noted of itself what a run that has ended did not."""
        return self.came_to is OutcomeKind.APPLIED and any(entry.form not in _UNASKED for entry in self.unsaid(1))


async def fit(loaded: Loaded, workflow: Workflow[..., Any]) -> Fit:
    """Replay one run against a workflow. Raises nothing about the run: that is in the answer."""
    history, ended = loaded.history, loaded.history.ended
    machine = Fitting(
        history=history,
        epoch=max(loaded.run.epoch, Epoch(loaded.incarnation, 1)),
        budget=Budget(),
        deadline_us=await Now(),
        contracts=dict(loaded.contracts),
        same_bytes=loaded.history.version == workflow.version,
        came_to=None if ended is None else ended.outcome,
    )
    came, error = await _replayed(workflow, loaded, machine)
    same = None
    if error is None and machine.came_to is OutcomeKind.APPLIED and machine.mail.waits:
        step = next(iter(machine.mail.waits))
        error = machine.diverge(step, "the end of the run", f"step {step}").error
    if error is None and ended is not None and came is not None:
        same = _same(workflow, came, loaded)
        if isinstance(came, Raised) and ended.outcome is OutcomeKind.APPLIED:
            error = machine.diverge(ROOT, "a run that returned", f"one that fails with {type(came.error).__name__}").error
        elif isinstance(came, Returned) and ended.outcome is not OutcomeKind.APPLIED:
            error = machine.diverge(ROOT, f"a run that failed with {ended.error}", "one that returns").error
    return Fit(
        run_id=loaded.run.run_id,
        workflow=workflow.name,
        version=loaded.history.version,
        against=workflow.version,
        status=loaded.run.status,
        then=(machine.then or machine.waits()) if ended is None and error is None else "",
        same_outcome=same,
        error=error,
    )


async def _replayed(
    workflow: Workflow[..., Any], loaded: Loaded, machine: Fitting
) -> tuple[Returned | Raised | None, RecoveryError | None]:
    """What the code came to, None where it was stopped on its way; and what does not fit."""
    came = None
    try:
        came = await Execute(workflow, loaded.opened.input, machine, None)
        if isinstance(came, Raised) and isinstance(came.error, ReplayError | UsageError):
            return None, came.error
        if machine.stopped is None:
            machine.then = _then(came)
            machine.check_complete()
            if machine.misses():
                raise machine.diverge(ROOT, "the end of the run", "branches or an undoing that it did not have")
    except Unwind:
        pass
    except BaseExceptionGroup:  # a TaskGroup wraps the Unwind; others are raised again
        if machine.stopped is None:
            raise
    stopped = machine.stopped
    if stopped is None:
        return came, None
    return None, stopped.error if isinstance(stopped.error, ReplayError | UsageError) else None


def _then(came: Returned | Raised) -> str:
    return f"fails with {type(came.error).__name__}" if isinstance(came, Raised) else "returns"


def _same(workflow: Workflow[..., Any], came: Returned | Raised, loaded: Loaded) -> bool:
    ended = loaded.history.ended
    assert ended is not None
    if isinstance(came, Raised):
        return workflow.encode_failure(came.error).error == ended.error
    return bool(workflow.encode_result(came.value) == ended.value)


async def check(world: World, run_id: str | None, *, settled: bool = False, version: str | None = None) -> Checked:
    """Replay one run, or all that are open. settled: those that have ended, too. version: against this version of their workflows instead of
    the one that would go on with them. Raises RunNotFound."""
    found = Checked()
    if run_id is not None:
        await existing(check_run_id(run_id))
        await _check_one(world, run_id, version, found)
        return found
    async for row in pages(None if settled else [status for status in Status if not status.settled]):
        if isinstance(row, Damaged):
            found.broken[row.run_id] = row.problem
        else:
            await _check_one(world, row.run_id, version, found)
    return found


async def pages(statuses: list[Status] | None) -> AsyncIterator[RunRow | Damaged]:
    """All runs of these statuses, by id, read in pages."""
    after = ""
    while True:
        page = await Use(_page(after, statuses))
        for row in page:
            yield row
        if len(page) < PAGE:
            return
        after = page[-1].run_id


def _page(after: str, statuses: list[Status] | None) -> Callable[[Journal], list[RunRow | Damaged]]:
    return lambda journal: listed(journal, limit=PAGE, after=after, statuses=statuses)


async def _check_one(world: World, run_id: str, version: str | None, found: Checked) -> None:
    try:
        loaded = await Use(_reading(run_id))
    except RunForgotten:
        return  # nothing is left to replay, and that is on purpose
    except RecoveryError as error:
        found.broken[run_id] = error
        return
    workflow = world.workflows.of(loaded.run.workflow, version or loaded.history.version)
    if workflow is None or (version is not None and workflow.version != version):
        found.unknown[run_id] = f"{loaded.run.workflow} version {version or loaded.history.version}"
        return
    found.fits.append(await fit(loaded, workflow))


def _reading(run_id: str) -> Callable[[Journal], Loaded]:
    def reading(journal: Journal) -> Loaded:
        return read(journal, run_id)

    return reading
