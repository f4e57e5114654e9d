"""Ctrl-C at any place of a call that takes a run beside the one that it is about, or for an order: no run is left to a process that works on none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import CodeType

import pytest

import recovery
from recovery import Call, Engine, Environment, Riding, Run, effect, workflow
from recovery.core.policy import RIDING
from tests.integration.world import QUICK, keyed
from tests.interrupts import Interrupting, everywhere

OURS = Path(recovery.__file__).parent
OWNING = {
    str(OURS / name) for name in ("claims.py", "offspring.py", "reconciler.py", "operators/claiming.py", "operators/forking.py")
}


PLACES = 30
"""That are struck in a call of a database."""


@effect(keyed(), environment=Environment("struck"))
def book(call: Call) -> int:
    return 1


@workflow
def child(run: Run) -> int:
    return run.perform(book())


@workflow
def parent(run: Run) -> int:
    return run.call_child(child()) + 1


def a_parent(engine: Engine, at: int) -> Callable[[], object]:
    return lambda: engine.run(f"r{at}", parent)


def an_order(engine: Engine, at: int) -> Callable[[], object]:
    engine.enqueue(child(), run_id=f"r{at}")
    return lambda: engine.hold(f"r{at}", by="a test", reason="to see")


def a_fork(engine: Engine, at: int) -> Callable[[], object]:
    engine.run("source", child)
    return lambda: engine.fork("source", f"r{at}", by="a test", reason="to see")


def is_of_a_claim(code: CodeType) -> bool:
    return code.co_filename in OWNING


def place_of(call: Callable[[], object], at: int, struck: Callable[[CodeType], bool]) -> str:
    """Where a call was broken off; "" where it was not."""
    interrupting = Interrupting(at, struck)
    try:
        with interrupting.block():
            call()
    except KeyboardInterrupt:
        return interrupting.place
    return ""


def owned(engine: Engine) -> list[str]:
    """Runs that this process still has, which works on none."""
    return [info.run_id for info in engine.list() if info.owner is not None and not info.status.settled]


CALLS = [a_parent, an_order, a_fork]


@pytest.mark.filterwarnings(
    "ignore:coroutine .* was never awaited:RuntimeWarning"
)  # one that was broken off in front of its first line
@pytest.mark.parametrize("prepared", CALLS)
def test_an_interrupt_leaves_no_run_owned(prepared: Callable[[Engine, int], Callable[[], object]]) -> None:
    at, place = 0, "somewhere"
    with Engine("memory://", workflows=[parent, child], budget=QUICK) as engine:
        while place:
            at += 1
            place = place_of(prepared(engine, at), at, is_of_a_claim)
            assert owned(engine) == [], place
        assert engine.run("after", parent) == 2
        assert engine.verify().broken == []
    assert at > 20


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # as above
@pytest.mark.filterwarnings("ignore:.*was deleted while still open:ResourceWarning")  # made, and broken off before the pool had it
@pytest.mark.parametrize("riding", [RIDING, None])
@pytest.mark.parametrize("database", ["migrated_sqlite_url", "postgres_url"])
def test_an_interrupt_anywhere_in_a_call_of_a_database_leaves_no_run_owned(
    request: pytest.FixtureRequest, database: str, riding: Riding | None
) -> None:
    """In our code, the driver's and the pool's, at places that lie evenly over the whole call."""
    with Engine(request.getfixturevalue(database), workflows=[parent, child], budget=QUICK, riding=riding) as engine:
        engine.run("first", parent)
        counting = Interrupting(-1)
        with counting.block():
            engine.run("second", parent)
        struck = 0
        for at in range(7, counting.passed, counting.passed // PLACES):
            place = place_of(a_parent(engine, at), at, everywhere)
            struck += place != ""
            assert owned(engine) == [], place
            assert engine.run(f"r{at}", parent) == 2, place
        assert engine.verify().broken == []
    assert struck > PLACES // 2, "Python drops one that comes while it lets go of an object"
