"""The arithmetic of retry policies: properties that hold for every policy, and tenacity's objects as they come."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import pytest
import tenacity
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.contracts import microseconds
from recovery.core.errors import DefinitionError
from recovery.core.policy import Budget
from recovery.definitions.rejection import Rejection
from recovery.definitions.retry import PAUSE_MAX, Retried, Retry

SECOND = 1_000_000
BITS = st.integers(0, (1 << 128) - 1)
WAITS = [
    tenacity.wait_none(),
    tenacity.wait_fixed(3),
    tenacity.wait_random(1, 2),
    tenacity.wait_incrementing(start=1, increment=2, max=30),
    tenacity.wait_exponential(multiplier=0.5, max=60),
    tenacity.wait_random_exponential(multiplier=0.5, max=60),
    tenacity.wait_exponential_jitter(max=60),
    tenacity.wait_chain(tenacity.wait_fixed(1), tenacity.wait_fixed(5)),
    tenacity.wait_fixed(1) + tenacity.wait_random(0, 1),
    tenacity.wait_exception(lambda error: 2.0 if isinstance(error, Exception) else 1.0),
]


class Slow(Exception):
    pass


class Slower(Slow):
    pass


class Busy(Rejection):
    queue: int


def name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


@given(st.sampled_from(WAITS), st.integers(1, 1000), BITS)
def test_every_wait_of_tenacitys_gives_a_whole_bounded_pause(wait: Any, tried: int, bits: int) -> None:
    pause_us = Retry(wait=wait).pause_us([""] * tried, 0, bits)
    assert isinstance(pause_us, int)
    assert 0 <= pause_us <= microseconds(PAUSE_MAX)


@pytest.mark.parametrize("seconds", [float("nan"), -1.0, float("-inf")])
def test_a_wait_that_is_no_duration_is_none(seconds: float) -> None:
    assert Retry(wait=lambda _: seconds).pause_us([""], 0, 0) == 0


@pytest.mark.parametrize("seconds", [float("inf"), 1e300, tenacity._utils.MAX_WAIT])
def test_a_wait_beyond_the_calendar_is_cut(seconds: float) -> None:
    assert Retry(wait=lambda _: seconds).pause_us([""], 0, 0) == microseconds(PAUSE_MAX)


@given(st.integers(1, 200), BITS)
def test_the_wait_of_its_own_is_a_budgets_back_off_drawn_between_half_and_the_whole(tried: int, bits: int) -> None:
    budget, pause_us = Budget(), Retry().pause_us([""] * tried, 0, bits)
    whole = min(microseconds(budget.backoff) << min(tried - 1, 40), microseconds(budget.backoff_max))
    assert pause_us is not None
    assert whole // 2 <= pause_us <= whole


def test_what_failed_together_does_not_come_back_together() -> None:
    assert len({Retry().pause_us([""] * 5, 0, bits << 120) for bits in range(256)}) > 200


@given(st.integers(1, 50), st.integers(1, 60))
def test_attempts_bound_what_is_tried_the_first_included(attempts: int, tried: int) -> None:
    assert (Retry(attempts=attempts).pause_us([""] * tried, 0, 0) is None) is (tried >= attempts)


@given(st.integers(1, 10_000), st.integers(0, 10_000), st.integers(0, 10_000))
def test_no_attempt_begins_behind_the_bound_in_time(within: int, elapsed: int, pause: int) -> None:
    policy = Retry(within=timedelta(seconds=within), wait=tenacity.wait_fixed(pause))
    assert (policy.pause_us([""], elapsed * SECOND, 0) is None) is (elapsed + pause >= within)


@given(st.integers(0, 100), st.integers(1, 20))
def test_stops_of_tenacitys_see_the_counters_they_are_given(elapsed: int, tried: int) -> None:
    for stop, enough in (
        (tenacity.stop_after_attempt(7), tried >= 7),
        (tenacity.stop_after_delay(50), elapsed >= 50),
        (tenacity.stop_before_delay(50), elapsed + 3 >= 50),
        (tenacity.stop_after_attempt(7) | tenacity.stop_after_delay(50), tried >= 7 or elapsed >= 50),
        (tenacity.stop_after_attempt(7) & tenacity.stop_after_delay(50), tried >= 7 and elapsed >= 50),
        (tenacity.stop_never, False),
    ):
        policy = Retry(stop=stop, wait=tenacity.wait_fixed(3))
        assert (policy.pause_us([""] * tried, elapsed * SECOND, 0) is None) is enough


@given(st.lists(st.sampled_from(["", name(Slow), "gone.Unknown"]), min_size=1, max_size=12))
def test_failures_of_one_policy_are_counted_together_and_apart_from_others(causes: list[str]) -> None:
    policy = Retry(wait=tenacity.wait_incrementing(10, 10), on={Slow: Retry(wait=tenacity.wait_incrementing(1, 1))})
    own = [cause == name(Slow) for cause in causes]
    tried = own.count(own[-1])
    assert policy.pause_us(causes, 0, 0) == tried * SECOND * (1 if own[-1] else 10)


def test_the_nearest_class_counts_and_none_is_never_again() -> None:
    policy = Retry(on={Exception: Retry(attempts=2), Slow: None})
    assert policy.cause_of(Slower()) == name(Slow)
    assert policy.pause_us([name(Slow)], 0, 0) is None
    assert policy.cause_of(ValueError()) == "Exception"
    assert policy.cause_of(KeyboardInterrupt()) == ""


def test_a_rejection_is_wanted_again_only_where_a_class_of_rejections_is_named() -> None:
    rejection = Busy(queue=1)
    assert Retry(on={Exception: Retry()}).again(rejection) == ""
    assert Retry(on={Rejection: Retry()}).again(rejection) == name(Rejection)
    assert Retry(on={Rejection: Retry(), Busy: None}).again(rejection) == ""
    assert (Retry(on={Busy: None}).rejections, Retry(on={Busy: Retry()}).rejections) == (False, True)


@pytest.mark.parametrize(
    ("policy", "bound"),
    [
        (Retry(), None),
        (Retry(within=timedelta(hours=1)), None),
        (Retry(attempts=3), 3),
        (Retry(attempts=3, on={Slow: None}), 3),
        (Retry(attempts=3, on={Slow: Retry(attempts=7)}), 7),
        (Retry(attempts=50, on={Slow: Retry()}), 50),
        (Retry(attempts=3, on={Slow: Retry()}), Budget().attempts),
    ],
)
def test_the_bound_for_all_classes_is_the_highest_of_any(policy: Retry, bound: int | None) -> None:
    assert policy.attempts_max == bound


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"within": timedelta(0)},
        {"on": {"Slow": Retry()}},
        {"on": {KeyboardInterrupt: Retry()}},
        {"on": {Slow: Retry(on={Slower: Retry()})}},
    ],
)
def test_a_policy_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match="retry"):
        Retry(**wrong)


def test_a_retried_function_called_by_itself_is_called_once() -> None:
    calls: list[int] = []

    @Retry(attempts=3)
    def double(number: int) -> int:
        "Twice."
        calls.append(number)
        return 2 * number

    assert isinstance(double, Retried)
    assert (double(2), calls, double.__doc__) == (4, [2], "Twice.")
    assert pickle.loads(pickle.dumps(Retry(attempts=3))) == Retry(attempts=3)
