"""Host errors: what the operating system refuses this process, whatever run it is for.

Owns their branch of the tree; see `errors` for the tree, and for what every error says.
"""

from __future__ import annotations

from recovery.core.errors import RecoveryError
from recovery.core.exitcodes import ExitCode


class ThreadUnavailable(RecoveryError):
    """The operating system, or a limit that it was given, lets this process begin no thread more. What a run has begun stays open."""

    exit_code = ExitCode.UNRESOLVED
    template = (
        "This process can begin no thread more ({problem}). Nothing more was sent or written; what was sent before that is in the journal, and is asked "
        "about and not repeated. Let other threads or processes end, or raise their limit, then run the same command again."
    )
