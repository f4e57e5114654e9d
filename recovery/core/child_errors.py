"""Errors about the children of a run: refused, failed, or not at their end yet.

Owns what a parent says of a child. Each names both runs, and lets the child's own error say what is to be done; see `errors` for the tree.
"""

from __future__ import annotations

from recovery.core.errors import RecoveryError, UsageError
from recovery.core.exitcodes import ExitCode


class ChildRefused(UsageError):
    """A child that cannot be started; its run was not stored."""

    template = "Run {run_id!r}, step {step}: child {child!r} cannot be started, because {problem}. Nothing was started. {advice}"


class ChildFailed(RecoveryError):
    """A child's own recorded failure, raised in its parent wherever its outcome is asked for. `rejection`: a rejection's fields, else None."""

    exit_code = ExitCode.FAILED
    template = (
        "Run {run_id!r}, step {step}: its child {child!r} failed with {error}: {message}. That outcome is final. "
        "Catch this where the parent can go on without it, and look with `recover show {child}`."
    )


class ChildOpen(RecoveryError):
    """A child has no outcome yet, and its parent cannot go on without. `because`: the child's own error, which ends with the next step."""

    exit_code = ExitCode.UNRESOLVED
    template = "Run {run_id!r}, step {step}: it waits for its child {child!r}, which has no outcome yet. Nothing is lost. {because}"


class ChildInDoubt(ChildOpen):
    """A child is in doubt or held: a person must look at the child."""

    exit_code = ExitCode.IN_DOUBT
    template = "Run {run_id!r}, step {step}: it waits for its child {child!r}, which needs a person. {because}"


class ChildDiverged(ChildOpen):
    """A child no longer fits its journal."""

    exit_code = ExitCode.DIVERGED
    template = "Run {run_id!r}, step {step}: it waits for its child {child!r}, which no longer fits its journal. {because}"


class ChildWaits(ChildOpen):
    """A child waits for something that somebody must say to it."""

    exit_code = ExitCode.WAITING
    template = "Run {run_id!r}, step {step}: it waits for its child {child!r}, which waits for a signal. {because}"
