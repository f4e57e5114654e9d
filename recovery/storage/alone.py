"""Alone: one member on SQLite is written by plain statements, one for each key, one for its fence and one for its rows.

Owns these statements. Knows neither transactions nor why a member was refused. Invariant: `written` says True only if the fence matched, none of the keys was
there and all rows are; else some of it may stand in the transaction, which is to be rolled back.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from recovery.core.chain import Row
from recovery.ports import Append
from recovery.storage.bare import execute
from recovery.storage.place import Place, tables_at
from recovery.storage.rules import stays_at_work

ROWS_MAX: Final = 8
"""Rows of one statement: for each number of them there is a text, which the driver keeps prepared."""

_KEY: Final = """
INSERT INTO {key} (environment, scope, key, fingerprint, run_id, step) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""

_HELD: Final = """
WHERE run_id = ? AND owner_token = ? AND epoch_incarnation = ? AND epoch_n = ? AND head = ?
"""

_FENCE: Final = (
    """
UPDATE {run} SET head = ?, head_digest = ?, updated_at_us = ?, status = ?, reason = ?, rests_for = ?,
    next_look_us = CASE WHEN ? THEN next_look_us ELSE ? END"""
    + _HELD
)
"""Of a row in VALUES, as of a batch, SQLite would make a table first, and that takes longer than all else that the statement does."""

_FENCE_AT_WORK: Final = (
    """
UPDATE {run} SET head = ?, head_digest = ?, updated_at_us = ?"""
    + _HELD
    + "  AND status = 'running' AND reason = '' AND rests_for = '' AND next_look_us IS NULL"
)
"""The same for a run that `stays_at_work`."""

_ROWS: Final = """
INSERT INTO {journal} (run, seq, kind, step, body, epoch_incarnation, epoch_n, token, digest) VALUES :rows
"""
_ROW: Final = "((SELECT number FROM {run} WHERE run_id = ?), ?, ?, ?, ?, ?, ?, ?, ?)"

_CONTRACT: Final = """
INSERT INTO {contract} (digest, body) VALUES (?, ?) ON CONFLICT DO NOTHING
"""
_LINK: Final = """
INSERT INTO {run_contract} (run, digest) VALUES ((SELECT number FROM {run} WHERE run_id = ?), ?) ON CONFLICT DO NOTHING
"""

_PAYLOAD: Final = """
INSERT INTO {payload} (digest, body) VALUES (?, ?) ON CONFLICT DO NOTHING
"""
_REFERENCE: Final = """
INSERT INTO {run_payload} (run, digest) VALUES ((SELECT number FROM {run} WHERE run_id = ?), ?) ON CONFLICT DO NOTHING
"""
"""Whoever would forget the bytes meanwhile has no write transaction while this is one."""


class Alone:
    """The statements for the tables of one place."""

    def __init__(self, place: Place) -> None:
        tables = tables_at(place)

        def written(template: str) -> str:
            return tables.written(template).strip()

        self._key, self._contract, self._link = written(_KEY), written(_CONTRACT), written(_LINK)
        self._payload, self._reference = written(_PAYLOAD), written(_REFERENCE)
        self._fence, self._fence_at_work = written(_FENCE), written(_FENCE_AT_WORK)
        self._rows = tuple(written(_ROWS.replace(":rows", ", ".join([_ROW] * size))) for size in range(1, ROWS_MAX + 1))

    def written(self, cursor: Any, batch: Sequence[Append]) -> bool:
        """Write all that the one member of a batch says, but for what it tells other runs, in the cursor's transaction."""
        [member] = batch
        if not self._keys(cursor, member) or not self._fenced(cursor, member):
            return False
        self._agree(cursor, member)
        self.rows(cursor, member.run_id, member.rows)
        return True

    def brought(self, cursor: Any, member: Append) -> None:
        """Write what a member brings beside its fence, which has matched, and its keys' owner, who is the member's step."""
        self._keys(cursor, member)
        self._agree(cursor, member)
        self.rows(cursor, member.run_id, member.rows)

    def rows(self, cursor: Any, run_id: str, rows: Sequence[Row]) -> None:
        """Write journal rows of a run that is there."""
        for start in range(0, len(rows), ROWS_MAX):
            said: list[Any] = []
            part = rows[start : start + ROWS_MAX]
            for row in part:
                epoch = row.epoch
                said += (run_id, row.seq, row.kind, row.step, row.body, epoch.incarnation, epoch.n, row.token, row.digest)
            execute(cursor, self._rows[len(part) - 1], said)

    def _keys(self, cursor: Any, member: Append) -> bool:
        """Whether none of them was there."""
        new = True
        for key in member.keys:
            said = (key.environment, key.scope, key.key, key.fingerprint, member.run_id, key.step)
            new = execute(cursor, self._key, said) == 1 and new
        return new

    def _fenced(self, cursor: Any, member: Append) -> bool:
        last, epoch = member.rows[-1], member.epoch
        head = (last.seq, last.digest, member.at_us)
        held = (member.run_id, member.owner, epoch.incarnation, epoch.n, member.head)
        if stays_at_work(member) and execute(cursor, self._fence_at_work, head + held):
            return True
        becomes = (member.status.value, member.reason, member.rests_for.value, member.keeps_look, member.next_look_us)
        return execute(cursor, self._fence, head + becomes + held) == 1

    def _agree(self, cursor: Any, member: Append) -> None:
        for contract in member.contracts:
            execute(cursor, self._contract, contract)
            execute(cursor, self._link, (member.run_id, contract[0]))
        for payload in member.payloads:
            execute(cursor, self._payload, (payload.digest, payload.body))
            execute(cursor, self._reference, (member.run_id, payload.digest))


alone_at: Final = cache(Alone)
