"""Planning: how often to save, from what a save costs and how often the machine fails.

Owns the floor, the optimal interval and the closed form of what an interval costs. Knows no file, no clock and no random number. Invariant:
a schedule that cannot be kept is refused with the bound that it breaks, never rounded into one that can.

An *interval* T is the wall time from the start of one save to the start of the next. A save captures the state at its start, stops training
for the *stall* d, and is durable after S, which is at least bytes / bandwidth: the *floor*. Synchronous means d = S. Asynchronous saves overlap
the rest with training; they remove no traffic, so T >= S on one path, and until a save is durable the one before it is the recovery point.

With failures that come as a Poisson process of mean M, a detection time D and a restart time R (in which it may fail again):

    retained(T) = (T - d) exp(-(T - d + S) / M) / [ (1 - exp(-T / M)) (M + D) exp(R / M) ]

is the share of wall time that becomes durable progress. It follows from renewal at each restart: a time X without failures holds
floor((X - (T - d) - S) / T) + 1 durable saves of T - d progress each, and is followed by the repair, of mean (M + D) exp(R / M) - M. For d = S
it is the complete cost function of Daly (2006). The best T solves T = d + M (1 - exp(-T / M)): S and R do not move it, the floor may.

- J. W. Young, "A first order approximation to the optimum checkpoint interval", Communications of the ACM 17(9), 1974.
- J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22(3), 2006.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from recovery.checkpoint.planning import units
from recovery.checkpoint.refusals import ScheduleInfeasible

STEPS: Final = (1 / 4, 1 / 2, 2**-0.5, 1.0, 2**0.5, 2.0, 4.0)
"""The intervals that are compared, as multiples of the best one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What is given. Times in seconds, `size` in bytes, `bandwidth` in bytes per second: sustained, durable, of the whole path.

    Invariant: 0 <= stall_s <= save_s, floor_s <= save_s < mtbf_s, restart_s < mtbf_s.
    """

    size: int
    bandwidth: float
    mtbf_s: float
    save_s: float
    stall_s: float
    detection_s: float = 0.0
    restart_s: float = 0.0

    def __post_init__(self) -> None:
        _check(self)

    @property
    def floor_s(self) -> float:
        """No save is faster: bytes over bandwidth, before metadata, contention and consistency work."""
        return self.size / self.bandwidth

    @property
    def synchronous(self) -> bool:
        return self.stall_s == self.save_s

    @property
    def cycle_s(self) -> float:
        """Mean time from one restart to the next: running, noticing, restarting."""
        return (self.mtbf_s + self.detection_s) * math.exp(self.restart_s / self.mtbf_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Where wall time goes; they add up to 1. `stalled`: for saves. `lost`: work done again. `down`: noticing failures and restarting."""

    retained: float
    stalled: float
    lost: float
    down: float

    @property
    def waste(self) -> float:
        return 1.0 - self.retained


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What one interval costs in the long run, by the closed form.

    `lost_per_failure_s`: mean work between the recovery point and a failure. `busy`: the share of time in which the path carries a save.
    """

    interval_s: float
    shares: Shares
    lost_per_failure_s: float
    busy: float
    saves_per_day: float

    def wall_s(self, work_s: float) -> float:
        """Mean wall time for so much training; infinite where nothing is retained."""
        return work_s / self.shares.retained if self.shares.retained > 0 else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstOrder:
    """Young's estimate, valid while the interval is much shorter than the mean time between failures."""

    waste: float
    lost_per_failure_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The best interval for a situation, and how it was found.

    `interval_s` is `optimum_s` unless another one was asked for. `optimum_s` is the exact optimum of the closed form, or the floor where
    that is longer (`at_floor`: only a faster path or a smaller state allows more frequent saves). `young_s` and `daly_s` are estimates of it
    and not raised to the floor.
    """

    situation: Situation
    interval_s: float
    optimum_s: float
    young_s: float
    daly_s: float
    at_floor: bool
    first_order: FirstOrder
    outlook: Outlook


def plan_interval(
    *,
    bytes: str | int,
    bandwidth: str | float,
    mtbf: str | timedelta,
    stall: str | timedelta | None = None,
    save: str | timedelta | None = None,
    detection: str | timedelta = timedelta(0),
    restart: str | timedelta = timedelta(0),
    interval: str | timedelta | None = None,
) -> Plan:
    """How often to save a state of so many `bytes`.

    `bandwidth`: sustained and durable, bytes per second. `mtbf`: mean time between failures of the whole job. `stall`: how long training stops
    for a save; None: for all of it (synchronous). `save`: how long until a save is durable; None: the floor. `interval`: judge this one.
    Texts carry their units ("2TB", "20GB/s", "3h"); durations are also `timedelta`.
    Raises QuantityRefused, and ScheduleInfeasible with the bound that would do.
    """
    count, speed = units.size(bytes, "bytes"), units.rate(bandwidth, "bandwidth")
    durable = count / speed if save is None else units.span(save, "save")
    situation = Situation(
        size=count,
        bandwidth=speed,
        mtbf_s=units.span(mtbf, "mtbf"),
        save_s=durable,
        stall_s=durable if stall is None else units.span(stall, "stall", zero=True),
        detection_s=units.span(detection, "detection", zero=True),
        restart_s=units.span(restart, "restart", zero=True),
    )
    return plan(situation, None if interval is None else units.span(interval, "interval"))


def plan(situation: Situation, interval_s: float | None = None) -> Plan:
    """The plan for a situation, at its best interval or at a given one. Raises ScheduleInfeasible."""
    best_s = best(situation)
    optimum_s = max(best_s, situation.save_s)
    chosen_s = optimum_s if interval_s is None else interval_s
    return Plan(
        situation=situation,
        interval_s=chosen_s,
        optimum_s=optimum_s,
        young_s=young(situation),
        daly_s=daly(situation),
        at_floor=best_s < situation.save_s,
        first_order=first_order(situation, chosen_s),
        outlook=outlook(situation, chosen_s),
    )


def synchronous(situation: Situation) -> Situation:
    """The same with saves that stop training until they are durable."""
    return Situation(
        size=situation.size,
        bandwidth=situation.bandwidth,
        mtbf_s=situation.mtbf_s,
        save_s=situation.save_s,
        stall_s=situation.save_s,
        detection_s=situation.detection_s,
        restart_s=situation.restart_s,
    )


def young(situation: Situation) -> float:
    """sqrt(2 d M), Young (1974)."""
    return math.sqrt(2 * situation.stall_s * situation.mtbf_s)


def daly(situation: Situation) -> float:
    """Daly (2006): sqrt(2 d M) [1 + sqrt(d / 2M) / 3 + (d / 2M) / 9], and M + d from d = 2M on.

    Daly's interval is the work between two saves; ours runs from start to start, and so holds the stall as well.
    """
    ratio = situation.stall_s / (2 * situation.mtbf_s)
    return young(situation) * (1 + math.sqrt(ratio) / 3 + ratio / 9)  # d <= save < M: the other branch is never reached


def best(situation: Situation) -> float:
    """The T with the largest retained share, whatever the floor: the root of T = d + M (1 - exp(-T / M)), by bisection."""
    low, high = situation.stall_s, situation.stall_s + situation.mtbf_s
    while low < (middle := (low + high) / 2) < high:
        if middle - situation.stall_s + situation.mtbf_s * math.expm1(-middle / situation.mtbf_s) < 0:
            low = middle
        else:
            high = middle
    return high


def first_order(situation: Situation, interval_s: float) -> FirstOrder:
    """d/T + T/2M; asynchronous saves lose the time until they are durable as well: d/T + (T/2 + S)/M. Without detection and restart."""
    late_s = 0.0 if situation.synchronous else situation.save_s
    lost_s = interval_s / 2 + late_s
    return FirstOrder(waste=situation.stall_s / interval_s + lost_s / situation.mtbf_s, lost_per_failure_s=lost_s)


def outlook(situation: Situation, interval_s: float) -> Outlook:
    """The closed form of the module's docstring, and where the rest goes. Raises ScheduleInfeasible."""
    feasible(situation, interval_s)
    mean, work_s = situation.mtbf_s, interval_s - situation.stall_s
    saves = math.exp(-(work_s + situation.save_s) / mean) / -math.expm1(-interval_s / mean)
    stops = math.exp(-work_s / mean) / -math.expm1(-interval_s / mean)
    kept_s = work_s * saves
    stalled_s = mean * -math.expm1(-situation.stall_s / mean) * stops
    cycle_s = situation.cycle_s
    shares = Shares(
        retained=kept_s / cycle_s,
        stalled=stalled_s / cycle_s,
        lost=(mean - kept_s - stalled_s) / cycle_s,
        down=(cycle_s - mean) / cycle_s,
    )
    return Outlook(
        interval_s=interval_s,
        shares=shares,
        lost_per_failure_s=mean - kept_s - stalled_s,
        busy=mean * -math.expm1(-situation.save_s / mean) * stops / cycle_s,
        saves_per_day=86400 * stops / cycle_s,
    )


