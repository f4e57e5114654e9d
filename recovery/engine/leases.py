"""Leases: one thread that keeps the runs of this process alive, outside user code.

Owns the renewal of held runs, and what is heard meanwhile: which contracts are held, and what was put into the runs' inboxes; and that runs which were left while the store did not
answer are given up once it does: their owner lives, and would be taken for at work. A lease is about liveness only: whoever loses it is stopped by the fence of the next append, not here.
Invariant: a run is renewed from `hold` to `drop` and never after.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import count

from recovery.claims import Left, standing
from recovery.core.errors import StoreUnavailable
from recovery.core.host_errors import ThreadUnavailable
from recovery.crashpoints import around
from recovery.forks import watch
from recovery.logs import logger
from recovery.obeying import ORDER
from recovery.ports import Journal, Message, RunRow
from recovery.threads import Signal, Thread


class Leases:
    """Renews every held run each `every`, and gives up what was left. The thread starts with the first run and ends with the last one after `close`."""

    def __init__(self, journal: Journal, every: timedelta) -> None:
        self._journal = journal
        self._every_seconds = every.total_seconds()
        self.forked()
        watch(self)

    def forked(self) -> None:
        """A child renews nothing that its parent holds, and has no thread yet."""
        self._lock = threading.RLock()  # the garbage collector may close a coroutine that drops its claim where it is held
        self._held: dict[str, RunRow] = {}
        self._contracts: frozenset[str] = frozenset()
        self._asking = count(1)
        self._heard = 0  # which of those who asked has told us of them
        self._orders: dict[str, list[Message]] = {}
        self._read_to: dict[str, int] = {}
        self._lost: set[str] = set()
        self._abandoned: dict[str, Left] = {}  # by their tokens
        self._ended = Signal()
        self._thread: Thread | None = None
        self._closing = False

    def hold(self, run: RunRow) -> None:
        """Keep this run's lease alive from now on."""
        with self._lock:
            self._held[run.run_id] = run
            self._lost.discard(run.run_id)
            self._closing = False
            if self._thread is None:
                self._start()

    def _start(self) -> None:
        self._ended = Signal()  # its own: one that is shared could be cleared before the last thread has seen it
        thread = Thread(self._renew_until, self._ended, name="recovery-leases")
        try:
            thread.start()
            self._thread = thread
        except BaseException:  # interrupted, or no thread is to be had: nobody renews, and the next hold tries again
            self._ended.set()
            self._thread = None
            raise

    def held_contracts(self) -> frozenset[str]:
        """The contracts that were held when they were last read, by digest or name. Empty before that."""
        return self._contracts

    def hearing(self) -> Callable[[frozenset[str]], None]:
        """Who is about to read which contracts are held tells what this returns of them. Else a released one would stop its runs until the next renewal. Of
        several who read at the same time, whoever asked last is believed: an older answer that comes behind it would take back a hold."""
        asked = next(self._asking)

        def hear(contracts: frozenset[str]) -> None:
            with self._lock:
                if asked > self._heard:
                    self._heard, self._contracts = asked, contracts

        return hear

    def messages(self, run_id: str) -> Sequence[Message]:
        """The orders that were in the inbox of a held run when it was last read. Asked for at every step, however many other messages there are."""
        return self._orders.get(run_id, ())

    def lost(self, run_id: str) -> bool:
        """Whether the last renewal found that somebody else has a run that is at work here."""
        return run_id in self._lost

    def drop(self, run: RunRow) -> None:
        """Renew this claim no more. A later claim of the same run, by another thread of this process, stays."""
        with self._lock:
            held = self._held.get(run.run_id)
            self._lost.discard(run.run_id)
            if held is not None and held.owner == run.owner:
                del self._held[run.run_id]
                self._orders.pop(run.run_id, None)
                self._read_to.pop(run.run_id, None)
            if self._closing and not self._held:
                self._end()

    def abandon(self, left: Left) -> None:
        """Give up a claim as soon as the store answers."""
        logger(__name__).warning("claim not released", run_id=left.run_id)
        with self._lock:
            self._abandoned[left.token] = left
            if self._thread is None and not self._closing:
                with suppress(ThreadUnavailable):  # no thread is to be had: the next hold, or whoever wants the run, sees to it
                    self._start()

    def abandoned(self, token: str) -> Left | None:
        """The claim of this token, if it was left and is not known to be given up."""
        return self._abandoned.get(token)

    def close(self) -> None:
        """End the thread, or let it end with the last held run: whoever is still at work stays its owner. A later `hold` starts another."""
        self._give_up_abandoned()
        with self._lock:
            self._closing = bool(self._held)
            thread = None if self._closing else self._end()
        if thread is not None:
            thread.join()

    def _end(self) -> Thread | None:
        thread, self._thread = self._thread, None
        self._ended.set()
        return thread

    def _renew_until(self, ended: Signal) -> None:
        while not ended.wait(self._every_seconds):
            with self._lock:
                held = list(self._held.values())
            for run in held:
                self._renew(run)
            if held:
                self._listen()
            self._give_up_abandoned()

    def _give_up_abandoned(self) -> None:
        """Give up what was left, up to where the store does not answer; one whose row cannot be read keeps no other."""
        for left in list(self._abandoned.values()):
            try:
                if (row := standing(self._journal, left)) is not None:
                    with around("release"):
                        self._journal.release(left.run_id, left.token, row.epoch, left.due_us)
            except Exception as error:  # noqa: BLE001  # as in `_renew`
                logger(__name__).warning("claim not released", run_id=left.run_id, problem=type(error).__name__)
                if isinstance(error, StoreUnavailable):
                    return
                continue
            with self._lock:
                self._abandoned.pop(left.token, None)

    def _listen(self) -> None:
        """Hear which contracts are held, so that a run that is at work does not send under one until its end."""
        try:
            hear = self.hearing()
            hear(frozenset(hold.subject for hold in self._journal.holds()))
        except Exception as error:  # noqa: BLE001  # as below; what was heard last still counts
            logger(__name__).warning("held contracts not read", problem=type(error).__name__)

    def read_inbox(self, run_id: str) -> None:
        """Hear what was said to a run that is at work here; of any other, nothing is kept. Called with each renewal, and where somebody in
        this process has just put something in."""
        if run_id not in self._held:
            return
        try:
            news = self._journal.inbox(run_id, self._read_to.get(run_id, 0))
        except Exception as error:  # noqa: BLE001  # as below; what was heard last still counts
            logger(__name__).warning("inbox not read", run_id=run_id, problem=type(error).__name__)
            return
        with self._lock:
            if news and run_id in self._held:
                known = self._orders.get(run_id, [])
                heard = {order.number for order in known}  # two readers hear the same
                self._orders[run_id] = [*known, *(each for each in news if each.kind == ORDER and each.number not in heard)]
                self._read_to[run_id] = max(news[-1].number, self._read_to.get(run_id, 0))

    def _renew(self, run: RunRow) -> None:
        assert run.owner is not None
        try:
            kept = self._journal.renew(run.run_id, run.owner.token, run.epoch)
        except Exception as error:  # noqa: BLE001  # the other runs' leases hang on this thread
            logger(__name__).warning("lease not renewed", run_id=run.run_id, problem=type(error).__name__)
            return
        if kept:
            self.read_inbox(run.run_id)
        else:
            self.drop(run)
            self._lost.add(run.run_id)
            logger(__name__).warning("run was claimed by another worker", run_id=run.run_id, epoch=str(run.epoch))
