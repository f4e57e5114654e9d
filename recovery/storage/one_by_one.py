"""One by one: many runs at once on a journal to which one after the other is as good.

Owns what `ports` say of many runs in terms of a journal's single methods. Knows no store. Invariant: it does nothing that those do not do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from recovery.ports import Standing
from recovery.storage.rules import GOES_ON, is_due

if TYPE_CHECKING:
    from recovery.ports import Journal, Owner, RunRow, Stored

T = TypeVar("T")

_ALL: Final = 2**31 - 1


class OneByOne:
    """The base of such a journal."""

    def claim_many(self: Journal, seen: Sequence[RunRow], owner: Owner, *, lease_term_us: int, at_us: int) -> list[RunRow]:
        claimed = (self.claim(row, owner, lease_term_us=lease_term_us, at_us=at_us) for row in seen)
        return [row for row in claimed if row is not None]

    def stream_many(self: Journal, run_ids: Sequence[str], take: Callable[[Stored], T]) -> dict[str, T]:
        came: dict[str, T] = {}
        for run_id in run_ids:
            spoken_to = bool(self.inbox(run_id))
            if self.stub(run_id) is not None:
                continue
            with suppress(Exception):  # whoever reads it by itself is told
                taken = self.stream(run_id, lambda stored, told=spoken_to: (take(stored._replace(spoken_to=told)),))  # type: ignore[misc]  # bound now
                if taken is not None:
                    came[run_id] = taken[0]
        return came

    def standing(self: Journal, now_us: int) -> list[Standing]:
        found: defaultdict[str, list[RunRow]] = defaultdict(list)
        for row in self.runs(statuses=sorted(GOES_ON), limit=_ALL):
            if row.owner is not None or is_due(row):
                found[row.queue].append(row)
        return [_standing(queue, found[queue], now_us) for queue in sorted(found)]


def _standing(queue: str, rows: Sequence[RunRow], now_us: int) -> Standing:
    free = [row for row in rows if row.owner is None]
    due = [row.updated_at_us if row.next_look_us is None else row.next_look_us for row in free if (row.next_look_us or 0) <= now_us]
    later = [row.next_look_us for row in free if row.next_look_us is not None and row.next_look_us > now_us]
    return Standing(
        queue=queue,
        due=len(due),
        later=len(later),
        at_work=len(rows) - len(free),
        due_since_us=min(due, default=None),
        next_due_us=min(later, default=None),
    )
