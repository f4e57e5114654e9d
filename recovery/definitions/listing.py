"""Listings: what an environment shows of its receipts, for finding effects that nobody here remembers.

Owns the row. Knows no environment. Invariant: a row states what the environment stored, and concludes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptRow:
    """One receipt: its key, the environment's own fingerprint of the request ("" where it has none), its outcome as plain JSON for a
    person to read, and when it was made, with a time zone."""

    key: str
    at: datetime
    fingerprint: str = ""
    outcome: Any = None

    def __post_init__(self) -> None:
        if self.at.utcoffset() is None:
            raise ValueError("ReceiptRow(at=...) needs a time with a time zone, such as datetime.now(UTC)")
