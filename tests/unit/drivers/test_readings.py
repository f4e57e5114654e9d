"""Readings of the clocks: an attempt's deadline holds on the boot clock, too, however many branches read the clocks meanwhile."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from recovery import Engine
from recovery.core.operations import Now, Op, Use
from recovery.drivers.readings import READINGS_KEPT, Readings
from recovery.drivers.sync import SyncDriver, finish
from recovery.testing import ManualClock


def test_a_reading_is_known_with_the_boot_time_before_it_until_many_others_have_been_made() -> None:
    clock, readings = ManualClock(), Readings()
    clock.advance(timedelta(seconds=5))
    boot_us, mine_us = clock.boot_us(), readings.read(clock)
    for _ in range(READINGS_KEPT - 1):
        clock.advance(timedelta(seconds=1))
        readings.read(clock)
    assert readings.get(mine_us) == boot_us
    clock.advance(timedelta(seconds=1))
    readings.read(clock)
    assert readings.get(mine_us) is None


def test_no_branch_pushes_out_the_reading_that_another_ones_attempt_is_stamped_with() -> None:
    """Each procedure has readings of its own, and those below one have, too."""
    clock = ManualClock()
    seen: list[Readings] = []

    class Watched(SyncDriver):
        def _carried_out(self, operation: Op[Any], readings: Readings) -> Coroutine[Any, Any, Any]:
            seen.append(readings)
            return super()._carried_out(operation, readings)

    async def reads(times: int) -> int:
        first_us = await Now()
        for _ in range(times):
            clock.advance(timedelta(seconds=1))
            await Now()
        await Use(lambda _: None)
        return first_us

    with Engine("memory://", clock=clock) as engine:
        driver = Watched(engine.surroundings())

        async def outer() -> int:
            mine_us = await Now()
            await Use(lambda _: finish(driver.drive(reads(3 * READINGS_KEPT))))
            await Use(lambda _: None)
            return mine_us

        boot_us = clock.boot_us()
        mine_us = finish(driver.drive(outer()))
    mine, other, _ = seen[0], seen[1], seen[2]
    assert mine is not other
    assert mine.get(mine_us) == boot_us
    assert other.get(mine_us) is None
