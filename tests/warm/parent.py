"""The warm parent: a process that has imported what our programs import, and forks one of them per request.

Owns what makes a forked child like a fresh interpreter: its streams, environment, directory, arguments, path and `__main__`, the one module
that reads the environment when it is imported, and the interpreter's own end. Knows no test. Invariant: the parent runs no program and opens
no database, so that each child begins with the same imports and nothing else.

A request is one message on a connection of its own, with the program's standard streams. The answers are its process id and then how it
ended, or -1 at once where only a fresh interpreter would do. The number of a signal may be said on it meanwhile. Who hangs up has the program
killed.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import os
import runpy
import select
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Self, TextIO, cast

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
    "recovery.examples.inventory.service",
    "recovery.storage.postgres",
    "recovery.storage.sqlite",
    "alembic.command",
    "anyio._backends._asyncio",
    "encodings.idna",
    "httpcore",
    "httpx",
    "pkgutil",
    "psycopg",
    "pydantic.dataclasses",
    "rich._emoji_codes",
    "rich.progress",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "typer._adapters",
    "typer._click.decorators",
    "uvicorn.lifespan.off",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
)
"""What most programs import sooner or later. None of it reads the environment when it is imported, but for the crash points."""

DOOR = "WARM_PARENT"
"""The variable that tells stand-ins where to ask. No program sees it."""

AT_START = ("PYTHON", "LC_", "LANG", "TZ", "TMPDIR", "RECOVERY_SQLITE")
"""How the names begin of what an interpreter, or a module that the parent has imported, reads once."""

ROOM = 1 << 20
"""Bytes that a request may have: more than any environment here."""


def main() -> None:
    """Serve who connects to the socket that the first argument numbers, until standard input ends. Returns in every child too, at its end."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # for the programs that ask for it too late
        for name in IMPORTED:
            importlib.import_module(name)
        importlib.import_module("recovery.cli").assembled()
    gc.collect()
    imported = frozenset(sys.modules)
    gc.freeze()  # a collection in a child would touch every object, and so copy every page that it shares with its parent
    door = socket.socket(fileno=int(sys.argv[1]))
    running: list[Running] = []
    while True:
        ready, _, _ = select.select([0, door, *(one.process for one in running), *(one.asker for one in running)], [], [])
        for one in [*running]:
            if one.process in ready:
                one.tell_its_end()
                running.remove(one)
            elif one.asker in ready:
                one.pass_on()
        if door in ready:
            asker, _ = door.accept()
            message, streams, _, _ = socket.recv_fds(asker, ROOM, 3)
            request = Request.read(message)
            if not request.warm:
                asker.send(b"-1")
                asker.close()
            elif pid := os.fork():
                running.append(Running(pid, os.pidfd_open(pid), asker))
                asker.send(b"%d" % pid)
            else:
                for other in [door, asker, *(one.asker for one in running)]:
                    other.close()
                for one in running:
                    os.close(one.process)
                run(partial(request.execute, streams), imported)
                return
            for stream in streams:
                os.close(stream)
        if 0 in ready:
            return


def run(program: Callable[[], None], imported: frozenset[str]) -> None:
    """A program, and the interpreter's end behind it, without the dismantling of what the parent has `imported`: to touch all of that costs seven times
    what most programs do. Returns, or raises, where only the interpreter itself can end: there is a traceback to print, a signal to die of, or nobody
    to write to."""
    code: object = 0
    try:
        program()
    except SystemExit as ended:
        code = ended.code or 0
        if not isinstance(code, int):
            raise
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as the interpreter does
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (OSError, ValueError):  # the interpreter says it, and with which exit status
        raise SystemExit(code) from None
    dismantle(imported)
    os._exit(code & 0xFF)


def dismantle(imported: frozenset[str]) -> None:
    """Let go of what the program made, so that what it left open is closed, and said where that is a warning."""
    program = [sys.modules.pop(name) for name in [*sys.modules] if name not in imported]
    if vars(sys.modules["__main__"]) is not globals():
        program.append(sys.modules.pop("__main__"))
    gc.collect()
    for module in program:
        vars(module).clear()
    gc.collect()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


@dataclass(frozen=True)
class Running:
    """A child, `process` its descriptor, and the connection of who asked for it."""

    pid: int
    process: int
    asker: socket.socket

    def pass_on(self) -> None:
        """A signal that who asked was sent; who has hung up, or was killed, wants it killed."""
        try:
            said = self.asker.recv(100)
        except OSError:
            said = b""
        signal.pidfd_send_signal(self.process, int(said or signal.SIGKILL))

    def tell_its_end(self) -> None:
        _, status = os.waitpid(self.pid, 0)
        with suppress(OSError):  # who asked has hung up
            self.asker.send(b"%d" % os.waitstatus_to_exitcode(status))
        self.asker.close()
        os.close(self.process)


@dataclass(frozen=True)
class Request:
    """`python ARGUMENTS` in a directory and an environment."""

    directory: str
    arguments: list[str]
    environment: dict[str, str]
    strict: bool
    """Whether warnings are errors: `-W error` before all other arguments."""

    @classmethod
    def read(cls, message: bytes) -> Self:
        directory, number, *rest = os.fsdecode(message).split("\0")
        arguments, variables = rest[: int(number)], rest[int(number) :]
        environment = dict(variable.split("=", 1) for variable in variables)
        environment.pop(DOOR, None)
        strict = arguments[:2] == ["-W", "error"]
        return cls(directory, arguments[2:] if strict else arguments, environment, strict)

    @property
    def warm(self) -> bool:
        """Whether a fresh interpreter would be told nothing that ours was not."""
        first = self.arguments[0]
        program = not first.startswith("-") or first == "-c" or (first == "-m" and self.arguments[1].startswith("recovery"))
        return program and at_start(self.environment) == at_start(os.environ)

    def execute(self, streams: list[int]) -> None:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            opened = _stream(number, getattr(sys, name))
            setattr(sys, name, opened)
            setattr(sys, f"__{name}__", opened)
        os.chdir(self.directory)
        os.environ.clear()
        os.environ.update(self.environment)
        if self.strict:
            sys.warnoptions.append("error")
            warnings.simplefilter("error")
        importlib.reload(importlib.import_module("recovery.crashpoints"))
        if self.arguments[0] == "-m":
            sys.argv, sys.path[0] = self.arguments[1:], str(Path.cwd())
            runpy.run_module(self.arguments[1], run_name="__main__", alter_sys=True)
            return
        sys.modules["__main__"] = program = ModuleType("__main__")
        if self.arguments[0] == "-c":
            sys.argv, sys.path[0] = ["-c", *self.arguments[2:]], ""
            exec(compile(self.arguments[1], "<string>", "exec"), program.__dict__)
            return
        script = Path(self.arguments[0]).absolute()
        sys.argv, sys.path[0] = self.arguments, str(script.resolve().parent)
        program.__file__ = str(script)
        exec(compile(script.read_bytes(), script, "exec"), program.__dict__)


def at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(AT_START)}


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


if __name__ == "__main__":
    main()
