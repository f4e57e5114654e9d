"""Findings: what receipts, rejections, tombstones and settlements say, each with the observations it rests on.

Owns how answers are compared (identity of receipts, fingerprints, stable fields) and when a negative is final. Knows nothing
of budgets, verdicts or clocks. Invariant: facts only accumulate; a finding is a function of the set of observations, and an
operator's word never outweighs an environment's.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from recovery.core.contracts import Contract, Deletion, Enforced, Kind, Replay
from recovery.core.entries import JSON, Answered, AnswerKind, Attempt, OutcomeKind, Source
from recovery.core.facts import Finding
from recovery.core.history import EffectStep, Noted
from recovery.core.ids import Epoch
from recovery.core.showing import bare, revealed, with_parts_of
from recovery.core.timing import (
    ASKED,
    CANCELLING,
    NOTHING_DONE,
    Situation,
    Timing,
    can_be_final,
    carried_deadline,
    exposed_attempts,
    fits_window,
    key_retention_us,
    lookup_of,
    possibly_sent,
    quiet_after,
    replies,
    tombstones,
)
from recovery.core.values import value

RECEIPTS: Final = frozenset({AnswerKind.FOUND, AnswerKind.UNSTORABLE, AnswerKind.GONE})
_HAPPENED: Final = frozenset({OutcomeKind.APPLIED, OutcomeKind.APPLIED_WITHOUT_VALUE, OutcomeKind.MIXED})

_FOUND_NOTHING: Final = NOTHING_DONE | {AnswerKind.ABSENT, AnswerKind.IN_FLIGHT}
"""Answers of a cancel after which it has removed nothing."""

Findings = dict[Finding, tuple[Noted, ...]]


@value(frozen=True, slots=True)
class Reading:
    """A step's evidence, read under one contract. exposed: its attempts that may have acted or may still act, found once, since every
    receipt and every absence is held against them. cancels: the numbers of its cancels by key; undoing: of those that may have found something."""

    step: EffectStep
    situation: Situation
    contract: Contract
    timing: Timing
    exposed: list[Attempt] = field(init=False, repr=False)
    cancels: set[int] = field(init=False, repr=False)
    undoing: set[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        told, cancels = replies(self.step), {attempt.number for attempt in self.step.attempts if attempt.purpose == CANCELLING}
        undoing = {number for number in cancels if not told[number] or told[number] - _FOUND_NOTHING}
        object.__setattr__(self, "exposed", exposed_attempts(self.step))
        object.__setattr__(self, "cancels", cancels)
        object.__setattr__(self, "undoing", undoing)

    def all(self) -> Findings:
        """Every finding that holds, with its evidence in the order in which it became known."""
        found: Findings = {}
        replayed = self.situation.replay_fingerprint
        if replayed is not None and replayed != self.step.intent.fingerprint:
            found[Finding.DIVERGED] = ()
        if self.step.settled is not None:
            against = self.contradictions()
            found[Finding.CONTRADICTED if against else Finding.KEPT] = against
        if self.contract.kind is Kind.READ:
            self._read(found)
        elif self.step.observations:
            self._receipts(found)
            self._refusals(found)
            self._foreign(found)
            self._words(found)
        return found or {Finding.OPEN: ()}

    def _read(self, found: Findings) -> None:
        """A read: the first answer counts, whoever got it. Two reads may differ, and neither contradicts the other."""
        worth = {
            AnswerKind.FOUND: Finding.RECEIPT_ORIGINAL,
            AnswerKind.UNSTORABLE: Finding.VALUE_UNKNOWN,
            AnswerKind.REFUSED: Finding.REJECTED_AFTER_QUIET,
        }
        told = [noted for noted in self._of(*worth) if noted.observation.attempt is not None]
        if told:
            found[worth[told[0].answer.kind]] = (told[0],)
        self._words(found)

    # -- positive ------------------------------------------------------------------------------------------------------

    def _of(self, *kinds: AnswerKind) -> list[Noted]:
        """What the environment answered, of these kinds."""
        return [
            noted
            for noted in self.step.observations
            if noted.observation.answer.kind in kinds and noted.observation.source is not Source.OPERATOR
        ]

    def _receipts(self, found: Findings) -> None:
        told = [noted for noted in self.step.observations if noted.observation.source is not Source.OPERATOR]
        if mismatched := tuple(noted for noted in told if self._other_request(noted)):
            found[Finding.KEY_MISMATCH] = mismatched
        receipts = [noted for noted in told if noted.answer.kind in RECEIPTS and not self._other_request(noted)]
        if differing := tuple(noted for noted in receipts if self._other_fields(noted)):
            found[Finding.RECEIPT_MISMATCH] = differing
        if others := [noted for noted in receipts[1:] if not self.same(receipts[0], noted)]:
            found[Finding.DUPLICATE] = (receipts[0], *others)
        if receipts and (denials := tuple(noted for noted in self._of(AnswerKind.ABSENT) if self.final(noted))):
            found[Finding.CONTRACT_BROKEN] = (*receipts[:1], *denials)
        for noted in receipts:
            found.setdefault(self._worth(noted), (noted,))
        if self.contract.kind is Kind.SWALLOW and (accepted := [n for n in self._of(AnswerKind.ACCEPTED) if self._in_window(n)]):
            found[Finding.SWALLOWED] = (accepted[0],)
        if batches := [noted for noted in self._batches() if self._batch_final(noted)]:
            found[Finding.MIXED] = (batches[0],)

    def _batches(self) -> list[Noted]:
        """Answers that name every item of a batch as applied or rejected."""
        return [noted for noted in self._of(AnswerKind.ITEMS) if not open_items(noted.answer)]

    def _batch_final(self, noted: Noted) -> bool:
        """Whether no item that this answer rejects can be applied by another copy: rule 1, item by item."""
        if all(item["kind"] == AnswerKind.FOUND.value for item in noted.answer.value) or self._remembered():
            return True
        others = [attempt for attempt in self.exposed if attempt.number != noted.observation.attempt]
        until = quiet_after(others, self.contract)
        return not self.situation.restored and (until is None or noted.observation.asked_at_us > until)

    def _worth(self, noted: Noted) -> Finding:
        answer = noted.answer
        if answer.kind is AnswerKind.GONE:
            return Finding.GONE
        if answer.kind is AnswerKind.UNSTORABLE:
            return Finding.VALUE_UNKNOWN
        if self.original(noted):
            return Finding.RECEIPT_ORIGINAL
        return Finding.RECEIPT_STABLE if self.stable(answer.value) is not None else Finding.VALUE_UNKNOWN

    def original(self, noted: Noted) -> bool:
        """Whether this is the first reply or an exact copy of it, rather than the object's present state. The first attempt may land
        after a later one, and then its own reply is not the first; in a restored journal there may be such a one that nobody knows."""
        observation = noted.observation
        if not observation.answer.original:
            return False
        if self.contract.kind is Kind.READ:
            return True
        if observation.attempt is None or observation.attempt in self.cancels:
            asked = observation.source in ASKED  # else it may be the reply to an attempt that this journal has lost
            replayed = asked or self.contract.replay_success is not Replay.CURRENT
            return replayed and lookup_of(self.contract).original and not self.contract.shown_once
        if self.contract.replay_success is not Replay.CURRENT and not self.contract.shown_once:
            return True
        others = [attempt for attempt in self.exposed if attempt.number != observation.attempt]
        return not self.situation.restored and all(attempt.sent_at_us > observation.observed_at_us for attempt in others)

    def stable(self, value: JSON) -> dict[str, JSON] | None:
        """The stable fields of a receipt's value, or None if the contract names none or some are missing."""
        names = self.contract.stable_fields
        parts = bare(value)
        if not names or self.contract.shown_once or not isinstance(parts, dict) or not set(names) <= set(parts):
            return None
        return with_parts_of(value, {name: parts[name] for name in names})  # type: ignore[no-any-return]  # an object either way

    def _other_request(self, noted: Noted) -> bool:
        told = noted.answer.fingerprint
        return noted.answer.kind is AnswerKind.MISMATCH or (told != "" and told != self.step.intent.fingerprint)

    def _other_fields(self, noted: Noted) -> bool:
        """Whether a receipt states another value than we asked for in a field that never changes."""
        if not self.contract.stable_fields:
            return False  # before the secrets of both are looked through for nothing
        value, asked = revealed(noted.answer.value), revealed(self.step.intent.arguments)  # secret on one side is no difference
        if not isinstance(value, dict) or not isinstance(asked, dict):
            return False
        return any(name in value and name in asked and value[name] != asked[name] for name in self.contract.stable_fields)

    def differs(self, noted: Noted) -> bool:
        """Whether a receipt is not of what was asked for: of another request, or with other stable fields."""
        return self._other_request(noted) or self._other_fields(noted)

    def same(self, a: Noted, b: Noted) -> bool:
        """Whether two receipts are of one effect: by their ids, else by stable fields, else, for two originals, by value."""
        left, right = a.answer, b.answer
        if left.receipt and right.receipt:
            return left.receipt == right.receipt
        if not {left.kind, right.kind} <= {AnswerKind.FOUND}:
            return True
        ours, theirs = self.stable(left.value), self.stable(right.value)
        if ours is not None and theirs is not None:
            return bool(revealed(ours) == revealed(theirs))
        return not (self.original(a) and self.original(b)) or revealed(left.value) == revealed(right.value)

    def _in_window(self, noted: Noted) -> bool:
        """Whether an acceptance is of one effect: of the first attempt that may have acted, or of a copy inside that one's window."""
        exposed = self.exposed
        for attempt in exposed:
            if attempt.number == noted.observation.attempt:
                first = attempt.sent_at_us == min(other.sent_at_us for other in exposed)
                return first or fits_window(attempt.send_until_us, self.timing.t0_us, self.contract)
        return False

    # -- negative ------------------------------------------------------------------------------------------------------

    def _refusals(self, found: Findings) -> None:
        for noted in self._of(AnswerKind.REFUSED):
            if self._other_request(noted):
                continue
            if self._remembered():
                found.setdefault(Finding.REJECTED_REMEMBERED, (noted,))
            elif self._after_quiet(noted):
                found.setdefault(Finding.REJECTED_AFTER_QUIET, (noted,))
            elif self._early():
                found.setdefault(Finding.REJECTED_EARLY, (noted,))
        for noted in self._batches():
            if not self._batch_final(noted) and self._early():
                found.setdefault(Finding.REJECTED_EARLY, (noted,))
        if proofs := tuple(noted for noted in tombstones(self.step) if self._in_time(noted)):
            found[Finding.NEVER_EXECUTED] = proofs[:1]
        elif fenced := tuple(noted for noted in self._of(AnswerKind.ABSENT) if self._fenced(noted)):
            found[Finding.NEVER_EXECUTED] = fenced[:1]

    def _early(self) -> bool:
        return not self.timing.quiet(self.situation.now_us) and not self.situation.restored

    def _remembered(self) -> bool:
        """Rule 1: the store keeps rejections, fails closed, and every attempt that may have left lies in one window."""
        contract = self.contract
        if not contract.keyed or contract.replay_rejection is not Replay.ORIGINAL or contract.fail_open:
            return False
        return all(fits_window(attempt.send_until_us, self.timing.t0_us, contract) for attempt in possibly_sent(self.step))

    def _after_quiet(self, noted: Noted) -> bool:
        """Whether this rejection was given when no other attempt could act any more; its own it has ended itself."""
        told_by_itself = noted.observation.source is Source.PUSH  # nobody asked: when it was given is not known
        return not told_by_itself and self.timing.quiet(noted.observation.asked_at_us)

    def _in_time(self, noted: Noted) -> bool:
        """Rule 3: a tombstone proves only if it was written while a receipt would still have been there, and is kept."""
        if self.contract.fail_open:
            return False
        until = self.timing.close_until_us
        if until is None:
            return not self.situation.restored or key_retention_us(self.contract) is None
        return noted.observation.observed_at_us < until and not self.situation.restored

    def state_at(self, noted: Noted) -> int:
        """As of when an answer speaks: its question less the lag, or earlier where it says so itself."""
        observation = noted.observation
        promised = observation.asked_at_us - lookup_of(self.contract).lag_us
        told = observation.answer.as_of_us
        return promised if told is None or told >= promised - self.contract.clock_error_us else told

    def conclusive(self, noted: Noted) -> bool:
        """Rule 2 without (b): a visible receipt would have been there to see."""
        until = self.timing.absence_until_us
        return (
            noted.observation.source in ASKED
            and can_be_final(self.contract)
            and not self.situation.restored
            and (until is None or noted.observation.observed_at_us < until)
            and not self._perhaps_undone()
        )

    def _perhaps_undone(self) -> bool:
        """Whether a cancel of ours may have removed what an answer did not find: then it happened, and its absence proves nothing."""
        return lookup_of(self.contract).deletion is not Deletion.VISIBLE and bool(self.undoing)

    def enforced(self, noted: Noted) -> bool:
        """Rule 2 with (b) held by the environment: a tombstone, or a deadline which its own clock has passed."""
        if not self.conclusive(noted):
            return False
        as_of, deadline = noted.answer.as_of_us, carried_deadline(self.exposed)
        if self.contract.enforced is Enforced.DEADLINE and as_of is not None and (deadline is None or as_of > deadline):
            return True
        if self.contract.enforced is Enforced.EPOCH and self._fenced_off(noted.answer.raised):
            return True
        barred = [stone.observation.observed_at_us for stone in tombstones(self.step)]
        return any(self.state_at(noted) > at for at in barred)

    def _fenced_off(self, raised: str) -> bool:
        """Whether the environment has raised its epoch above that of every attempt. Merely having been told a number raises nothing."""
        fence = Epoch.parse(raised)
        senders = [Epoch.parse(attempt.epoch) for attempt in self.exposed]
        return fence is not None and all(sender is not None and sender < fence for sender in senders)

    def assumed(self, noted: Noted) -> bool:
        """Rule 2 with (b) resting on the settle window alone. Compared with when it was asked, never with now."""
        return self.conclusive(noted) and self.timing.quiet(self.state_at(noted))

    def _fenced(self, noted: Noted) -> bool:
        fence = self.timing.fence_at_us
        return fence is not None and self.conclusive(noted) and self.state_at(noted) > fence

    def final(self, noted: Noted) -> bool:
        """Whether an absence counts as final in any way. Every attempt is considered, so a later one reopens it."""
        return self.assumed(noted) or self.enforced(noted) or self._fenced(noted)

    # -- names taken, and people ---------------------------------------------------------------------------------------

    def _foreign(self, found: Findings) -> None:
        lookup, timing = lookup_of(self.contract), self.timing
        for noted in self._of(AnswerKind.FOREIGN):
            visible = lookup.deletion is Deletion.VISIBLE
            if not lookup.marker_reliable or lookup.deletion is Deletion.INVISIBLE or (visible and self.situation.restored):
                found.setdefault(Finding.FOREIGN_DOUBTFUL, (noted,))
            elif not visible or timing.quiet(self.state_at(noted)):
                found.setdefault(Finding.FOREIGN_FINAL, (noted,))
            elif not timing.quiet(self.situation.now_us - lookup.lag_us):
                found.setdefault(Finding.FOREIGN_EARLY, (noted,))

    def _words(self, found: Findings) -> None:
        said = [noted for noted in self.step.observations if noted.observation.source is Source.OPERATOR]
        if said:
            found[Finding.OPERATOR] = (said[-1],)

    # -- settled -------------------------------------------------------------------------------------------------------

    def contradictions(self) -> tuple[Noted, ...]:
        """Evidence that speaks against the recorded outcome and was not weighed when it was recorded."""
        settled = self.step.settled
        if settled is None or self.contract.kind is Kind.READ:
            return ()
        weighed = set(settled.evidence)
        basis = [noted for noted in self.step.observations if noted.seq in weighed or noted.observation == settled.observation]
        receipts = [noted for noted in basis if noted.answer.kind in RECEIPTS]
        against: list[Noted] = []
        for noted in self.step.observations:
            speaks = noted not in basis and noted.observation.source is not Source.OPERATOR and self._against(noted, receipts)
            if speaks and not any(self._says_the_same(noted, earlier) for earlier in against):
                against.append(noted)
        return tuple(against)

    def _says_the_same(self, noted: Noted, earlier: Noted) -> bool:
        """Whether a contradiction is only told again: one more delivery of the same news is no news."""
        if noted.answer.kind in RECEIPTS and earlier.answer.kind in RECEIPTS:
            return self._other_request(noted) == self._other_request(earlier) and self.same(noted, earlier)
        said, before = noted.answer, earlier.answer
        return (said.kind, said.error, said.fingerprint, said.value) == (
            before.kind,
            before.error,
            before.fingerprint,
            before.value,
        )

    def _against(self, noted: Noted, receipts: list[Noted]) -> bool:
        settled, kind = self.step.settled, noted.answer.kind
        assert settled is not None  # for the type checker
        if self._other_request(noted):
            return True
        if settled.outcome not in _HAPPENED:
            other_error = settled.outcome is OutcomeKind.REJECTED and settled.error != noted.answer.error
            return kind in RECEIPTS | {AnswerKind.ACCEPTED, AnswerKind.ITEMS} or (kind is AnswerKind.REFUSED and other_error)
        if kind in RECEIPTS:
            return bool(receipts) and not any(self.same(receipt, noted) for receipt in receipts)
        if kind is AnswerKind.REFUSED:
            return noted.observation.attempt is None
        return (kind is AnswerKind.ABSENT and self.final(noted)) or (kind is AnswerKind.CLOSED and self._in_time(noted))


def open_items(answer: Answered) -> bool:
    """Whether this is a batch's answer that leaves an item open: neither applied nor rejected, or not named at all."""
    items, closed = answer.value, {AnswerKind.FOUND.value, AnswerKind.REFUSED.value}
    if answer.kind is not AnswerKind.ITEMS:
        return False
    return not isinstance(items, list) or not items or any(not isinstance(i, dict) or i.get("kind") not in closed for i in items)