def compared(plan: Plan) -> tuple[float, ...]:
    """Intervals worth comparing with the plan's: the floor, and multiples of the best one that can be kept."""
    situation = plan.situation
    found = {plan.interval_s, plan.optimum_s} | (set() if situation.synchronous else {situation.save_s})
    shortest_s = situation.save_s * (1.05 if situation.synchronous else 1.0)
    found |= {plan.optimum_s * step for step in STEPS if plan.optimum_s * step > shortest_s}
    return tuple(sorted(found))


def feasible(situation: Situation, interval_s: float) -> None:
    """Whether an interval can be kept at all. Raises ScheduleInfeasible."""
    tell = units.shown_span
    if interval_s <= situation.stall_s:
        raise ScheduleInfeasible(
            problem=f"a save every {tell(interval_s)} that stops training for {tell(situation.stall_s)} leaves no time to train",
            feasible=max(situation.stall_s, situation.save_s),
            unit="s",
            advice=f"Use an interval of more than {tell(max(situation.stall_s, situation.save_s))}.",
        )
    if interval_s < situation.save_s:
        raise ScheduleInfeasible(
            problem=f"saves every {tell(interval_s)} on one path, and each takes {tell(situation.save_s)} to become durable",
            feasible=situation.save_s,
            unit="s",
            advice=f"Use an interval of at least {tell(situation.save_s)}, or a path of at least "
            f"{units.shown_rate(situation.size / interval_s)}.",
        )


