"""Several: the statements by which many runs are claimed and loaded in one transaction, in the same words on every dialect.

Owns those statements, and which run is left out of an answer. Knows nothing of retries. Invariants: a run is claimed only where its row was seen, behind the
row's own lock, to be as the claimant saw it; what is loaded costs what these runs hold, never what is stored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import bindparam

from recovery.core.chain import Row
from recovery.core.errors import JournalCorrupt
from recovery.ports import Evidence, Owner, RunRow, Stored
from recovery.storage import claiming
from recovery.storage import statements as say
from recovery.storage.schema import contract, evidence, inbox, journal, run_contract

_numbers: Final[sa.BindParameter[Any]] = bindparam("numbers", expanding=True)

_RUNS: Final = say.FIND_ALL
_LOCKED: Final = _RUNS.with_for_update(key_share=True, skip_locked=True)  # SQLite's transaction has the file's lock already
_ROWS: Final = (
    sa.select(journal.c.run, *(journal.c[name] for name in say.OF_ROW))
    .where(journal.c.run.in_(_numbers))
    .order_by(journal.c.run, journal.c.seq)
)
_CONTRACTS: Final = (
    sa.select(run_contract.c.run, contract.c.digest, contract.c.body)
    .join(contract, contract.c.digest == run_contract.c.digest)
    .where(run_contract.c.run.in_(_numbers))
)
_EVIDENCE: Final = (
    sa.select(evidence).where(evidence.c.run_id.in_(bindparam("run_ids", expanding=True))).order_by(evidence.c.number)
)
_SPOKEN_TO: Final = sa.select(inbox.c.run).where(inbox.c.run.in_(_numbers)).distinct()


def claim(connection: sa.Connection, seen: Sequence[RunRow], owner: Owner, *, lease_term_us: int, at_us: int) -> list[RunRow]:
    """Claim each of these runs that is as it was seen, in a writing transaction of its own, and find those that this owner has claimed already."""
    there = {row["run_id"]: row for row in connection.execute(_LOCKED, {"run_ids": [row.run_id for row in seen]}).mappings()}
    ours = [row for row in there.values() if row["owner_token"] == owner.token]
    numbers = [there[row.run_id]["number"] for row in seen if row.run_id in there and _is_as_seen(there[row.run_id], row)]
    if numbers:
        values = claiming.claim_by(owner, lease_term_us, at_us) | {"numbers": numbers}
        ours += connection.execute(claiming.CLAIM_LOCKED, values).mappings().all()
    claimed = {row.run_id: row for row in _readable(ours)}
    return [claimed[row.run_id] for row in seen if row.run_id in claimed]


def _is_as_seen(row: sa.RowMapping, seen: RunRow) -> bool:
    token = None if seen.owner is None else seen.owner.token
    now = (row["epoch_incarnation"], row["epoch_n"], row["lease_counter"], row["owner_token"])
    return now == (seen.epoch.incarnation, seen.epoch.n, seen.lease_counter, token)


def load(connection: sa.Connection, run_ids: Sequence[str]) -> dict[str, Stored]:
    """These runs, by run id, from one snapshot."""
    found = connection.execute(_RUNS, {"run_ids": list(run_ids)}).mappings().all()
    runs = {each["number"]: row for each in found for row in _readable([each])}
    numbers, names = {"numbers": list(runs)}, {"run_ids": [row.run_id for row in runs.values()]}
    rows = _by_run(connection.execute(_ROWS, numbers).all())
    contracts: defaultdict[int, dict[str, str]] = defaultdict(dict)
    for number, digest, body in connection.execute(_CONTRACTS, numbers):
        contracts[number][digest] = body
    late: defaultdict[str, list[Any]] = defaultdict(list)
    for item in connection.execute(_EVIDENCE, names):
        late[item.run_id].append(item)
    spoken_to = set(connection.execute(_SPOKEN_TO, numbers).scalars())
    return {
        row.run_id: Stored(row, whole, contracts[number], _evidence(late[row.run_id]), number in spoken_to)
        for number, row in runs.items()
        if (whole := _whole(rows[number], row.run_id)) and all(map(say.is_whole, late[row.run_id]))
    }


def _by_run(found: Iterable[Sequence[Any]]) -> defaultdict[int, list[Sequence[Any]]]:
    rows: defaultdict[int, list[Sequence[Any]]] = defaultdict(list)
    for number, *row in found:
        rows[number].append(row)
    return rows


def _whole(rows: list[Sequence[Any]], run_id: str) -> list[Row] | None:
    try:
        return say.to_rows(rows, run_id)
    except JournalCorrupt:  # whoever loads the run by itself is told
        return None


def _evidence(late: list[Any]) -> list[Evidence]:
    return [say.to_evidence(item) for item in late]


def _readable(rows: Iterable[sa.RowMapping]) -> list[RunRow]:
    found: list[RunRow] = []
    for row in rows:
        try:
            found.append(say.to_run(row))
        except JournalCorrupt:  # as above
            continue
    return found
