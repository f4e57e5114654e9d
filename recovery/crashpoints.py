"""Crash points: one registry of the named places where a process can die between two durable steps.

Owns the names and the trigger. Every durable write and every request that leaves is bracketed by ``around(name)``, which makes
``name.before`` and ``name.after``; an architecture test fails on one that is not. Disarmed, a point costs one comparison.

A child process is armed through the environment variable ``RECOVERY_CRASH_AT=point[:occurrence]`` and kills itself with SIGKILL, so
no ``finally`` tidies up. A value that names no point ends the process with exit status 2 where this module is imported. A simulation arms a hook in the current context instead.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

BRACKETS: Final[dict[str, str]] = {
    "open": "the run and its first entry",
    "claim": "raising the epoch",
    "load": "reading the journal, after the claim has committed or before an order to fork or restart is written",
    "append.decision": "a decision",
    "append.intent": "an intent with its first attempt: the last durable step before a first byte",
    "append.attempt": "a further attempt: a re-send or a close",
    "append.observation": "an answer that did not settle its step",
    "append.verdict": "a verdict that waits or parks",
    "append.settled": "a step's outcome, with the observation it rests on",
    "append.ended": "the run's own outcome",
    "append.override": "an operator's order, such as a hold or a cancel",
    "decide": "the user's deciding function",
    "send": "the effect: its request leaves and its reply comes back",
    "probe": "a read-only question",
    "close": "a tombstone, or a cancel by key",
    "evidence": "late evidence, outside the fence",
    "release": "giving up the lease",
    "deliver": "putting a message into a run's inbox: an order, an answer, or that nobody answered",
    "hold": "holding or releasing a contract, for the whole database",
    "schedule": "moving a schedule on to its next tick, or pausing it",
    "forget": "removing a settled run's entries, behind its stub",
    "restored": "who declared the database restored, and why",
    "incarnation": "raising the incarnation, above every epoch of the lost time",
    "checkpoint.prepare": "one directory of a new store",
    "checkpoint.begin": "the directory or file of a save under way",
    "checkpoint.shard": "one shard, written; in a save by several processes, synced too. Of a packed checkpoint, its one file, written",
    "checkpoint.state": "the state document, written",
    "checkpoint.manifest": "the manifest, last of the files; then the syncs of all of them and of the directory that names them. Of a packed checkpoint, the sync of its one file",
    "checkpoint.commit": "the rename that makes a checkpoint, and the sync of the directory above",
    "checkpoint.record": "telling the journal that a checkpoint is committed",
    "checkpoint.current": "the hint which checkpoint is the newest",
    "checkpoint.mark": "a pin, the restored-from or a verification, put or taken away",
    "checkpoint.retire": "moving what need not be kept out of the candidates",
    "checkpoint.quarantine": "moving a damaged checkpoint out of the candidates",
    "checkpoint.remove": "deleting what is retired, or left by a save that crashed",
    "checkpoint.abandon": "removing a save that was not committed",
    "checkpoint.meet": "a rank's word to the other ranks of its job",
    "kv.forget": "renaming and removing an entry of inference state",
}
"""Bracket name -> what happens between its two points."""

POINTS: Final = tuple(f"{name}.{side}" for name in BRACKETS for side in ("before", "after"))

VARIABLE: Final = "RECOVERY_CRASH_AT"

Hook = Callable[[str], None]

_hook: ContextVar[Hook | None] = ContextVar("recovery_crash_hook", default=None)


def _refused(sentence: str) -> SystemExit:
    """Said on the way out: a worker that was to be killed and is not would pass for one that survived."""
    sys.stderr.write(f"{sentence}\n")
    return SystemExit(2)


class _Armed:
    """The process-wide trigger: SIGKILL to ourselves at the n-th passage of one point."""

    def __init__(self, setting: str) -> None:
        point, colon, occurrence = setting.partition(":")
        if point not in POINTS:
            from difflib import get_close_matches

            near = "".join(f" Did you mean {name}?" for name in get_close_matches(point, POINTS, 1))
            raise _refused(
                f"{VARIABLE}={setting!r} names no crash point.{near} There are, each with .before or .after: {', '.join(BRACKETS)}."
            )
        if colon and not (occurrence.isdecimal() and int(occurrence) > 0):
            raise _refused(f"{VARIABLE}={setting!r}: {occurrence!r} is no number of a passage. Write {point}:2 for the second one.")
        self.point = point
        self.left = int(occurrence or 1)

    def __call__(self, point: str) -> None:
        if point == self.point:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


_armed: Hook | None = _Armed(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None


def reach(point: str) -> None:
    """Pass a named place; die here if armed."""
    if _armed is not None:
        _armed(point)
    hook = _hook.get()
    if hook is not None:
        hook(point)


class around:  # noqa: N801  # read as a word; a class, since a generator costs thrice as much, six times in an effect
    """Bracket one durable write or one request. The second point is not reached when the body raises."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        if _armed is not None or _hook.get() is not None:
            reach(f"{self._name}.before")

    def __exit__(self, raised: type[BaseException] | None, *_: object) -> None:
        if raised is None and (_armed is not None or _hook.get() is not None):
            reach(f"{self._name}.after")


@contextmanager
def hooked(hook: Hook) -> Iterator[None]:
    """Call ``hook(point)`` at every point reached in this context, instead of killing the process."""
    token = _hook.set(hook)
    try:
        yield
    finally:
        _hook.reset(token)
