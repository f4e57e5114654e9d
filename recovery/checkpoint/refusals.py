"""Refusals: what the planner does not compute, and the number with which it would.

Owns the errors of planning and measuring. Knows none of their reasons. Invariant: nothing was written, and the last sentence is the next step.
"""

from __future__ import annotations

from recovery.core.errors import UsageError


class QuantityRefused(UsageError):
    """A size, a rate or a duration that can be read in more than one way, or in none."""

    template = "{what} {given!r}: {problem}. Nothing was computed. {advice}"


class ScheduleInfeasible(UsageError):
    """A schedule that no machine can keep. `feasible`: the bound that it breaks, in `unit`; None where no one number would do."""

    template = "This schedule cannot be kept: {problem}. Nothing was computed. {advice}"


class MeasurementRefused(UsageError):
    """The bandwidth of a directory was not measured. What was written for it is removed again."""

    template = "The write bandwidth of {directory} was not measured: {problem}. Nothing was left there. {advice}"


class FailureLogRefused(UsageError):
    """A failure log that cannot be read as one."""

    template = "{where}: {problem}. Nothing was computed. {advice}"


class PlotRefused(UsageError):
    """A plot that cannot be drawn or written."""

    template = "The plot {path} was not written: {problem}. {advice}"
