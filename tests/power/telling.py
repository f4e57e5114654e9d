"""A journal that tells what is asked of it and what it acknowledged, so that a record of the disk holds both in their order.

Owns the wrapping alone. Invariant: "asked" is told before the first byte of a write, "done" after the journal has acknowledged it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from recovery.core.chain import Row
from recovery.core.ids import Epoch
from recovery.ports import Append, Appended, AppendResult, Journal, NewRun, Owner, RunRow

Tell = Callable[[dict[str, Any]], None]


class TellingJournal:
    """`ports.Journal` around another one; what is no write passes through untold."""

    def __init__(self, inner: Journal, tell: Tell) -> None:
        self._inner = inner
        self._tell = tell
        self.url = inner.url

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def namespace(self) -> str:
        namespace = self._inner.namespace()
        self._tell({"created": namespace})
        return namespace

    def open_run(self, new: NewRun) -> RunRow | None:
        self._tell({"asked": new.run_id, "behind": 0, "rows": _digests(new.rows)})
        row = self._inner.open_run(new)
        if row is not None:
            self._tell({"done": new.run_id, "head": new.rows[-1].seq, "digest": new.rows[-1].digest})
        return row

    def open_runs(self, batch: Sequence[NewRun]) -> list[RunRow | None]:
        return [self.open_run(new) for new in batch]

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        for member in batch:
            self._tell({"asked": member.run_id, "behind": member.head, "rows": _digests(member.rows)})
        results = self._inner.append(batch)
        for member, result in zip(batch, results, strict=True):
            if isinstance(result, Appended):
                self._tell({"done": member.run_id, "head": member.rows[-1].seq, "digest": member.rows[-1].digest})
        return results

    def claim(self, seen: RunRow, owner: Owner, *, lease_term_us: int, at_us: int) -> RunRow | None:
        row = self._inner.claim(seen, owner, lease_term_us=lease_term_us, at_us=at_us)
        if row is not None:
            self._tell({"claimed": row.run_id, "epoch": [row.epoch.incarnation, row.epoch.n]})
        return row

    def release(self, run_id: str, owner: str, epoch: Epoch, due_us: int | None = None) -> bool:
        released = self._inner.release(run_id, owner, epoch, due_us)
        self._tell({"released": run_id})
        return released


def _digests(rows: Sequence[Row]) -> list[str]:
    return [row.digest for row in rows]
