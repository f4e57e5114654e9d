"""The inside of a simulated environment: stock, a key store and receipts, on a virtual clock.

Owns what one request does once it has arrived. Knows neither senders nor the network. Invariant: stock, receipt and key record of one
request change together or not at all.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, TypeAlias

from recovery.core.contracts import microseconds
from recovery.core.instants import moment
from recovery.definitions.answer import Absent, Answer, Closed, Found, Indeterminate, Mismatch, Refused, Unreachable
from recovery.definitions.call import Call
from recovery.definitions.rejection import Rejection
from recovery.testing.clock import ManualClock
from recovery.testing.ledger import Declined, Executed, Ledger

Value: TypeAlias = dict[str, Any]


class OutOfStock(Rejection):
    """There is less than was asked for."""

    sku: str
    available: int


class Remembered(StrEnum):
    """What a key store keeps under a key."""

    SUCCESS = "success"
    REJECTION = "rejection"
    FAILURE = "failure"


class Anchor(StrEnum):
    """What a key's window counts from."""

    FIRST_SEEN = "first_seen"  # the first request that carried the key, remembered or not
    COMPLETED = "completed"  # the request whose outcome is remembered


class OnMismatch(StrEnum):
    """What a known key answers to another request."""

    REFUSES = "refuses"
    REPLAYS = "replays"  # the first outcome, without a word


