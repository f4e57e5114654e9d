"""Planted changes: the table made wrong on purpose, to show that the model check can fail.

Owns each change and where to look for its harm. Knows nothing of how a search works. Invariant: a change lasts as long as its `with`.
`seen_in` names the setting in which the model sees it; "" says that no promise about the ground truth is broken, and that only the
witnesses in `tests/unit/core` see it, for the reason in `why`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from recovery.core import evidence, findings, judgement, timing, verdicts
from recovery.core.contracts import Contract, Deletion
from recovery.core.entries import AnswerKind, Source
from recovery.core.evidence import PRIORITY, _Weighing
from recovery.core.facts import UNUSABLE, Absence, Ask, Close, Facts, Finding, Gate, Resend
from recovery.core.findings import Reading
from recovery.core.history import EffectStep, Noted
from recovery.core.ids import Epoch
from recovery.core.timing import lookup_of

Patch = tuple[Any, str, Any]


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change, and the setting whose promises it breaks. `why`: the reason if there is none."""

    name: str
    patches: tuple[Patch, ...]
    seen_in: str = ""
    why: str = ""


@contextmanager
def planted(change: Change) -> Iterator[None]:
    """The core with the change in it."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in change.patches]
    try:
        for owner, name, value in change.patches:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def _row(number: int, matches: Callable[[Facts], bool]) -> tuple[Patch, ...]:
    """Another guard for one row."""
    rows = list(verdicts.ROWS)
    rows[number - 1] = replace(rows[number - 1], matches=matches)
    return ((verdicts, "ROWS", tuple(rows)),)


def _swap(first: int) -> tuple[Patch, ...]:
    """Rows `first` and `first` + 1 exchanged: in the table, and where they are findings, in their order too."""
    rows = list(verdicts.ROWS)
    rows[first - 1], rows[first] = rows[first], rows[first - 1]
    return ((verdicts, "ROWS", tuple(rows)),)


def _order(first: Finding, second: Finding) -> tuple[Patch, ...]:
    order = list(PRIORITY)
    a, b = order.index(first), order.index(second)
    order[a], order[b] = order[b], order[a]
    return ((judgement, "examine", partial(evidence.examine, priority=tuple(order))),)


def everywhere(name: str, value: Any) -> tuple[Patch, ...]:
    """A function of `timing`, where it is defined and wherever it was imported."""
    return tuple((module, name, value) for module in (timing, findings, evidence) if hasattr(module, name))


_gate, _ask, _close, _absence = _Weighing.gate, _Weighing.ask, _Weighing.close, _Weighing.absence
_in_time, _timing_of, _quiet_after = Reading._in_time, timing.timing_of, timing.quiet_after


def _gate_without(gate: Gate) -> tuple[Patch, ...]:
    def changed(self: _Weighing, exposed: bool) -> Gate:
        found = _gate(self, exposed)
        return Gate.CLEAR if found is gate else found

    return ((_Weighing, "gate", changed),)


def _closed_in_time(self: Reading, noted: Noted) -> bool:
    """As shipped, without the clause on retention."""
    return not self.contract.fail_open and not self.situation.restored


def _closed_safely(self: Reading, noted: Noted) -> bool:
    """As shipped, without the clause on stores that fail open."""
    until = self.timing.close_until_us
    return until is None or noted.observation.observed_at_us < until


def _close_ignoring(*, retention: bool) -> Callable[[_Weighing, bool], Close]:
    def changed(self: _Weighing, exposed: bool) -> Close:
        until = None if retention else self.timing.close_until_us
        fails = self.contract.fail_open and retention
        barred = not exposed or self.situation.restored or fails or not self.situation.can_close
        if barred or timing.tombstones(self.step) or (until is not None and self.situation.now_us >= until):
            return Close.NONE
        return Close.AVAILABLE

    return changed


def _ask_once(self: _Weighing, exposed: bool) -> Ask:
    """As shipped, without a second question when the time that counts has come."""
    found = _ask(self, exposed)
    return Ask.ANSWERED if found is Ask.DUE and self.since_attempt() and not self.situation.restored else found


def _ask_always(self: _Weighing, exposed: bool) -> Ask:
    found = _ask(self, exposed)
    return Ask.DUE if found is Ask.ANSWERED and self.step.probes < self.situation.budget.probes else found


def _foreign(*, quiet: bool = True, marker: bool = True, unseen: bool = True) -> tuple[Patch, ...]:
    """Rows 17 to 19 without one of their conditions."""

    def changed(self: Reading, found: findings.Findings) -> None:
        lookup = lookup_of(self.contract)
        for noted in self._of(AnswerKind.FOREIGN):
            visible = lookup.deletion is Deletion.VISIBLE
            doubtful = (marker and not lookup.marker_reliable) or (unseen and lookup.deletion is Deletion.INVISIBLE)
            if doubtful or (visible and self.situation.restored):
                found.setdefault(Finding.FOREIGN_DOUBTFUL, (noted,))
            elif not visible or not quiet or self.timing.quiet(self.state_at(noted)):
                found.setdefault(Finding.FOREIGN_FINAL, (noted,))
            elif not self.timing.quiet(self.situation.now_us - lookup.lag_us):
                found.setdefault(Finding.FOREIGN_EARLY, (noted,))

    return ((Reading, "_foreign", changed),)


def _quiet_plus(more: int) -> tuple[Patch, ...]:
    def changed(attempts: list[Any], contract: Contract) -> int | None:
        quiet_at = _quiet_after(attempts, contract)
        return None if quiet_at is None else quiet_at + more

    return everywhere("quiet_after", changed)


def _timed(**more: int) -> tuple[Patch, ...]:
    """Named times, later by so much."""

    def changed(step: EffectStep, contract: Contract) -> timing.Timing:
        timed = _timing_of(step, contract)
        moved = {name: getattr(timed, name) + by for name, by in more.items() if getattr(timed, name) is not None}
        return replace(timed, **moved)

    return everywhere("timing_of", changed)


def _from_last_attempt(step: EffectStep, contract: Contract) -> timing.Timing:
    """`not_after` counted from the last sending."""
    timed = _timing_of(step, contract)
    sent = [attempt.sent_at_us for attempt in timing.possibly_sent(step)]
    if timed.not_after_us is None or timed.t0_us is None:
        return timed
    return replace(timed, not_after_us=timed.not_after_us + max(sent) - timed.t0_us)


def _state_when_judged(self: Reading, noted: Noted) -> int:
    return self.situation.now_us - lookup_of(self.contract).lag_us


def _state_without_lag(self: Reading, noted: Noted) -> int:
    return noted.observation.asked_at_us


def _known_absence(self: Reading, noted: Noted) -> bool:
    return noted.observation.source is Source.PROBE and timing.can_be_final(self.contract) and not self.situation.restored


def _first_by_number(self: Reading, noted: Noted) -> bool:
    """The first attempt's reply taken for the first reply."""
    if noted.observation.attempt is None:
        return lookup_of(self.contract).original and not self.contract.shown_once
    earlier = [attempt for attempt in timing.exposed_attempts(self.step) if attempt.number < noted.observation.attempt]
    return not earlier or self.contract.replay_success.value != "current"


