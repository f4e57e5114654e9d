"""Reasons: why a verdict came.

Owns the closed vocabularies of reasons, apart from the table, so that errors can name one. Knows nothing of rows. Invariant: each row has a
reason of its own, which is a `ParkingReason` if and only if the row parks; values are stable for ever, because journals hold them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias


class ParkingReason(StrEnum):
    """Why a step is in doubt, or held: a person must bring something. Each has a page of the reference."""

    CONTRACT_BROKEN = "contract-broken"  # a receipt, though the environment had finally said that nothing was there
    KEY_MISMATCH = "key-mismatch"  # the key answers for another request
    RECEIPT_MISMATCH = "receipt-mismatch"  # a receipt under our key, of something else than what was asked for
    VALUE_UNKNOWN = "applied-value-unknown"  # it happened, and its value can be neither told nor stored
    NAME_TAKEN_DOUBTFUL = "name-taken-and-unprovable"  # something has our name, and whose it is cannot be told
    HELD = "held"  # somebody, or a broken contract, stopped it
    SCOPE_CHANGED = "scope-changed"  # account, region, endpoint or credential are not those of the intent
    RESTORED = "restored-without-match"  # the journal comes from a backup, and nothing that matches was found
    BUDGET_SPENT = "budget-spent"  # attempts, questions or closes are used up
    ABSENCE_UNPROVEN = "absence-unproven"  # nothing was found, and that proves nothing here
    CACHED_FAILURE = "cached-failure"  # the key answers with a remembered failure that says nothing
    KEY_EXPIRED = "key-expired"  # the environment may have forgotten the key
    FAIL_OPEN = "fail-open"  # the key protects only while its key store is up
    OPAQUE = "opaque"  # no key, nothing to ask, nothing to close
    UNWANTED_UNDECIDABLE = "unwanted-and-undecidable"  # nobody wants it any more, and whether it happened cannot be asked
    NOTHING_LEFT = "nothing-left-to-ask"  # every channel has been used, is over, or proves nothing

    @property
    def page(self) -> str:
        """The page about it, below the documentation's root."""
        return f"reference/parking/{self.value}.md"


class HoldReason(StrEnum):
    """Why a whole run is held, where nobody ordered it. Its steps are parked by the row `held`. Each has a page of the reference."""

    QUARANTINED = "quarantined"  # it ended its workers, one after the other

    @property
    def page(self) -> str:
        """The page about it, below the documentation's root."""
        return f"reference/parking/{self.value}.md"


Parked: TypeAlias = ParkingReason | HoldReason
PARKED: Final[tuple[Parked, ...]] = (*ParkingReason, *HoldReason)
"""Everything about which there is a page."""


def parking(action: str, reason: str) -> ParkingReason | None:
    """Why a recorded verdict parks; None for any other, and for one of a version that knows more reasons."""
    return ParkingReason(reason) if action == "park" and reason in set(ParkingReason) else None


class Reason(StrEnum):
    """Why a row that does not park came; one for each, stable like the row's name."""

    FINGERPRINT_DIFFERS = "fingerprint-differs"
    SETTLED = "settled"
    SETTLED_AND_CONTRADICTED = "settled-and-contradicted"
    DUPLICATE = "duplicate"
    ORIGINAL_RECEIPT = "original-receipt"
    RECONSTRUCTED = "reconstructed"
    GONE = "gone"
    ACCEPTED_WITHOUT_VALUE = "accepted-without-value"
    MIXED = "mixed"
    REMEMBERED_REJECTION = "remembered-rejection"
    REJECTION_AFTER_QUIET = "rejection-after-quiet"
    REFUSED_FOR_EVER = "refused-for-ever"
    NAME_TAKEN = "name-taken"
    NAME_TAKEN_EARLY = "name-taken-and-not-quiet"
    NEVER_SENT = "never-sent"
    OPERATOR = "operator"
    NOTHING_TOLD = "nothing-told-yet"
    UNANSWERED = "unanswered"
    RESTORED_UNASKED = "restored-and-not-asked"
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
