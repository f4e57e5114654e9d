"""The floor, the best interval and the closed form; and what cannot be kept, with the number that could."""

from __future__ import annotations

import math
import pickle

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from recovery.checkpoint.planning import interval as planning
from recovery.checkpoint.planning import units
from recovery.checkpoint.planning.interval import Plan, Situation, plan_interval
from recovery.checkpoint.refusals import ScheduleInfeasible

MTBF = "11135s"  # of a run on 16,384 accelerators: 419 unexpected interruptions in 54 days (Llama 3, 2024)


def made(**more: str) -> Plan:
    return plan_interval(**({"bytes": "2TB", "bandwidth": "20GB/s", "mtbf": MTBF} | more))  # type: ignore[arg-type]


def situation(mtbf_s: float, save_s: float, stall_s: float, detection_s: float = 0.0, restart_s: float = 0.0) -> Situation:
    return Situation(
        size=max(1, int(save_s * 10**6)),
        bandwidth=1e6,
        mtbf_s=mtbf_s,
        save_s=save_s,
        stall_s=stall_s,
        detection_s=detection_s,
        restart_s=restart_s,
    )


situations = st.builds(
    lambda mean, save, stall, detection, restart: situation(
        mean, mean * save, mean * save * stall, mean * detection, mean * restart
    ),
    st.floats(10.0, 1e6),
    st.floats(1e-4, 0.9),
    st.one_of(st.just(0.0), st.just(1.0), st.floats(1e-3, 1.0)),
    st.floats(0.0, 0.5),
    st.floats(0.0, 0.5),
)


def test_two_terabytes_at_twenty_gigabytes_a_second_take_a_hundred_seconds() -> None:
    assert made().situation.floor_s == 100.0


def test_synchronous_saves_of_a_llama_like_run() -> None:
    """C = 100 s, M = 11,135 s: Young's interval is 1,492 s, and its first-order waste 13.4 %."""
    of = made()
    assert of.young_s == pytest.approx(1492, abs=0.5)
    assert round(100 * planning.first_order(of.situation, of.young_s).waste, 1) == 13.4
    assert planning.first_order(of.situation, of.young_s).lost_per_failure_s == of.young_s / 2


def test_asynchronous_saves_of_a_llama_like_run() -> None:
    """A stall of 6.3 s: 375 s, which is above the floor, and 4.3 %; the lost work is tau/2 + S/B."""
    of = made(stall="6.3s")
    assert of.young_s == pytest.approx(375, abs=0.5)
    assert not of.at_floor
    first = planning.first_order(of.situation, of.young_s)
    assert round(100 * first.waste, 1) == 4.3
    assert first.lost_per_failure_s == of.young_s / 2 + 100


def test_a_synchronous_plan_is_dalys_cost_function() -> None:
    """Daly (2006), for the work between two saves: M exp(R/M) (exp((tau + C)/M) - 1) / tau."""
    of = made(restart="10m")
    tau, mean = of.interval_s - 100, 11135.0
    assert 1 / of.outlook.shares.retained == pytest.approx(
        mean * math.exp(600 / mean) * math.expm1((tau + 100) / mean) / tau, rel=1e-12
    )


def test_dalys_estimate_is_nearer_to_the_optimum_than_youngs() -> None:
    of = made()
    assert abs(of.daly_s - of.interval_s) < abs(of.young_s - of.interval_s) / 1000
    assert of.daly_s == pytest.approx(of.interval_s, rel=1e-4)


def test_asynchronous_saves_cost_less_and_remove_no_traffic() -> None:
    slow, fast = made(), made(stall="6.3s")
    assert fast.outlook.shares.waste < slow.outlook.shares.waste / 2
    assert fast.outlook.busy > slow.outlook.busy


def test_a_short_stall_ends_at_the_floor() -> None:
    """Without it, saving ever more often would be best. The path does not allow it."""
    for stall in ("0s", "100ms"):
        of = made(stall=stall)
        assert of.at_floor
        assert of.interval_s == of.optimum_s == 100.0
        assert of.young_s < 100


def test_until_a_save_is_durable_the_one_before_it_is_the_recovery_point() -> None:
    """With hardly a stall and rare failures, the lost work is half an interval and a whole save."""
    lost = planning.outlook(situation(1e9, 100.0, 1e-6), 400.0).lost_per_failure_s
    assert lost == pytest.approx(400 / 2 + 100, rel=1e-5)
    lost = planning.outlook(situation(1e9, 100.0, 100.0), 400.0).lost_per_failure_s
    assert lost == pytest.approx(400 / 2 - 100**2 / (2 * 400), rel=1e-5)


