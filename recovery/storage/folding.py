"""Folding: one run while its rows come, each portion verified, then read, then folded into what is kept of the run, and let go of.

Owns the order verify, read, fold. Must not know where rows come from. Invariants: no row is read before it, and all in front of it, are verified; nothing that
is made here is handed on before `check` has found the last row verified, too; what is said of a broken run does not depend on where a portion ends.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from recovery.core.chain import Chain, Raw, Row, row_of
from recovery.core.entries import JSON, Entry, Intent, latest_us
from recovery.core.errors import JournalCorrupt, RecoveryError
from recovery.core.history import History
from recovery.core.recorded import Unread
from recovery.ports import RunRow, Stored
from recovery.storage.alike import Alike, Form, Intents
from recovery.storage.opening import Fetching, Opening, withheld
from recovery.storage.resting import Reference, Sealing
from recovery.vaults import Vault

MANY: Final = 1000
"""Rows of a run that is long to read."""


class Folding:
    """What is made of one run. values: with what is encrypted or lies out of line; keeps: with all rows, and what each says.

    rows, found: those, where they are kept; in the place of what nobody has asked for yet stands what reads it, and from what.
    contracts: the digests of those that its intents were written under, each with the entry that named it first. highest_us: the highest time in the chain."""

    def __init__(self, stored: Stored, vault: Vault | None, *, values: bool = True, keeps: bool = False) -> None:
        run = stored.run
        self.stored = stored._replace(portions=())  # what has come is gone
        self.chain = Chain(stored.namespace, run.run_id)
        self.history = History(run.run_id)
        self.sealing = None if vault is None else Sealing(vault, stored.namespace, run.run_id)
        self.opening = Opening(run.run_id, self.sealing, strict=values, encrypted=":" in run.input_digest)
        self.contracts: dict[str, int] = {}
        self.rows: list[Row] = []
        self.found: list[Entry | tuple[Form, str]] = []
        self._keeps = keeps
        self._alike = Alike()
        self._latest_us = 0
        self._fetching = Fetching(stored.payloads, self.opening)
        self._value_of: Callable[[Reference], JSON] = self._fetching if values else withheld
        self._fault: RecoveryError | None = None
        with _undisturbed(run):
            for portion in stored.portions:
                if not self.chain.follow(portion):
                    break
                if self._fault is None:
                    self._take(portion)

    @property
    def highest_us(self) -> int:
        return max(self._latest_us, self._alike.latest_us)

    def check(self) -> None:
        """That what came is a whole run. Raises JournalCorrupt, and what reading and folding it raised: of a run that does not verify nothing else is said."""
        run = self.stored.run
        if broken := self.chain.end(run.head, run.head_digest):
            raise JournalCorrupt(run_id=run.run_id, seq=broken[0], field=broken[1])
        if self._fault is not None:
            raise self._fault

    def _take(self, rows: Sequence[Raw]) -> None:
        self._fetching.rows = rows
        if self._keeps:
            self.rows += map(row_of, rows)
        try:
            self._fold(rows)
        except RecoveryError as fault:  # told once it is known that the rows behind it verify
            self._fault = fault

    def _fold(self, rows: Sequence[Raw]) -> None:
        """Where a run is encrypted, each row is opened, which is what shows that nobody put one in the clear behind others."""
        history, opening, told, keeps = self.history, self.opening, self._alike.told, self._keeps
        for seq, kind, step, body, _, _, _, _ in rows:
            alike = None if opening.encrypted else told(kind, step, body)
            said = alike or self._read(seq, kind, step, body)
            if alike is not None:
                form, kept = alike
                if isinstance(form, Intents):
                    history.add_unread(Unread(step, form, kept))
                elif not history.settle_unread(step, form, kept):
                    history.add(form.read(step, kept))
            if keeps:
                self.found.append(said)

    def _read(self, seq: int, kind: str, step: str, body: str) -> Entry:
        entry = self.opening.entry(seq, kind, step, body, self._value_of)
        self._alike.learn(step, body, entry)
        try:
            self._latest_us = max(self._latest_us, latest_us(entry))
        except TypeError:  # somebody put something else in the place of a time
            raise JournalCorrupt(run_id=self.history.run_id, seq=seq, field="time of an entry") from None
        if isinstance(entry, Intent):
            self.contracts.setdefault(entry.contract, seq)
        self.history.add(entry)
        return entry


@contextmanager
def _undisturbed(run: RunRow) -> Iterator[None]:
    """No search for cyclic garbage while a long run is read: all that is made stays, so it would go through all of it again and again and find nothing."""
    pauses = run.head >= MANY and gc.isenabled()
    if pauses:
        gc.disable()
    try:
        yield
    finally:
        if pauses:
            gc.enable()
