"""Names: what makes the names in a directory durable.

Owns the one sync of a directory that a journal needs. Must not know databases. Invariant: a refusal is raised, and never believed to have been a success: SQLite itself
does not look at what the sync of its log's name came to.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from recovery.syncing import sync


def sync_names(directory: Path) -> None:
    """The names in it are durable on return. Where it may not be read, or is no thing that can be opened (Windows), nothing is done: SQLite does no more. Raises OSError."""
    if os.name == "nt":
        return
    with suppress(PermissionError):
        opened = os.open(directory, os.O_RDONLY)
        try:
            sync(opened)
        finally:
            os.close(opened)
