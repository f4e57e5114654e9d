"""Together: the members of a batch on SQLite that nothing stands in the way of are written by a handful of statements, however many they are.

Owns these statements. Each takes its rows as VALUES: a statement for each member would let go of the interpreter as often, and wait for it beside a
thread that is busy. Knows neither transactions nor why a member was refused. Invariant: `written` says True only if the fence matched for every member, none
of their keys was there and all of their rows are; else some of it may stand in the transaction, which is to be rolled back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final

from recovery.core.chain import Row
from recovery.ports import Append, NewRun
from recovery.storage.bare import execute
from recovery.storage.place import Place, tables_at
from recovery.storage.rules import key_place, stays_at_work
from recovery.storage.statements import new_run_columns

ROWS_MAX: Final = 64
"""Rows of one statement. A larger one costs more for each of its rows; it is only ever carried out once from its beginning to its end."""

_KEYS: Final = """
INSERT INTO {key} (environment, scope, key, fingerprint, run_id, step)
SELECT * FROM (VALUES :rows) WHERE column1 IS NOT NULL ON CONFLICT DO NOTHING
"""

_HELD: Final = """
FROM (VALUES :rows) AS w
WHERE run.run_id = +w.column1 AND run.owner_token = w.column2 AND run.epoch_incarnation = w.column3 AND run.epoch_n = w.column4
  AND run.head = w.column5
"""
"""The fence, with a look into the index for each member: of an expression SQLite makes no index of its own, by which it would rather scan all runs."""

_FENCE: Final = (
    """
UPDATE {run} AS run SET head = w.column6, head_digest = w.column7, updated_at_us = w.column8, status = w.column9, reason = w.column10,
    rests_for = w.column11, next_look_us = CASE WHEN w.column13 THEN run.next_look_us ELSE w.column12 END"""
    + _HELD
)

_FENCE_AT_WORK: Final = (
    """
