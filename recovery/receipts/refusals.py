"""The refusals: why a service answers without an outcome. Each says what happened, and the HTTP status that says so on the wire.

RecoveryError
  UsageError
    TransactionUnfit    the service's own mistake; nothing happened
  ReceiptRefusal
    KeyUnfit      400   there is no key, or it cannot be one; nothing happened
    KeyMismatch   422   the key belongs to another request; nothing happened
    InFlight      409   somebody else holds the key or the database; this call did nothing
    Closed        410   the key is refused for ever; nothing happened under it
    Expired       410   it was decided, and its value is no longer kept
    TooLate       412   the carried deadline has passed; this call did nothing
    Superseded    412   a higher epoch was seen; this call did nothing
    Unfinished    500   the row is half-written; a person must look
"""

from __future__ import annotations

from typing import ClassVar

from recovery.core.errors import RecoveryError, UsageError


class TransactionUnfit(UsageError):
    """The connection cannot hold effect and receipt together."""

    template = "The receipt of key {key!r} cannot be kept: {problem}. Nothing happened. {advice}"


class RetentionTooShort(UsageError):
    """Fields: window, older_than (timedeltas)."""

    template = (
        "Receipts are kept for {window}, and what is older than {older_than} was to be pruned. Nothing was changed. "
        "Prune only what is older than the window."
    )


class ReceiptRefusal(RecoveryError):
    """No outcome for this call. Roll the transaction back or go on with it: the refused call left nothing in it."""

    http_status: ClassVar[int] = 500


class KeyUnfit(ReceiptRefusal):
    """Fields: key (as it came, None included), problem. Without a key a request cannot be told from its own copy, so it is refused."""

    http_status = 400
    template = (
        "The idempotency key {key!r} cannot be used: {problem}. Nothing happened. Send one key with every copy of one request."
    )


class KeyMismatch(ReceiptRefusal):
    """Fields: scope, key, recorded, given (fingerprints)."""

    http_status = 422
    template = "Key {key!r} belongs to another request (fingerprint {recorded:.12}, given {given:.12}). Nothing happened. Use a new key for a new request."


class InFlight(ReceiptRefusal):
    """Fields: scope, key, retry_after (a timedelta), problem."""

    http_status = 409
    template = "Key {key!r} could not be held: {problem}. This call did nothing. Ask again in {retry_after}, in a new transaction."


class Closed(ReceiptRefusal):
    """Fields: scope, key, at_us, who."""

    http_status = 410
    template = (
        "Key {key!r} was closed before anything happened under it, and is refused for ever. Wanting it again takes a new key."
    )


class Expired(ReceiptRefusal):
    """Fields: scope, key, kind (applied or rejected), at_us."""

    http_status = 410
    template = "Key {key!r} was {kind}; its value is no longer kept. Nothing was repeated. Look for its result in the service's own records."


class TooLate(ReceiptRefusal):
    """Fields: scope, key, not_after_us, as_of_us. Proof that no copy with this deadline will act after ``as_of_us``."""

    http_status = 412
    template = "The request with key {key!r} came after its own deadline. This call did nothing, nor will a later copy of it. Ask for the key's receipt."


class Superseded(ReceiptRefusal):
    """Fields: scope, key, seen, given (epochs as text)."""

    http_status = 412
    template = "Key {key!r} was asked about at epoch {seen}; this request carries {given}. This call did nothing. Leave the key to the newer worker."


class Unfinished(ReceiptRefusal):
    """Fields: scope, key."""

    template = (
        "Key {key!r} is open: either it was used again inside its own work, or a transaction was committed in the middle of it. "
        "Whether the effect happened is unknown. Look at the service's own records, then decide the row by hand."
    )
