"""Group commit: appends of different runs that come at the same time become durable in one transaction, and so do new runs.

Owns who commits for whom: leader and followers. Whoever finds nobody at work leads, and commits its own append at once; those that come meanwhile
are queued, and when the leader has its own result it hands the lead to the first of them, who commits what is queued. So a lone caller pays neither queue nor hand-over, and no
thread works for others for ever. An event loop never leads, because a sync would stop it: a thread of ours leads for it. Knows no statement and no colour.

Invariants: while anything is queued, somebody leads. Every member is answered once, with its own result or with an error that holds for it: of a batch
that one member made impossible, each is tried by itself. A leader that is interrupted takes nobody with it: the others are appended
again as they stand, which is safe.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, overload

from recovery.core.errors import StoreUnavailable
from recovery.forks import watch
from recovery.ports import Append, AppendResult, NewRun, RunRow
from recovery.threads import Signal, Thread

BATCH_MAX: Final = 256
"""Members of one transaction: beyond that a follower waits longer for the others than it saves by sharing their sync."""


class Appending(Protocol):
    """What is needed of a journal here."""

    def append(self, batch: Sequence[Append]) -> list[AppendResult]: ...

    def open_runs(self, batch: Sequence[NewRun]) -> list[RunRow | None]: ...


Result: TypeAlias = AppendResult | RunRow | None
Wake: TypeAlias = "Callable[[Sequence[Ticket]], None]"


@dataclass(slots=True, eq=False)
class Ticket:
    """One member that is waited for: an append, or a new run.

    wake: told, in the leader's thread, which of its tickets have been answered; None: a thread waits for `turn`, or leads. about: its caller's own.
    """

    member: Append | NewRun
    wake: Wake | None = None
    about: Any = None
    turn: Signal | None = None  # of a thread that waits: set when it is answered, or has been given the lead
    result: Any = None  # `Result`, of its own kind
    error: Exception | None = None
    done: bool = False

    @property
    def answered(self) -> bool:
        return self.done or self.error is not None

    def outcome(self) -> Any:
        """Raises what the journal raised for this member."""
        if self.error is not None:
            raise self.error
        return self.result


class Committer:
    """Commits for all callers of one journal in this process."""

    def __init__(self, journal: Appending) -> None:
        self._journal = journal
        self._begin()
        watch(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._queue: deque[Ticket] = deque()
        self._leader: object | None = None
        self._pump: Thread | None = None
        self._called = threading.Condition(self._lock)  # the pump leads, or is to end
        self._closing = False

    def forked(self) -> None:
        self._begin()  # what the parent's threads wait for is the parent's

    @overload
    def commit(self, member: Append) -> AppendResult: ...

    @overload
    def commit(self, member: NewRun) -> RunRow | None: ...

    def commit(self, member: Append | NewRun) -> Result:
        """Append, or open, with whatever else is waiting. Returns when its fate is known; raises what the journal raises."""
        ticket = Ticket(member)
        try:
            try:
                with self._lock:
                    if self._leader is None:  # and nothing is queued
                        self._leader = ticket
                    else:
                        ticket.turn = Signal()
                        self._queue.append(ticket)
                if ticket.turn is None:
                    self._answer([ticket])
                else:
                    self._follow(ticket, ticket.turn)
            finally:
                self._leave(ticket)
        finally:
            self._leave(ticket)  # a second time: an interrupt can strike where the first one stands, and the lead must not be lost
        return ticket.outcome()  # type: ignore[no-any-return]  # of the member's own kind

    def _follow(self, ticket: Ticket, turn: Signal) -> None:
        turn.wait()
        while not ticket.answered:
            self._commit_next(ticket)

    def submit(self, tickets: Sequence[Ticket]) -> None:
        """Have these appended by somebody else. Returns at once; each one's `wake` is called in another thread, once for all its tickets of a batch. Raises
        ThreadUnavailable: none of them is appended then."""
        with self._lock:
            if self._leader is None:  # and nothing is queued
                self._lend()
            self._queue.extend(tickets)

    def close(self) -> None:
        """Let the thread end once nothing is queued. A later `submit` starts another."""
        with self._lock:
            pump, self._pump = self._pump, None
            self._closing = True
            self._called.notify()
        if pump is not None and pump is not threading.current_thread():
            pump.join()

    # -- leading -------------------------------------------------------------------------------------------------------

    def _commit_next(self, mine: Ticket | None = None) -> None:
        batch: list[Ticket] = []
        try:
            with self._lock:
                while self._queue and len(batch) < BATCH_MAX:
                    batch.append(self._queue[0])
                    self._queue.popleft()
            self._answer(batch)
        except BaseException:  # an interrupted leader; raised again
            with self._lock:
                self._queue.extendleft(ticket for ticket in reversed(batch) if not ticket.answered and ticket is not mine)
            raise
        finally:
            _tell([ticket for ticket in batch if ticket.answered])

    def _answer(self, batch: list[Ticket]) -> None:
        opening = [ticket for ticket in batch if isinstance(ticket.member, NewRun)]
        if opening:
            _carry_out(self._journal.open_runs, opening)
            batch = [ticket for ticket in batch if not ticket.answered]
        if batch:
            _carry_out(self._journal.append, batch)

    def _leave(self, ticket: Ticket) -> None:
        """Whoever has its answer, or is interrupted, leads no longer and is waited for by nobody."""
        if ticket.answered and self._leader is not ticket:
            return
        with self._lock:
            if not ticket.answered and ticket in self._queue:
                self._queue.remove(ticket)
            if self._leader is ticket:
                self._hand_on()

    def _hand_on(self) -> None:
        """Let the first thread that waits lead; none waits: the pump. Called with the lock."""
        if not self._queue:
            self._leader = None
            return
        following, turn = next(((ticket, ticket.turn) for ticket in self._queue if ticket.turn is not None), (None, None))
        if turn is None:
            self._lend()
        else:
            self._leader = following
            turn.set()

    def _lend(self) -> None:
        """Let the pump lead. Called with the lock."""
        if self._pump is None:
            self._closing = False
            self._leader = self._pump = Thread(self._lead_for_loops, name="recovery-commits")
            try:
                self._pump.start()
            except BaseException:  # there are too many, or an interrupt: it may never begin, and ends if it does; raised again
                self._leader = self._pump = None
                raise
        else:
            self._called.notify()  # first: whoever is interrupted in between leaves nobody leading, and no leader asleep
            self._leader = self._pump

    def _lead_for_loops(self) -> None:
        me = threading.current_thread()
        while True:
            with self._lock:
                while self._leader is not me:
                    if self._closing or self._pump is not me:
                        return
                    self._called.wait()
            while self._queue:
                self._commit_next()
            with self._lock:
                if not self._queue:
                    self._leader = None


def _carry_out(write: Callable[[list[Any]], Sequence[Result]], batch: list[Ticket]) -> None:
    try:
        for ticket, result in zip(batch, write([ticket.member for ticket in batch]), strict=True):
            ticket.result, ticket.done = result, True
    except StoreUnavailable as error:
        for ticket in batch:
            ticket.error = own(error)
    except Exception as error:  # noqa: BLE001  # it belongs to whoever's member cannot be: to the only one, or to one of them
        if len(batch) == 1:
            batch[0].error = error
            return
        for ticket in batch:
            _carry_out(write, [ticket])


def own(error: StoreUnavailable) -> StoreUnavailable:
    """An error of one's own: one that several threads raise would gather the tracebacks of all of them."""
    mine = copy(error)
    mine.__cause__ = error
    return mine


def _tell(answered: list[Ticket]) -> None:
    by_wake: defaultdict[Wake, list[Ticket]] = defaultdict(list)
    for ticket in answered:
        if ticket.turn is not None:
            ticket.turn.set()
        elif ticket.wake is not None:
            by_wake[ticket.wake].append(ticket)
    for wake, tickets in by_wake.items():
        wake(tickets)