class Marking(StrEnum):
    """How a request names itself to the environment."""

    KEY = "key"  # an idempotency key: one effect per key
    MARKER = "marker"  # can be looked up, and is not deduplicated
    NONE = "none"  # neither


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """How the environment behaves. Durations are exact: what happens at the very end of one has happened after it.

    window: how long a key is remembered, None for ever. lag: how late a receipt shows in look-ups.
    """

    window: timedelta | None = None
    window_starts: Anchor = Anchor.FIRST_SEEN
    remembers: frozenset[Remembered] = frozenset({Remembered.SUCCESS, Remembered.REJECTION})
    mismatch: OnMismatch = OnMismatch.REFUSES
    lag: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One copy of one attempt, as it travels."""

    call: Call
    arguments: Mapping[str, Any]
    marking: Marking


Outcome: TypeAlias = Value | Rejection | Answer[Value]


@dataclass(slots=True)
class _Record:
    """What the key store holds under a key. `outcome` None: a failure that is repeated for ever."""

    fingerprint: str
    since_us: int
    outcome: Value | Rejection | None
    closed: bool = False


@dataclass(slots=True)
class _Receipt:
    """What a look-up shows."""

    fingerprint: str
    visible_us: int
    value: Value


@dataclass(slots=True)
class Warehouse:
    """Carries requests out. Every method is atomic."""

    clock: ManualClock
    ledger: Ledger
    knobs: Knobs
    stock: dict[str, int]
    failures: list[bool] = field(default_factory=list)  # the next requests fail; True: after the effect
    _records: dict[str, _Record] = field(default_factory=dict)
    _first_seen_us: dict[str, int] = field(default_factory=dict)
    _receipts: dict[str, _Receipt] = field(default_factory=dict)
    _made: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def restock(self, more: Mapping[str, int]) -> None:
        with self._lock:
            for sku, quantity in more.items():
                self.stock[sku] = self.stock.get(sku, 0) + quantity

    def prune(self) -> None:
        """Forget every key and every receipt."""
        with self._lock:
            self._records.clear()
            self._receipts.clear()
            self._first_seen_us.clear()

    def carry_out(self, request: Request) -> Outcome:
        """What a request that has arrived comes to. `Unreachable` stands for a failure of the service itself."""
        with self._lock:
            key, now_us = request.call.key, self.clock.wall_us()
            record = self._record(key, now_us) if request.marking is Marking.KEY else None
            if record is not None:
                return self._replayed(record, request)
            self._first_seen_us.setdefault(key, now_us)
            fails = self.failures.pop(0) if self.failures else None
            if fails is False:
                return self._failed(request, "before anything is done")
            outcome = self._reserve(request, now_us)
            if fails is True:
                return self._failed(request, "after it was done")
            kind = Remembered.REJECTION if isinstance(outcome, Rejection) else Remembered.SUCCESS
            self._remember(request, kind, outcome)
            return outcome

    def look_up(self, call: Call) -> Answer[Value]:
        """What is known under a key or marker."""
        with self._lock:
            now_us = self.clock.wall_us()
            record = self._record(call.key, now_us)
            if record is not None and isinstance(record.outcome, Rejection):
                return Refused(record.outcome, fingerprint=record.fingerprint)
            if record is not None and record.closed:
                return Closed()
            receipt = self._receipts.get(call.key)
            if receipt is None or now_us < receipt.visible_us:
                return Absent(as_of=moment(now_us - microseconds(self.knobs.lag)))
            return Found(dict(receipt.value), fingerprint=receipt.fingerprint, receipt=receipt.value["receipt"])

    def close(self, call: Call) -> Answer[Value]:
        """The outcome of a key, or its refusal for ever from now on."""
        with self._lock:
            now_us = self.clock.wall_us()
            record = self._record(call.key, now_us)
            if record is None:
                self._records[call.key] = _Record(call.fingerprint, now_us, None, closed=True)
                return Closed()
            if isinstance(record.outcome, Rejection):
                return Refused(record.outcome, fingerprint=record.fingerprint)
            if record.outcome is None:
                return Closed() if record.closed else Indeterminate()
            return Found(dict(record.outcome), fingerprint=record.fingerprint, receipt=record.outcome["receipt"])

    def _reserve(self, request: Request, now_us: int) -> Value | Rejection:
        """Take the stock and write the receipt, or say no."""
        key, sku, quantity = request.call.key, request.arguments["sku"], request.arguments["qty"]
        there = self.stock.get(sku, 0)
        if there < quantity:
            refusal = OutOfStock(sku=sku, available=there)
            declined = Declined(at_us=now_us, key=key, error=refusal.name, value={"sku": sku, "available": there})
            self.ledger.add(declined, "environment", f"declines {key}: {refusal}")
            return refusal
        self.stock[sku] = there - quantity
        self._made += 1
        value = {"receipt": f"R{self._made}", "sku": sku, "qty": quantity}
        if request.marking is not Marking.NONE:
            visible_us = now_us + microseconds(self.knobs.lag)
            self._receipts.setdefault(key, _Receipt(request.call.fingerprint, visible_us, value))
        done = Executed(at_us=now_us, key=key, arguments=dict(request.arguments), value=value)
        self.ledger.add(done, "environment", f"does {key}: {value['receipt']}, {sku} {there} -> {self.stock[sku]}")
        return dict(value)

    def _failed(self, request: Request, when: str) -> Answer[Value]:
        self._remember(request, Remembered.FAILURE, None)
        self.tell(f"{request.call.key} fails {when}")
        return Unreachable(detail="500")

    def _remember(self, request: Request, kind: Remembered, outcome: Value | Rejection | None) -> None:
        if request.marking is Marking.KEY and kind in self.knobs.remembers:
            key, now_us = request.call.key, self.clock.wall_us()
            since_us = self._first_seen_us[key] if self.knobs.window_starts is Anchor.FIRST_SEEN else now_us
            self._records[key] = _Record(request.call.fingerprint, since_us, outcome)

    def _record(self, key: str, now_us: int) -> _Record | None:
        """What is still known under a key. A tombstone stays."""
        record = self._records.get(key)
        if record is None or record.closed or self.knobs.window is None:
            return record
        if now_us < record.since_us + microseconds(self.knobs.window):
            return record
        del self._records[key], self._first_seen_us[key]
        self.tell(f"has forgotten {key}")
        return None

    def _replayed(self, record: _Record, request: Request) -> Outcome:
        key = request.call.key
        if record.closed:
            self.tell(f"refuses {key}: it is closed")
            return Closed()
        if record.fingerprint != request.call.fingerprint and self.knobs.mismatch is OnMismatch.REFUSES:
            self.tell(f"refuses {key}: it knows another request under it")
            return Mismatch()
        self.tell(f"replays {key}")
        if record.outcome is None:
            return Indeterminate()
        return dict(record.outcome) if isinstance(record.outcome, dict) else record.outcome

    def tell(self, text: str) -> None:
        self.ledger.tell(self.clock.wall_us(), "environment", text)
