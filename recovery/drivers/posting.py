"""Posting: what the runs of one event loop ask of the store, and what it answers, goes between the loop and other threads in bundles.

Owns when a bundle leaves, what of it is asked once for several, how much of our work goes into one turn of the loop, and its one timer for all who wait for
as long. Knows neither runs nor statements. A bundle leaves when nobody is left to be woken: whoever was woken has then asked for its next commit, and all of
them share it; and a thread that commits while the loop is busy would take the interpreter from it, and it from the thread. Invariants: what was handed in
leaves within LINGER_SECONDS of the loop's own time; who waits is woken once the answer is there, cancelled or not, since cancelling cannot undo a commit;
whoever asks, or brings answers, has a turn come of its own, since an interrupt in the loop's own code may lose any other that was to come.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary, ref

from recovery import threads
from recovery.core.errors import StoreUnavailable
from recovery.core.host_errors import ThreadUnavailable
from recovery.ports import Journal, RunRow
from recovery.storage.committing import Committer, Ticket, own

T = TypeVar("T")

WOKEN_MAX: Final = 8
"""Callers woken in one turn of an event loop: each of them goes on at once, and the loop has other work than ours."""

LINGER_SECONDS: Final = 0.02
STORE_THREADS_MAX: Final = 8  # per event loop
PORTION_SECONDS: Final = 0.002
"""How long one turn of an event loop may last before what else would begin in it waits for a later one."""

SHARED_MAX: Final = 256
"""Subjects of one question: a statement takes only so many parameters."""


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
        if self.answered:  # it was refused, and stayed in a thread's queue all the same
            return
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


@dataclass(slots=True, eq=False)
class Shared:
    """A use of the store that answers several at once: `call` is given what each of them asks about, and answers with a mapping by that."""

    call: Callable[[list[Any]], Mapping[Any, Any]]
    askers: list[tuple[Any, Errand[Any]]] = field(default_factory=list)

    def run(self, askers: list[tuple[Any, Errand[Any]]]) -> list[Errand[Any]]:
        """Those who have been answered."""
        if all(asker.answered for _, asker in askers):  # refused, as an errand may be
            return []
        try:
            found = self.call([subject for subject, _ in askers])
        except StoreUnavailable as error:  # as often as it is asked
            for _, asker in askers:
                asker.error = own(error)
        except BaseException as error:  # noqa: BLE001  # whatever it is, it is raised where it is waited for
            if len(askers) == 1:
                askers[0][1].error = error
            else:  # it may be about one of them
                for each in askers:
                    self.run([each])
        else:
            for subject, asker in askers:
                asker.result, asker.done = found.get(subject), True
        return [asker for _, asker in askers]


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
        self._shared: dict[Hashable, Shared] = {}  # by what they have in common
        self._later: dict[float, deque[tuple[float, Callable[[], None]]]] = {}  # by how long, in the order in which they are due
        self._since = 0.0  # when the oldest of them was handed in
        self._turning = False  # one is to come, unless it was lost
        self._called, self._come = 0, 0  # turns: how many were called for, and how many of those need not come any more
        self._turned = 0.0  # since when this turn lasts
        self._begun = 0  # what has asked in it whether to make way
        self.linger_seconds = LINGER_SECONDS

    async def commit(self, committer: Committer, ticket: Ticket) -> Any:
        self._wait_for_others()
        self._tickets.setdefault(committer, []).append(ticket)
        await self._answer(ticket)
        return ticket.outcome()

    async def use(self, call: Callable[[], T], alike: Hashable = None) -> T:
        """alike: one call answers all that say the same here in one bundle."""
        if alike is not None:
            return await self._share(alike, lambda subjects: dict.fromkeys(subjects, call()), alike)  # type: ignore[no-any-return]  # what `call` gives
        self._wait_for_others()
        errand = Errand(call)
        self._errands.append(errand)
        await self._answer(errand)
        return errand.outcome()

    async def find(self, journal: Journal, run_id: str) -> RunRow | None:
        return await self._share(id(journal), in_context(journal.find_all), run_id)  # type: ignore[no-any-return]  # a row

    async def _share(self, by: Hashable, call: Callable[[list[Any]], Mapping[Any, Any]], subject: Any) -> Any:
        self._wait_for_others()
        errand: Errand[Any] = Errand(_nothing)
        self._shared.setdefault(by, Shared(call)).askers.append((subject, errand))
        await self._answer(errand)
        return errand.outcome()

    def crowded(self) -> bool:
        """Whether so much has begun in this turn of the loop, and for so long, that whoever asks is to make way first. As many as are woken in a turn may
        always begin in it: they are nearly always the same."""
        if not self._turning:
            self._turn_soon()
        self._begun += 1
        return self._begun > WOKEN_MAX and time.monotonic() - self._turned > PORTION_SECONDS

    async def make_way(self) -> None:
        """Let the loop do what else it has, and be woken as those are who have been answered: few in one turn."""
        errand = Errand(_nothing, asyncio.get_running_loop().create_future())
        self._answered.append(errand)
        self._turn_soon()
        await errand.about

    def tell(self, answered: Sequence[Asked]) -> None:
        """What has been answered; called in the thread that did it."""
        if (loop := self._there()) is not None:
            with suppress(RuntimeError):  # closed: nobody waits there any more
                loop.call_soon_threadsafe(self._arrived, answered)

    def later(self, seconds: float, back: Callable[[], None]) -> None:
        """Call `back` after so long. All who wait for as long share one timer of the loop."""
        loop = asyncio.get_running_loop()
        waiting = self._later.setdefault(seconds, deque())
        waiting.append((loop.time() + seconds, back))
        if len(waiting) == 1:
            loop.call_later(seconds, self._call_back, seconds)

    def _call_back(self, seconds: float) -> None:
        loop, waiting = asyncio.get_running_loop(), self._later[seconds]
        now = loop.time()
        due: list[Callable[[], None]] = []
        while waiting and waiting[0][0] <= now:
            due.append(waiting.popleft()[1])
        if waiting:
            loop.call_at(waiting[0][0], self._call_back, seconds)
        for back in due:
            back()

    async def _answer(self, asked: Asked) -> None:
        loop = asyncio.get_running_loop()
        cancelled: asyncio.CancelledError | None = None
        while not asked.answered:
            asked.about = loop.create_future()
            try:
                await asked.about
            except asyncio.CancelledError as error:
                cancelled = error
                self._turn_soon()  # an interrupt may have broken off the turn that was to come
        if cancelled is not None:
            raise cancelled

    def _wait_for_others(self) -> None:
        if not self._tickets and not self._errands and not self._shared:
            self._since = time.monotonic()
        self._turn_soon()

    def _turn_soon(self) -> None:
        """Of several that were called for, the first that comes is the only one."""
        self._called += 1
        asyncio.get_running_loop().call_soon(self._turn, self._called)
        if not self._turning:
            self._turning, self._turned, self._begun = True, time.monotonic(), 0

    def _arrived(self, answered: Sequence[Asked]) -> None:
        self._answered.extend(answered)
        if self._turning:
            self._turn_soon()
        else:
            self._turn(self._called + 1)

    def _turn(self, number: int) -> None:
        if number <= self._come:
            return
        try:
            self._come, self._turning = self._called, True
            self._go_on()
        except (KeyboardInterrupt, SystemExit):  # whoever waits is still to be woken
            self._turn_soon()
            raise

    def _go_on(self) -> None:
        woken = 0
        while self._answered and woken < WOKEN_MAX:
            told = self._answered[0].about
            if told is not None and not told.done():
                told.set_result(None)
            self._answered.popleft()
            woken += 1
        if not woken or time.monotonic() - self._since > self.linger_seconds:
            self._send()
        self._turning = False
        if woken or self._answered:
            self._turn_soon()

    def _send(self) -> None:
        """Interrupted, it is done again: what goes to the store twice is done once."""
        for committer, queued in self._tickets.items():
            self._begin(queued, partial(committer.submit, queued))
        self._tickets = {}
        for each in self._shared.values():
            for start in range(0, len(each.askers), SHARED_MAX):
                part = each.askers[start : start + SHARED_MAX]
                answered = partial(self._run_shared, each, part)
                self._begin([asker for _, asker in part], partial(self.threads.submit, answered))
        self._shared = {}
        for number in range(min(len(self._errands), STORE_THREADS_MAX)):
            several = self._errands[number::STORE_THREADS_MAX]
            self._begin(several, partial(self.threads.submit, partial(self._run, several)))
        self._errands = []

    def _begin(self, asked: Sequence[Asked], begin: Callable[[], Any]) -> None:
        try:
            threads.begin(begin)
        except ThreadUnavailable as error:
            for each in asked:
                each.error = copy(error)  # one that several raise would gather the tracebacks of all of them
            self._answered.extend(asked)

    def _run_shared(self, shared: Shared, part: list[tuple[Any, Errand[Any]]]) -> None:
        self.tell(shared.run(part))

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


def in_context(call: Callable[..., T], *given: Any) -> Callable[..., T]:
    """The call as it would be made here, to be made in other threads: each time in a context of its own, since one is entered by one thread at a time."""
    context = contextvars.copy_context()
    return lambda *more: context.copy().run(call, *given, *more)


def _nothing() -> None:
    """What somebody asks for who is answered with others."""
