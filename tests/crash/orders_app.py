"""Runs for the tests of killed operators: one in doubt, one settled so long ago that it may be forgotten."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta

from recovery import Call, Engine, Environment, Run, contracts, effect, workflow
from recovery.testing.clock import ManualClock


class _Killed(BaseException):
    """The worker is gone."""


@effect(contracts.Opaque(), environment=Environment("world"), timeout=timedelta(seconds=1))
def mail(call: Call, *, lost: bool) -> str:
    if lost:
        raise _Killed
    return "sent"


@workflow
def send(run: Run, lost: bool) -> str:
    return run.perform(mail(lost=lost), key=f"mail-{run.run_id}")


def leave_in_doubt(engine: Engine, run_id: str) -> None:
    with contextlib.suppress(_Killed):
        engine.run(run_id, send, True)
    engine.recover(run_id)


def settle_long_ago(engine: Engine, run_id: str, ago: timedelta) -> None:
    past = Engine(engine.journal, clock=ManualClock(datetime.now(UTC) - ago))
    past.run(run_id, send, False)
