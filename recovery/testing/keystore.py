"""The memory of a simulated environment: keys, receipts, names and tombstones, as one value that can be copied and put back.

Owns what is kept and for how long. Knows neither stock nor requests under way. Invariant: what has been forgotten by a time is not found after
it, and a copy shares nothing with its original.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta

from recovery.core.contracts import microseconds
from recovery.definitions.rejection import Rejection
from recovery.testing.knobs import Value


@dataclass(slots=True)
class Record:
    """What is held under a key. `outcome` None: a failure that is repeated for ever."""

    fingerprint: str
    since_us: int
    outcome: Value | Rejection | None
    closed: bool = False


@dataclass(slots=True)
class Receipt:
    """An object, and what a look-up shows of it. `first`: the first reply; `value`: the object as it is now."""

    fingerprint: str
    visible_us: int
    first: Value
    value: Value
    removed: bool = False
    foreign: bool = False


@dataclass(slots=True)
class KeyStore:
    """Everything that one account or region remembers."""

    records: dict[str, Record] = field(default_factory=dict)
    first_seen_us: dict[str, int] = field(default_factory=dict)
    receipts: dict[str, Receipt] = field(default_factory=dict)
    epochs: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def record(self, key: str, now_us: int, window: timedelta | None, forgotten: Callable[[str], None]) -> Record | None:
        """What is still known under a key. A tombstone stays. Tells of what is forgotten just now."""
        record = self.records.get(key)
        if record is None or record.closed or window is None or now_us < record.since_us + microseconds(window):
            return record
        del self.records[key]
        self.first_seen_us.pop(key, None)
        forgotten(key)
        return None

    def shown(self, key: str, now_us: int, retention: timedelta | None) -> Receipt | None:
        """The receipt that a look-up at `now_us` sees, removed ones included."""
        receipt = self.receipts.get(key)
        if receipt is None or now_us < receipt.visible_us:
            return None
        return receipt if retention is None or now_us < receipt.visible_us + microseconds(retention) else None

    def fenced(self, key: str, epoch: str) -> bool:
        """Whether a later epoch has been seen under this key. Raises the mark otherwise."""
        given = tuple(int(part) for part in epoch.split("."))
        highest = self.epochs.setdefault(key, given)
        self.epochs[key] = max(highest, given)
        return given < highest

    def copy(self) -> KeyStore:
        return deepcopy(self)
