"""Several: the statements by which many runs are claimed in one transaction, in the same words on every dialect.

Owns those statements, and which run is left out of an answer. Knows nothing of retries. Invariant: a run is claimed only where its row was seen, behind the
row's own lock, to be as the claimant saw it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa

from recovery.ports import Owner, RunRow
from recovery.storage import claiming
from recovery.storage import statements as say
from recovery.storage.snapshots import readable

_LOCKED: Final = say.FIND_ALL.with_for_update(key_share=True, skip_locked=True)  # SQLite's transaction has the file's lock already


def claim(connection: sa.Connection, seen: Sequence[RunRow], owner: Owner, *, lease_term_us: int, at_us: int) -> list[RunRow]:
    """Claim each of these runs that is as it was seen, in a writing transaction of its own, and find those that this owner has claimed already."""
    there = {row["run_id"]: row for row in connection.execute(_LOCKED, {"run_ids": [row.run_id for row in seen]}).mappings()}
    ours = [row for row in there.values() if row["owner_token"] == owner.token]
    numbers = [there[row.run_id]["number"] for row in seen if row.run_id in there and _is_as_seen(there[row.run_id], row)]
    if numbers:
        values = claiming.claim_by(owner, lease_term_us, at_us) | {"numbers": numbers}
        ours += connection.execute(claiming.CLAIM_LOCKED, values).mappings().all()
    claimed = {row.run_id: row for row in readable(ours)}
    return [claimed[row.run_id] for row in seen if row.run_id in claimed]


def _is_as_seen(row: sa.RowMapping, seen: RunRow) -> bool:
    token = None if seen.owner is None else seen.owner.token
    now = (row["epoch_incarnation"], row["epoch_n"], row["lease_counter"], row["owner_token"])
    return now == (seen.epoch.incarnation, seen.epoch.n, seen.lease_counter, token)
