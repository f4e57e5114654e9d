"""Beating: what a call is told of heartbeats, and what becomes of its own.

Owns the bounds of what one may say. Knows nothing of how it is watched. Invariant: a heartbeat that cannot be stored costs the attempt nothing; one that
cannot be read back is refused where it is said.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from recovery import codec
from recovery.codec import any_codec
from recovery.core.entries import JSON
from recovery.core.errors import RecoveryError, ValueNotStorable
from recovery.core.heartbeats import Heartbeat
from recovery.core.ids import Epoch
from recovery.core.operations import Send
from recovery.crashpoints import around
from recovery.drivers.watching import Watch
from recovery.ports import Clock, Journal
from recovery.storage.beating import beat_item
from recovery.storage.resting import sealing_of

Aside = Callable[[Callable[[Journal], None]], None]
"""Uses the store beside what is under way."""

PROGRESS_MAX: Final = 16_384  # characters of a heartbeat's progress
_PROGRESS: Final = any_codec()


@dataclass(slots=True)
class Beats:
    """The heartbeats of one attempt."""

    send: Send
    run_id: str
    clock: Clock
    watch: Watch
    aside: Aside
    _kept: Heartbeat | None = None

    def beat(self, progress: Any) -> None:
        """The attempt is alive. Raises ValueNotStorable."""
        attempt, stored = self.send.attempt, progress_of(progress, self.send.intent.effect)
        self.watch.beat()
        kept = self.send.heard.say(attempt.number, attempt.sent_at_us, self.clock.wall_us(), stored)
        if kept is not None:
            self._keep(kept)

    def failed(self) -> None:
        """The attempt has ended without an outcome: whoever makes the next one is to find the very last."""
        last = self.send.heard.last
        if last is not None and last.attempt == self.send.attempt.number and last is not self._kept:
            self._keep(last)

    def _keep(self, beat: Heartbeat) -> None:
        epoch = Epoch.parse(self.send.attempt.epoch)
        assert epoch is not None, "an attempt names the epoch that made it"
        self._kept = beat
        self.aside(partial(_write_beat, self.run_id, self.send.attempt.step, epoch, beat))


def last_of(send: Send) -> JSON:
    """How far an earlier attempt said last that it had come."""
    heard = send.heard.last
    return None if heard is None else deepcopy(heard.progress)


def progress_of(progress: Any, effect: str) -> JSON:
    """What a heartbeat says, in stored form. Raises ValueNotStorable."""
    where = f"heartbeat of {effect!r}"
    stored = _PROGRESS.encode(progress, where=where, root="progress")
    if (size := len(codec.dumps(stored))) > PROGRESS_MAX:
        problem = f"it takes {size:,} characters, and {PROGRESS_MAX:,} is the most"
        raise ValueNotStorable(where=where, path="progress", problem=problem, advice="Say where it stands, not what it has.")
    return stored


def _write_beat(run_id: str, step: str, epoch: Epoch, beat: Heartbeat, journal: Journal) -> None:
    """Best effort: a heartbeat that is lost costs the next attempt some work, and must not end this one."""
    with suppress(RecoveryError), around("evidence"):
        journal.add_evidence(beat_item(run_id, step, epoch, beat, sealing_of(journal, run_id)))
