"""The warm parent: a process that has imported what our programs import, and forks one of them per request.

Owns what makes a forked child like a fresh interpreter: its streams, environment, directory, arguments, path and `__main__`, the one module
that reads the environment when it is imported, and the interpreter's own end. Knows no test. Invariant: the parent runs no program and opens
no database, so that each child begins with the same imports and nothing else.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import runpy
import socket
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO, cast

IMPORTED = (
    "recovery.cli.checkpoint_stores",
    "recovery.cli.documents",
    "recovery.cli.migrating",
    "recovery.cli.ordering",
    "recovery.cli.planning",
    "recovery.cli.reading",
    "recovery.cli.recovering",
    "recovery.cli.replaying",
    "recovery.cli.restoring",
    "recovery.console.show",
    "recovery.storage.postgres",
    "recovery.storage.sqlite",
    "alembic.command",
    "httpx",
    "psycopg",
    "rich.progress",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
)
"""What most programs import sooner or later. None of it reads the environment when it is imported, but for the crash points."""

ROOM = 1 << 20
"""Bytes that a request may have: more than any environment here."""


def main() -> None:
    """Serve the requests that come through the socket at standard input. Returns at their end, and in each child at the end of its program."""
    requests = socket.socket(fileno=os.dup(0))
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a child would touch every object, and so copy every page that it shares with its parent
    while True:
        message, streams, _, _ = socket.recv_fds(requests, ROOM, 3)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            requests.close()
            _be(json.loads(message), streams)
            return
        for stream in streams:
            os.close(stream)
        requests.send(json.dumps(pid).encode())
        _, status = os.waitpid(pid, 0)
        requests.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())


def _be(request: dict[str, Any], streams: list[int]) -> None:
    """What `python ARGUMENTS` would be."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        opened = _stream(number, getattr(sys, name))
        setattr(sys, name, opened)
        setattr(sys, f"__{name}__", opened)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    importlib.reload(importlib.import_module("recovery.crashpoints"))
    _execute(request["arguments"])


def _stream(number: int, before: TextIO) -> TextIO:
    """As the interpreter opens it. `before`: the parent's own, which its environment has shaped as the child's would be."""
    raw = io.FileIO(number, "w" if number else "r", closefd=False)
    raw.name = ("<stdin>", "<stdout>", "<stderr>")[number]
    straight = cast("io.TextIOWrapper", before).write_through  # PYTHONUNBUFFERED
    buffer = io.BufferedReader(raw) if not number else raw if straight else io.BufferedWriter(raw)
    live = not straight and (raw.isatty() or number == 2)
    text = io.TextIOWrapper(buffer, before.encoding, before.errors, "\n", line_buffering=live, write_through=straight)
    text.mode = "w" if number else "r"
    return text


def _execute(arguments: list[str]) -> None:
    if arguments[0] == "-m":
        sys.argv, sys.path[0] = arguments[1:], str(Path.cwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    script = Path(arguments[0]).absolute()
    sys.argv, sys.path[0] = arguments, str(script.resolve().parent)
    sys.modules["__main__"] = program = ModuleType("__main__")
    program.__file__ = str(script)
    exec(compile(script.read_bytes(), script, "exec"), program.__dict__)


if __name__ == "__main__":
    main()