UPDATE {run} AS run SET head = w.column6, head_digest = w.column7, updated_at_us = w.column8"""
    + _HELD
    + "  AND run.status = 'running' AND run.reason = '' AND run.rests_for = '' AND run.next_look_us IS NULL"
)
"""The same for a run that `stays_at_work`."""

_ROWS: Final = """
INSERT INTO {journal} (run, seq, kind, step, body, epoch_incarnation, epoch_n, token, digest)
SELECT run.number, w.column2, w.column3, w.column4, w.column5, w.column6, w.column7, w.column8, w.column9
FROM (VALUES :rows) AS w CROSS JOIN {run} AS run WHERE run.run_id = w.column1
"""
"""CROSS JOIN: in this order, with a look into the index for each row."""

_CONTRACTS: Final = """
INSERT INTO {contract} (digest, body) SELECT * FROM (VALUES :rows) WHERE column1 IS NOT NULL ON CONFLICT DO NOTHING
"""

_LINKS: Final = """
INSERT INTO {run_contract} (run, digest)
SELECT run.number, w.column2 FROM (VALUES :rows) AS w CROSS JOIN {run} AS run WHERE run.run_id = w.column1 ON CONFLICT DO NOTHING
"""

_INCARNATION: Final = "SELECT incarnation FROM {meta}"
_RUNS: Final = """
INSERT INTO {run} (:columns, epoch_incarnation)
SELECT w.*, meta.incarnation FROM (VALUES :rows) AS w CROSS JOIN {meta} AS meta WHERE w.column1 IS NOT NULL ON CONFLICT DO NOTHING
"""


@cache
def _runs(columns: tuple[str, ...]) -> str:
    return _RUNS.replace(":columns", ", ".join(columns))


def whole(rows: int) -> int:
    """How many rows the statement has that so many are written by: a power of two, or three quarters of one, so that few texts will do and little is filled up."""
    power = 1 << (rows - 1).bit_length()
    return power * 3 // 4 if rows <= power * 3 // 4 else power


def ordinary(batch: Sequence[Append]) -> list[Append]:
    """The members that may be written together: one for each run, and none that brings more than rows, keys and contracts. One by itself may bring payloads."""
    if len(batch) == 1:  # nearly always
        return [] if batch[0].words else [*batch]
    runs = Counter(member.run_id for member in batch)
    return [member for member in batch if not member.payloads and not member.words and runs[member.run_id] == 1]


def apart(members: Sequence[Append], batch: Sequence[Append]) -> list[Append]:
    """Those of these members of a batch that may be written in front of its others: none of them wants a key that another one wants, who may come first."""
    wanted = Counter(key_place(key) for member in batch for key in member.keys)
    return [member for member in members if all(wanted[key_place(key)] == 1 for key in member.keys)]


class Together:
    """The statements for the tables of one place."""

    def __init__(self, place: Place) -> None:
        self._tables = tables_at(place)
        self._texts: dict[tuple[str, int], str] = {}

    def written(self, cursor: Any, members: Sequence[Append]) -> bool:
        """Write all that these members say, each of another run, in the cursor's transaction."""
        keys = [key for member in members for key in _keys_of(member)]
        if self._said(cursor, _KEYS, keys) != len(keys) or not self._fenced(cursor, members):
            return False
        self._agree(cursor, members)
        return self.rows(cursor, ((member.run_id, row) for member in members for row in member.rows))

    def opened(self, cursor: Any, batch: Sequence[NewRun]) -> int | None:
        """Store runs of different ids with their rows, in the cursor's transaction, at the incarnation that is returned. None: as for `written`."""
        said = [new_run_columns(new) for new in batch]
        stored = self._said(cursor, _runs(tuple(said[0])), [tuple(columns.values()) for columns in said]) == len(batch)
        if not (stored and self.rows(cursor, ((new.run_id, row) for new in batch for row in new.rows))):
            return None
        execute(cursor, self._tables.written(_INCARNATION))
        return int(cursor.fetchone()[0])

    def rows(self, cursor: Any, rows: Iterable[tuple[str, Row]]) -> bool:
        """Write journal rows, each of a run that is there. False: one was not."""
        said = [
            (run_id, row.seq, row.kind, row.step, row.body, row.epoch.incarnation, row.epoch.n, row.token, row.digest)
            for run_id, row in rows
        ]
        return self._said(cursor, _ROWS, said) == len(said)

    def _fenced(self, cursor: Any, members: Sequence[Append]) -> bool:
        at_work = [member for member in members if stays_at_work(member)]
        moved = self._said(cursor, _FENCE_AT_WORK, [_held(member) for member in at_work])
        if moved < len(members):  # what has moved is at another head, and is not found again
            others = members if moved < len(at_work) else [member for member in members if not stays_at_work(member)]
            moved += self._said(cursor, _FENCE, [(*_held(member), *_becomes(member)) for member in others])
        return moved == len(members)

    def _agree(self, cursor: Any, members: Sequence[Append]) -> None:
        contracts = dict(chain.from_iterable(member.contracts for member in members))
        if contracts:
            self._said(cursor, _CONTRACTS, list(contracts.items()))
            self._said(cursor, _LINKS, [(member.run_id, digest) for member in members for digest, _ in member.contracts])

    def _said(self, cursor: Any, template: str, rows: list[tuple[Any, ...]]) -> int:
        """How many rows it changed. What is left of a whole statement is filled up with rows of NULL, which stand for nothing."""
        changed = 0
        for start in range(0, len(rows), ROWS_MAX):
            part = rows[start : start + ROWS_MAX]
            size = whole(len(part))
            text = self._texts.get((template, size)) or self._text(template, size, len(part[0]))
            missing = (None,) * (len(part[0]) * (size - len(part)))
            changed += execute(cursor, text, [*chain.from_iterable(part), *missing])
        return changed

    def _text(self, template: str, size: int, width: int) -> str:
        row = f"({', '.join('?' * width)})"
        text = self._texts[template, size] = self._tables.written(template).strip().replace(":rows", ", ".join([row] * size))
        return text


together_at: Final = cache(Together)


def _keys_of(member: Append) -> list[tuple[Any, ...]]:
    return [(each.environment, each.scope, each.key, each.fingerprint, member.run_id, each.step) for each in member.keys]


def _held(member: Append) -> tuple[Any, ...]:
    epoch, last = member.epoch, member.rows[-1]
    return member.run_id, member.owner, epoch.incarnation, epoch.n, member.head, last.seq, last.digest, member.at_us


def _becomes(member: Append) -> tuple[Any, ...]:
    return member.status.value, member.reason, member.rests_for.value, member.next_look_us, member.keeps_look
