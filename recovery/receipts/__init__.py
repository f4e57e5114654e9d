"""The environment's side: receipts that a service writes in the transaction of the effect itself. Usable alone.

Owns one table in the service's own database and the rules for its rows. Knows nothing of runs, journals or engines, and never
opens, commits or rolls back a transaction of yours. Invariant: a key is a write-once register. It is applied, rejected or closed
once, in the transaction that also holds the effect, so that there are both or none; and it never goes back.

    metadata = sa.MetaData()
    register = Receipts(receipts.table(metadata), window=timedelta(days=30))

    with engine.begin() as connection:
        receipt = register.once(connection, key=key, fingerprint=receipts.fingerprint(body),
                                work=lambda: reserve(connection, body), rejects=(OutOfStock,))

The refusals (`KeyMismatch`, `InFlight`, `Closed`, ...) each know the HTTP status that a service should answer with.
"""

from recovery.receipts.records import Absent, Kind, Receipt, fingerprint
from recovery.receipts.refusals import (
    Closed,
    Expired,
    InFlight,
    KeyMismatch,
    KeyUnfit,
    ReceiptRefusal,
    RetentionTooShort,
    Superseded,
    TooLate,
    TransactionUnfit,
    Unfinished,
)
from recovery.receipts.register import Receipts
from recovery.receipts.schema import table

__all__ = [
    "Absent",
    "Closed",
    "Expired",
    "InFlight",
    "KeyMismatch",
    "KeyUnfit",
    "Kind",
    "Receipt",
    "ReceiptRefusal",
    "Receipts",
    "RetentionTooShort",
    "Superseded",
    "TooLate",
    "TransactionUnfit",
    "Unfinished",
    "fingerprint",
    "table",
]