def _unserialised(self: _Weighing) -> bool:
    contract = self.contract
    return contract.replay_failure.value != "reexecutes" or contract.failures_effect_free


def _after_failure(self: _Weighing) -> bool:
    return self.contract.lock_outlives_execution


def _open_to_failures(self: _Weighing) -> Resend:
    found = _resend(self)
    return Resend.LICENSED if found is Resend.FAIL_OPEN else found


def _through_cached(self: _Weighing) -> Resend:
    found = _resend(self)
    return Resend.LICENSED if found in UNUSABLE else found


def _fenced_off_by_its_own(self: Reading, raised: str) -> bool:
    fence = Epoch.parse(raised)
    senders = [Epoch.parse(attempt.epoch) for attempt in timing.exposed_attempts(self.step)]
    return fence is not None and all(sender is not None and sender <= fence for sender in senders)


def _told_an_epoch(self: Reading, raised: str) -> bool:
    """The asker's epoch was carried along, and nobody raised the environment's."""
    return len(self.step.attempts) > 0


def _any_bytes(self: _Weighing) -> bool:
    same = replace(self.situation, same_bytes=True)
    return _licensed(replace(self, situation=same))


def _complete(contract: Contract) -> bool:
    """As if work that was cut off half-way left a receipt."""
    return _can_be_final(replace(contract, disconnect_cancels=False))


