"""Watching: runs that somebody has, until their owner lets them go or is gone.

Owns when a lease has ended, by the rule that its counter has not moved for its term on this host's boot clock, and the takeover. Knows nothing of what a run
is brought on by. Invariant: a run is taken from an owner only where the owner is proven dead, or has been silent for its own term.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from recovery.claims import World
from recovery.core.contracts import microseconds
from recovery.core.errors import StoreUnavailable
from recovery.core.ids import Epoch
from recovery.crashpoints import around
from recovery.engine.wiring import Wiring
from recovery.ports import Owner, RunRow, Wanted
from recovery.storage.rules import wants

PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class _Seen:
    epoch: Epoch
    counter: int
    since_us: int


class Watch:
    """What was seen of runs that others have. It holds as many as all workers have at work, and not one more."""

    def __init__(self, engine: Wiring, crashes: int) -> None:
        """crashes: the number of workers after which a run is condemned, of which it ends the last one alone."""
        self._engine = engine
        self._crashes = crashes
        self.suspects = False
        """Whether a run that is to be at work alone was left where it is, since something else is at work."""
        self._every_us = microseconds(engine.lease.term) // 6
        self._looked_us: int | None = None
        self._seen: dict[str, _Seen] = {}

    def is_suspect(self, crashes: int) -> bool:
        """Whether a run with so many deaths has one chance more. What else was at work in the workers that died has as many, and nobody knows which of them it was."""
        return 0 < crashes == self._crashes - 1

    def due_in_us(self, boot_us: int) -> int:
        """Until the next look at them."""
        return 0 if self._looked_us is None else max(0, self._looked_us + self._every_us - boot_us)

    def forget(self) -> None:
        """We could not look for a while, and they could not renew: nobody's silence until now says anything."""
        self._seen = {}

    def taken(self, world: World, wanted: Wanted, *, alone: bool) -> Iterator[RunRow]:
        """Claim the wanted runs whose owners are gone, one after the other, if it is time to look. The first look finds those of dead processes. alone: nothing
        is at work here, so that a suspect may be taken, and nothing with it."""
        boot_us = self._engine.clock.boot_us()
        if self.due_in_us(boot_us) and not self.suspects:
            return
        self.suspects = False
        self._looked_us = boot_us
        taken = 0
        seen: dict[str, _Seen] = {}
        after = ("", "")
        while page := self._page(after):
            for row in page:
                assert row.owner is not None
                if not self._gone(row, row.owner, seen, boot_us) or taken >= wanted.limit or not wants(wanted, row):
                    continue
                suspect = self.is_suspect(row.crashes + 1)
                if suspect and (taken or not alone):
                    self.suspects = True
                    continue
                with around("claim"):
                    claimed = self._engine.journal.claim(row, world.owner(), lease_term_us=world.lease_term_us, at_us=wanted.now_us)
                if claimed is not None:
                    taken = wanted.limit if suspect else taken + 1
                    yield claimed
            after = (page[-1].queue, page[-1].run_id)
        self._seen = seen

    def _page(self, after: tuple[str, str]) -> list[RunRow]:
        try:
            return self._engine.journal.owned(after, PAGE)
        except StoreUnavailable:
            self.forget()
            raise

    def _gone(self, row: RunRow, owner: Owner, seen: dict[str, _Seen], boot_us: int) -> bool:
        if self._engine.proven_dead(owner):
            return True
        before = self._seen.get(row.run_id)
        same = before is not None and (before.epoch, before.counter) == (row.epoch, row.lease_counter)
        now = before if same and before is not None else _Seen(row.epoch, row.lease_counter, boot_us)
        seen[row.run_id] = now
        return boot_us - now.since_us >= row.lease_term_us
