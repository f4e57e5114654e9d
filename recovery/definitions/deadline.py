"""Deadline: a moment that a workflow sets itself once, and the scope that it bounds.

Owns what a workflow sees of a deadline. Knows no engine: a driver says how a scope is entered and left. Invariant: the moment is journaled before
anybody sees it, and stays what it was after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment that was set, journaled. As a `with` block it bounds what the run, or branch, that set it begins inside.

    at: with time zone, the first moment at which it has passed.
    """

    at: datetime
    _enter: Callable[[], None] = field(repr=False, compare=False)
    _leave: Callable[[], None] = field(repr=False, compare=False)

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._leave()


class SettingDeadline:
    """What `AsyncRun.deadline` gives: await it for the Deadline, or make it an `async with` block."""

    __slots__ = ("_deadline", "_setting")

    def __init__(self, setting: Coroutine[Any, Any, Deadline]) -> None:
        self._setting = setting
        self._deadline: Deadline | None = None

    def __await__(self) -> Generator[Any, None, Deadline]:
        return self._setting.__await__()

    async def __aenter__(self) -> Deadline:
        self._deadline = await self._setting
        return self._deadline.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._deadline is not None:
            self._deadline.__exit__(kind, error, trace)
