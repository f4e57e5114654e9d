"""Single: a lone plain append on PostgreSQL, which is what a run by itself does step by step, in the smallest statement that can write it.

Owns that statement. Knows no connection. Invariant: the compare-and-set of the run's row is in the statement, and everything else hangs on the row that it returns. A
key that is there already makes it match nothing; one that comes while the statement waits for it makes it fail by a division, so that nothing of it is written.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from recovery.ports import Append
from recovery.storage.place import Place, tables_at

ROWS_MAX: Final = 8
"""Of a member that is written so: for each number of rows there is a text, which the driver has the server prepare."""

_FENCE: Final = """
WITH fence AS (
UPDATE {run} AS run SET head = %s, head_digest = %s, status = %s, reason = %s, updated_at_us = %s,
next_look_us = CASE WHEN %s THEN run.next_look_us ELSE %s END
WHERE run.run_id = %s AND run.owner_token = %s AND run.epoch_incarnation = %s AND run.epoch_n = %s AND run.head = %s
"""

_FREE: Final = "AND NOT EXISTS (SELECT FROM {key} AS key WHERE key.environment = %s AND key.scope = %s AND key.key = %s)"

_TAKEN: Final = """
, taken AS (
INSERT INTO {key} (environment, scope, key, fingerprint, run_id, step) SELECT %s, %s, %s, %s, %s, %s FROM fence
ON CONFLICT DO NOTHING RETURNING 1)
"""

_WRITTEN: Final = """
, written AS (
INSERT INTO {journal} (run, seq, kind, step, body, epoch_incarnation, epoch_n, token, digest)
SELECT fence.number, e.seq, e.kind, e.step, e.body, CAST(%s AS bigint), CAST(%s AS bigint), CAST(%s AS text), e.digest
FROM fence CROSS JOIN (VALUES :rows) AS e (seq, kind, step, body, digest))
"""


class Single:
    """The statements for the tables of one place."""

    def __init__(self, place: Place) -> None:
        self._tables = tables_at(place)
        self._texts: dict[tuple[int, bool], str] = {}

    def statement(self, member: Append) -> tuple[str, tuple[Any, ...]] | None:
        """What writes this member and then returns one row; None: it takes more than that."""
        if member.payloads or member.words or member.contracts or len(member.keys) > 1 or len(member.rows) > ROWS_MAX:
            return None
        kind = (len(member.rows), bool(member.keys))
        return self._texts.get(kind) or self._text(*kind), _parameters(member)

    def _text(self, rows: int, keyed: bool) -> str:
        written = _WRITTEN.replace(":rows", ", ".join(["(CAST(%s AS bigint), %s, %s, %s, %s)"] * rows))
        parts = (
            [_FENCE, _FREE, "RETURNING run.number)", _TAKEN, written, "SELECT 1 / (SELECT count(*) FROM taken) FROM fence"]
            if keyed
            else [_FENCE, "RETURNING run.number)", written, "SELECT 1 FROM fence"]
        )
        text = self._texts[rows, keyed] = " ".join(self._tables.written("".join(parts)).split())
        return text


single_at: Final = cache(Single)


def _parameters(member: Append) -> tuple[Any, ...]:
    last, epoch = member.rows[-1], member.epoch
    becomes = (last.seq, last.digest, member.status.value, member.reason, member.at_us, member.keeps_look, member.next_look_us)
    held = (member.run_id, member.owner, epoch.incarnation, epoch.n, member.head)
    keys: tuple[Any, ...] = ()
    for claim in member.keys:
        place = (claim.environment, claim.scope, claim.key)
        keys = (*place, *place, claim.fingerprint, member.run_id, claim.step)
    rows = [part for row in member.rows for part in (row.seq, row.kind, row.step, row.body, row.digest)]
    return (*becomes, *held, *keys, epoch.incarnation, epoch.n, last.token, *rows)
