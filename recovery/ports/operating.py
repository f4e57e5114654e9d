"""What people say, and no run says of itself: contracts are held, runs are forgotten, a database was restored.

Owns those words and the promises about them. Knows no workflow. Invariant: a repeat of one changes nothing.
"""

# pyright: reportReturnType=false
# The body of a protocol's method is its docstring; mypy checks those who implement it.
from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from recovery.ports.runs import RunRow


@dataclass(frozen=True, slots=True)
class Hold:
    """One word about what contracts may do: hold (nothing is sent under them) or release.

    subject: a contract's digest, or its name.
    """

    subject: str
    held: bool
    by: str
    reason: str
    at_us: int
    token: str  # one per word, kept over retries; derived from the evidence where no person says it


@dataclass(frozen=True, slots=True)
class Stub:
    """What stays of a forgotten run beside its row: who forgot it, why, and what its outcome was, as a digest."""

    run_id: str
    outcome_digest: str
    by: str
    reason: str
    at_us: int


class Operating(Protocol):
    """Said by a person, for good or until another one says otherwise."""

    def add_hold(self, hold: Hold) -> None:
        """Keep one word about a contract, behind all earlier ones. Durable on return; who loads a run after that sees it, who has
        loaded one before does not. A repeat (same token) changes nothing, even if other words about the subject were kept since."""

    def holds(self) -> list[Hold]:
        """The last word about each subject that is held now, oldest first; read committed."""

    def forget(self, seen: RunRow, stub: Stub) -> bool:
        """Compare-and-set on (epoch, head, settled status) of `seen`: remove the run's entries, contract links, evidence and
        inbox, and keep the stub, all or nothing. Durable on return. The run row stays, unowned and at a further epoch, so that
        its id is never used again and an append of its last owner is fenced; its keys stay taken. False if the run moved or is
        not settled. A repeat returns True and changes nothing."""

    def stub(self, run_id: str) -> Stub | None:
        """What `forget` kept, or None if the run was not forgotten. Read committed."""

    def raise_incarnation(self, seen: int, to: int) -> int:
        """Compare-and-set from `seen` to `to`; durable on return. Returns what holds now: `to`, or what somebody else has
        declared meanwhile. A repeat changes nothing. Runs take it over with their next claim, not before. Raises ValueError
        unless it rises."""
