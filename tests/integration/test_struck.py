"""Ctrl-C at any line between the claim of a run and its end: the run is given up, what is durable is written once, and the next call has the outcome."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import recovery
from recovery import Call, Engine, Environment, Run, effect, workflow
from recovery.core.entries import Status
from tests.integration.world import QUICK, keyed

OURS = Path(recovery.__file__).parent
STRUCK = {str(OURS / name) for name in ("claims.py", "reconciler.py", "offspring.py", "crashpoints.py", "storage/writer.py")}
"""Where no lock is held: between a block with one and its end no signal is looked at, but a trace is."""

sent: Counter[str] = Counter()


@effect(keyed(), environment=Environment("struck"))
def book(call: Call, *, number: int) -> int:
    sent[f"{call.key} {call.attempt}"] += 1
    return number


@workflow
def order(run: Run) -> list[int]:
    return [run.perform(book(number=number)) for number in range(2)]


class Striking:
    """Counts the lines of a call, and interrupts it at one of them."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.passed = 0

    def __call__(self, frame: FrameType, event: str, _arg: object) -> Any:
        if frame.f_code.co_filename not in STRUCK:
            return None
        if event == "line":
            self.passed += 1
            if self.passed == self.at:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def is_struck(engine: Engine, at: int) -> bool:
    """Whether a call has so many lines; it is broken off there."""
    before = sys.gettrace()
    sys.settrace(Striking(at))
    try:
        engine.run(f"r{at}", order)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.filterwarnings(
    "ignore:coroutine .* was never awaited:RuntimeWarning"
)  # one that was made, and broken off in front of its first line
def test_an_interrupt_at_any_line_gives_the_run_up_and_writes_nothing_twice() -> None:
    at = 1
    with Engine("memory://", workflows=[order], budget=QUICK) as engine:
        while is_struck(engine, at):
            row = engine.journal.find(f"r{at}")
            assert row is None or row.owner is None or row.status.settled, at
            assert engine.run(f"r{at}", order) == [0, 1], at
            at += 1
        assert {info.status for info in engine.list()} == {Status.COMPLETED}
        assert engine.verify().broken == []
    assert at > 300
    assert set(sent.values()) == {1}, "each attempt is sent once"
