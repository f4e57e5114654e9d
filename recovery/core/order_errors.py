"""Errors that stand for what a person has ordered: a run that nobody wants any more, and one that is to rest.

Owns their branch of the tree; see `errors` for the tree, and for what every error says.
"""

from __future__ import annotations

from typing import Any

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
