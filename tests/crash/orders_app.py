"""A run for the tests of killed operators that was settled so long ago that it may be forgotten."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from recovery import Call, Engine, Environment, Run, contracts, effect, workflow
from recovery.testing.clock import ManualClock

LONG_AGO = timedelta(days=400)


@effect(contracts.Opaque(), environment=Environment("world"), timeout=timedelta(seconds=1))
def mail(call: Call) -> str:
    return "sent"


@workflow
def send(run: Run) -> str:
    return run.perform(mail(), key=f"mail-{run.run_id}")


def settle_long_ago(engine: Engine, run_id: str, ago: timedelta) -> None:
    past = Engine(engine.journal, clock=ManualClock(datetime.now(UTC) - ago))
    past.run(run_id, send)
