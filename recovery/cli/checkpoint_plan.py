"""`recover checkpoint plan`: what it does.

Owns that command and its document. Invariant: what cannot be planned or drawn is refused before anything is measured, and nothing but the
measurement and the plot writes.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recovery.checkpoint import drawing
from recovery.checkpoint.planning import failures, plotting, simulation, units
from recovery.checkpoint.planning import interval as planning
from recovery.checkpoint.planning.failures import Failures
from recovery.checkpoint.planning.interval import Outlook, Plan, Situation
from recovery.checkpoint.planning.measuring import Measurement, measure
from recovery.checkpoint.planning.simulation import Compared
from recovery.cli.output import Output
from recovery.core.errors import ExitCode

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Measuring:
    """Where and how the bandwidth is measured."""

    directory: Path
    streams: int
    size: str
    limit: str


@dataclass(frozen=True, slots=True)
class Failing:
    """How it fails: a log, or a mean with a distribution."""

    mtbf: str | None
    log: Path | None
    weibull: float | None
    draws: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was typed, units and all."""

    size: str
    bandwidth: str | Measuring
    failing: Failing
    stall: str | None
    save: str | None
    detection: str
    restart: str
    intervals: tuple[str, ...]
    work: str
    plot: Path | None


def plan(output: Output, asked: Asked) -> ExitCode:
    """Plan, compare, draw. Raises QuantityRefused, ScheduleInfeasible, MeasurementRefused, FailureLogRefused, PlotRefused, ExtraMissing."""
    intervals = [units.span(each, "--interval") for each in asked.intervals]
    work_s = units.span(asked.work, "--work")
    if asked.plot is not None:
        drawing.ready(asked.plot)
    mtbf_s, known = _failing(asked.failing)
    build = _reading(asked, mtbf_s)
    measured = None if isinstance(asked.bandwidth, str) else _measured(asked.bandwidth)
    bandwidth = measured.bandwidth if measured is not None else units.rate(str(asked.bandwidth), "--bandwidth")
    made = planning.plan(build.situation(bandwidth))
    known = known if known is not None else _drawn(asked.failing, mtbf_s)
    rows = simulation.compare(made, known, intervals)
    found = simulation.search(made, known)
    if asked.plot is not None:
        plotting.intervals(asked.plot, made, rows)
    from recovery.console import checkpoint_plan as report

    told = report.Told(plan=made, measured=measured, failures=known, rows=rows, found=found, work_s=work_s, plot=asked.plot)
    output.answer(lambda: _document(told), lambda paper: report.planned(paper, told))
    return ExitCode.SETTLED


@dataclass(frozen=True, slots=True)
class _Reading:
    """All but the bandwidth, read: so that a mistake is found before a measurement begins."""

    size: int
    mtbf_s: float
    stall_s: float | None
    save_s: float | None
    detection_s: float
    restart_s: float

    def situation(self, bandwidth: float) -> Situation:
        save_s = self.size / bandwidth if self.save_s is None else self.save_s
        return Situation(
            size=self.size,
            bandwidth=bandwidth,
            mtbf_s=self.mtbf_s,
            save_s=save_s,
            stall_s=save_s if self.stall_s is None else self.stall_s,
            detection_s=self.detection_s,
            restart_s=self.restart_s,
        )


def _reading(asked: Asked, mtbf_s: float) -> _Reading:
    return _Reading(
        size=units.size(asked.size, "--bytes"),
        mtbf_s=mtbf_s,
        stall_s=None if asked.stall is None else units.span(asked.stall, "--stall", zero=True),
        save_s=None if asked.save is None else units.span(asked.save, "--save"),
        detection_s=units.span(asked.detection, "--detection", zero=True),
        restart_s=units.span(asked.restart, "--restart", zero=True),
    )


def _failing(how: Failing) -> tuple[float, Failures | None]:
    """The mean that is planned with, and the failures of a log."""
    logged = None if how.log is None else failures.read(how.log)
    if how.mtbf is not None:
        return units.span(how.mtbf, "--mtbf"), logged
    assert logged is not None  # the options were checked
    return logged.mtbf_s, logged


def _drawn(how: Failing, mtbf_s: float) -> Failures:
    if how.weibull is not None:
        return failures.weibull(mtbf_s, how.weibull, count=how.draws, seed=how.seed)
    return failures.exponential(mtbf_s, count=how.draws, seed=how.seed)


def _measured(how: Measuring) -> Measurement:
    size, limit_s = units.size(how.size, "--measure-bytes"), units.span(how.limit, "--measure-time")
    from recovery.console.progress import written

    with written(f"measuring {how.directory}") as tell:
        return measure(how.directory, streams=how.streams, size=size, limit_s=limit_s, tell=tell)


def _document(told: Any) -> Document:
    return {
        "plan": _plan(told.plan),
        "measurement": None if told.measured is None else asdict(told.measured) | {"bandwidth": told.measured.bandwidth},
        "failures": {
            "source": told.failures.source,
            "seed": told.failures.seed,
            "count": len(told.failures.at_s),
            "mtbf_s": told.failures.mtbf_s,
        },
        "simulation": asdict(told.found),
        "work_s": told.work_s,
        "intervals": [_row(row, told.work_s) for row in told.rows],
        "plot": None if told.plot is None else str(told.plot),
    }


def _plan(of: Plan) -> Document:
    return {
        "situation": asdict(of.situation) | {"synchronous": of.situation.synchronous},
        "floor_s": of.situation.floor_s,
        "interval_s": of.interval_s,
        "optimum_s": of.optimum_s,
        "at_floor": of.at_floor,
        "young_s": of.young_s,
        "daly_s": of.daly_s,
        "first_order": asdict(of.first_order),
        "outlook": _outlook(of.outlook),
    }


def _outlook(of: Outlook) -> Document:
    return asdict(of) | {"waste": of.shares.waste}


def _row(row: Compared, work_s: float) -> Document:
    wall_s = row.outlook.wall_s(work_s)
    return {
        "interval_s": row.interval_s,
        "best": row.best,
        "asked": row.asked,
        "outlook": _outlook(row.outlook),
        "wall_s": wall_s if math.isfinite(wall_s) else None,
        "simulated": asdict(row.simulated),
    }
