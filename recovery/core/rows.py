"""Rows: the shape of one line of the verdict table.

Owns the vocabulary of actions. Knows nothing of how facts came about. Invariant: a row is data; its name is stable
for ever, because journals hold it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from recovery.core.facts import Facts
from recovery.core.reasons import ParkingReason as ParkingReason
from recovery.core.reasons import Reason as Reason


class Action(StrEnum):
    """What follows from a verdict."""

    KEEP = "keep"  # the recorded outcome stands
    DIVERGE = "diverge"  # stop the run before it sends
    ADOPT = "adopt"  # settle: it happened
    REJECT = "reject"  # settle: the environment refused, with a declared or named error
    NOT_EXECUTED = "not_executed"  # settle: proven that it did not and will not happen under this key
    WAIT = "wait"  # until the named time
    ASK = "ask"  # one probe
    SEND = "send"  # one attempt, nothing earlier can act
    RESEND = "resend"  # one attempt under the same key
    CLOSE = "close"  # one close
    PARK = "park"  # in doubt: a person must bring something


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One verdict.

    condition: the guard in words. matches: the guard itself, to be tried only after all earlier rows have failed.
    paragraph: which crashes lead here, why this verdict, what a cleverer one would break. assumes: the assumptions A1-A6 it
    rests on. relies_on: the fields of the contract it rests on, so that a default among them can be named.
    """

    number: int
    name: str
    action: Action
    reason: Reason | ParkingReason
    condition: str
    matches: Callable[[Facts], bool]
    paragraph: str
    assumes: tuple[str, ...] = ()
    relies_on: tuple[str, ...] = ()

    @property
    def parking(self) -> ParkingReason | None:
        """Why it parks; None where it does not."""
        return self.reason if isinstance(self.reason, ParkingReason) else None
