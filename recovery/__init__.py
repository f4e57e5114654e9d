"""Recovery: after a crash, return the original outcome without repeating the effect, or say *in doubt*.

Owns the public names. They are imported where they are first used (PEP 562), so that importing the package stays cheap.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recovery import contracts, errors
    from recovery.core.compensation import Compensated
    from recovery.core.entries import Status
    from recovery.core.inheritance import Forbid, NewKey, Reuse
    from recovery.core.limits import Queue, Rate
    from recovery.core.policy import Budget, Lease, Riding
    from recovery.core.reasons import ParkingReason
    from recovery.core.resting import RestsFor
    from recovery.definitions.answer import (
        Absent,
        Accepted,
        Answer,
        Closed,
        Expired,
        Foreign,
        Found,
        Gone,
        Indeterminate,
        InFlight,
        Mismatch,
        NotSent,
        Refused,
        ReplyWas,
        TurnedAway,
        Unreachable,
    )
    from recovery.definitions.async_run import AsyncRun
    from recovery.definitions.batched import Batched
    from recovery.definitions.call import Call
    from recovery.definitions.child import AsyncChild, BoundWorkflow, Child
    from recovery.definitions.deadline import Deadline
    from recovery.definitions.effect import Bound, Effect, effect
    from recovery.definitions.environment import Environment
    from recovery.definitions.listing import ReceiptRow
    from recovery.definitions.migration import Migrated
    from recovery.definitions.recovered import Contradiction, Proposal, Receipt, Recovered, RunInfo, StepVerdict
    from recovery.definitions.rejection import NameTaken, Rejection
    from recovery.definitions.retry import Retry
    from recovery.definitions.run import Applied, Rejected, Run
    from recovery.definitions.workflow import Workflow, workflow
    from recovery.engine import AsyncEngine, Engine
    from recovery.engine.working import Working
    from recovery.redaction import Redacted, Secret
    from recovery.upcasting import upcaster, versioned

__version__ = "0.1.0"

_HOMES = {
    "Absent": "recovery.definitions.answer",
    "Accepted": "recovery.definitions.answer",
    "Answer": "recovery.definitions.answer",
    "Applied": "recovery.definitions.run",
    "AsyncChild": "recovery.definitions.child",
    "AsyncEngine": "recovery.engine",
    "AsyncRun": "recovery.definitions.async_run",
    "Batched": "recovery.definitions.batched",
    "Bound": "recovery.definitions.effect",
    "BoundWorkflow": "recovery.definitions.child",
    "Budget": "recovery.core.policy",
    "Call": "recovery.definitions.call",
    "Child": "recovery.definitions.child",
    "Closed": "recovery.definitions.answer",
    "Compensated": "recovery.core.compensation",
    "Contradiction": "recovery.definitions.recovered",
    "Deadline": "recovery.definitions.deadline",
    "Engine": "recovery.engine",
    "Effect": "recovery.definitions.effect",
    "Environment": "recovery.definitions.effect",
    "Expired": "recovery.definitions.answer",
    "Forbid": "recovery.core.inheritance",
    "Foreign": "recovery.definitions.answer",
    "Found": "recovery.definitions.answer",
    "Gone": "recovery.definitions.answer",
    "InFlight": "recovery.definitions.answer",
    "Indeterminate": "recovery.definitions.answer",
    "Lease": "recovery.core.policy",
    "Migrated": "recovery.definitions.migration",
    "Mismatch": "recovery.definitions.answer",
    "NameTaken": "recovery.definitions.rejection",
    "NewKey": "recovery.core.inheritance",
    "NotSent": "recovery.definitions.answer",
    "ParkingReason": "recovery.core.reasons",
    "Proposal": "recovery.definitions.recovered",
    "Queue": "recovery.core.limits",
    "Rate": "recovery.core.limits",
    "ReceiptRow": "recovery.definitions.listing",
    "Receipt": "recovery.definitions.recovered",
    "Recovered": "recovery.definitions.recovered",
    "Redacted": "recovery.redaction",
    "Refused": "recovery.definitions.answer",
    "Rejected": "recovery.definitions.run",
    "Rejection": "recovery.definitions.rejection",
    "ReplyWas": "recovery.definitions.answer",
    "RestsFor": "recovery.core.resting",
    "Retry": "recovery.definitions.retry",
    "Reuse": "recovery.core.inheritance",
    "Riding": "recovery.core.policy",
    "Run": "recovery.definitions.run",
    "RunInfo": "recovery.definitions.recovered",
    "Secret": "recovery.redaction",
    "Status": "recovery.core.entries",
    "StepVerdict": "recovery.definitions.recovered",
    "TurnedAway": "recovery.definitions.answer",
    "Unreachable": "recovery.definitions.answer",
    "Workflow": "recovery.definitions.workflow",
    "Working": "recovery.engine.working",
    "effect": "recovery.definitions.effect",
    "upcaster": "recovery.upcasting",
    "versioned": "recovery.upcasting",
    "workflow": "recovery.definitions.workflow",
}
_MODULES = {"contracts", "errors"}

__all__ = [
    "Absent",
    "Accepted",
    "Answer",
    "Applied",
    "AsyncChild",
    "AsyncEngine",
    "AsyncRun",
    "Batched",
    "Bound",
    "BoundWorkflow",
    "Budget",
    "Call",
    "Child",
    "Closed",
    "Compensated",
    "Contradiction",
    "Deadline",
    "Effect",
    "Engine",
    "Environment",
    "Expired",
    "Forbid",
    "Foreign",
    "Found",
    "Gone",
    "InFlight",
    "Indeterminate",
    "Lease",
    "Migrated",
    "Mismatch",
    "NameTaken",
    "NewKey",
    "NotSent",
    "ParkingReason",
    "Proposal",
    "Queue",
    "Rate",
    "Receipt",
    "ReceiptRow",
    "Recovered",
    "Redacted",
    "Refused",
    "Rejected",
    "Rejection",
    "ReplyWas",
    "RestsFor",
    "Retry",
    "Reuse",
    "Riding",
    "Run",
    "RunInfo",
    "Secret",
    "Status",
    "StepVerdict",
    "TurnedAway",
    "Unreachable",
    "Workflow",
    "Working",
    "contracts",
    "effect",
    "errors",
    "upcaster",
    "versioned",
    "workflow",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return _import_module(f"recovery.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'recovery' has no attribute {name!r}")
    value = globals()[name] = getattr(_import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
