"""Posting: what the runs of one event loop ask of the store, and what it answers, goes between the loop and other threads in bundles.

Owns when a bundle leaves and how many callers are woken in one turn of the loop. Knows neither runs nor statements. A bundle leaves when nobody is left to be woken:
whoever was woken has then asked for its next commit, and all of them share it; and a thread that commits while the loop is busy would take the interpreter from it, and it from the thread.
Invariants: what was handed in leaves within LINGER_SECONDS of the loop's own time; who waits is woken once the answer is there, cancelled or not, since cancelling cannot undo a commit.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary, ref

from recovery.ports import AppendResult
from recovery.storage.committing import Committer, Ticket

T = TypeVar("T")

WOKEN_MAX: Final = 8
"""Callers woken in one turn of an event loop: each of them goes on at once, and the loop has other work than ours."""

LINGER_SECONDS: Final = 0.02
STORE_THREADS_MAX: Final = 8  # per event loop


@dataclass(slots=True, eq=False)
class Errand(Generic[T]):
    """One use of the store that is waited for, as a `Ticket` is."""

    call: Callable[[], T]
    about: Any = None
    done: bool = False
    result: T | None = None
    error: BaseException | None = None

    @property
    def answered(self) -> bool:
        return self.done or self.error is not None

    def run(self) -> None:
        try:
            self.result = self.call()
        except BaseException as error:  # noqa: BLE001  # whatever it is, it is raised where it is waited for
            self.error = error
        self.done = True

    def outcome(self) -> T:
        """Raises what the call raised."""
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]  # None where that is what the call returned


Asked = Ticket | Errand[Any]


class Post:
    """Between one event loop and the store. All but `tell` is called on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._there = ref(loop)  # what is kept by its loop must not keep the loop
        self.threads = ThreadPoolExecutor(STORE_THREADS_MAX, thread_name_prefix="recovery-store")
        """Threads for the store alone: slow user functions in the loop's own threads must not hold up commits."""
        self._answered: deque[Asked] = deque()
        self._tickets: dict[Committer, list[Ticket]] = {}
        self._errands: list[Errand[Any]] = []
        self._since = 0.0  # when the oldest of them was handed in
        self._turning = False
        self.linger_seconds = LINGER_SECONDS

    async def commit(self, committer: Committer, ticket: Ticket) -> AppendResult:
        self._wait_for_others()
        self._tickets.setdefault(committer, []).append(ticket)
        await self._answer(ticket)
        return ticket.outcome()

    async def use(self, call: Callable[[], T]) -> T:
        self._wait_for_others()
        errand = Errand(call)
        self._errands.append(errand)
        await self._answer(errand)
        return errand.outcome()

    def tell(self, answered: Sequence[Asked]) -> None:
        """What has been answered; called in the thread that did it."""
        if (loop := self._there()) is not None:
            with suppress(RuntimeError):  # closed: nobody waits there any more
                loop.call_soon_threadsafe(self._arrived, answered)

    async def _answer(self, asked: Asked) -> None:
        loop = asyncio.get_running_loop()
        cancelled: asyncio.CancelledError | None = None
        while not asked.answered:
            asked.about = loop.create_future()
            try:
                await asked.about
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    def _wait_for_others(self) -> None:
        if not self._tickets and not self._errands:
            self._since = time.monotonic()
        if not self._turning:
            self._turning = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _arrived(self, answered: Sequence[Asked]) -> None:
        self._answered.extend(answered)
        if not self._turning:
            self._turning = True
            self._turn()

    def _turn(self) -> None:
        woken = 0
        while self._answered and woken < WOKEN_MAX:
            told = self._answered.popleft().about
            if told is not None and not told.done():
                told.set_result(None)
            woken += 1
        if not woken or time.monotonic() - self._since > self.linger_seconds:
            self._send()
        self._turning = bool(woken or self._answered)
        if self._turning:
            asyncio.get_running_loop().call_soon(self._turn)

    def _send(self) -> None:
        tickets, self._tickets = self._tickets, {}
        for committer, several in tickets.items():
            self._begin(several, lambda committer=committer, several=several: committer.submit(several))  # type: ignore[misc]
        errands, self._errands = self._errands, []
        for number in range(min(len(errands), STORE_THREADS_MAX)):
            shared = errands[number::STORE_THREADS_MAX]
            self._begin(shared, lambda shared=shared: self.threads.submit(self._run, shared))  # type: ignore[misc]

    def _begin(self, asked: Sequence[Asked], begin: Callable[[], Any]) -> None:
        try:
            begin()
        except RuntimeError as error:  # no thread can be had: the interpreter is on its way out
            for each in asked:
                each.error = error
            self._answered.extend(asked)

    def _run(self, errands: list[Errand[Any]]) -> None:
        """In a thread. Whoever has been answered waits no longer than LINGER_SECONDS for those behind."""
        since, done = time.monotonic(), list[Errand[Any]]()
        for errand in errands:
            errand.run()
            done.append(errand)
            if time.monotonic() - since > self.linger_seconds:
                self.tell(done)
                since, done = time.monotonic(), []
        if done:
            self.tell(done)


_POSTS: WeakKeyDictionary[asyncio.AbstractEventLoop, Post] = WeakKeyDictionary()


def post_of(loop: asyncio.AbstractEventLoop) -> Post:
    post = _POSTS.get(loop)
    if post is None:
        post = _POSTS[loop] = Post(loop)
    return post


def in_context(call: Callable[..., T], *given: Any) -> Callable[[], T]:
    """The call as it would be made here, to be made in another thread."""
    context = contextvars.copy_context()
    return lambda: context.run(call, *given)
