"""Quarantine: a run that ends its workers is held, so that it does not take them all down one after the other.

Owns the order that says so, in the name of the worker that found it, and what can be read back out of it. Invariant: a quarantined run is held as one that a person
holds: nothing of it is sent, and the same `recover release` lets it go on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from recovery.claims import World, visit
from recovery.core.entries import Override, Status, Verb
from recovery.core.ids import ROOT
from recovery.core.operations import Now
from recovery.core.reasons import HoldReason
from recovery.operators.claiming import Claimed
from recovery.ports import RunRow
from recovery.storage.reading import Loaded
from recovery.storage.writer import writer_of

BY: Final = "recover worker"

_TIMES: Final = "workers in a row ended while they had it, and did not let it go"
_ALONE: Final = "; the last had nothing else at work"
_READ: Final = re.compile(f"{HoldReason.QUARANTINED.value}: ([0-9]+) {re.escape(_TIMES)}({re.escape(_ALONE)})?")


@dataclass(frozen=True, slots=True)
class Deaths:
    """What an order of quarantine records. workers: how many ended in a row while they had the run, None: that cannot be read. last_alone: whether
    the last of them was to have nothing else at work."""

    workers: int | None
    last_alone: bool


async def quarantine(world: World, row: RunRow, *, last_alone: bool) -> Override | None:
    """Hold a run that was just claimed, and let it go. None: it is settled, or held already. last_alone: the rule by which runs are taken gave it to its last
    worker alone. Raises JournalCorrupt, LeaseUnavailable."""

    async def write(loaded: Loaded) -> Override | None:
        if loaded.run.status.settled or loaded.history.held is not None:
            return None
        reason = f"{HoldReason.QUARANTINED.value}: {row.crashes} {_TIMES}{_ALONE if last_alone else ''}"
        order = Override(step=ROOT, verb=Verb.HOLD, by=BY, at_us=await Now(), reason=reason)
        await Claimed(loaded, writer_of(loaded, world.token)).move(order, to=Status.HELD, reason=order.reason)
        return order

    return await visit(world, row, write)


def deaths(held: Override | None) -> Deaths | None:
    """What a hold records of the workers that a run ended; None where it is no quarantine."""
    if held is None or held.by != BY or not held.reason.startswith(f"{HoldReason.QUARANTINED.value}:"):
        return None
    read = _READ.fullmatch(held.reason)
    return Deaths(None, last_alone=False) if read is None else Deaths(int(read[1]), last_alone=read[2] is not None)
