"""Simulation: what would have been retained, had a job saved every so often and failed exactly then.

Owns the replay of failure times against a schedule, and how sure its result is. Knows nothing of where the failures come from. Invariant: the
same failures and the same schedule give the same numbers, bit for bit; no share is stated without the time that it was counted in.

The story is that of `planning`: from each restart on, training goes on for T - d, a save begins, and so on every T; a save is durable after
S. A failure ends it, and what is not durable is lost. It is noticed after D; failures before that change nothing. Restarting takes R, and a
failure in it begins the repair anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from recovery.checkpoint.planning.failures import Failures
from recovery.checkpoint.planning.interval import Outlook, Plan, Shares, Situation, compared, feasible, outlook

CONFIDENCE: Final = 0.95
CYCLES_MIN: Final = 5
"""With fewer failures nothing is said about how sure the result is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What came of an interval. `low` and `high` bound the retained share with 95 % confidence; None: too few failures to say.

    `failures`: those that stopped training; others fell into a repair. `wall_s`: the time counted, whole cycles from restart to restart.
    """

    interval_s: float
    shares: Shares
    failures: int
    wall_s: float
    saves: int
    lost_per_failure_s: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One interval of a comparison: by the closed form and replayed. `best`: the plan's optimum. `asked`: somebody wants to know."""

    interval_s: float
    outlook: Outlook
    simulated: Simulated
    best: bool
    asked: bool


def compare(plan: Plan, failures: Failures, asked: Sequence[float] = ()) -> tuple[Compared, ...]:
    """Intervals from the floor to far above the best one, all with the same failures. Raises ScheduleInfeasible for one asked for."""
    return tuple(
        Compared(
            interval_s=each,
            outlook=outlook(plan.situation, each),
            simulated=simulate(plan.situation, each, failures),
            best=each == plan.optimum_s,
            asked=each in asked,
        )
        for each in sorted({*compared(plan), *asked})
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The best interval by simulation alone. From `from_s` to `to_s` no interval tried is worse with 95 % confidence; None: too few failures."""

    interval_s: float
    retained: float
    from_s: float | None
    to_s: float | None


def search(plan: Plan, failures: Failures) -> Found:
    """Try intervals around the plan's best one with the same failures, and take the one that retains most.

    It does not assume that failures are independent of each other, as the closed form does; what it finds holds for these failures.
    """
    of = plan.situation
    shortest_s = of.save_s * (1.05 if of.synchronous else 1.0)
    tried = sorted({shortest_s, plan.optimum_s} | {plan.optimum_s * 2 ** (step / 8) for step in range(-16, 17)})
    tried = [each for each in tried if each >= shortest_s]
    lives = list(cycles(of, failures.at_s))
    walls = [up_s + down_s for up_s, down_s in lives]
    kept = [[durable(of, each, up_s) * (each - of.stall_s) for up_s, _ in lives] for each in tried]
    totals = [math.fsum(each) for each in kept]
    best = totals.index(max(totals))
    equal: list[float] = []
    for each, its in zip(tried, kept, strict=True):
        less = [a - b for a, b in zip(kept[best], its, strict=True)]
        half = half_width(less, walls)
        if half is not None and math.fsum(less) / math.fsum(walls) <= half:
            equal.append(each)
    return Found(
        interval_s=tried[best],
        retained=totals[best] / math.fsum(walls),
        from_s=equal[0] if equal else None,
        to_s=equal[-1] if equal else None,
    )


@dataclass(frozen=True, slots=True)
class Up:
    """One time without failures, and what became of it. Seconds."""

    kept_s: float
    stalled_s: float
    saves: int


def simulate(situation: Situation, interval_s: float, failures: Failures) -> Simulated:
    """Replay the failures. Raises ScheduleInfeasible."""
    feasible(situation, interval_s)
    kept: list[float] = []
    walls: list[float] = []
    ups_s = stalled_s = 0.0
    saves = 0
    for up_s, down_s in cycles(situation, failures.at_s):
        up = lived(situation, interval_s, up_s)
        kept.append(up.kept_s)
        walls.append(up_s + down_s)
        ups_s += up_s
        stalled_s += up.stalled_s
        saves += up.saves
    wall_s, kept_s = math.fsum(walls), math.fsum(kept)
    shares = Shares(
        retained=kept_s / wall_s,
        stalled=stalled_s / wall_s,
        lost=(ups_s - kept_s - stalled_s) / wall_s,
        down=(wall_s - ups_s) / wall_s,
    )
    half = half_width(kept, walls)
    return Simulated(
        interval_s=interval_s,
        shares=shares,
        failures=len(walls),
        wall_s=wall_s,
        saves=saves,
        lost_per_failure_s=(ups_s - kept_s - stalled_s) / len(walls),
        low=None if half is None else max(0.0, shares.retained - half),
        high=None if half is None else min(1.0, shares.retained + half),
    )


def cycles(situation: Situation, at_s: Sequence[float]) -> Iterator[tuple[float, float]]:
    """(seconds up, seconds of repair after it) for each failure that stopped training. The time after the last repair is not counted."""
    begun, index = 0.0, 0
    while index < len(at_s):
        failed = at_s[index]
        noticed = failed + situation.detection_s
        index += 1
        while index < len(at_s) and at_s[index] < noticed + situation.restart_s:
            if at_s[index] >= noticed:  # it struck the restart itself
                noticed = at_s[index] + situation.detection_s
            index += 1
        ready = noticed + situation.restart_s
        yield failed - begun, ready - failed
        begun = ready


def lived(situation: Situation, interval_s: float, up_s: float) -> Up:
    """What a time without failures leaves behind, by counting its saves."""
    work_s = interval_s - situation.stall_s
    begun = 0 if up_s < work_s else 1 + int((up_s - work_s) // interval_s)
    if begun == 0:
        return Up(0.0, 0.0, 0)
    last_s = up_s - (work_s + (begun - 1) * interval_s)
    return Up(
        durable(situation, interval_s, up_s) * work_s, (begun - 1) * situation.stall_s + min(situation.stall_s, last_s), begun
    )


def durable(situation: Situation, interval_s: float, up_s: float) -> int:
    """How many saves became durable in a time without failures; one that ends with the failure did."""
    first_s = interval_s - situation.stall_s + situation.save_s
    return 0 if up_s < first_s else 1 + int((up_s - first_s) // interval_s)


def half_width(kept: Sequence[float], walls: Sequence[float]) -> float | None:
    """Half of the 95 % confidence interval of sum(kept) / sum(walls); None for fewer than CYCLES_MIN cycles.

    The regenerative method: cycles from restart to restart are independent, their ratio is not a mean of ratios. M. A. Crane and
    D. L. Iglehart, "Simulating stable stochastic systems III", Operations Research 23(1), 1975. Real failures may come in bursts; then
    it is too narrow.
    """
    count = len(walls)
    if count < CYCLES_MIN:
        return None
    wall = math.fsum(walls) / count
    ratio = math.fsum(kept) / math.fsum(walls)
    spread = math.fsum((k - ratio * w) ** 2 for k, w in zip(kept, walls, strict=True)) / (count - 1)
    return student((1 + CONFIDENCE) / 2, count - 1) * math.sqrt(spread / count) / wall


def student(probability: float, freedom: int) -> float:
    """Quantile of Student's t: the expansion 26.7.5 of Abramowitz and Stegun, within 1 % from 4 degrees of freedom on."""
    z = NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / freedom**power for power, term in enumerate(terms, 1))
