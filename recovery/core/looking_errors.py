"""Errors of who looks at a run that has no outcome yet, and does nothing about it: one for each way in which it stands.

Owns their places in the tree, and that each has the exit code with which recovering that run would end; see `errors` for the tree.
"""

from __future__ import annotations

from recovery.core.errors import RunUnsettled
from recovery.core.exitcodes import ExitCode


class RunInDoubt(RunUnsettled):
    exit_code = ExitCode.IN_DOUBT
    template = "Run {run_id!r} is in doubt{reason}: an effect of it may have happened. Nothing was changed. See what is known with `recover show {run_id}`."


class RunDiverged(RunUnsettled):
    exit_code = ExitCode.DIVERGED
    template = (
        "Run {run_id!r} no longer fits its journal{reason}. Nothing was changed. Continue it with the code that it started with."
    )


class RunWaits(RunUnsettled):
    """The run goes on once somebody has said something to it, or to a child of it."""

    exit_code = ExitCode.WAITING
    template = (
        "Run {run_id!r} waits for what somebody must say{reason}. Nothing was changed. "
        "`recover waits` shows what is asked; say it with `recover signal`, then continue with `recover --run-id {run_id}`."
    )
