"""Readings of the clocks: an attempt's deadline holds on the boot clock, too, however many branches read the clocks meanwhile."""

from __future__ import annotations

from contextvars import copy_context
from datetime import timedelta

from recovery import Engine
from recovery.drivers.loop import READINGS_KEPT
from recovery.drivers.sync import SyncDriver, finish
from recovery.testing import ManualClock


def test_no_branch_pushes_out_the_reading_that_another_ones_attempt_is_stamped_with() -> None:
    clock = ManualClock()
    with Engine("memory://", clock=clock) as engine:
        driver = SyncDriver(engine.surroundings())
        boot_us, mine_us = clock.boot_us(), finish(driver._now())
        for _ in range(3 * READINGS_KEPT):
            clock.advance(timedelta(seconds=1))
            copy_context().run(finish, driver._now())
        assert driver._boot_at(mine_us) == boot_us
        for _ in range(READINGS_KEPT):
            clock.advance(timedelta(seconds=1))
            finish(driver._now())
        assert driver._boot_at(mine_us) is None
