"""The fleet: worker processes as a user starts them, killed, ended and stopped at random, and replaced.

Owns the processes. Believes nothing that they say about runs. Invariants: every process is ended by its own pid, and none outlives the block; whatever is drawn is
drawn from the seed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.crash.children import ROOT, surroundings

STOPPED_SECONDS: Final = (0.2, 6.0)
"""For how long a worker is stopped: its lease ends after three."""
END_SECONDS: Final = 120.0


@dataclass
class Member:
    """One worker process. wakes: when it is to go on, while it is stopped; ending: it was asked to end."""

    name: str
    process: subprocess.Popen[bytes]
    said: Path
    complained: Path
    wakes: float | None = None
    ending: bool = False
    killed: bool = False

    def said_wrong(self) -> list[str]:
        """Lines that are no document of their own. The last one of a process that was killed is perhaps a half."""
        lines = self.said.read_text(errors="replace").splitlines()
        return [line for line in (lines[:-1] if self.killed else lines) if _document(line) is None]

    def events(self) -> Iterator[dict[str, Any]]:
        """What it said."""
        for line in self.said.read_text(errors="replace").splitlines():
            if (said := _document(line)) is not None:
                yield said

    def problem(self) -> str:
        return self.complained.read_text(errors="replace")


def _document(line: str) -> dict[str, Any] | None:
    try:
        said: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    return said


@dataclass
class Fleet:
    """So many workers at any time, until `end`."""

    directory: Path
    size: int
    seed: int
    environment: Mapping[str, str]
    concurrency: int = 8
    pause: float = 1.5
    """Seconds between two disturbances, on average."""
    members: list[Member] = field(default_factory=list)
    past: list[Member] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._next = time.monotonic() + self._pause()

    def _pause(self) -> float:
        return self.pause * self._chance.uniform(0.3, 1.7)

    def fill(self) -> None:
        """Replace what has ended."""
        for member in [one for one in self.members if one.process.poll() is not None]:
            self.members.remove(member)
            self.past.append(member)
        while len(self.members) < self.size:
            self.members.append(self._started())

    def _started(self) -> Member:
        number = self.counts["started"] = self.counts["started"] + 1
        said, complained = self.directory / f"worker-{number}.out", self.directory / f"worker-{number}.err"
        command = [sys.executable, "-m", "recovery", "worker", "--app", "tests.fleet.shop:engine", "--json"]
        command += ["--concurrency", str(self.concurrency), "--drain", "1", "--poll", "0.5"]
        with said.open("wb") as out, complained.open("wb") as err:
            process = subprocess.Popen(
                command, cwd=ROOT, env=surroundings(self.environment), stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
        return Member(f"worker-{number}", process, said, complained)

    def disturb(self) -> None:
        """What is due by now: wake those that are stopped long enough, and do something to one of the others."""
        now = time.monotonic()
        for member in self.members:
            if member.wakes is not None and member.wakes <= now:
                member.process.send_signal(signal.SIGCONT)
                member.wakes = None
        if now < self._next:
            return
        self._next = now + self._pause()
        member = self._chance.choice(self.members)
        act = self._chance.choices(["kill", "end", "stop"], [4, 3, 3])[0]
        if act == "kill":
            member.killed = True
            member.process.kill()
        elif act == "end" and not member.ending and member.wakes is None:
            member.ending = True
            member.process.terminate()
        elif act == "stop" and member.wakes is None:
            member.wakes = now + self._chance.uniform(*STOPPED_SECONDS)
            member.process.send_signal(signal.SIGSTOP)
        else:
            return
        self.counts[act] += 1

    def end(self) -> None:
        """Ask each to end, and wait for it."""
        for member in self.members:
            if member.wakes is not None:
                member.process.send_signal(signal.SIGCONT)
            if not member.ending and not member.killed and member.process.poll() is None:
                member.ending = True
                member.process.terminate()
        for member in self.members:
            member.process.wait(END_SECONDS)
        self.past += self.members
        self.members = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for member in self.members:
            member.process.kill()
            member.process.wait(END_SECONDS)


class Outside:
    """The service outside, as a process of its own."""

    def __init__(self, seed: int) -> None:
        program = Path(__file__).with_name("outside.py")
        self._process = subprocess.Popen(
            [sys.executable, str(program), str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def counted(self, path: Path) -> dict[str, Any]:
        """What it has really done."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(path, file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == "written\n"
        counted: dict[str, Any] = json.loads(path.read_text())
        return counted

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(END_SECONDS)
        self._process.stdout.close()


def cpu_seconds() -> float:
    """Of all processes that have ended, and of this one."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system