def test_noticing_and_restarting_cost_time_and_leave_the_interval_alone() -> None:
    plain, slow = made(stall="6.3s"), made(stall="6.3s", detection="1m", restart="10m")
    assert slow.interval_s == plain.interval_s
    assert plain.outlook.shares.down == 0
    assert slow.outlook.shares.down == pytest.approx((60 + 600) / 11135, rel=0.05)


@given(situations, st.floats(1.001, 30.0))
def test_shares_add_up_and_no_interval_beats_the_best(of: Situation, factor: float) -> None:
    best = planning.plan(of)
    for interval in (best.optimum_s, best.optimum_s * factor, max(of.save_s * 1.0001, best.optimum_s / factor)):
        shares = planning.outlook(of, interval).shares
        assert min(shares.retained, shares.stalled, shares.lost, shares.down) >= -1e-12
        assert shares.retained + shares.stalled + shares.lost + shares.down == pytest.approx(1, abs=1e-9)
        assert shares.retained <= best.outlook.shares.retained * (1 + 1e-12)


@given(st.floats(1e3, 1e7), st.floats(1e-6, 1e-3))
def test_young_and_daly_agree_with_the_closed_form_while_the_interval_is_short(mean: float, share: float) -> None:
    of = planning.plan(situation(mean, mean * share, mean * share))
    assert of.young_s == pytest.approx(of.optimum_s, rel=0.02)
    assert of.daly_s == pytest.approx(of.optimum_s, rel=1e-4)
    assert of.first_order.waste == pytest.approx(of.outlook.shares.waste, rel=0.05)


@pytest.mark.parametrize(
    ("given", "feasible", "unit", "says"),
    [
        ({"stall": "6.3s", "interval": "99.9s"}, 100.0, "s", "at least 100 s, or a path of at least 20.02 GB/s"),
        ({"stall": "6.3s", "interval": "6.3s"}, 100.0, "s", "more than 100 s"),
        ({"interval": "100s"}, 100.0, "s", "leaves no time to train"),
        ({"interval": "60s"}, 100.0, "s", "more than 100 s"),
        ({"mtbf": "100s"}, 20e9, "bytes/s", "more than 20 GB/s, or a state of less than 2 TB"),
        ({"mtbf": "80s"}, 25e9, "bytes/s", "more than 25 GB/s, or a state of less than 1.6 TB"),
        ({"save": "99s"}, 100.0, "s", "at least 100 s"),
        ({"stall": "101s"}, 100.0, "s", "at most 100 s"),
        ({"restart": MTBF}, 11135.0, "s", "less than 3 h 6 min"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_what_can(given: dict[str, str], feasible: float, unit: str, says: str) -> None:
    with pytest.raises(ScheduleInfeasible) as caught:
        made(**given)
    assert (caught.value.feasible, caught.value.unit) == (feasible, unit)
    assert says in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        {"stall": "6.3s", "interval": "100s"},
        {"interval": "100.001s"},
        {"mtbf": "100.001s"},
        {"save": "100s"},
        {"stall": "100s"},
        {"restart": "11134s"},
    ],
)
def test_the_bound_itself_is_feasible(given: dict[str, str]) -> None:
    assert made(**given).outlook.shares.retained > 0


def test_a_save_that_takes_longer_than_the_floor_is_planned_with() -> None:
    of = made(save="150s")
    assert of.situation.synchronous
    assert of.situation.floor_s == 100
    assert of.young_s == pytest.approx(math.sqrt(2 * 150 * 11135))


def test_an_interval_may_be_judged() -> None:
    of = made(stall="6.3s", interval="30m")
    assert of.interval_s == of.outlook.interval_s == 1800
    assert of.optimum_s == made(stall="6.3s").interval_s
    assert of.outlook.shares.waste > made(stall="6.3s").outlook.shares.waste


@given(situations)
def test_what_is_compared_can_be_kept_and_holds_the_best(of: Situation) -> None:
    best = planning.plan(of)
    intervals = planning.compared(best)
    assume(best.optimum_s > of.save_s * (1 + 1e-9))
    assert best.optimum_s in intervals
    assert list(intervals) == sorted(set(intervals))
    for each in intervals:
        planning.feasible(of, each)


def test_training_that_retains_nothing_never_ends() -> None:
    of = planning.outlook(situation(10.0, 1.0, 1.0), 1e5)
    assert of.wall_s(3600) == math.inf


def test_units_are_checked_by_the_function_too() -> None:
    with pytest.raises(units.QuantityRefused, match="in bits"):
        plan_interval(bytes="2TB", bandwidth="20Gb/s", mtbf="3h")
