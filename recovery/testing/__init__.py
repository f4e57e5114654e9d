"""Testing: a clock that moves by hand, a simulated environment, and scenarios that crash workers without processes.

Owns the public names of everything that tests of recoverable code need. Knows no command line.
"""

from recovery.testing.clock import ManualClock
from recovery.testing.crashing import Crashed, crash_at
from recovery.testing.effects import reserving
from recovery.testing.environment import Connection, SimulatedEnvironment, connected, connecting, connection
from recovery.testing.exploration.exploring import Exploration, Explored, Found, explore
from recovery.testing.exploration.saying import answers, forks, orders, restarts, sends
from recovery.testing.exploration.search import NotDeterministic
from recovery.testing.journaled import replay_journal
from recovery.testing.knobs import Anchor, Knobs, Marking, OnMismatch, OutOfStock, Remembered
from recovery.testing.loading import ScenarioError, load
from recovery.testing.replay import ScenarioResult, play, replay_paths
from recovery.testing.scenario import Scenario
from recovery.testing.scripted import AS_IT_STANDS, ScriptedEnvironment

__all__ = [
    "AS_IT_STANDS",
    "Anchor",
    "Connection",
    "Crashed",
    "Exploration",
    "Explored",
    "Found",
    "Knobs",
    "ManualClock",
    "Marking",
    "NotDeterministic",
    "OnMismatch",
    "OutOfStock",
    "Remembered",
    "Scenario",
    "ScenarioError",
    "ScenarioResult",
    "ScriptedEnvironment",
    "SimulatedEnvironment",
    "answers",
    "connected",
    "connecting",
    "connection",
    "crash_at",
    "explore",
    "forks",
    "load",
    "orders",
    "play",
    "replay_journal",
    "replay_paths",
    "reserving",
    "restarts",
    "sends",
]
