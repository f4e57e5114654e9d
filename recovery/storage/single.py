"""Single: a lone plain append on PostgreSQL, which is what a run by itself does step by step, in the smallest statement that can write it.

Owns that statement. Knows no connection. Invariant: the compare-and-set of the run's row is in the statement, and everything else hangs on the row that it returns. A
key that is there already makes it match nothing; one that comes while the statement waits for it makes it fail, so that nothing of it is written.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from recovery.ports import Append
from recovery.storage.arrays import bigint
from recovery.storage.place import Place, tables_at
from recovery.storage.rules import stays_at_work
from recovery.storage.staying import numbered

ROWS_MAX: Final = 8
"""Of a member that is written so: for each number of rows there is a text, which the driver has the server prepare."""

_FENCE: Final = """
WITH fence AS (
UPDATE {run} AS run SET head = :seq, head_digest = :digest, updated_at_us = :at_us, :stands
WHERE run.run_id = :run_id AND run.owner_token = :owner AND run.epoch_incarnation = :incarnation AND run.epoch_n = :n AND run.head = :head
"""

_STANDS: Final = """status = :status, reason = :reason, rests_for = :rests_for,
next_look_us = CASE WHEN :keeps_look THEN run.next_look_us ELSE :next_look_us END"""

_AT_WORK: Final = "status = 'running', reason = '', rests_for = '', next_look_us = NULL"
"""The same of a run that `stays_at_work`, which is nearly every append: nothing is sent for it."""

_FREE: Final = (
    "AND NOT EXISTS (SELECT FROM {key} AS key WHERE key.environment = :environment AND key.scope = :scope AND key.key = :key)"
)

_TAKEN: Final = """
, taken AS (
INSERT INTO {key} (environment, scope, key, fingerprint, run_id, step) SELECT :environment, :scope, :key, :fingerprint, :run_id, :key_step FROM fence)
"""

_WRITTEN: Final = """
, written AS (
INSERT INTO {journal} (run, seq, kind, step, body, epoch_incarnation, epoch_n, token, digest)
SELECT fence.number, CAST(:head AS bigint) + e.behind, e.kind, e.step, e.body, CAST(:incarnation AS bigint), CAST(:n AS bigint), :token, e.digest
FROM fence CROSS JOIN (VALUES :rows) AS e (behind, kind, step, body, digest))
"""


class Single:
    """The statements for the tables of one place."""

    def __init__(self, place: Place) -> None:
        self._tables = tables_at(place)
        self._texts: dict[tuple[int, bool, bool], str] = {}

    def statement(self, member: Append) -> tuple[str, list[bytes | None]] | None:
        """What writes this member and then gives one row, with its values; None: it takes more than that."""
        if member.payloads or member.words or member.contracts or len(member.keys) > 1 or len(member.rows) > ROWS_MAX:
            return None
        at_work = stays_at_work(member) and not member.keeps_look
        kind = (len(member.rows), bool(member.keys), at_work)
        return self._texts.get(kind) or self._text(*kind), _values(member, at_work)

    def _text(self, rows: int, keyed: bool, at_work: bool) -> str:
        said = ", ".join(f"({at}, :kind{at}, :step{at}, :body{at}, :digest{at if at < rows else ''})" for at in range(1, rows + 1))
        written = _WRITTEN.replace(":rows", said)
        free, taken = (_FREE, _TAKEN) if keyed else ("", "")
        fence = _FENCE.replace(":stands", _AT_WORK if at_work else _STANDS)
        parts = (fence, free, "RETURNING run.number)", taken, written, "SELECT FROM fence")
        text, _ = numbered(self._tables.written("".join(parts)))
        self._texts[rows, keyed, at_work] = text
        return text


single_at: Final = cache(Single)


def _values(member: Append, at_work: bool) -> list[bytes | None]:
    """In the order in which the statement names them for the first time."""
    last, epoch, look = member.rows[-1], member.epoch, member.next_look_us
    values: list[bytes | None] = [bigint(last.seq), last.digest.encode(), bigint(member.at_us)]
    if not at_work:
        values += (
            member.status.value.encode(), member.reason.encode(), member.rests_for.value.encode(),
            b"\1" if member.keeps_look else b"\0", None if look is None else bigint(look),
        )  # fmt: skip
    values += (member.run_id.encode(), member.owner.encode(), bigint(epoch.incarnation), bigint(epoch.n), bigint(member.head))
    for claim in member.keys:
        values += (
            claim.environment.encode(), claim.scope.encode(), claim.key.encode(), claim.fingerprint.encode(), claim.step.encode(),
        )  # fmt: skip
    values.append(last.token.encode())
    for row in member.rows:
        values += (row.kind.encode(), row.step.encode(), row.body.encode(), row.digest.encode())
    values.pop()  # the last one's is there already
    return values
