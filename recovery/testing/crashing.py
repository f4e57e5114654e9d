"""Crashing: the code inside a block dies at a crash point, in this process.

Owns a death for tests of one's own that need neither processes nor scenarios. Invariant: from its death on, the code inside reaches no durable
write and no request any more, whatever its `finally` and `except` blocks try.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from recovery import crashpoints
from recovery.crashpoints import POINTS


class Crashed(BaseException):
    """What ends the code inside: no `except Exception` handles it."""


@dataclass(slots=True)
class Crash:
    """What became of the block. happened: whether the point was passed often enough."""

    happened: bool = False


@contextmanager
def crash_at(point: str, occurrence: int = 1) -> Iterator[Crash]:
    """Die at the n-th passage of a crash point inside the block, which ends there; the code behind it goes on.

        with crash_at("send.after") as crash:
            engine.run("incident-7", resolve, incident)
        assert crash.happened
        recovered = engine.recover("incident-7")

    The dead code may run its `finally` blocks. Each of its further crash points raises again, before anything is written or sent; so its lease
    stays, as that of a killed process does, and who recovers waits for it or has an engine with `wait_for_owner`. A real process that is
    killed for real is `RECOVERY_CRASH_AT`. Raises ValueError for a point that does not exist, and for an occurrence below 1.
    """
    if point not in POINTS:
        raise ValueError(f"there is no crash point {point!r}; the reference lists them")
    if occurrence < 1:
        raise ValueError(f"a passage counts from 1, and not from {occurrence}")
    crash, passed = Crash(), 0

    def reach(reached: str) -> None:
        nonlocal passed
        passed += reached == point
        if crash.happened or passed == occurrence:
            crash.happened = True
            raise Crashed(point)

    with suppress(Crashed), crashpoints.hooked(reach):
        yield crash
