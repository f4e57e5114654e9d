"""Processes: who this process is, and whether another one is proven dead.

Owns the reading of the kernel's identity of a process (boot id, namespaces, pid, start time). Must not know runs, leases or
storage. Invariant: `proven_dead` is True only on proof; whatever cannot be read, compared or understood is "not proven".

Where /proc is missing (macOS, Windows) an identity has no boot id, so that it can never be proven dead and its lease decides.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from recovery.forks import watch
from recovery.ports import Owner

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACES: Final = ("pid", "time")
"""A pid means something in one pid namespace; a start time counts from a boot that a time namespace may shift."""

_ENDED: Final = frozenset("ZXx")  # zombie, dead (proc(5), field 3)


@dataclass(frozen=True, slots=True)
class Stat:
    """What /proc/PID/stat says, as far as it is needed. `start` is in clock ticks after boot."""

    state: str
    threads: int
    start: int

    @property
    def ended(self) -> bool:
        """Whether no thread is left to send anything. A leader that exited before its threads is a zombie and yet alive."""
        return self.state in _ENDED and self.threads <= 1


def parse_stat(text: str) -> Stat:
    """Read one line of /proc/PID/stat (proc(5)). Raises ValueError on anything else.

    The name (field 2) may hold spaces and parentheses, so fields are counted from the *last* closing one.
    """
    _, found, rest = text.rpartition(")")
    fields = rest.split()
    if not found or len(fields) < 20:
        raise ValueError("not a line of /proc/PID/stat")
    return Stat(state=fields[0], threads=int(fields[17]), start=int(fields[19]))  # fields 3, 20 and 22


def identify(token: str) -> Owner:
    """This process as the owner of a claim. `token`: fresh and random per claim."""
    return replace(_HERE.owner(), token=token)


class _Here:
    """This process, read once in each: files of the kernel's would cost a run's beginning more than a commit's statements do."""

    def __init__(self) -> None:
        self.forked()
        watch(self)

    def forked(self) -> None:
        self._owner: Owner | None = None

    def owner(self) -> Owner:
        if self._owner is None:
            pid = os.getpid()
            stat = _stat(pid)
            self._owner = Owner(
                token="",
                host=socket.gethostname(),
                boot_id=_boot_id() if stat else "",
                pid_namespace=_namespaces(),
                pid=pid,
                process_start=stat.start if stat else 0,
            )
        return self._owner


_HERE: Final = _Here()


def proven_dead(owner: Owner) -> bool:
    """Whether that process can send nothing any more, with certainty.

    True only on the same boot and in the same namespaces as ours, if its pid is free, a zombie, or has another start time. A
    stopped process is alive: SIGCONT makes it send. False means "not proven", never "alive".
    """
    if not (owner.boot_id and owner.pid_namespace and owner.pid > 0 and owner.process_start):
        return False
    if owner.boot_id != _boot_id() or owner.pid_namespace != _namespaces():
        return False
    try:
        os.kill(owner.pid, 0)  # asks only; /proc may hide other users' processes (hidepid), this does not
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass  # it exists and is not ours, or the number is no pid: /proc decides
    stat = _stat(owner.pid)
    return stat is not None and (stat.ended or stat.start != owner.process_start)


def _stat(pid: int) -> Stat | None:
    try:
        return parse_stat(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError):
        return None


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _namespaces() -> str:
    """The namespaces that give pid and start time their meaning, as the kernel prints them; "" where there is no /proc."""
    links = []
    for name in _NAMESPACES:
        try:
            links.append(str(Path(f"/proc/self/ns/{name}").readlink()))
        except OSError:
            if name == "pid":
                return ""
    return " ".join(links)
