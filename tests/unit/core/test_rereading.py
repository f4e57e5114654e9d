"""A rereading reads: it stops where the code would do something that the run never did, and asks for nothing."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from recovery.core.entries import Opened, OutcomeKind, Settled
from recovery.core.history import fold
from recovery.core.ids import Epoch
from recovery.core.machine import Unwind
from recovery.core.operations import Now
from recovery.core.policy import Budget
from recovery.core.rereading import Rereading

ENTRIES = [
    Opened(workflow="w", version="1", input={}, input_digest="d", at_us=0),
    Settled(step="", outcome=OutcomeKind.APPLIED, at_us=1),
]


def reading() -> Rereading:
    return Rereading(history=fold("run", ENTRIES), epoch=Epoch(0, 1), budget=Budget(), deadline_us=0)


def asked(procedure: Coroutine[Any, Any, Any]) -> list[Any]:
    """The operations that it asks for until it stops."""
    found: list[Any] = []
    given = None
    try:
        while True:
            found.append(procedure.send(given))
            given = 10
    except Unwind:
        return found


def test_a_sleep_that_the_run_never_slept_ends_it_without_a_write() -> None:
    machine = reading()
    operations = asked(machine.sleep(machine.begin("sleep"), None, 5))
    assert {type(operation) for operation in operations} <= {Now}


def test_a_reading_that_the_run_never_made_ends_it_without_one() -> None:
    machine = reading()
    assert asked(machine.draw(machine.begin("now"), "now")) == []
