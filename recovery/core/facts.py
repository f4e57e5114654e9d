"""Facts: what a step's evidence amounts to, as a handful of small enums.

Owns the vocabulary between `weigh` (which makes facts from evidence) and `judge` (which makes a verdict from facts), and says
which combinations can occur. Knows nothing of entries, contracts or times. Invariant: `all_facts` enumerates exactly the
combinations for which `Facts.valid` holds, fewer than 200,000, so that tests judge every one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from itertools import product
from typing import Final

from recovery.core.values import value


class Finding(StrEnum):
    """The strongest thing that the evidence says. Where several hold, the one listed first counts."""

    DIVERGED = "diverged"  # the replayed call has another fingerprint than the recorded one
    CONTRADICTED = "contradicted"  # settled, and evidence since then says otherwise
    KEPT = "kept"  # settled, and nothing says otherwise
    DUPLICATE = "duplicate"  # two receipts with different identities
    CONTRACT_BROKEN = "contract_broken"  # a receipt, and an absence that should have been final
    KEY_MISMATCH = "key_mismatch"  # the key answers for another request
    RECEIPT_MISMATCH = "receipt_mismatch"  # a receipt under our key whose stable fields are not ours
    RECEIPT_ORIGINAL = "receipt_original"  # the first reply, or an exact copy of it
    RECEIPT_STABLE = "receipt_stable"  # present state, and its stable fields give the outcome back
    VALUE_UNKNOWN = "value_unknown"  # it happened, and its value cannot be told or stored
    GONE = "gone"  # it happened, and its object is gone
    SWALLOWED = "swallowed"  # accepted inside the window by a store that drops duplicates
    MIXED = "mixed"  # a batch: each item applied or rejected
    REJECTED_REMEMBERED = "rejected_remembered"  # the environment keeps the rejection for all copies
    REJECTED_AFTER_QUIET = "rejected_after_quiet"  # forgotten by the environment, but given when no other copy could act
    NEVER_EXECUTED = "never_executed"  # a tombstone in time, or an expired first-sent fence with nothing behind it
    FOREIGN_FINAL = "foreign_final"  # somebody else's object has our name, and ours cannot follow
    FOREIGN_EARLY = "foreign_early"  # the same, but ours may land after a deletion
    FOREIGN_DOUBTFUL = "foreign_doubtful"  # whose object it is, or whether one was removed, cannot be told
    OPERATOR = "operator"  # nothing but a person's word
    REJECTED_EARLY = "rejected_early"  # a forgotten rejection, while another copy may still act
    OPEN = "open"  # none of these


class Gate(StrEnum):
    """What forbids acting just now; the first that holds."""

    HELD = "held"  # the run or its contract is held
    SCOPE_CHANGED = "scope_changed"  # account, region, endpoint or credential are not those of the intent
    BACKING_OFF = "backing_off"  # the last try said nothing, and its next look is not due
    UNANSWERED = "unanswered"  # a re-send or close may still be answered
    CLEAR = "clear"  # nothing


class Resend(StrEnum):
    """Whether the key may be sent again (rule 1), budget and wish apart. The first three make the key unusable for any sending."""

    CLOSED = "closed"  # an answer said so
    CACHED_FAILURE = "cached_failure"  # an answer said so: a remembered failure that says nothing
    EXPIRED = "expired"  # an answer said so
    OPAQUE = "opaque"  # no key, and nothing to ask
    KEYLESS = "keyless"  # no deduplication, but something to ask
    FAIL_OPEN = "fail_open"  # keyed, but unprotected when its key store is down
    LATE = "late"  # not_after has passed, or no window is published
    REFUSED = "refused"  # another clause of rule 1 fails
    LICENSED = "licensed"  # every clause holds


class Ask(StrEnum):
    """What one more question could bring."""

    NONE = "none"  # no look-up, or one that can show nothing any more
    ANSWERED = "answered"  # asked; another answer now would say nothing new
    SPENT = "spent"  # an answer is needed, now or at a named time, and no probes are left
    DUE = "due"  # an answer is needed now


class Close(StrEnum):
    """Whether a close would be a proof."""

    NONE = "none"  # not offered, not a proof here, too late, or done
    SPENT = "spent"  # it would be, and no attempts at it are left
    AVAILABLE = "available"  # it would be: its store fails closed, and the key's record is still kept


class Absence(StrEnum):
    """What the environment's "nothing here" is worth."""

    NONE = "none"  # not said since the last attempt that may act
    PENDING = "pending"  # too early; the time that counts lies ahead
    MATURING = "maturing"  # too early; at the time that counts the environment itself proves it
    UNPROVEN = "unproven"  # final on assumption A2 alone, or never final
    TRUSTED = "trusted"  # final on assumption A2 alone, and the contract accepts that
    ENFORCED = "enforced"  # final: the environment refuses every later copy


