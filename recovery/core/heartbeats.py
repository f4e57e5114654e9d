"""Heartbeats: signs of life of an attempt under way, and how far it has come.

Owns what one says, which of them is the last, and how often one becomes durable. They lie outside the chain, beside late evidence: they decide
nothing, and no verdict reads them. Knows neither stores nor clocks. Invariants: the last one is never older than those that are durable; what is
durable is never older than a second, or a twentieth of the time that its attempt has taken, so that an effect of a day leaves a few
hundred rows and not a hundred thousand.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from recovery.core.entries import JSON

HEARTBEAT: Final = "heartbeat"
"""The kind of evidence that is a heartbeat."""

EVERY_US: Final = 1_000_000
SHARE: Final = 20
"""A heartbeat is kept so long after the last kept one: a second, or this part of the time since the attempt began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """What an attempt said. number: from 1, over all attempts of its step."""

    attempt: int
    number: int
    at_us: int
    progress: JSON = None


@dataclass(slots=True)
class Heard:
    """What has been heard of one step. `last`: its latest heartbeat; kept_us: when the last durable one was said."""

    last: Heartbeat | None = None
    kept_us: int | None = None

    def take(self, beat: Heartbeat) -> None:
        """A durable heartbeat was read. They may be read in any order."""
        if self.last is None or beat.number > self.last.number:
            self.last = beat

    def say(self, attempt: int, began_us: int, now_us: int, progress: JSON) -> Heartbeat | None:
        """An attempt has said something. The heartbeat if it is to be kept."""
        number = 1 if self.last is None else self.last.number + 1
        first = self.last is None or self.last.attempt != attempt
        self.last = Heartbeat(attempt=attempt, number=number, at_us=now_us, progress=progress)
        if not first and self.kept_us is not None and now_us - self.kept_us < max(EVERY_US, (now_us - began_us) // SHARE):
            return None
        self.kept_us = now_us
        return self.last


def encoded(beat: Heartbeat) -> dict[str, JSON]:
    """The heartbeat as plain JSON."""
    return asdict(beat)


def decoded(body: dict[str, JSON]) -> Heartbeat:
    """The heartbeat that `encoded` wrote. Raises ValueError for anything else."""
    try:
        return Heartbeat(**body)
    except TypeError as error:
        raise ValueError(str(error)) from error
