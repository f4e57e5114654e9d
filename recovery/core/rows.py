"""Rows: the shape of one line of the verdict table.

Owns the vocabulary of actions and reasons. Knows nothing of how facts came about. Invariant: a row is data; its name is stable
for ever, because journals hold it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from recovery.core.facts import Facts


class Action(StrEnum):
    """What follows from a verdict."""

    KEEP = "keep"  # the recorded outcome stands
    DIVERGE = "diverge"  # stop the run before it sends
    ADOPT = "adopt"  # settle: it happened
    REJECT = "reject"  # settle: the environment refused, with a declared or named error
    NOT_EXECUTED = "not_executed"  # settle: proven that it did not and will not happen under this key
    WAIT = "wait"  # until the named time
    ASK = "ask"  # one probe
    SEND = "send"  # one attempt, nothing earlier can act
    RESEND = "resend"  # one attempt under the same key
    CLOSE = "close"  # one close
    PARK = "park"  # in doubt: a person must bring something


class Reason(StrEnum):
    """Why; one for each row, stable like the row's name."""

    FINGERPRINT_DIFFERS = "fingerprint-differs"
    SETTLED = "settled"
    SETTLED_AND_CONTRADICTED = "settled-and-contradicted"
    DUPLICATE = "duplicate"
    CONTRACT_BROKEN = "contract-broken"
    KEY_MISMATCH = "key-mismatch"
    RECEIPT_MISMATCH = "receipt-mismatch"
    ORIGINAL_RECEIPT = "original-receipt"
    RECONSTRUCTED = "reconstructed"
    VALUE_UNKNOWN = "applied-value-unknown"
    GONE = "gone"
    ACCEPTED_WITHOUT_VALUE = "accepted-without-value"
    MIXED = "mixed"
    REMEMBERED_REJECTION = "remembered-rejection"
    REJECTION_AFTER_QUIET = "rejection-after-quiet"
    REFUSED_FOR_EVER = "refused-for-ever"
    NAME_TAKEN = "name-taken"
    NAME_TAKEN_EARLY = "name-taken-and-not-quiet"
    NAME_TAKEN_DOUBTFUL = "name-taken-and-unprovable"
    NEVER_SENT = "never-sent"
    OPERATOR = "operator"
    HELD = "held"
    SCOPE_CHANGED = "scope-changed"
    NOTHING_TOLD = "nothing-told-yet"
    UNANSWERED = "unanswered"
    RESTORED_UNASKED = "restored-and-not-asked"
    RESTORED = "restored-without-match"
    NOTHING_SENT = "nothing-sent"
    REJECTION_TOO_EARLY = "rejection-before-quiet"
    SAFE_TO_RESEND = "same-key-inside-window"
    UNWANTED = "no-longer-wanted"
    PROVEN_ABSENT = "proven-absent"
    PROVEN_ABSENT_UNWANTED = "proven-absent-and-unwanted"
    MAY_BE_FOUND = "may-be-found"
    CLOSE_PROVES = "only-close-can-prove"
    TRUSTED_ABSENT = "absent-on-trust"
    TRUSTED_ABSENT_UNWANTED = "absent-on-trust-and-unwanted"
    ABSENCE_TOO_EARLY = "absence-not-final"
    BUDGET_SPENT = "budget-spent"
    ABSENCE_UNPROVEN = "absence-unproven"
    CACHED_FAILURE = "cached-failure"
    KEY_EXPIRED = "key-expired"
    FAIL_OPEN = "fail-open"
    OPAQUE = "opaque"
    UNWANTED_UNDECIDABLE = "unwanted-and-undecidable"
    NOTHING_LEFT = "nothing-left-to-ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One verdict.

    condition: the guard in words. matches: the guard itself, to be tried only after all earlier rows have failed.
    paragraph: which crashes lead here, why this verdict, what a cleverer one would break. assumes: the assumptions A1-A6 it
    rests on. relies_on: the fields of the contract it rests on, so that a default among them can be named.
    """

    number: int
    name: str
    action: Action
    reason: Reason
    condition: str
    matches: Callable[[Facts], bool]
    paragraph: str
    assumes: tuple[str, ...] = ()
    relies_on: tuple[str, ...] = ()
