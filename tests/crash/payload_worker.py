"""A worker whose every value lies out of line, and which kills itself in front of, or behind, one statement about payloads.

    python payload_worker.py URL RUN KILL_AT

KILL_AT: the number of the moment, counted from 1 over this process; 0: it is not killed. What is looked at is the journal, so the effect
leaves nothing anywhere.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

from recovery import Call, Engine, Environment, Run, contracts, effect, workflow
from recovery.encryption import Keyring

LARGE = "a page of a report\n" * 3_600
KEYS = {"one": b"1" * 32}
ABOUT_PAYLOADS = re.compile(r"\s*INSERT INTO \S*payload\b")


@effect(contracts.Keyed(window=timedelta(days=1)), environment=Environment("archive"))
def file_away(call: Call, *, document: str) -> str:
    return f"filed: {document}"


def write(topic: str) -> str:
    return f"{topic[:20]}: {LARGE}"


@workflow
def report(run: Run, topic: str) -> str:
    document = run.decide("write", write, topic)
    return run.perform(file_away(document=document))


def engine(url: str) -> Engine:
    """Strict: each value is stored in an append of its own, and each of them is tried."""
    return Engine(url, workflows=[report], encryption=Keyring(KEYS), riding=None)


def killing(number: int) -> None:
    """Kill this process at the moment of that number: each statement about payloads has one in front of it and one behind it."""
    met, inside = 0, False

    def meet() -> None:
        nonlocal met
        met += 1
        if met == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def begun(statement: str) -> None:
        """By SQLite itself, which is told most of its statements past Core: what the last one wrote is behind it when the next one begins."""
        nonlocal inside
        if inside:
            meet()
        inside = ABOUT_PAYLOADS.match(statement) is not None
        if inside:
            meet()

    def said(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        if ABOUT_PAYLOADS.match(statement):
            meet()

    if sys.argv[1].startswith("sqlite"):
        event.listen(sa.Engine, "connect", lambda connection, _record: connection.set_trace_callback(begun))
    else:
        event.listen(sa.Engine, "before_cursor_execute", said)
        event.listen(sa.Engine, "after_cursor_execute", said)


if __name__ == "__main__":
    killing(int(sys.argv[3]))
    with engine(sys.argv[1]) as made:
        print(len(made.run(sys.argv[2], report, f"topic {LARGE}")))