def _check(of: Situation) -> None:
    tell = units.shown_span
    if of.save_s < of.floor_s * (1 - 1e-9):
        raise ScheduleInfeasible(
            problem=f"a save of {tell(of.save_s)} is below the floor: {units.shown_size(of.size)} at {units.shown_rate(of.bandwidth)} take {tell(of.floor_s)}",
            feasible=of.floor_s,
            unit="s",
            advice=f"Use a save time of at least {tell(of.floor_s)}, or the bandwidth that was really there.",
        )
    if of.save_s >= of.mtbf_s:
        raise ScheduleInfeasible(
            problem=f"it fails every {tell(of.mtbf_s)} on average, and one save takes {tell(of.save_s)}",
            feasible=of.size / of.mtbf_s,
            unit="bytes/s",
            advice=f"Use a path of more than {units.shown_rate(of.size / of.mtbf_s)}, or a state of less than {units.shown_size(of.bandwidth * of.mtbf_s)}.",
        )
    if of.stall_s > of.save_s:
        raise ScheduleInfeasible(
            problem=f"training stops for {tell(of.stall_s)}, longer than the {tell(of.save_s)} in which the save becomes durable",
            feasible=of.save_s,
            unit="s",
            advice=f"Use a stall of at most {tell(of.save_s)}, or say how long a save really takes.",
        )
    if of.restart_s >= of.mtbf_s:
        raise ScheduleInfeasible(
            problem=f"it fails every {tell(of.mtbf_s)} on average, and restarting takes {tell(of.restart_s)}",
            feasible=of.mtbf_s,
            unit="s",
            advice=f"Use a restart time of less than {tell(of.mtbf_s)}.",
        )
