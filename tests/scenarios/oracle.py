"""The matrix's oracle: what must come of a cell, from what really happened and from what each kind of environment is.

It imports nothing of the package. It knows what the environment did (`executed`), what had become durable before the crash, and four properties
per contract; and it says the one verdict that is right, or why an outcome is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

APPLIED, NOT_EXECUTED, IN_DOUBT = "applied", "not executed", "in doubt"


@dataclass(frozen=True)
class Nature:
    """deduplicates: a copy under the same key acts once, for `hours` (None: as long as the environment lives).

    shows: what was done can be asked for, for ever. absence_ends: what makes "nothing is there" final: "" nothing does, "settling" the settle
    window, which whoever wrote the contract trusts, "deadline" the environment itself, "fence" the age of the first sending. harmless: it changes
    nothing.
    """

    deduplicates: bool = False
    hours: float | None = None
    shows: bool = False
    absence_ends: str = ""
    harmless: bool = False


@dataclass(frozen=True)
class Truth:
    """What happened. begun: an attempt was durable before the crash. recorded: its outcome was. fault: what hit the recovery."""

    begun: bool
    recorded: bool
    fault: str
    executed: int


def expected(nature: Nature, truth: Truth) -> str:
    """The right verdict at the end, hours after the last copy can have acted."""
    if truth.recorded or nature.harmless:
        return APPLIED
    if not truth.begun and truth.fault in {"expired", "never sent"}:
        return APPLIED  # nothing had left; the recovery's own sending was the first, and was heard, or provably never left and was repeated
    late = truth.begun and truth.fault == "expired" and nature.hours is not None
    if nature.deduplicates and not late:
        return APPLIED
    if nature.shows and truth.executed:
        return APPLIED
    if nature.shows and nature.absence_ends in {"settling", "deadline"} and not nature.deduplicates:
        return APPLIED  # proven or trusted to be absent, so sent again
    if nature.shows and nature.absence_ends == "fence":
        return NOT_EXECUTED
    return IN_DOUBT


def wrong(verdict: str, nature: Nature, truth: Truth) -> list[str]:
    """What an outcome says against what happened, whether or not it is the one that was expected."""
    found = []
    if truth.executed > 1:
        found.append(f"carried out {truth.executed} times")
    if verdict == APPLIED and truth.executed != 1 and not nature.harmless:
        found.append(f"called applied, and carried out {truth.executed} times")
    if verdict in {NOT_EXECUTED, "rejected"} and truth.executed:
        found.append(f"called {verdict}, and carried out")
    return found
