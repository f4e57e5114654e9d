"""The inside of a simulated environment: stock, and what one request does once it has arrived, on a virtual clock.

Owns what is done, declined, replayed and refused. Knows neither senders nor the network. Invariant: stock, receipt and key record of one
request change together or not at all; only where a knob says so is a request acted on without its key.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recovery.core.contracts import Batch, Deletion, Enforced, Replay, microseconds
from recovery.core.instants import instant_us, moment
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
    Refused,
    TurnedAway,
    Unreachable,
)
from recovery.definitions.batched import Batched, Item
from recovery.definitions.call import Call
from recovery.definitions.rejection import Rejection
from recovery.testing.clock import ManualClock
from recovery.testing.keystore import KeyStore, Receipt, Record
from recovery.testing.knobs import NAMING, STORED, Anchor, Knobs, Marking, OnMismatch, Outcome, Remembered, Request, Value
from recovery.testing.ledger import Ledger
from recovery.testing.scripts import ScriptRoom
from recovery.testing.stockroom import Stockroom

SOMEBODY = "somebody else's"
"""The fingerprint of what is not ours."""

Saved = tuple[dict[str, int], dict[str, KeyStore]]


@dataclass(slots=True)
class Warehouse:
    """Carries requests out. Every method is atomic.

    failures: the next requests fail; True: after the effect. breaks: the next batch breaks off after so many items.
    scope: whose keys are seen, as the credential of the moment has it. hidden: it sees nothing, and the answer is "not found".
    """

    clock: ManualClock
    ledger: Ledger
    knobs: Knobs
    stockroom: Stockroom | ScriptRoom
    failures: list[bool] = field(default_factory=list)
    breaks: list[int] = field(default_factory=list)
    turns_away: int = 0
    key_store_down: bool = False
    hidden: bool = False
    scope: str = ""
    _stores: dict[str, KeyStore] = field(default_factory=dict)
    _at_work: dict[str, int | None] = field(default_factory=dict)  # keys worked on, and until when they are locked
    _lock: threading.RLock = field(default_factory=threading.RLock)

    # -- what happens to it --------------------------------------------------------------------------------------------

    def restock(self, more: Mapping[str, int]) -> None:
        with self._lock:
            self.stockroom.add(more)

    def prune(self, *, keys: bool = True, receipts: bool = True) -> None:
        """Forget every key, every receipt, or both."""
        with self._lock:
            if keys:
                self._store.records.clear()
                self._store.first_seen_us.clear()
            if receipts:
                self._store.receipts.clear()

    def remove(self, key: str) -> None:
        """A user deletes the object that was made under `key`. What had been taken for it stays taken. Raises KeyError."""
        with self._lock:
            self._store.receipts[key].removed = True
            self.tell(f"a user removes the object of {key}")

    def alter(self, key: str, changed: Mapping[str, Any]) -> None:
        """The object that was made under `key` changes. Raises KeyError."""
        with self._lock:
            self._store.receipts[key].value |= changed

    def occupy(self, key: str) -> None:
        """Somebody else uses `key`, as a key and as a name."""
        with self._lock:
            now_us, value = self.clock.wall_us(), {"receipt": f"X-{key}", "sku": "-", "qty": 0}
            self._store.records[key] = Record(SOMEBODY, now_us, value)
            self._store.first_seen_us.setdefault(key, now_us)
            self._store.receipts[key] = Receipt(SOMEBODY, now_us, value, dict(value), foreign=True)

    def standing(self) -> object:
        """Everything that an answer can depend on beside the time."""
        room = self.stockroom
        there = (sorted(room.stock.items()), sorted(room.held.items()), room.made, sorted(self._stores.items()))
        return (
            there,
            sorted(self._at_work.items()),
            self.failures,
            self.breaks,
            self.turns_away,
            self.key_store_down,
            self.hidden,
            self.scope,
        )

    def saved(self) -> Saved:
        """A backup: stock, keys and receipts as they are."""
        with self._lock:
            return dict(self.stockroom.stock), {scope: store.copy() for scope, store in self._stores.items()}

    def put_back(self, saved: Saved) -> None:
        """Restore a backup. What was done since then is gone, and ids of receipts are not given twice."""
        with self._lock:
            stock, stores = saved
            self.stockroom.stock = dict(stock)
            self._stores = {scope: store.copy() for scope, store in stores.items()}

    # -- requests ------------------------------------------------------------------------------------------------------

    def carry_out(self, request: Request) -> Outcome:
        """What a request that has arrived comes to, all at once. `Unreachable` stands for a failure of the service itself."""
        with self._lock:
            refused = self.admitted(request)
            return self.executed(request) if refused is None else refused

    def admitted(self, request: Request) -> Outcome | None:
        """The answer that is given before any work, or None for a request that is to be worked on."""
        with self._lock:
            key, now_us = request.call.key, self.clock.wall_us()
            if self.turns_away:
                self.turns_away -= 1
                self.tell(f"turns {key} away")
                return TurnedAway()
            if (refusal := self._fence(request, now_us)) is not None:
                return refusal
            if request.marking in STORED and self.key_store_down and not self.knobs.fail_open:
                self.tell(f"turns {key} away: its key store is down")
                return TurnedAway()
            if not self._protected(request):
                return None
            record = self._record(key, now_us)
            if record is not None and (record.closed or request.marking in STORED):
                return self._replayed(record, request)
            if self.knobs.locks and key in self._at_work:
                until_us = self._at_work[key]
                if until_us is None or now_us < until_us:
                    self.tell(f"says that {key} is in flight")
                    return InFlight()
            if request.marking in NAMING and (receipt := self._store.receipts.get(key)) is not None and not receipt.removed:
                return self._taken(receipt, request)
            self._store.first_seen_us.setdefault(key, now_us)
            return None

    def hold(self, request: Request) -> None:
        """The first phase of a request that holds and then takes: its stock is nobody else's from now on."""
        with self._lock:
            key, sku, quantity = request.call.key, request.arguments["sku"], request.arguments["qty"]
            if self.admitted(request) is None and self.stockroom.hold(key, sku, quantity):
                self.tell(f"holds {quantity} {sku} for {key}")

    def begin(self, request: Request) -> Outcome | None:
        """As `admitted`, for work that takes time: the key is locked, as far as the knobs say so. `executed` ends it."""
        with self._lock:
            refused = self.admitted(request)
            if refused is None:
                lock_for = self.knobs.lock_for
                now_us = self.clock.wall_us()
                self._at_work[request.call.key] = None if lock_for is None else now_us + microseconds(lock_for)
                self.tell(f"begins to work on {request.call.key}")
            return refused

    def given_up(self, request: Request) -> None:
        """Work that was begun ends here, undone."""
        with self._lock:
            self._at_work.pop(request.call.key, None)
            self.tell(f"gives {request.call.key} up: its sender is gone")

    def executed(self, request: Request) -> Outcome:
        """Do the work of an admitted request."""
        with self._lock:
            key, now_us = request.call.key, self.clock.wall_us()
            if key in self._at_work:
                del self._at_work[key]
                if (refusal := self._fence(request, now_us)) is not None:  # checked inside the transaction, at its end
                    return refusal
                record = self._record(key, now_us)
                if record is not None and record.closed:
                    return Closed()
            fails = self.failures.pop(0) if self.failures else None
            if fails is False:
                return self._failed(request, "before anything is done")
            outcome = self._worked(request, now_us)
            if fails is True:
                return self._failed(request, "after it was done")
            if isinstance(outcome, dict | Rejection):
                kind = Remembered.REJECTION if isinstance(outcome, Rejection) else Remembered.SUCCESS
                self._remember(request, kind, outcome)
            return Accepted() if request.marking is Marking.SWALLOW and isinstance(outcome, dict) else outcome

    # -- questions -----------------------------------------------------------------------------------------------------

    def look_up(self, call: Call, items: int = 0, *, by_name: bool = False) -> Answer[Any]:
        """What is known under a key or marker. items: of a batch whose items have results of their own, how many there are.

        by_name: the key is the object's name, so that somebody else's object is foreign; else it answers for another request."""
        with self._lock:
            if items:
                one = [self._looked_up(f"{call.key}/{number}") for number in range(items)]
                if all(isinstance(answer, Absent) for answer in one):
                    return one[0]
                return Found(Batched(answer if isinstance(answer, Found | Refused) else Unreachable() for answer in one))
            answer = self._looked_up(call.key, by_name)
            raises = self.knobs.asking_raises and self.knobs.enforces is Enforced.EPOCH
            if raises and isinstance(answer, Absent) and not self._store.fenced(call.key, call.epoch):
                return Absent(as_of=answer.as_of, raised=call.epoch)
            return answer

    def _looked_up(self, key: str, by_name: bool = False) -> Answer[Value]:
        now_us = self.clock.wall_us()
        if self.hidden:
            return Absent(as_of=moment(now_us))
        record = self._record(key, now_us)
        if record is not None and isinstance(record.outcome, Rejection):
            return Refused(record.outcome, fingerprint=record.fingerprint)
        if record is not None and record.closed:
            return Closed()
        if key in self._at_work and self.knobs.reads_open:
            return InFlight()
        receipt = self._store.shown(key, now_us, self.knobs.retention)
        if receipt is None or (receipt.removed and self.knobs.deletion is not Deletion.VISIBLE):
            return Absent(as_of=moment(now_us - microseconds(self.knobs.lag)))
        if receipt.removed:
            return Gone()
        return Foreign() if receipt.foreign and by_name else self._found(receipt)

    def close(self, call: Call) -> Answer[Value]:
        """The outcome of a key, or, with tombstones, its refusal for ever from now on."""
        with self._lock:
            now_us = self.clock.wall_us()
            if self.key_store_down:
                return Unreachable(detail="the key store is down")
            if call.key in self._at_work and self.knobs.reads_open:
                return InFlight()
            record = self._record(call.key, now_us)
            if record is None and call.key in self._store.receipts and self.knobs.window is None:
                return self._looked_up(call.key)
            if record is None and not self.knobs.tombstone:
                return Absent(as_of=moment(now_us))
            if record is None:
                self._store.records[call.key] = Record(call.fingerprint, now_us, None, closed=True)
                return Closed()
            if isinstance(record.outcome, Rejection):
                return Refused(record.outcome, fingerprint=record.fingerprint)
            if record.outcome is None:
                return Closed() if record.closed else Indeterminate()
            return Found(dict(record.outcome), fingerprint=record.fingerprint, receipt=record.outcome["receipt"])

    def cancel(self, call: Call) -> bool:
        """Undo what is found under a key; whether anything was. Nothing is left behind, so a late copy still acts."""
        with self._lock:
            receipt = self._store.receipts.get(call.key)
            if receipt is None or receipt.removed or receipt.foreign:
                self.tell(f"has nothing to cancel under {call.key}")
                return False
            receipt.removed = True
            self.restock({receipt.first["sku"]: receipt.first["qty"]})
            self.tell(f"cancels {call.key}")
            return True

    # -- doing ---------------------------------------------------------------------------------------------------------

    def _worked(self, request: Request, now_us: int) -> Outcome:
        key, wanted = request.call.key, request.arguments
        if "items" in wanted and self.knobs.batch in {Batch.PER_ITEM_KEY, Batch.PER_ITEM_RESULT}:
            return self._one_by_one(request, list(wanted["items"]), now_us)
        came = (self.stockroom.take_all if "items" in wanted else self.stockroom.take)(key, wanted, now_us)
        if isinstance(came, dict):
            self._write_receipt(request, key, came, now_us)
        return came

    def _one_by_one(self, request: Request, items: list[dict[str, Any]], now_us: int) -> Outcome:
        """Each item by itself; under keys of their own, those that are done or declined already are not done again."""
        stops_at = self.breaks.pop(0) if self.breaks else None
        told: list[Item[Value]] = []
        for number, item in enumerate(items):
            if number == stops_at:
                self.tell(f"{request.call.key} breaks off after {number} of {len(items)} items")
                return Unreachable(detail="500")
            key = f"{request.call.key}/{number}"
            known = self._looked_up(key) if self.knobs.batch is Batch.PER_ITEM_KEY else None
            if isinstance(known, Found | Refused):
                told.append(known)
                continue
            came = self.stockroom.take(key, item, now_us)
            if isinstance(came, dict):
                self._write_receipt(request, key, came, now_us)
                told.append(Found(came, receipt=came["receipt"]))
            else:
                self._store.records[key] = Record(request.call.fingerprint, now_us, came)
                told.append(Refused(came))
        return Batched(told)

    def _write_receipt(self, request: Request, key: str, value: Value, now_us: int) -> None:
        there = self._store.receipts.get(key)
        if request.marking not in {Marking.NONE, Marking.SWALLOW} and (there is None or there.removed):
            visible_us = now_us + microseconds(self.knobs.lag)
            self._store.receipts[key] = Receipt(request.call.fingerprint, visible_us, dict(value), dict(value))

    def _failed(self, request: Request, when: str) -> Answer[Value]:
        self._remember(request, Remembered.FAILURE, None)
        self.tell(f"{request.call.key} fails {when}")
        return Unreachable(detail="500")

    # -- keys ----------------------------------------------------------------------------------------------------------

    @property
    def _store(self) -> KeyStore:
        return self._stores.setdefault(self.scope, KeyStore())

    def _protected(self, request: Request) -> bool:
        """Whether anything that is remembered keeps this request from acting again."""
        if request.marking in NAMING:
            return True
        return request.marking in STORED and not self.key_store_down

    def _fence(self, request: Request, now_us: int) -> Answer[Value] | None:
        """What is refused by a time or an epoch that it carries itself."""
        call, window = request.call, self.knobs.window
        if self.knobs.enforces is Enforced.DEADLINE and now_us > instant_us(call.send_until):
            self.tell(f"refuses {call.key}: its deadline has passed")
            return TurnedAway()
        if self.knobs.enforces is Enforced.EPOCH and self._store.fenced(call.key, call.epoch):
            self.tell(f"refuses {call.key}: a later epoch has been here")
            return TurnedAway()
        first = call.first_sent if request.marking is Marking.FIRST_SENT else None
        if first is not None and window is not None and now_us > instant_us(first) + microseconds(window):
            self.tell(f"refuses {call.key}: it was first sent too long ago")
            return Expired()
        return None

    def _remember(self, request: Request, kind: Remembered, outcome: Value | Rejection | None) -> None:
        if request.marking in STORED and kind in self.knobs.remembers and self._protected(request):
            key, now_us = request.call.key, self.clock.wall_us()
            seen_us = self._store.first_seen_us.get(key, now_us)
            since_us = seen_us if self.knobs.window_starts is Anchor.FIRST_SEEN else now_us
            self._store.records[key] = Record(request.call.fingerprint, since_us, outcome)

    def _record(self, key: str, now_us: int) -> Record | None:
        return self._store.record(key, now_us, self.knobs.window, lambda forgotten: self.tell(f"has forgotten {forgotten}"))

    def _replayed(self, record: Record, request: Request) -> Outcome:
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
        if isinstance(record.outcome, Rejection):
            return record.outcome
        if request.marking is Marking.SWALLOW:
            return Accepted()
        receipt = self._store.receipts.get(key)
        if self.knobs.replay is Replay.CURRENT and receipt is not None:
            return Gone() if receipt.removed else self._found(receipt)
        return dict(record.outcome)

    def _taken(self, receipt: Receipt, request: Request) -> Answer[Value]:
        """What making an object under a name that is taken comes to: our own success looks like a conflict, but for its marker."""
        self.tell(f"says that {request.call.key} is taken")
        if receipt.foreign:
            return Foreign()
        return self._found(receipt) if receipt.fingerprint == request.call.fingerprint else Mismatch()

    def _found(self, receipt: Receipt) -> Answer[Value]:
        original = self.knobs.replay is not Replay.CURRENT
        value = receipt.first if original and receipt.value == receipt.first else receipt.value
        return Found(dict(value), fingerprint=receipt.fingerprint, receipt=value["receipt"], original=None if original else False)

    def tell(self, text: str) -> None:
        self.ledger.tell(self.clock.wall_us(), "environment", text)
