"""Random workflows with random kills come to what plain Python comes to. `make histories` runs thousands; this runs a few."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from recovery.core.machine import Machine
from recovery.definitions.replies import Replies
from tests.explorer.editing import edited
from tests.explorer.planted import BUGS, bug
from tests.model.planted import Change, planted
from tests.model.workflows.drawing import FEATURES
from tests.model.workflows.machine import Difference, Histories
from tests.model.workflows.tally import Tally

HISTORIES = int(os.environ.get("HISTORIES", "300"))
SHARE_MIN = 0.05
STEPS = 12


def compared(histories: int, *, derandomize: bool) -> Tally:
    """Play and compare so many."""
    Histories.tally = Tally()
    ours = settings(
        max_examples=histories,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        derandomize=derandomize,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Histories, settings=ours)
    return Histories.tally


FOUND_WITHIN = 200
PLANTED = (
    next(one for one in BUGS if one.name == "key per attempt"),
    bug("a timer that ends early", (Machine, "sleep", edited(Machine.sleep, ("now_us + lasts_us", "now_us + lasts_us // 2")))),
    bug("a rejection taken for silence", (Replies, "_refused", lambda replies, _: replies.raised(OSError()))),
    bug("a timer that is not found again", (Machine, "sleep", edited(Machine.sleep, ("if recorded is not None", "if False")))),
)
"""Faults of an engine, each of which must be a difference soon."""


def test_a_few_histories_come_to_what_plain_python_comes_to() -> None:
    assert compared(12, derandomize=True).histories > 0


@pytest.mark.histories
@pytest.mark.timeout(3600)
def test_histories_come_to_what_plain_python_comes_to() -> None:
    tally = compared(HISTORIES, derandomize=False)
    print(f"\n{tally.told(FEATURES)}")
    assert tally.histories >= HISTORIES
    rare = [feature for feature in FEATURES if tally.share(feature) < SHARE_MIN]
    assert not rare, f"in less than {SHARE_MIN:.0%} of the histories: {rare}"


@pytest.mark.histories
@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.name)
def test_a_planted_fault_is_a_difference(fault: Change) -> None:
    with planted(fault), pytest.raises(Difference):
        compared(FOUND_WITHIN, derandomize=True)