SELF_EVIDENT: Final = frozenset(Finding) - {
    Finding.REJECTED_AFTER_QUIET,
    Finding.OPERATOR,
    Finding.REJECTED_EARLY,
    Finding.OPEN,
}
"""Findings that decide alone; the other facts are then not weighed and keep their defaults."""

UNUSABLE: Final = frozenset({Resend.CLOSED, Resend.CACHED_FAILURE, Resend.EXPIRED})


@value(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything `judge` looks at.

    exposed: some attempt may have acted or may still act (false: each is proven without effect, or there is none).
    """

    finding: Finding
    gate: Gate = Gate.CLEAR
    restored: bool = False
    exposed: bool = False
    wanted: bool = True
    resend: Resend = Resend.REFUSED
    attempts_left: bool = True
    ask: Ask = Ask.NONE
    close: Close = Close.NONE
    absence: Absence = Absence.NONE

    @property
    def valid(self) -> bool:
        """Whether this combination can come out of `weigh`."""
        alone = self.finding in SELF_EVIDENT or (self.finding is Finding.REJECTED_AFTER_QUIET and not self.restored)
        if alone:
            return self == Facts(finding=self.finding)
        return all(
            (
                self.exposed or (self.absence is Absence.NONE and self.close is Close.NONE),
                self.exposed or self.finding is not Finding.REJECTED_EARLY,
                self.exposed or self.restored or self.ask is Ask.NONE,
                not self.restored or (self.absence is Absence.NONE and self.close is Close.NONE),
                not self.restored or self.finding is not Finding.REJECTED_EARLY,
                self.resend is not Resend.OPAQUE
                or (self.ask is Ask.NONE and self.close is Close.NONE and self.absence is Absence.NONE),
                self.resend is not Resend.FAIL_OPEN or self.close is Close.NONE,
                self.resend is not Resend.FAIL_OPEN or self.absence in {Absence.NONE, Absence.PENDING, Absence.UNPROVEN},
                self.resend is not Resend.CLOSED or self.close is Close.NONE,
                self.absence not in {Absence.PENDING, Absence.MATURING} or self.ask in {Ask.ANSWERED, Ask.SPENT},
            )
        )


def all_facts() -> Iterator[Facts]:
    """Every valid combination, once."""
    for finding in Finding:
        if finding in SELF_EVIDENT:
            yield Facts(finding=finding)
    rest = list(
        product(Gate, (False, True), (False, True), (False, True), Resend, (False, True), Ask, Close, Absence),
    )
    for finding in (Finding.REJECTED_AFTER_QUIET, Finding.OPERATOR, Finding.REJECTED_EARLY, Finding.OPEN):
        for gate, restored, exposed, wanted, resend, attempts_left, ask, close, absence in rest:
            facts = Facts(
                finding=finding, gate=gate, restored=restored, exposed=exposed, wanted=wanted,
                resend=resend, attempts_left=attempts_left, ask=ask, close=close, absence=absence,
            )  # fmt: skip
            if facts.valid:
                yield facts


_ALONE: Final = {finding: Facts(finding=finding) for finding in Finding}


def decided(finding: Finding) -> Facts:
    """The facts of a finding that decides alone."""
    return _ALONE[finding]
