"""The contract of tolerance: on one build, one thread and deterministic algorithms a torch job resumes in every bit; what is forgotten is found."""

from __future__ import annotations

import numpy as np
import pytest

from recovery.checkpoint import verify_resume
from recovery.checkpoint.resume.comparing import Moment, divergence
from recovery.checkpoint.resume.tolerance import DETERMINISTIC, EXACT, REORDERED
from recovery.checkpoint.resume.verifying import Finding
from tests.torch import resuming


def test_a_torch_job_resumes_exactly_in_a_fresh_process() -> None:
    report = verify_resume(resuming.make, resuming.step, before=3, after=3, contract=DETERMINISTIC, ablate=False)
    assert (report.finding, report.divergence, report.unregistered) == (Finding.EXACT, None, ())
    assert report.compared > 300


def test_no_field_of_a_torch_job_can_be_lost_without_notice() -> None:
    report = verify_resume(resuming.make, resuming.step, before=3, after=3, contract=DETERMINISTIC, fresh_process=False)
    assert report.finding is Finding.EXACT
    assert all(each.noticed for each in report.dropped)
    assert {each.field for each in report.dropped} >= {
        "w",
        "m",
        "v",
        "step",
        "b",
        "extra",
        "generators.0/torch",
        "generators.0/sampler",
    }
    weights_only = next(line for line in report.trajectories if line.name == "weights only")
    assert weights_only.points[-1].apart > 0


def test_a_generator_that_is_not_registered_is_found_as_hidden_state() -> None:
    report = verify_resume(
        resuming.make_forgetting_its_generator, resuming.step, before=2, after=2, fresh_process=False, ablate=False
    )
    assert report.finding is Finding.HIDDEN_STATE
    assert report.divergence is not None


def test_a_schedule_that_is_no_part_of_the_job_is_found_as_hidden_state() -> None:
    report = verify_resume(
        resuming.make_forgetting_its_schedule, resuming.step, before=3, after=3, fresh_process=False, ablate=False
    )
    assert report.finding is Finding.HIDDEN_STATE


def test_other_sums_are_within_the_contract_for_them_and_not_exact() -> None:
    one = resuming.make()
    whole = [one.step() or one.capture() for _ in range(6)]
    other = resuming.make()
    moved = [resuming.step_reordered(other) or other.capture() for _ in range(6)]
    exact = [divergence(each.counter, Moment.of(each), Moment.of(its), EXACT) for each, its in zip(whole, moved, strict=True)]
    within = [divergence(each.counter, Moment.of(each), Moment.of(its), REORDERED) for each, its in zip(whole, moved, strict=True)]
    assert any(exact[3:])
    assert within == [None] * 6


@pytest.mark.parametrize("lost", ["m", "v"])
def test_lost_moments_are_beyond_every_contract(lost: str) -> None:
    trainer = resuming.make()
    for _ in range(4):
        trainer.step()
    state = trainer.capture()
    trainer.step()
    whole = trainer.capture()
    arrays = {name: np.zeros_like(array) if name.startswith(f"{lost}/") else array for name, array in state.arrays.items()}
    again = resuming.make()
    again.restore(type(state)(**{**{each: getattr(state, each) for each in FIELDS}, "arrays": arrays}))
    again.step()
    assert divergence(5, Moment.of(whole), Moment.of(again.capture()), REORDERED) is not None


FIELDS = ("arrays", "counter", "cursor", "generators", "history", "config", "lifecycle", "extra")
