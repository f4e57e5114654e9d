"""The environment of the model: ground truth, landing by landing.

Owns what happens outside: copies that land or never do, key records and their windows, receipts and who removes them, stock that comes
and goes. Knows nothing of rows, verdicts or journals: it reads a contract only as a description of itself. Invariant: every function
returns all that may happen, and an effect is counted here and nowhere else.

Times are whole microseconds of the journal's clock. The environment's own clock is ahead of it by `skew`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from recovery.core.contracts import AfterWindow, Batch, Contract, Deletion, Enforced, Kind, Lookup, Replay, WindowStart
from recovery.core.entries import Answered, AnswerKind
from recovery.core.ids import Epoch
from recovery.core.terms import NAMES

OURS, ITEM, FOREIGN, DELETED, HALF = "ours", "item", "foreign", "deleted", "half"


class Fields(dict[str, Any]):
    """A value that can be part of a state."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


class Copy(NamedTuple):
    """A request on its way. It may land until `until`, or never."""

    number: int
    closing: bool
    until: int
    deadline: int
    first_sent: int
    elsewhere: bool = False
    epoch: Epoch = Epoch(0, 0)
    bytes: int = 0
    cancelling: bool = False

    @property
    def acts(self) -> bool:
        """Whether it carries the effect."""
        return not self.closing and not self.cancelling


class World(NamedTuple):
    """events: (when, what) in order. record: what the key answers, since when. refusing: out of stock just now. epoch: below it copies are
    refused, where epochs are enforced. bytes: of the request that the key is known for."""

    events: tuple[tuple[int, str], ...] = ()
    record: tuple[str, int] | None = None
    refusing: bool = False
    copies: tuple[Copy, ...] = ()
    epoch: Epoch = Epoch(0, 0)
    bytes: int = 0


Happening = tuple[str, World, Answered]

_told = {kind: Answered(kind=kind) for kind in AnswerKind}
REFUSED = Answered(kind=AnswerKind.REFUSED, error="OutOfStock")
UNREACHABLE = _told[AnswerKind.UNREACHABLE]
NOT_SENT = _told[AnswerKind.NOT_SENT]
TURNED_AWAY = _told[AnswerKind.TURNED_AWAY]


def executions(world: World) -> int:
    """How often the effect of this step was applied (of a batch: its most repeated item)."""
    whole = sum(what in {OURS, HALF} for _, what in world.events)
    items = [sum(what == f"{ITEM}{n}" for _, what in world.events) for n in range(2)]
    return max(whole, *items)


def items_applied(world: World) -> tuple[bool, bool]:
    applied = {what for _, what in world.events}
    return f"{ITEM}0" in applied, f"{ITEM}1" in applied


def receipt(number: int, original: bool) -> Answered:
    """The first reply; or the object's present state, which has changed since."""
    value = Fields(id=number, units=2, state=0 if original else 1)
    return Answered(kind=AnswerKind.FOUND, value=value, receipt=f"r{number}")


THEIRS = Answered(kind=AnswerKind.FOUND, value=Fields(id=9, units=5, state=0))


