"""Two calls at once on PostgreSQL: one is held open when it has written and not yet committed, and another comes.

Owns the holding (a trigger that waits for an advisory lock, so that the shipped statement is stopped in its own transaction), and what the two
may come to: what one of the two orders gives in memory. Invariant: nothing is timed; the server is asked who waits for whom.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import psycopg

from recovery.storage import open_journal
from recovery.storage.sql import SqlJournal
from tests.conformance.blocking import in_thread, wait_for
from tests.model.claims.store import WRITES, Call, Stored
from tests.model.claims.stores import after_call, as_held, held_in, put

LOCK: Final = 7
SECONDS: Final = 60

_HOLD: Final = """
CREATE OR REPLACE FUNCTION held_open() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('application_name') = 'first' THEN
        PERFORM pg_advisory_xact_lock(7);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER held_open AFTER INSERT OR UPDATE ON run FOR EACH ROW EXECUTE FUNCTION held_open();
CREATE TRIGGER held_open AFTER INSERT ON evidence FOR EACH ROW EXECUTE FUNCTION held_open();
CREATE TRIGGER held_open AFTER UPDATE ON meta FOR EACH ROW EXECUTE FUNCTION held_open();
"""
_LET_GO: Final = (
    "DROP TRIGGER held_open ON run; DROP TRIGGER held_open ON evidence; DROP TRIGGER held_open ON meta; DROP FUNCTION held_open()"
)


class Pair(NamedTuple):
    stored: Stored
    first: Call
    second: Call

    @property
    def shape(self) -> tuple[Any, ...]:
        """What kind of meeting it is: what each answers alone, and after the other."""
        alone, after = after_call(self.stored, self.first)
        later = after_call(after, self.second)[0]
        earlier, between = after_call(self.stored, self.second)
        last = after_call(between, self.first)[0]
        return (self.first.method, self.second.method, *map(_kind, (alone, later, earlier, last)))


def _kind(answer: Any) -> str:
    if isinstance(answer, bool | None):
        return str(answer)
    return " ".join(type(each).__name__ for each in answer) if type(answer) is tuple else type(answer).__name__


def pairs(asked: dict[Stored, list[Call]], of_each: int) -> list[Pair]:
    """So many meetings of each shape."""
    found: dict[tuple[Any, ...], list[Pair]] = {}
    for stored, calls in asked.items():
        for first in calls:
            if first.method not in WRITES:
                continue
            for second in calls:
                pair = Pair(stored, first, second)
                if len(there := found.setdefault(pair.shape, [])) < of_each:
                    there.append(pair)
    return [pair for there in found.values() for pair in there]


@dataclass
class Meeting:
    """Two journals on one database, and somebody who watches."""

    first: SqlJournal
    second: SqlJournal
    watcher: psycopg.Connection[Any]

    def hold(self, pair: Pair, *, killed: bool) -> str:
        """Let the two calls meet; "" if they come to what one of their orders comes to. killed: the first one's server process is, before
        it commits; its client repeats the call."""
        put(self.second, pair.stored)
        self.watcher.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
        one = in_thread(lambda: pair.first.on(self.first))
        holder = self._waits(one, self.watcher.info.backend_pid)
        two = in_thread(lambda: pair.second.on(self.second))
        if holder is not None:
            self._waits(two, holder)
            if killed:
                self.watcher.execute("SELECT pg_terminate_backend(%s)", (holder,))
        self.watcher.execute("SELECT pg_advisory_unlock(%s)", (LOCK,))
        came = (one.result(SECONDS), two.result(SECONDS), held_in(self.second))
        if came in (_order(pair.stored, pair.first, pair.second), _turned(_order(pair.stored, pair.second, pair.first))):
            return ""
        return f"{pair.first.method} held open, {pair.second.method}{', killed' if killed else ''}: {came}"

    def _waits(self, call: Future[Any], pid: int) -> int | None:
        """Until the call waits for this backend: by which one. None: it is done without."""
        found: list[int] = []

        def settled() -> bool:
            row = self.watcher.execute("SELECT pid FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))", (pid,)).fetchone()
            found[:] = row or ()
            return bool(found) or call.done()

        wait_for(settled, f"a call that waits for {pid}, or is done")
        return found[0] if found else None


def _order(stored: Stored, one: Call, other: Call) -> tuple[Any, Any, Any]:
    first, between = after_call(stored, one)
    second, after = after_call(between, other)
    return first, second, as_held(after)


def _turned(order: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    return order[1], order[0], order[2]


@contextmanager
def meeting(url: str) -> Iterator[Meeting]:
    """On this migrated database, which is as it was afterwards, but for its rows."""
    first, second = open_journal(f"{url}&application_name=first"), open_journal(f"{url}&application_name=second")
    assert isinstance(first, SqlJournal)
    assert isinstance(second, SqlJournal)
    with psycopg.connect(url, autocommit=True) as watcher:
        watcher.execute(_HOLD)
        try:
            yield Meeting(first, second, watcher)
        finally:
            first.close()
            second.close()
            watcher.execute(_LET_GO)
