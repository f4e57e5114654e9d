"""`python -m tests.model.claims`: the whole bound of the claim protocol, with what it covered. Ends with 1 if a promise does not hold."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor

from recovery.storage import open_journal
from recovery.storage.migrate import migrate
from recovery.storage.sql import SqlJournal
from tests.model.claims.interleaved import meeting, pairs
from tests.model.claims.limited import search as limits
from tests.model.claims.promises import PROMISES
from tests.model.claims.search import SETTINGS, search
from tests.model.claims.store import Call, Stored
from tests.model.claims.stores import asked_in, check_one
from tests.postgres import serving

STATES_MAX = 1_000_000
STATES_ASKED = 20_000
LIMITED_MAX = 200_000
"""Of each setting: how far the calls are collected that the databases are asked, too."""
OF_EACH = 2
"""Meetings of one shape."""


def main() -> int:
    began, wrong = time.monotonic(), 0
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        for found in pool.map(search, SETTINGS, [STATES_MAX] * len(SETTINGS)):
            wrong += bool(found.violation)
            print(
                found.violation
                or f"{found.setting:45} {found.states:9,} states {found.transitions:10,} moves{'' if found.whole else ', cut'}",
                flush=True,
            )
        asked = list(pool.map(asked_in, SETTINGS, [STATES_ASKED] * len(SETTINGS)))
    print(f"{len(PROMISES)} promises after each move")
    limited = limits(runs=3, ticks=4, states_max=LIMITED_MAX)
    print(
        limited.violation
        or f"limits of a queue: {limited.states:,} states, {limited.full:,} of them full, {limited.held_up:,} held up"
    )
    wrong += bool(limited.violation)
    wrong += _sqlite(asked)
    wrong += _postgresql(asked)
    spent = os.times()
    processor = spent.user + spent.system + spent.children_user + spent.children_system
    print(f"{wrong} violations in {time.monotonic() - began:.0f} s, {processor:.0f} s of processor time")
    return 1 if wrong else 0


def _sqlite(asked: list[dict[Stored, list[Call]]]) -> int:
    with tempfile.TemporaryDirectory() as directory:
        journal = open_journal(f"sqlite:///{directory}/recovery.db")
        assert isinstance(journal, SqlJournal)
        calls = [(stored, call) for part in asked for stored, those in part.items() for call in those]
        wrong = [problem for stored, call in calls if (problem := check_one(journal, stored, call))]
        journal.close()
    print(*wrong, f"SQLite: {len(calls):,} calls, each in its state of the store, {len(wrong)} other than in memory", sep="\n")
    return len(wrong)


def _postgresql(asked: list[dict[Stored, list[Call]]]) -> int:
    chosen = [pair for part in asked for pair in pairs(part, OF_EACH)]
    with serving() as server, meeting(server.url(server.take("claims", migrate))) as met:
        calls = [(stored, call) for part in asked for stored, those in part.items() for call in those]
        wrong = [problem for stored, call in calls if (problem := check_one(met.second, stored, call))]
        ways = [(pair, killed) for pair in chosen for killed in (False, True)]
        wrong += [problem for pair, killed in ways if (problem := met.hold(pair, killed=killed))]
    print(*wrong, f"PostgreSQL: {len(calls):,} calls, and {len(ways):,} meetings of two, {len(wrong)} wrong", sep="\n")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
