"""The replay agrees with the closed form, and with a replay that counts event by event."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.checkpoint.planning import failures, simulation
from recovery.checkpoint.planning import interval as planning
from recovery.checkpoint.planning.failures import Failures
from recovery.checkpoint.planning.interval import Situation
from recovery.checkpoint.refusals import ScheduleInfeasible
from tests.unit.checkpoint.planning.test_interval import situation, situations

LLAMA = situation(11135.0, 100.0, 6.3, 60.0, 600.0)


def told(of: Situation, interval_s: float, up_s: float) -> tuple[float, float, int]:
    """(kept, stalled, saves begun) of one time without failures, told event by event."""
    at, kept, stalled, begun, durable = 0.0, 0.0, 0.0, 0, []
    work = interval_s - of.stall_s
    while at + work <= up_s:
        at += work
        begun += 1
        durable.append(at + of.save_s)
        stalled += min(of.stall_s, up_s - at)
        at += of.stall_s
    kept = work * sum(end <= up_s for end in durable)
    return kept, stalled, begun


@given(st.sampled_from([(1000.0, 100.0, 25.0), (1000.0, 100.0, 100.0), (64.0, 8.0, 0.0)]), st.integers(1, 50), st.integers(0, 4000))
def test_counting_saves_is_telling_them_one_by_one(sizes: tuple[float, float, float], factor: int, quarters: int) -> None:
    """On a grid of quarters of a second, so that boundaries are met exactly: a save that ends with the failure is durable."""
    of = situation(*sizes)
    interval = of.save_s + 0.25 * factor
    up = simulation.lived(of, interval, quarters * 0.25)
    assert (up.kept_s, up.stalled_s, up.saves) == told(of, interval, quarters * 0.25)


@settings(max_examples=40, derandomize=True)  # five errors are rare, not impossible
@given(situations, st.floats(1.05, 4.0), st.integers(0, 2**32 - 1))
def test_the_closed_form_and_the_simulation_agree(of: Situation, factor: float, seed: int) -> None:
    """Within five standard errors: the interval is 95 %, and many are drawn."""
    interval = max(of.save_s * 1.05, planning.best(of) * factor / 2)
    found = simulation.simulate(of, interval, failures.exponential(of.mtbf_s, count=2000, seed=seed))
    expected = planning.outlook(of, interval)
    assert found.low is not None
    assert found.high is not None
    error = max((found.high - found.low) / 2 / 1.96, 1e-6)
    assert abs(found.shares.retained - expected.shares.retained) < 5 * error
    assert found.shares.retained + found.shares.stalled + found.shares.lost + found.shares.down == pytest.approx(1, abs=1e-9)


def test_every_share_of_a_long_simulation_is_that_of_the_closed_form() -> None:
    found = simulation.simulate(LLAMA, 377.0, failures.exponential(11135.0, count=50_000, seed=7))
    expected = planning.outlook(LLAMA, 377.0)
    for name in ("retained", "stalled", "lost", "down"):
        assert getattr(found.shares, name) == pytest.approx(getattr(expected.shares, name), rel=0.03)
    assert found.lost_per_failure_s == pytest.approx(expected.lost_per_failure_s, rel=0.02)
    assert found.saves / found.wall_s * 86400 == pytest.approx(expected.saves_per_day, rel=0.02)
    assert found.wall_s / found.failures == pytest.approx(LLAMA.cycle_s, rel=0.02)


def test_the_confidence_interval_covers_the_closed_form_as_often_as_it_says() -> None:
    expected = planning.outlook(LLAMA, 377.0).shares.retained
    found = [simulation.simulate(LLAMA, 377.0, failures.exponential(11135.0, count=60, seed=seed)) for seed in range(200)]
    covered = sum(each.low is not None and each.high is not None and each.low <= expected <= each.high for each in found)
    assert 178 <= covered <= 199  # 190 are expected; these are seeds, so that this is not chance but arithmetic


def test_the_same_seed_gives_the_same_numbers() -> None:
    first, again, other = (simulation.simulate(LLAMA, 377.0, failures.weibull(11135.0, 0.7, seed=seed)) for seed in (5, 5, 6))
    assert first == again
    assert first != other


def test_a_failure_before_the_last_one_was_noticed_changes_nothing() -> None:
    of = situation(1000.0, 10.0, 1.0, 5.0, 20.0)
    assert list(simulation.cycles(of, [100.0, 104.9])) == [(100.0, 25.0)]


def test_a_failure_in_a_restart_begins_the_repair_anew() -> None:
    of = situation(1000.0, 10.0, 1.0, 5.0, 20.0)
    assert list(simulation.cycles(of, [100.0, 110.0, 200.0])) == [(100.0, 35.0), (65.0, 25.0)]
    assert list(simulation.cycles(of, [100.0, 125.0])) == [(100.0, 25.0), (0.0, 25.0)]  # struck as training went on


def test_few_failures_say_nothing_about_how_sure_it_is() -> None:
    four, five = (simulation.simulate(LLAMA, 377.0, failures.exponential(1e5, count=count)) for count in (4, 5))
    assert (four.low, four.high) == (None, None)
    assert five.low is not None


def test_a_comparison_has_the_best_and_what_was_asked_for() -> None:
    rows = simulation.compare(planning.plan(LLAMA), failures.exponential(11135.0, count=50), [1800.0])
    assert [row.interval_s for row in rows if row.asked] == [1800.0]
    assert [row.interval_s for row in rows if row.best] == [planning.plan(LLAMA).optimum_s]
    assert rows[0].interval_s == LLAMA.save_s
    with pytest.raises(ScheduleInfeasible):
        simulation.compare(planning.plan(LLAMA), failures.exponential(11135.0, count=50), [50.0])


def test_the_search_finds_the_closed_forms_optimum_where_failures_have_no_memory() -> None:
    best = planning.plan(LLAMA)
    found = simulation.search(best, failures.exponential(11135.0, count=20_000, seed=3))
    assert found.from_s is not None
    assert found.to_s is not None
    assert found.from_s <= found.interval_s <= found.to_s
    assert found.interval_s == pytest.approx(best.optimum_s, rel=0.2)
    assert found.retained == pytest.approx(best.outlook.shares.retained, abs=0.002)


def test_the_search_follows_the_failures_that_it_is_given() -> None:
    """Failures like clockwork, every 1000 s: the best save is durable just before. The closed form cannot know."""
    of = situation(1000.0, 10.0, 1.0)
    clockwork = Failures("clockwork", tuple(1000.0 * n for n in range(1, 50)))
    found = simulation.search(planning.plan(of), clockwork)
    plain = simulation.simulate(of, planning.plan(of).optimum_s, clockwork)
    assert found.retained > plain.shares.retained
    assert found.interval_s != planning.plan(of).optimum_s
    assert found.retained == simulation.simulate(of, found.interval_s, clockwork).shares.retained
    assert found.from_s == found.to_s == found.interval_s  # without spread every difference counts


def test_the_search_keeps_to_what_can_be_kept() -> None:
    for of in (situation(1000.0, 10.0, 0.0), situation(1000.0, 900.0, 900.0)):
        found = simulation.search(planning.plan(of), failures.exponential(1000.0, count=100))
        planning.feasible(of, found.interval_s)


def test_four_failures_tell_no_range_of_intervals() -> None:
    found = simulation.search(planning.plan(LLAMA), failures.exponential(11135.0, count=4))
    assert (found.from_s, found.to_s) == (None, None)


def test_an_infeasible_interval_is_not_simulated() -> None:
    with pytest.raises(ScheduleInfeasible):
        simulation.simulate(LLAMA, 99.0, Failures("", (1000.0,)))


@pytest.mark.parametrize(("freedom", "quantile"), [(4, 2.776445), (10, 2.228139), (30, 2.042272), (10**6, 1.959966)])
def test_students_quantile(freedom: int, quantile: float) -> None:
    """From the tables."""
    assert simulation.student(0.975, freedom) == pytest.approx(quantile, rel=1e-3)


@pytest.mark.parametrize("shape", [0.5, 0.7, 1.0, 2.0])
def test_drawn_failures_have_the_mean_that_was_asked_for(shape: float) -> None:
    drawn = failures.weibull(1000.0, shape, count=20_000, seed=1)
    assert drawn.mtbf_s == pytest.approx(1000, rel=0.05)
    gaps = [b - a for a, b in zip((0.0, *drawn.at_s), drawn.at_s, strict=False)]
    spread = math.gamma(1 + 2 / shape) / math.gamma(1 + 1 / shape) ** 2 - 1
    mean = sum(gaps) / len(gaps)
    assert sum((gap - mean) ** 2 for gap in gaps) / len(gaps) / mean**2 == pytest.approx(spread, rel=0.15)
