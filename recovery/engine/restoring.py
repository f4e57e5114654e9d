"""Restoring: what a person declares after a backup was put back, and what the environments then know that this journal does not.

Owns the declaration and the list of orphans. Procedures over operations. Invariants: who declared it, and why, is durable before the
incarnation rises; an incarnation is above every one that a timeline of this database can have had, as long as clocks do not run years
behind; listing orphans writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from recovery import codec
from recovery.core.entries import JSON, Status
from recovery.core.errors import NotAttributed
from recovery.core.ids import Epoch
from recovery.core.instants import moment
from recovery.core.operations import Now, Use
from recovery.crashpoints import around
from recovery.definitions.listing import ReceiptRow
from recovery.operators.claiming import keepable
from recovery.ports import Evidence, Reading
from recovery.storage.listing import listed

KIND: Final = "restored"
"""The kind of a declaration, kept among the evidence under no run: it is about the database."""

OPEN: Final = tuple(status for status in Status if not status.settled)
PAGE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """One declaration. before, incarnation: the first half of epochs before it and since."""

    by: str
    reason: str
    at: datetime
    before: int
    incarnation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A declaration just made. unsettled: the runs that are restored by it, by id."""

    restoration: Restoration
    unsettled: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A receipt in an environment whose key no intent here has."""

    environment: str
    scope: str
    key: str
    fingerprint: str
    outcome: JSON
    at: datetime


async def declare(by: str, reason: str) -> Declared:
    """Declare the database restored. Durable on return. Each call is a declaration of its own; one that was cut short is completed by
    the next. Raises NotAttributed, OverrideRefused."""
    if not by.strip() or not reason.strip():
        raise NotAttributed
    keepable("A restore", "the database", by=by, reason=reason)
    now_us = await Now()
    before = await Use(lambda journal: journal.incarnation())
    # One backup can be restored twice: counting alone would give the second timeline the epochs of the first.
    to = max(before + 1, now_us // 1_000_000)
    body = codec.dumps({"by": by, "reason": reason, "before": before, "incarnation": to})
    note = Evidence("", "", Epoch(to, 1), now_us, KIND, body)
    with around("restored"):
        await Use(lambda journal: journal.add_evidence(note))
    with around("incarnation"):
        holds = await Use(lambda journal: journal.raise_incarnation(before, to))
    unsettled = await Use(_unsettled)
    restoration = Restoration(by=by, reason=reason, at=moment(now_us), before=before, incarnation=holds)
    return Declared(restoration=restoration, unsettled=unsettled)


async def unknown_keys(environment: str, scope: str, rows: Iterable[ReceiptRow]) -> list[Orphan]:
    """Those receipts whose key this journal does not know."""
    shown = list(rows)
    owners = await Use(lambda journal: [journal.key_owner(environment, scope, row.key) for row in shown])
    return [
        Orphan(environment=environment, scope=scope, key=row.key, fingerprint=row.fingerprint, outcome=row.outcome, at=row.at)
        for row, owner in zip(shown, owners, strict=True)
        if owner is None
    ]


def _unsettled(journal: Reading) -> tuple[str, ...]:
    """Those whose own row cannot be read included: nobody can tell that they ended."""
    found: list[str] = []
    while page := listed(journal, statuses=OPEN, limit=PAGE, after=found[-1] if found else ""):
        found += [row.run_id for row in page]
    return tuple(found)