class Environment:
    """One provider, as `contract` describes it (for a liar: as it really is)."""

    def __init__(self, contract: Contract, *, skew: int = 0, fails: bool = False, busy: bool = False) -> None:
        self.contract = contract
        self.lookup = contract.lookup or Lookup(authoritative=False)
        self.skew = skew
        self.fails = fails
        self.busy = busy
        self.batched = contract.batch is Batch.PER_ITEM_RESULT

    # -- requests ------------------------------------------------------------------------------------------------------

    def land(self, world: World, copy: Copy, now: int) -> list[Happening]:
        """All that may come of this copy arriving now."""
        rest = list(world.copies)
        rest.remove(copy)
        after = world._replace(copies=tuple(rest))
        if copy.closing:
            return self._close(after, now)
        if copy.cancelling:
            return self._cancel(after, now)
        contract, clock = self.contract, now + self.skew
        if contract.enforced is Enforced.DEADLINE and clock > copy.deadline:
            return [("refuses it: its deadline is over", after, TURNED_AWAY)]
        if contract.kind is Kind.FIRST_SENT and clock > copy.first_sent + (contract.window_us or 0):
            return [("refuses it: first sent too long ago", after, _told[AnswerKind.EXPIRED])]
        if contract.enforced is Enforced.EPOCH:
            if copy.epoch < after.epoch:
                return [("refuses it: its sender is superseded", after, TURNED_AWAY)]
            after = after._replace(epoch=copy.epoch)
        if after.record is None:
            after = after._replace(bytes=copy.bytes)
        happenings = self._keyed(after, now, copy.bytes) if contract.keyed else self._execute(after, now)
        if contract.disconnect_cancels:
            happenings += self._cut_off(after, now)
        if contract.fail_open:
            happenings += [
                (f"{label}, its key store being down", *rest) for label, *rest in self._execute(after, now, recorded=False)
            ]
        if self.busy and any(other.acts for other in rest):
            happenings.append(("is busy with another copy", after, _told[AnswerKind.IN_FLIGHT]))
        return happenings

    def known(self, world: World, now: int) -> str | None:
        """What the key still answers. A tombstone stays for ever."""
        if world.record is None:
            return None
        kind, since = world.record
        window = self.contract.window_us
        return kind if window is None or now < since + window + _LATER[self.contract.window_starts] or kind == "closed" else None

    def _keyed(self, world: World, now: int, bytes_: int) -> list[Happening]:
        known, contract = self.known(world, now), self.contract
        if known is not None and known != "closed" and bytes_ != world.bytes and contract.mismatch_checked:
            return [("refuses it: it is another request", world, _told[AnswerKind.MISMATCH])]
        if known == "found" and contract.kind in NAMES:
            return [("says that the name was taken", world, self._named(world))]
        if known is None and world.record is not None and contract.after_window is AfterWindow.REJECTS:
            return [("refuses it: the key has expired", world, _told[AnswerKind.EXPIRED])]
        if known is None or (known == "resuming"):
            return self._execute(world, now)
        happenings = [(f"answers from the key's record: {known}", world, self._replayed(known, world))]
        if not contract.lock_outlives_execution and world.record is not None and now <= world.record[1] + 1:
            happenings += self._execute(world, now)
        return happenings

    def _named(self, world: World) -> Answered:
        """What is under a name that cannot be taken again: ours, what somebody made of it since, or a trace of ours."""
        last, visible = world.events[-1][1], self.lookup.deletion is Deletion.VISIBLE
        if last == OURS and self.lookup.marker_reliable:
            return receipt(1, self.contract.replay_success is Replay.ORIGINAL and not self.contract.shown_once)
        return _told[AnswerKind.GONE if last != OURS and visible else AnswerKind.FOREIGN]

    def _cut_off(self, world: World, now: int) -> list[Happening]:
        """Its sender has gone. With a key that makes effect and record one, nothing is done; else half of it may be, and nothing shows it."""
        if self.contract.keyed:
            return [("gives it up: its sender has gone", world, UNREACHABLE)]
        return [("gives it up half-way: its sender has gone", world._replace(events=((now, HALF), *world.events)), UNREACHABLE)]

    def _replayed(self, known: str, world: World) -> Answered:
        if known == "found":
            if self.contract.kind is Kind.SWALLOW:
                return _told[AnswerKind.ACCEPTED]
            return receipt(1, self.contract.replay_success is Replay.ORIGINAL and not self.contract.shown_once)
        if known == "items":
            return _items(world, refused=True)
        if known == "theirs":
            return _told[AnswerKind.MISMATCH] if self.contract.mismatch_checked else THEIRS
        return {"refused": REFUSED, "closed": _told[AnswerKind.CLOSED], "indeterminate": _told[AnswerKind.INDETERMINATE]}[known]

    def _execute(self, world: World, now: int, recorded: bool = True) -> list[Happening]:
        contract = self.contract
        if world.record is not None and world.record[0] == "closed" and recorded:
            return [("refuses it: closed", world, _told[AnswerKind.CLOSED])]
        if contract.kind is Kind.NAMED and (taken := self._taken(world)):
            if taken == OURS and contract.lookup is not None and contract.lookup.marker_reliable:
                return [("says the name is taken, by us", world, receipt(1, original=False))]
            return [("says the name is taken", world, _told[AnswerKind.FOREIGN])]
        keeps = recorded and (contract.keyed or contract.close)
        if self.batched:
            return self._execute_items(world, now)
        if world.refusing:
            remembered = keeps and contract.keyed and contract.replay_rejection is Replay.ORIGINAL
            return [("rejects it", world._replace(record=("refused", now)) if remembered else world, REFUSED)]
        done = world._replace(events=(*world.events, (now, OURS)), record=("found", now) if keeps else world.record)
        number = executions(done)
        answer = _told[AnswerKind.ACCEPTED] if contract.kind is Kind.SWALLOW else receipt(number, original=True)
        if contract.kind is Kind.READ:
            answer = Answered(kind=AnswerKind.FOUND, value=Fields(read_at=now))
        return [("applies it", done, answer), *(self._fail(world, done, now) if self.fails else [])]

    def _fail(self, world: World, done: World, now: int) -> list[Happening]:
        """A 5xx, in the way in which the contract says that this environment fails."""
        contract = self.contract
        match contract.replay_failure:
            case Replay.INDETERMINATE:
                cached, answer = ("indeterminate", now), _told[AnswerKind.INDETERMINATE]
                return [
                    ("fails before the effect, and keeps the failure", world._replace(record=cached), answer),
                    ("fails after the effect, and keeps the failure", done._replace(record=cached), answer),
                ]
            case Replay.RESUMES:
                return [("fails on the way, to be resumed", world._replace(record=("resuming", now)), UNREACHABLE)]
        if contract.failures_effect_free:
            return [("fails without effect", world, TURNED_AWAY)]
        return [("fails after the effect, and forgets it", done._replace(record=world.record), UNREACHABLE)]

    def _execute_items(self, world: World, now: int) -> list[Happening]:
        """A batch of two: each item is applied, or refused while stock is out; or the second is left open half-way."""
        happenings = []
        keeps = self.contract.keyed
        have = items_applied(world) if self.known(world, now) else (False, False)
        for label, wanted, refused in (("applies both items", (0, 1), False), ("applies the first item and stops", (0,), False),
                                       ("applies the first item, refuses the second", (0,), True)):  # fmt: skip
            if refused != world.refusing:
                continue
            new = tuple((now, f"{ITEM}{n}") for n in wanted if not (keeps and have[n]))
            whole = len(wanted) == 2 or (refused and self.contract.replay_rejection is Replay.ORIGINAL)
            record = ("items" if whole else "resuming", now) if keeps else world.record
            done = world._replace(events=world.events + new, record=record)
            happenings.append((label, done, _items(done, refused)))
        return happenings

    def _taken(self, world: World) -> str | None:
        last = world.events[-1][1] if world.events else None
        return last if last in {OURS, FOREIGN} else None

    def _close(self, world: World, now: int) -> list[Happening]:
        known = self._kept(world, now)
        happenings: list[Happening] = []
        if self.batched and (known == "resuming" or (known is None and any(items_applied(world)))):
            barred = world._replace(record=("items", now))
            return [("closes the rest of the batch", barred, _items(barred, refused=True))]
        if known is not None and known != "resuming":
            happenings.append((f"answers the close: {known}", world, self._replayed(known, world)))
        else:
            barred = world._replace(record=("closed", now))
            happenings.append(("closes the key", barred, _told[AnswerKind.CLOSED]))
        if self.contract.fail_open:
            happenings.append(("accepts the close, its key store being down", world, _told[AnswerKind.CLOSED]))
        return happenings

    def _cancel(self, world: World, now: int) -> list[Happening]:
        """It sees what a question sees, undoes what is there, and leaves nothing that would bar a late copy."""
        happenings: list[Happening] = []
        for label, answer in self._looked(world, now):
            if answer.kind is AnswerKind.FOUND:
                undone = world._replace(events=(*world.events, (now, DELETED)))
                happenings.append(("cancels what it finds", undone, _told[AnswerKind.GONE]))
            else:
                happenings.append((f"finds nothing to cancel, and {label}", world, answer))
        return happenings

    def _kept(self, world: World, now: int) -> str | None:
        """What a close sees: the key's record, while it is kept."""
        known = self.known(world, now)
        if world.record is None or known is None or known == "closed":
            return known
        retention = self.lookup.retention_us
        return known if retention is None or now < world.record[1] + retention else None

    # -- questions -----------------------------------------------------------------------------------------------------

    def look(self, world: World, now: int, asker: Epoch) -> list[tuple[str, World, Answered]]:
        """Every answer that a question may get now: as of any moment within the lag. Where epochs are enforced, the question may raise
        the environment's to the asker's, and reads the present state with it."""
        looked = [(label, world, answer) for label, answer in self._looked(world, now)]
        if self.contract.enforced is Enforced.EPOCH and world.epoch < asker:
            raised = world._replace(epoch=asker)
            for answer in self._seen(world, now, now):
                told = Answered(**{**_shallow(answer), "raised": str(asker)})
                looked.append((f"answers {answer.kind.value}, and raises its epoch to {asker}", raised, told))
        return looked

    def _looked(self, world: World, now: int) -> list[tuple[str, Answered]]:
        answers: dict[Answered, str] = {}
        for as_of in range(now - self.lookup.lag_us, now + 1):
            for answer in self._seen(world, as_of, now):
                if self.contract.enforced is Enforced.DEADLINE:
                    answer = Answered(**{**_shallow(answer), "as_of_us": as_of + self.skew})
                answers.setdefault(answer, f"answers {answer.kind.value}, as of {as_of}")
        if self.busy and any(copy.acts for copy in world.copies):
            answers.setdefault(_told[AnswerKind.IN_FLIGHT], "says that a copy is in flight")
        return [(label, answer) for answer, label in answers.items()]

    def _seen(self, world: World, as_of: int, now: int) -> list[Answered]:
        lookup, absent = self.lookup, _told[AnswerKind.ABSENT]
        events = [(at, what) for at, what in world.events if at <= as_of]
        if self.batched:
            return [_found_items(events)] if events else [absent]
        ours = [at for at, what in events if what == OURS]
        hidden = [absent] if not lookup.authoritative else []
        removed = bool(ours) and events[-1][1] != OURS
        if removed and lookup.deletion is Deletion.VISIBLE:
            return [_told[AnswerKind.GONE], *hidden]
        if events and events[-1][1] == FOREIGN:
            return [_told[AnswerKind.FOREIGN], *hidden]
        if ours and (lookup.retention_us is None or now < ours[-1] + lookup.retention_us):
            if removed:
                return [absent]
            stripped = [] if lookup.marker_reliable else [_told[AnswerKind.FOREIGN]]
            original = lookup.original and not self.contract.shown_once
            return [receipt(len(ours), original), *stripped, *hidden]
        if world.record is not None and world.record[1] <= as_of:
            known = self.known(world, now)
            if known == "closed":
                return [_told[AnswerKind.CLOSED]]
            if known == "refused":
                return [REFUSED]
        return [absent]


_LATER: Final = {WindowStart.FIRST_SEEN: 0, WindowStart.COMPLETED: 1, WindowStart.TERMINATED: 2}
"""How much later than its first request a key is forgotten, by what its window counts from."""


def _items(world: World, refused: bool) -> Answered:
    """What a batch's reply says of each item; one that is neither applied nor refused is open."""
    kinds = [
        AnswerKind.FOUND if done else AnswerKind.REFUSED if refused else AnswerKind.UNREACHABLE for done in items_applied(world)
    ]
    return Answered(kind=AnswerKind.ITEMS, value=_List(Fields(kind=kind.value) for kind in kinds))


def _found_items(events: list[tuple[int, str]]) -> Answered:
    applied = {what for _, what in events}
    kinds = [AnswerKind.FOUND if f"{ITEM}{n}" in applied else AnswerKind.ABSENT for n in range(2)]
    return Answered(kind=AnswerKind.ITEMS, value=_List(Fields(kind=kind.value) for kind in kinds))


class _List(list[Fields]):
    """A list that can be part of a state."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))


def _shallow(answer: Answered) -> dict[str, Any]:
    return {name: getattr(answer, name) for name in Answered.__slots__}
