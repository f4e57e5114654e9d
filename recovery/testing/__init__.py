"""Testing: a clock that moves by hand, a simulated environment, and scenarios that crash workers without processes.

Owns the public names of everything that tests of recoverable code need. Knows no command line.
"""

from recovery.testing.clock import ManualClock
from recovery.testing.effects import reserving
from recovery.testing.environment import Connection, SimulatedEnvironment, connected, connecting, connection
from recovery.testing.knobs import Anchor, Knobs, Marking, OnMismatch, OutOfStock, Remembered
from recovery.testing.loading import ScenarioError, load
from recovery.testing.replay import ScenarioResult, play, replay_paths
from recovery.testing.scenario import Scenario

__all__ = [
    "Anchor",
    "Connection",
    "Knobs",
    "ManualClock",
    "Marking",
    "OnMismatch",
    "OutOfStock",
    "Remembered",
    "Scenario",
    "ScenarioError",
    "ScenarioResult",
    "SimulatedEnvironment",
    "connected",
    "connecting",
    "connection",
    "load",
    "play",
    "replay_paths",
    "reserving",
]
