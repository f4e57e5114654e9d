"""Programs in processes of their own: each in its environment, asked for turns over a pipe, and ended with all that it has started.

Owns the processes. Must not know what a turn is. Invariant: when the block ends, nothing of the program is left.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STEPPERS = Path(__file__).parent / "steppers"
READY_SECONDS, TURN_SECONDS = 60, 300
"""Beyond this a program is missing, with that as the reason."""


class NoAnswer(Exception):
    """With what the program said last."""


@dataclass(frozen=True)
class Program:
    """name: on the page. script: below `steppers`. environment: variables added to this process's. python: the interpreter that has the library."""

    name: str
    script: str
    python: Path = Path(sys.executable)
    environment: tuple[tuple[str, str], ...] = ()


@dataclass
class Playing:
    process: subprocess.Popen[str]
    said: Path

    def turn(self, turn: str, runs: int, steps: int) -> dict[str, Any]:
        """What it took: `seconds` and `processor` seconds, and more. Raises NoAnswer."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # then it has ended, and that is what is told
            self.process.stdin.write(json.dumps({"turn": turn, "runs": runs, "steps": steps}) + "\n")
            self.process.stdin.flush()
        return self.heard(TURN_SECONDS)

    def heard(self, seconds: float) -> dict[str, Any]:
        assert self.process.stdout is not None
        while select.select([self.process.stdout], [], [], seconds)[0]:
            line = self.process.stdout.readline()
            if not line:
                break
            if line.startswith("{"):  # whatever else a library prints is nothing to us
                told: dict[str, Any] = json.loads(line)
                return told
        last = [line for line in self.said.read_text(errors="replace").splitlines() if line.strip()]
        raise NoAnswer(last[-1][:200] if last else f"no answer in {seconds:.0f} s")


@contextmanager
def playing(program: Program, directory: Path, url: str = "") -> Iterator[Playing]:
    """The program, ready. Raises NoAnswer."""
    said = directory / "stderr"
    command = [str(program.python), str(STEPPERS / program.script), str(directory), *([url] if url else [])]
    variables: Mapping[str, str] = os.environ | {"PYTHONPATH": str(Path.cwd()), "PYTHONDONTWRITEBYTECODE": ""}
    with said.open("w") as stderr:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            bufsize=1,
            env=variables | dict(program.environment),
            start_new_session=True,  # so that what it starts ends with it
        )
    try:
        made = Playing(process, said)
        made.heard(READY_SECONDS)
        yield made
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
