"""The sweep: a program's record, every legal state of the disk after each call, each read once, each judged by what was known at that call.

Owns the loop and its numbers. Must not know what is stored: whoever calls brings a reader and two judges. Invariant: equal disks are read
once, and judged again whenever more was acknowledged.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from tests.power.model import Choice, Disk, Tree
from tests.power.mount import ROOT, mounted
from tests.power.programs import LANDED
from tests.power.record import Change, Said

FAILURES_MAX = 5


class Facts(Protocol):
    begun: bool

    def hear(self, said: Said) -> None: ...


R = TypeVar("R", bound=Hashable)
F = TypeVar("F", bound=Facts)


@dataclass(frozen=True)
class Questions(Generic[R, F]):
    """read: what the shipped code makes of a laid-out disk. wrong_with: held against the facts. recovered_wrongly: after going on from there."""

    read: Callable[[Tree], R]
    wrong_with: Callable[[R, F], str]
    recovered_wrongly: Callable[[Tree, F], str]


@dataclass
class Swept:
    calls: int = 0
    states: int = 0
    distinct: int = 0
    readings: int = 0
    recoveries: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.calls} system calls, {self.states} states, {self.distinct} distinct, {self.readings} readings, "
            f"{self.recoveries} recoveries, {self.seconds:.1f} s"
        )


def recorded(directory: Path, *programs: tuple[str, int], spoilt: str = "") -> list[Change]:
    """Run programs one after the other on one disk: (name, return code that is expected). Their record."""
    with mounted(directory) as disk:
        for name, expected in programs:
            arguments = [sys.executable, "-m", "tests.power.programs", str(disk.path), name, *([spoilt] if spoilt else [])]
            landed = [each.what["landed"] for each in disk.changes() if isinstance(each, Said) and "landed" in each.what]
            surroundings = os.environ | {LANDED: ",".join(landed)}
            ended = subprocess.run(arguments, cwd=ROOT, env=surroundings, capture_output=True, text=True, timeout=280)
            assert ended.returncode == expected, ended.stderr
        return disk.changes()


def swept(changes: list[Change], facts: F, ask: Questions[R, F], *, stop_at_first: bool = False, sparse: bool = False) -> Swept:
    """Look at every state after each call that follows the program's "begin". sparse: only where it says something, each acknowledgement among it."""
    begun = time.monotonic()
    found, disk = Swept(), Disk()
    seen: dict[bytes, R] = {}
    judged: set[tuple[int, R]] = set()
    told = 0
    for number, change in enumerate(changes):
        if isinstance(change, Said):
            facts.hear(change)
            told += 1
        else:
            disk.play(change)
            found.calls += facts.begun
        if not facts.begun or (sparse and not isinstance(change, Said)):
            continue
        following = changes[number + 1] if number + 1 < len(changes) else None
        for choice in disk.choices(number, settled_down=type(following) is not type(change)):
            found.states += 1
            tree, digest = disk.tree(choice)
            if digest not in seen:
                seen[digest] = ask.read(tree)
            reading = seen[digest]
            if (told, reading) in judged:
                continue
            judged.add((told, reading))
            problem = ask.wrong_with(reading, facts)
            if not problem:
                found.recoveries += 1
                problem = ask.recovered_wrongly(tree, facts)
            if problem:
                found.failures.append(f"after call {number} ({_short(change)}), left {_shown(choice, tree)}: {problem}")
                if stop_at_first or len(found.failures) >= FAILURES_MAX:
                    break
        if found.failures and (stop_at_first or len(found.failures) >= FAILURES_MAX):
            break
        disk.forget()
    found.distinct, found.readings, found.seconds = len(seen), len(set(seen.values())), time.monotonic() - begun
    return found


def _short(change: Change) -> str:
    return str(change)[:120]


def _shown(choice: Choice, tree: Tree) -> str:
    sizes = ", ".join(f"{name}: {'directory' if content is None else len(content)}" for name, content in tree.items())
    return f"{sizes} (survived {sorted(choice.survive)}, torn {choice.torn}, zeros {choice.zeros})"
