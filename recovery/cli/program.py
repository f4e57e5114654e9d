"""The program: its streams, and the commands that it is assembled of.

Owns what happens before any argument is read. Knows no command. Invariant: whatever its surroundings closed, the answer goes to no other file.
"""

from __future__ import annotations

import gc
import os
import sys
from copy import copy
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final

import typer

from recovery import crashpoints as _crashpoints  # noqa: F401  # a wrong RECOVERY_CRASH_AT ends here, before any command
from recovery.cli.common import app

GARBAGE: Final = 50_000
"""Objects that are made before Python searches for cyclic garbage among them; 700 by default. What a command imports is some tens of thousands, none of them garbage, and
searching through those took a seventh of its time."""


def main() -> None:
    """The console script."""
    gc.set_threshold(GARBAGE)
    _fill_streams()
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that cannot show a letter still shows the rest
    assembled(sys.argv[1] if len(sys.argv) > 1 else "")(prog_name="recover")


@cache
def assembled(asked: str = "") -> Any:
    """All commands, as one that can be called; of a command or group that is asked for by its name, that alone: assembling all of them takes longer than most
    of them do. `Any`: see Commands."""
    wanted = copy(app)
    commands = [each for each in app.registered_commands if each.callback is not None and asked == _name_of(each)]
    groups = [each for each in app.registered_groups if asked == each.name]
    if commands or groups:
        wanted.registered_commands, wanted.registered_groups = commands, groups
    elif asked:
        return assembled()
    return typer.main.get_command(wanted)


def _name_of(command: Any) -> str:
    return command.name or typer.main.get_command_name(command.callback.__name__)


def _fill_streams() -> None:
    """A process may be started without its standard streams. Their numbers must not go to a database file, nor what is said to nobody's
    `None`."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  # for as long as the process lives
