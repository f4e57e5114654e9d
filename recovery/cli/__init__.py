"""The command line: `recover`, also `python -m recovery`.

Owns arguments, the choice of database and app, exit codes and which stream says what. Invariant: stdout holds the answer and nothing
else (with --json one document), stderr everything that is said on the way.
"""

from recovery.cli import (  # noqa: F401  # they add their commands
    checking,
    checkpoint,
    checkpoint_stores,
    commands,
    controlling,
    exploring,
    operating,
    queueing,
    scheduling,
    shipped,
    speaking,
    undoing,
    versioning,
)
from recovery.cli.common import app
from recovery.cli.program import assembled, main

__all__ = ["app", "assembled", "main"]
