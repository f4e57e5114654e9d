"""Errors about what is encrypted: a key that is not here, and one that does not open what it should.

Owns their branch of the tree; see `errors` for the tree, and for what every error says. Invariant: none of them holds a key, or anything that was encrypted.
"""

from __future__ import annotations

from recovery.core.errors import JournalError
from recovery.core.exitcodes import ExitCode


class EncryptionKeyMissing(JournalError):
    """Statuses and timelines can be seen without it: `recover runs`, `recover show`."""

    exit_code = ExitCode.USAGE
    template = (
        "What is stored there is encrypted under the key {key!r}, which is not here (here: {known}). Nothing was sent or changed. "
        "Give the engine that key, too: `encryption=` of the engine, or RECOVERY_KEYS for commands without an app."
    )


class EncryptionKeyWrong(JournalError):
    exit_code = ExitCode.USAGE
    template = (
        "The key {key!r} does not open what was sealed under that id: it is another key, or what is stored was moved or changed. "
        "Nothing was sent, and no entry was written. Give the engine the key that had this id."
    )
