"""Errors that stand for what a person has ordered: of a run that nobody wants any more, that is to rest, or that must not do again what was done.

Owns their places in the tree; see `errors` for the tree, and for what every error says.
"""

from __future__ import annotations

from typing import Any

from recovery.core.effect_errors import EffectError
from recovery.core.errors import RecoveryError, RunHeld
from recovery.core.exitcodes import ExitCode


class RunCancelled(RecoveryError):
    """Somebody cancelled the run: its outcome, final, once everything that it had begun is settled."""

    exit_code = ExitCode.FAILED
    template = (
        "Run {run_id!r} was cancelled by {by}{why}. Nothing new was begun after that; what it had done before stays done. "
        "See what that is with `recover show {run_id}`."
    )

    def __init__(self, *, run_id: str, by: str, reason: str = "", **fields: Any) -> None:
        why = fields.pop("why", f": {reason}" if reason else "")
        super().__init__(run_id=run_id, by=by, reason=reason, why=why, **fields)


class RunPaused(RunHeld):
    """Somebody paused the run. What was under way then is settled or recorded as far as it was known."""

    template = (
        "Run {run_id!r} is paused ({reason}). Nothing new is begun, and nothing is lost. "
        "Let it go on with `recover resume {run_id}`, then `recover --run-id {run_id}`."
    )


class EffectForbidden(EffectError):
    """A fork, or a new generation, came to an effect that was done before it and that nobody has allowed it to repeat."""

    exit_code = ExitCode.FAILED
    template = (
        "Run {run_id!r}, step {step}: {effect} belongs to step {of_step} of run {of_run!r}, which sent it with key {key!r}, and it is not to be "
        "done again. Nothing was sent. Look at it with `recover show {of_run}`; to do it all the same, fork it with `recover fork --new-key STEP=REASON`."
    )
