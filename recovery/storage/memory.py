"""A journal in memory: dicts under one lock, the model that the conformance suite measures the databases against.

Owns the promises of `ports.Journal` in their plainest form; dies with its process. Invariant: no kinder than a database: a member is all
or nothing, keys and fences refuse exactly what SQL refuses.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from recovery.core.chain import Row
from recovery.core.entries import Status
from recovery.core.ids import Epoch
from recovery.core.limits import Queue, Rate
from recovery.core.resting import GRAVEST_FIRST
from recovery.forks import watch
from recovery.ports import (
    Append,
    Appended,
    AppendResult,
    Delivered,
    Delivery,
    Due,
    Evidence,
    Fenced,
    Hold,
    Message,
    NewRun,
    NotOpen,
    Owner,
    Payload,
    RunRow,
    Scheduled,
    SlotTaken,
    Stored,
    Stub,
    Wanted,
)
from recovery.storage.bell import Bell
from recovery.storage.one_by_one import OneByOne
from recovery.storage.portions import at_hand, in_portions
from recovery.storage.resting import opened_delivery, opened_message, sealed_message, sealed_words, sealing_of
from recovery.storage.rooms import Room, subject_of
from recovery.storage.rules import GOES_ON, check_rises, check_rows, first_taken, is_due, key_place, row_of, urgency, wants
from recovery.storage.takings import Takings
from recovery.vaults import Vault

T = TypeVar("T")


@dataclass(slots=True)
class _Run:
    row: RunRow
    rows: list[Row]
    contracts: dict[str, str] = field(default_factory=dict)
    payloads: set[str] = field(default_factory=set)


class MemoryJournal(OneByOne):
    """See `ports.Journal` for what each method promises. Durable means: until the process ends."""

    url = "memory://"
    vault: Vault | None = None

    def __init__(self, namespace: str | None = None) -> None:
        """namespace: the name of a database whose plays this one repeats; a random one of its own by default."""
        self.forked()
        self._namespace = namespace or secrets.token_hex(16)
        self._incarnation = 0
        self._runs: dict[str, _Run] = {}
        self._keys: dict[tuple[str, str, str], tuple[str, str, str]] = {}
        self._payloads: dict[str, bytes] = {}
        self._evidence: list[Evidence] = []
        self._inbox: list[Message] = []
        self._holds: dict[str, Hold] = {}
        self._stubs: dict[str, Stub] = {}
        self._takings = Takings()
        self._schedules: dict[str, Scheduled] = {}
        self._bell = Bell()
        self.listen = self._bell.listen
        watch(self)

    def forked(self) -> None:
        self._lock = threading.Lock()

    def namespace(self) -> str:
        return self._namespace

    def incarnation(self) -> int:
        return self._incarnation

    def raise_incarnation(self, seen: int, to: int) -> int:
        check_rises(seen, to)
        with self._lock:
            if self._incarnation == seen:
                self._incarnation = to
            return self._incarnation

    def open_run(self, new: NewRun) -> RunRow | None:
        check_rows(new.run_id, 0, new.rows)
        with self._lock:
            there = self._runs.get(new.run_id)
            if there is not None:
                return there.row if there.row.owner is not None and there.row.owner.token == new.owner.token else None
            row = row_of(new, self._incarnation)
            opened = self._runs[new.run_id] = _Run(row, list(new.rows))
            self._refer(opened, new.payloads)
        self._bell.opened(new)
        return row

    def open_runs(self, batch: Sequence[NewRun]) -> list[RunRow | None]:
        return [self.open_run(new) for new in batch]

    def find(self, run_id: str) -> RunRow | None:
        with self._lock:
            there = self._runs.get(run_id)
            return there.row if there is not None else None

    def find_all(self, run_ids: Sequence[str]) -> dict[str, RunRow]:
        return {run_id: row for run_id in run_ids if (row := self.find(run_id)) is not None}

    def runs(
        self, *, statuses: Sequence[Status] | None = None, reason: str | None = None, limit: int = 1000, after: str = ""
    ) -> list[RunRow]:
        with self._lock:
            rows = (self._runs[run_id].row for run_id in sorted(self._runs) if run_id > after)
            rows = (row for row in rows if reason is None or row.reason == reason)
            return [row for row in rows if statuses is None or row.status in statuses][:limit]

    def claim(self, seen: RunRow, owner: Owner, *, lease_term_us: int, at_us: int) -> RunRow | None:
        with self._lock:
            there = self._runs.get(seen.run_id)
            if there is None:
                return None
            now = there.row
            moved = (now.epoch, now.lease_counter, now.owner) != (seen.epoch, seen.lease_counter, seen.owner)
            if seen.run_id in self._stubs or moved:
                return now if now.owner is not None and now.owner.token == owner.token else None
            return self._claimed(there, owner, lease_term_us, at_us)

    def _claimed(self, there: _Run, owner: Owner, lease_term_us: int, at_us: int) -> RunRow:
        now = there.row
        n = now.epoch.n + 1 if now.epoch.incarnation == self._incarnation else 1
        there.row = replace(
            now,
            epoch=Epoch(self._incarnation, n),
            owner=owner,
            lease_counter=0,
            lease_term_us=lease_term_us,
            updated_at_us=max(now.updated_at_us, at_us),
            crashes=now.crashes + (now.owner is not None),
        )
        return there.row

    def due(self, wanted: Wanted) -> Due:
        with self._lock:
            return self._due(wanted)[0]

    def _due(self, wanted: Wanted) -> tuple[Due, dict[str, Room]]:
        rows = [there.row for there in self._runs.values() if is_due(there.row) and wants(wanted, there.row)]
        ready = [row for row in rows if (row.next_look_us or 0) <= wanted.now_us]
        later = [row.next_look_us for row in rows if row.next_look_us is not None and row.next_look_us > wanted.now_us]
        rooms = {queue.name: self._room(queue, wanted.now_us) for queue in wanted.limits if queue.limited}
        fit: list[RunRow] = []
        for row in sorted(ready, key=urgency):
            if len(fit) < wanted.limit and (row.queue not in rooms or rooms[row.queue].lets_in(row)):
                fit.append(row)
        frees = {room.frees_us for name, room in rooms.items() if any(row.queue == name for row in rows)}
        later += [at_us for at_us in frees if at_us is not None]
        return Due(tuple(fit), min(later, default=None)), rooms

    def _room(self, queue: Queue, now_us: int) -> Room:
        has = [there for there in self._runs.values() if there.row.owner is not None and there.row.status in GOES_ON]
        at_work = sum(there.row.queue == queue.name for there in has)
        return Room(queue, at_work, self._takings.taken.get(subject_of(queue), ()), now_us)

    def take(self, subject: str, rate: Rate, now_us: int) -> int | None:
        with self._lock:
            return self._takings.take(subject, rate, now_us)

    def claim_due(self, wanted: Wanted, owner: Owner, *, lease_term_us: int) -> Due:
        with self._lock:
            found, rooms = self._due(wanted)
            for queue in wanted.limits:
                if queue.limited:
                    self._takings.taken[subject_of(queue)] = rooms[queue.name].taken
            claimed = [self._claimed(self._runs[row.run_id], owner, lease_term_us, wanted.now_us) for row in found.runs]
            return Due(tuple(claimed), found.next_due_us)

    def schedules(self) -> list[Scheduled]:
        with self._lock:
            return [self._schedules[name] for name in sorted(self._schedules)]

    def keep_schedule(self, row: Scheduled) -> bool:
        with self._lock:
            there = self._schedules.get(row.name)
            fits = row.revision == (1 if there is None else there.revision + 1)
            if fits:
                self._schedules[row.name] = row
            return fits

    def owned(self, after: tuple[str, str] = ("", ""), limit: int = 1000) -> list[RunRow]:
        with self._lock:
            rows = [there.row for there in self._runs.values() if there.row.owner is not None and there.row.status in GOES_ON]
        return [row for row in sorted(rows, key=lambda row: (row.queue, row.run_id)) if (row.queue, row.run_id) > after][:limit]

    def renew(self, run_id: str, owner: str, epoch: Epoch) -> bool:
        with self._lock:
            held = self._held(run_id, owner, epoch)
            if held is not None:
                held.row = replace(held.row, lease_counter=held.row.lease_counter + 1)
            return held is not None

    def release(self, run_id: str, owner: str, epoch: Epoch, due_us: int | None = None) -> bool:
        with self._lock:
            held = self._held(run_id, owner, epoch)
            if held is not None:
                held.row = replace(held.row if due_us is None else _woken(held.row, due_us), owner=None, crashes=0)
            there = self._runs.get(run_id)
            released = there is not None and there.row.owner is None and there.row.epoch == epoch
        self._bell.ring()
        return released

    def stream(self, run_id: str, take: Callable[[Stored], T]) -> T | None:
        with self._lock:
            there = self._runs.get(run_id)
            if there is None:
                return None
            row, rows, contracts = there.row, there.rows[: there.row.head], dict(there.contracts)
            payloads = {digest: self._payloads[digest] for digest in there.payloads if digest in self._payloads}
            late = [kept for kept in self._evidence if kept.run_id == run_id]
        return take(Stored(self._namespace, self._incarnation, row, contracts, late, in_portions(rows), at_hand(payloads)))

    def first_rows(self, run_ids: Sequence[str]) -> dict[str, Row]:
        with self._lock:
            there = {run_id: self._runs[run_id].rows for run_id in run_ids if run_id in self._runs}
            return {run_id: rows[0] for run_id, rows in there.items() if rows}

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        for member in batch:
            check_rows(member.run_id, member.head, member.rows)
        sealed = [sealed_words(self, member) for member in batch]
        with self._lock:
            came = [self._append_one(member) for member in sealed]
        self._bell.appended(sealed)
        return came

    def payloads(self, digests: Sequence[str]) -> dict[str, bytes]:
        with self._lock:
            return {digest: self._payloads[digest] for digest in digests if digest in self._payloads}

    def key_owner(self, environment: str, scope: str, key: str) -> tuple[str, str, str] | None:
        with self._lock:
            return self._keys.get((environment, scope, key))

    def add_evidence(self, evidence: Evidence) -> None:
        with self._lock:
            if not any(replace(kept, at_us=evidence.at_us) == evidence for kept in self._evidence):
                self._evidence.append(evidence)

    def evidence(self, run_id: str) -> list[Evidence]:
        with self._lock:
            return [kept for kept in self._evidence if kept.run_id == run_id]

    def deliver(self, message: Message) -> Delivery:
        sealing = sealing_of(self, message.run_id)
        sealed = sealed_message(message, sealing)
        with self._lock:
            came = self._deliver(sealed)
        self._bell.ring()
        return opened_delivery(came, sealing)

    def _deliver(self, message: Message) -> Delivery:
        there = self._runs.get(message.run_id)
        if there is None:
            return NotOpen(None)
        mine = [kept for kept in self._inbox if kept.run_id == message.run_id]
        same = next((kept for kept in mine if kept.token == message.token), None)
        if same is not None:
            return Delivered(same)
        if there.row.status.settled:
            return NotOpen(there.row)
        first = next((kept for kept in mine if message.slot and kept.slot == message.slot), None)
        if first is not None:
            return SlotTaken(first)
        stored = replace(message, number=len(mine) + 1)
        there.row = _woken(there.row, message.at_us)  # first: an interrupt between the two wakes somebody in vain
        self._inbox.append(stored)
        return Delivered(stored)

    def inbox(self, run_id: str, after: int = 0) -> list[Message]:
        sealing = sealing_of(self, run_id)
        with self._lock:
            behind = [kept for kept in self._inbox if kept.run_id == run_id and kept.number > after]
        return [opened_message(kept, sealing) for kept in behind]

    def add_hold(self, hold: Hold) -> None:
        with self._lock:
            self._holds.setdefault(hold.token, hold)

    def holds(self) -> list[Hold]:
        with self._lock:
            words = list(self._holds.values())
        last = {word.subject: index for index, word in enumerate(words)}
        return [words[index] for index in sorted(last.values()) if words[index].held]

    def forget(self, seen: RunRow, stub: Stub) -> bool:
        with self._lock:
            if seen.run_id in self._stubs:
                return True
            there = self._runs.get(seen.run_id)
            if there is None or not there.row.status.settled or (there.row.epoch, there.row.head) != (seen.epoch, seen.head):
                return False
            there.row = replace(there.row, owner=None, epoch=replace(there.row.epoch, n=there.row.epoch.n + 1))
            there.rows.clear()
            there.contracts.clear()
            there.payloads.clear()
            referred = set[str]().union(*(run.payloads for run in self._runs.values()))
            self._payloads = {digest: body for digest, body in self._payloads.items() if digest in referred}
            self._evidence = [kept for kept in self._evidence if kept.run_id != seen.run_id]
            self._inbox = [kept for kept in self._inbox if kept.run_id != seen.run_id]
            self._stubs[seen.run_id] = stub
            return True

    def stub(self, run_id: str) -> Stub | None:
        with self._lock:
            return self._stubs.get(run_id)

    def now_us(self) -> int:
        return time.time_ns() // 1000

    def close(self) -> None:
        """Nothing to give up: what is stored stays as long as this object."""

    def _held(self, run_id: str, owner: str, epoch: Epoch) -> _Run | None:
        there = self._runs.get(run_id)
        if there is None or there.row.owner is None or (there.row.owner.token, there.row.epoch) != (owner, epoch):
            return None
        return there

    def _refer(self, there: _Run, payloads: Sequence[Payload]) -> None:
        for payload in payloads:
            self._payloads.setdefault(payload.digest, payload.body)
            there.payloads.add(payload.digest)

    def _append_one(self, member: Append) -> AppendResult:
        there = self._runs.get(member.run_id)
        if there is None:
            return Fenced(None)
        last = member.rows[-1]
        if there.row.head >= last.seq:
            at_seq = there.rows[last.seq - 1 : last.seq]  # nothing where the run was forgotten meanwhile
            if [(stored.token, stored.digest) for stored in at_seq] == [(last.token, last.digest)]:
                return Appended()
        held = self._held(member.run_id, member.owner, member.epoch)
        if held is None or held.row.head != member.head:
            return Fenced(there.row)
        taken = first_taken(member, lambda claim: self._keys.get(key_place(claim)))
        if taken is not None:
            return taken
        for claim in member.keys:
            self._keys[key_place(claim)] = (member.run_id, claim.step, claim.fingerprint)
        there.contracts.update(member.contracts)
        self._refer(there, member.payloads)
        there.rows[there.row.head :] = member.rows
        for word in member.words:  # an interrupt behind one of them has told it too early, which wakes somebody in vain
            listener = self._runs.get(word.run_id)
            if listener is not None and listener.row.status in GRAVEST_FIRST:
                self._deliver(word)
        # The next line is the commit: rows behind a head are nobody's, so that an interrupt before it leaves nothing half-written.
        there.row = replace(
            there.row,
            head=last.seq,
            head_digest=last.digest,
            status=member.status,
            reason=member.reason,
            rests_for=member.rests_for,
            updated_at_us=member.at_us,
            next_look_us=there.row.next_look_us if member.keeps_look else member.next_look_us,
        )
        return Appended()


def _woken(row: RunRow, at_us: int) -> RunRow:
    """The row of a run that is due from `at_us` on at the latest, if it rests."""
    if row.status not in GRAVEST_FIRST or (row.next_look_us is not None and row.next_look_us <= at_us):
        return row
    return replace(row, next_look_us=at_us)
