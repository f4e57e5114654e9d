"""Quarantine: a run that ends its workers is held, so that it does not take them all down one after the other.

Owns the order that says so, in the name of the worker that found it. Invariant: a quarantined run is held as one that a person holds: nothing of it is sent,
and the same `recover release` lets it go on.
"""

from __future__ import annotations

from typing import Final

from recovery.claims import World, visit
from recovery.core.entries import Override, Status, Verb
from recovery.core.ids import ROOT
from recovery.core.operations import Now
from recovery.core.orders import QUARANTINED
from recovery.operators.claiming import Claimed
from recovery.ports import RunRow
from recovery.storage.reading import Loaded
from recovery.storage.writer import writer_of

BY: Final = "recover worker"


async def quarantine(world: World, row: RunRow) -> Override | None:
    """Hold a run that was just claimed, and let it go. None: it is settled, or held already. Raises JournalCorrupt, LeaseUnavailable."""

    async def write(loaded: Loaded) -> Override | None:
        if loaded.run.status.settled or loaded.history.held is not None:
            return None
        times = f"{row.crashes} workers in a row ended while they had it, and did not let it go"
        order = Override(step=ROOT, verb=Verb.HOLD, by=BY, at_us=await Now(), reason=f"{QUARANTINED}: {times}")
        await Claimed(loaded, writer_of(loaded, world.token)).move(order, to=Status.HELD, reason=order.reason)
        return order

    return await visit(world, row, write)
