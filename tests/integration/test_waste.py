"""What a step does not do, counted: it compiles no statement, validates no row of ours, logs nothing that nobody hears, and asks the database nothing."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from types import FrameType
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

from recovery import Call, Engine, Lease, Riding, Run, contracts, effect, workflow

FEW, MORE = 5, 20
LONG = timedelta(hours=1)
"""No other thread writes meanwhile."""
WASTE = ("/pydantic/", "/sqlalchemy/", "/structlog/", "/logging/", "/recovery/logs.py", "/recovery/storage/reading.py")
"""Where values are validated, statements compiled and sent, lines of logs made, and journals read."""


@effect(contracts.Keyed(window=timedelta(hours=24)))
def charge(call: Call, *, cents: int, item: str) -> int:
    return cents


@workflow
def bill(run: Run, items: int) -> int:
    return sum(run.perform(charge(cents=number, item=f"item-{number}")) for number in range(items))


def called(work: Callable[[], object]) -> Counter[str]:
    """The functions of those places that are called meanwhile, C's by their modules, too."""
    found: Counter[str] = Counter()

    def note(frame: FrameType, kind: str, about: Any) -> None:
        if kind == "call" and any(place in frame.f_code.co_filename for place in WASTE):
            found[f"{frame.f_code.co_filename.rpartition('site-packages/')[2]} {frame.f_code.co_qualname}"] += 1
        elif kind == "c_call" and (getattr(about, "__module__", "") or "").startswith("pydantic"):
            found[str(about)] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return found


def test_a_further_step_wastes_nothing(sqlite_url: str) -> None:
    said: list[str] = []

    def heard(connection: Any, _record: object) -> None:
        connection.set_trace_callback(said.append)

    event.listen(sa.pool.Pool, "connect", heard)
    try:
        with Engine(
            sqlite_url, workflows=[bill], riding=Riding(limit=LONG), lease=Lease(term=LONG, renew_every=LONG / 4)
        ) as engine:
            engine.run("warm", bill, FEW + MORE)
            calls, statements = [], []
            for items in (FEW, FEW + MORE):
                said.clear()
                calls.append(called(lambda items=items: engine.run(f"of-{items}", bill, items)))  # type: ignore[misc]  # bound now
                statements.append(Counter(statement.split()[0] for statement in said))
    finally:
        event.remove(sa.pool.Pool, "connect", heard)
    assert [name for name, count in (calls[1] - calls[0]).items() if count >= MORE] == []
    further = statements[1] - statements[0]
    assert further["COMMIT"] == MORE
    assert not further["SELECT"]
    assert further.total() <= 5 * MORE, "a transaction of the fence, the rows and the key"