_licensed, _can_be_final = _Weighing.licensed, timing.can_be_final
_resend = _Weighing.resend
_CLOSES_LATE: Final = ((_Weighing, "close", _close_ignoring(retention=True)),)
_LATE_REJECTION: Final = "keyed, forgets rejections: stock comes back"

CHANGES: Final = (
    # quiet_at and the window
    Change(name="quiet_at: nothing is ever proven without effect", patches=everywhere("without_effect", lambda kinds: False),
           seen_in="opaque: requests that do nothing"),
    Change(name="quiet_at: silence counts as proof of no effect",
           patches=everywhere("without_effect", lambda kinds: bool(kinds & (timing.NOTHING_DONE | {AnswerKind.UNREACHABLE}))),
           seen_in="opaque: requests that do nothing"),
    Change(name="quiet_at one earlier", patches=_quiet_plus(-1), seen_in="probeable, trusting: two workers"),
    Change(name="not_after one later", patches=_timed(not_after_us=1), seen_in="keyed, window of one more than a re-send needs: two workers"),
    Change(name="not_after counted from the last sending", patches=everywhere("timing_of", _from_last_attempt),
           seen_in="keyed, window of five: three workers"),
    Change(name="absence judged by when it is judged", patches=((Reading, "state_at", _state_when_judged),),
           seen_in="probeable, trusting: two workers"),
    Change(name="absence without its lag", patches=((Reading, "state_at", _state_without_lag),),
           seen_in="probeable, trusting, lagging: two workers"),
    Change(name="first-sent fence one earlier", patches=_timed(fence_at_us=-1), seen_in="first-sent, copies may act long, its clock behind: two workers"),
    # conditions of rows
    Change(name="5: any absence contradicts a receipt", patches=((Reading, "final", _known_absence),),
           seen_in="probeable, trusting: two workers"),
    Change(name="13: a batch's forgotten rejections count as final", patches=((Reading, "_batch_final", lambda self, noted: True),),
           seen_in="keyed, batch item by item, forgets rejections: stock comes back"),
    Change(name="14: rejections are always remembered", patches=((Reading, "_remembered", lambda self: True),), seen_in=_LATE_REJECTION),
    Change(name="15: a forgotten rejection settles before quiet", patches=((Reading, "_after_quiet", lambda self, noted: True),),
           seen_in=_LATE_REJECTION),
    Change(name="15: a forgotten rejection settles in a restored journal",
           patches=_row(15, lambda facts: facts.finding is Finding.REJECTED_AFTER_QUIET),
           seen_in="keyed, forgets rejections: restored, and stock comes back"),
    Change(name="16: a tombstone proves after retention", patches=((Reading, "_in_time", _closed_in_time),),
           why="rows 31 and 35 close nothing so late, so that no such tombstone exists; the next change takes both away"),
    Change(name="16, 31, 35: retention does not matter", patches=((Reading, "_in_time", _closed_in_time), *_CLOSES_LATE),
           seen_in="keyed, can be closed, short window: no longer wanted"),
    Change(name="16: a tombstone proves in a store that fails open", patches=((Reading, "_in_time", _closed_safely),),
           why="rows 31 and 35 never close there, so that no such tombstone exists"),
    Change(name="17: a foreign object is final before quiet", patches=_foreign(quiet=False),
           seen_in="named, removable: somebody takes the name"),
    Change(name="19: an unreliable marker is believed", patches=_foreign(marker=False), seen_in="named, marker unreliable: two workers"),
    Change(name="19: a removal that does not show is ruled out", patches=_foreign(unseen=False),
           seen_in="named, removable unseen: somebody takes the name"),
    Change(name="20: an exposed attempt does not matter", patches=_row(20, lambda facts: not facts.wanted and not facts.restored),
           seen_in="opaque: no longer wanted"),
    Change(name="20: a restored journal does not matter", patches=_row(20, lambda facts: not facts.exposed and not facts.wanted),
           seen_in="opaque: restored, and no longer wanted"),
    Change(name="23: the scope does not matter", patches=_gate_without(Gate.SCOPE_CHANGED), seen_in="keyed: another scope"),
    Change(name="24: no back-off", patches=_gate_without(Gate.BACKING_OFF), seen_in="keyed: requests that do nothing"),
    Change(name="25: an unanswered re-send is not waited for", patches=_gate_without(Gate.UNANSWERED), seen_in="keyed: three workers"),
    Change(name="27: a restored journal does not matter", patches=_row(27, lambda facts: False), seen_in="opaque: restored"),
    Change(name="30: copies need not be serialised", patches=((_Weighing, "licensed", _unserialised),),
           seen_in="keyed, copies not serialised: two workers"),
    Change(name="30: forgotten failures may have had an effect", patches=((_Weighing, "licensed", _after_failure),),
           seen_in="keyed, forgets failures with effect: two workers"),
    Change(name="30: a store that fails open licenses", patches=((_Weighing, "resend", _open_to_failures),),
           seen_in="keyed, fails open: two workers"),
    Change(name="30: sent whether wanted or not", patches=_row(30, lambda facts: facts.resend is Resend.LICENSED and facts.attempts_left),
           seen_in="keyed: no longer wanted"),
    Change(name="30: a key that answered with a kept failure is usable", patches=((_Weighing, "resend", _through_cached),),
           why="sending into a cached failure harms nobody; it only spends the budget"),
    Change(name="31, 35: closed after retention", patches=_CLOSES_LATE,
           why="the tombstone bars copies and proves nothing, which row 16 checks by itself; a needless close harms nothing"),
    Change(name="31, 35: closed in a store that fails open", patches=((_Weighing, "close", _close_ignoring(retention=False)),),
           seen_in="keyed, fails open, can be closed: no longer wanted"),
    Change(name="34: asked once", patches=((_Weighing, "ask", _ask_once),), seen_in="probeable: two workers"),
    Change(name="34: asked again without news", patches=((_Weighing, "ask", _ask_always),), seen_in="probeable: two workers"),
    Change(name="35: closes although a proof is maturing",
           patches=_row(35, lambda facts: facts.close is Close.AVAILABLE and facts.absence is not Absence.ENFORCED),
           why="refusing what is wanted is true when it is said; that waiting would have served better is no promise"),
    Change(name="36: absence on trust without trust",
           patches=_row(36, lambda facts: facts.absence in {Absence.UNPROVEN, Absence.TRUSTED} and facts.wanted and facts.attempts_left),
           seen_in="named, removable unseen: somebody removes it"),
    Change(name="original: the first attempt's reply is the first reply", patches=((Reading, "original", _first_by_number),),
           seen_in="keyed, present state without stable fields: two workers"),
    Change(name="30: other bytes may go out under the key", patches=((_Weighing, "licensed", _any_bytes),),
           seen_in="keyed, requests not compared: the code is upgraded"),
    Change(name="wanted whatever was said about how long", patches=everywhere("valid_until_us", lambda step, contract: None),
           seen_in="keyed, wanted for a while: two workers"),
    Change(name="32: an epoch bars its own attempts", patches=((Reading, "_fenced_off", _fenced_off_by_its_own),),
           seen_in="probeable, epoch: two workers"),
    Change(name="32: an epoch that nobody raised bars attempts", patches=((Reading, "_fenced_off", _told_an_epoch),),
           seen_in="probeable, epoch: two workers"),
    Change(name="36: work cut off half-way leaves a receipt", patches=everywhere("can_be_final", _complete),
           seen_in="probeable, trusting, disconnect cancels: two workers"),
    # order
    Change(name="3 and 4 exchanged", patches=_order(Finding.CONTRADICTED, Finding.DUPLICATE), seen_in="lie, no key at all"),
    Change(name="7 and 8 exchanged", patches=_order(Finding.RECEIPT_MISMATCH, Finding.RECEIPT_ORIGINAL),
           seen_in="another request under our key, unchecked"),
    Change(name="9 and 10 exchanged", patches=_order(Finding.RECEIPT_STABLE, Finding.VALUE_UNKNOWN),
           why="both hold only with two receipts of which one is cut short, and the environment of the model gives all fields or none"),
    Change(name="20 and 21 exchanged", patches=_swap(20), seen_in="opaque: an operator speaks"),
    Change(name="26 and 27 exchanged", patches=_swap(26), seen_in="probeable: restored"),
    Change(name="27 and 28 exchanged", patches=_swap(27), seen_in="opaque: restored"),
    Change(name="34 and 35 exchanged", patches=_swap(34),
           why="a close settles truly either way; asking first only keeps what is wanted from being refused"),
    Change(name="38 and 39 exchanged", patches=_swap(38), seen_in="keyed, can be asked, lagging: one attempt"),
)  # fmt: skip
