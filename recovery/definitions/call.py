"""Call: what the body of an effect is told about the attempt it is.

Owns nothing that changes. Knows no engine: the driver that makes a call hands in the function that tells the time left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from datetime import datetime
from typing import Any

from recovery.core.values import value


@value(frozen=True, slots=True, kw_only=True)
class Call:
    """One attempt of one effect, a probe of it, or its close.

    key: the idempotency key, the same on every attempt. Send it to the environment.
    fingerprint: digest of the request under that key.
    epoch: who sends or asks, as a rising number ("incarnation.n"), for environments that refuse superseded senders.
    attempt: from 1; 0 for a probe, which is none.
    first_sent: with time zone; when the first attempt that may have left was sent. The same on every re-send: carry it where the environment
        refuses what is too old by it. None for a probe or a close.
    send_until: with time zone; the sender has given up by then. Carry it as a deadline where the environment checks one.
    last_heartbeat: what an earlier attempt of this effect said last; None where none did. It may be a little older than what was said.
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
    last_heartbeat: Any = None
    beat: Callable[[Any], None] = field(default=lambda _: None, repr=False, compare=False)
    stopped: Callable[[], bool] = field(default=lambda: False, repr=False, compare=False)

    def remaining_seconds(self) -> float:
        """Seconds until `send_until`, never negative. Use it as the request's timeout."""
        return max(0.0, self.remaining())

    def heartbeat(self, progress: Any = None) -> None:
        """Say that the attempt is alive, and how far it has come: plain JSON of up to 16 KiB. Cheap; call it as often as you like.

        It is kept outside the journal's chain and decides nothing. An attempt that is made again under the same key finds it in
        `last_heartbeat`. Raises ValueNotStorable."""
        self.beat(progress)

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for this attempt any more: the run was cancelled or taken over, or the attempt was given up. Stop where that is
        safe, and raise: what was done by then is unknown, and found out as after a crash. Seen within the time in which leases are renewed."""
        return self.stopped()


class HeartbeatMissed(TimeoutError):
    """An attempt was silent for longer than its effect allows, and was given up. It may have been done."""
