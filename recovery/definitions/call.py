"""Call: what the body of an effect is told about the attempt it is.

Owns nothing that changes. Knows no engine: the driver that makes a call hands in the function that tells the time left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One attempt of one effect, a probe of it, or its close.

    key: the idempotency key, the same on every attempt. Send it to the environment.
    fingerprint: digest of the request under that key.
    epoch: who sends or asks, as a rising number ("incarnation.n"), for environments that refuse superseded senders.
    attempt: from 1; 0 for a probe, which is none.
    first_sent: with time zone; when the first attempt that may have left was sent. The same on every re-send: carry it where the environment
        refuses what is too old by it. None for a probe or a close.
    send_until: with time zone; the sender has given up by then. Carry it as a deadline where the environment checks one.
    """

    run_id: str
    step: str
    key: str
    fingerprint: str
    epoch: str
    attempt: int
    scope: str
    send_until: datetime
    remaining: Callable[[], float] = field(repr=False, compare=False)
    first_sent: datetime | None = None

    def remaining_seconds(self) -> float:
        """Seconds until `send_until`, never negative. Use it as the request's timeout."""
        return max(0.0, self.remaining())
