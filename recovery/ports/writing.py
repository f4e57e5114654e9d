"""What the owner of a run writes: the run itself, then one compare-and-set on its head after the other.

Owns the records of an append and what becomes of it, and the promises about them. Knows not who may own a run. Invariant: whoever is
no owner any more writes nothing.
"""

# pyright: reportReturnType=false
# The body of a protocol's method is its docstring; mypy checks those who implement it.
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from recovery.core.chain import Row
from recovery.core.entries import Status
from recovery.core.ids import Epoch
from recovery.core.resting import RestsFor
from recovery.core.values import value
from recovery.ports.runs import Owner, RunRow
from recovery.ports.telling import Message


@dataclass(frozen=True, slots=True)
class Payload:
    """A value that is too large for a row, as it is stored. `digest`: of the bytes, by which rows refer to them."""

    digest: str
    body: bytes


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run and its first row, stored together. Its head is the last of `rows`."""

    run_id: str
    workflow: str
    input_digest: str
    status: Status
    owner: Owner
    lease_term_us: int
    at_us: int
    rows: tuple[Row, ...]
    payloads: tuple[Payload, ...] = ()  # what the rows refer to; stored with them or not at all
    queue: str = ""
    priority: int = 0
    next_look_us: int | None = None
    let_go: bool = False  # stored without an owner


@value(frozen=True, slots=True)
class KeyClaim:
    """One idempotency key that an append takes. (environment, scope, key) has one fingerprint and one owner step for ever."""

    environment: str
    scope: str
    key: str
    fingerprint: str
    step: str


@value(frozen=True, slots=True)
class Append:
    """One compare-and-set on a run's head. The retry of an append is the same append, token included."""

    run_id: str
    owner: str  # the owner's token
    epoch: Epoch
    head: int  # what it is based on
    rows: tuple[Row, ...]  # at least one; seq head+1, head+2, ... ; all with the same token
    status: Status
    at_us: int
    next_look_us: int | None = None
    reason: str = ""
    rests_for: RestsFor = RestsFor.NOTHING  # stands in the run's row from then on, as its status and reason do
    keys: tuple[KeyClaim, ...] = ()
    contracts: tuple[tuple[str, str], ...] = ()  # (digest, canonical JSON)
    payloads: tuple[Payload, ...] = ()  # what the rows refer to
    words: tuple[Message, ...] = ()  # to other runs, each told with the rows or not at all, if it rests: who does not, needs none
    keeps_look: bool = False  # the run's next look stays what the row says at the commit, `next_look_us` is of no meaning


@value(frozen=True, slots=True)
class Appended:
    """All rows of the member are durable."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """Nothing of the member was written: epoch, owner or head is no longer the writer's. `run` is what is there now."""

    run: RunRow | None


@dataclass(frozen=True, slots=True)
class KeyTaken:
    """Nothing of the member was written: the key belongs to another step, or to another request of the same step."""

    key: KeyClaim
    owner_run: str
    owner_step: str
    fingerprint: str


AppendResult = Appended | Fenced | KeyTaken


class Writing(Protocol):
    """Runs and their rows."""

    def open_run(self, new: NewRun) -> RunRow | None:
        """Store a new run owned by its opener at epoch (incarnation, 1). Durable on return. None if the run id is taken by
        somebody else; a repeat of the same call (same owner token) returns the row; one that is let go returns None then. Nothing
        else is written."""

    def open_runs(self, batch: Sequence[NewRun]) -> list[RunRow | None]:
        """`open_run` of each, independent of the others; those that are stored are durable on return."""

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        """Each member is all or nothing, and independent of the others; all are durable on return. One result per member.

        A repeat of an Appended member returns Appended again (its token and digest are where its last row belongs, at the head or
        below what was appended since) and writes nothing. Claims of the same key by the same run and step with the same
        fingerprint succeed again. A KeyTaken member leaves no key row behind. Words are delivered with the rows, as `deliver`
        does: a run that says at the same time that it rests comes before, and is told, or after, and its writer then finds what
        the rows say."""
