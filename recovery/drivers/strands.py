"""Strands: what the sync driver runs branches on and makes them wait with.

Owns the three things that a `def` workflow's branches need of threads. Knows no run. Invariant: shipped engines use plain threads; a simulation
puts strands of its own here, of which one runs at a time, so that the order in which branches go on is chosen and can be chosen again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from recovery import threads


class Lock(Protocol):
    """Of one holder, who may take it again."""

    def acquire(self) -> Any: ...
    def release(self) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, kind: Any, error: Any, trace: Any, /) -> Any: ...


class Signal(Protocol):
    """Set once, by anybody; until then whoever waits for it stands still."""

    def set(self) -> None: ...
    def wait(self) -> Any: ...


class Strand(Protocol):
    """One line of execution."""

    def start(self) -> None: ...
    def join(self) -> None: ...


class Strands(Protocol):
    """Makes them."""

    def lock(self) -> Lock: ...
    def signal(self) -> Signal: ...
    def strand(self, work: Callable[..., Any], *args: Any) -> Strand: ...


class Threads:
    """Those of the operating system."""

    def lock(self) -> Lock:
        return threading.RLock()

    def signal(self) -> Signal:
        return threads.Signal()

    def strand(self, work: Callable[..., Any], *args: Any) -> Strand:
        return threads.Thread(work, *args)
