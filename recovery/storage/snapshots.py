"""Snapshots: the statements by which runs are read, one or many, in the same words on every dialect.

Owns those statements, how rows come in portions, and which run is left out of an answer. Must not know what rows say. Invariants: what is read of a run costs
what that run holds, never what is stored; no more than a portion of its rows is here at a time; all of it is of one snapshot, its values out of line too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from functools import partial
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy import bindparam
from sqlalchemy.exc import SQLAlchemyError

from recovery.core.chain import Raw
from recovery.core.errors import JournalCorrupt, StoreDamaged
from recovery.ports import Evidence, RunRow, Stored
from recovery.storage import payloads
from recovery.storage import statements as say
from recovery.storage.portions import PORTION
from recovery.storage.schema import contract, evidence, inbox, journal, run_contract

T = TypeVar("T")

_numbers: Final[sa.BindParameter[Any]] = bindparam("numbers", expanding=True)

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


def read(connection: sa.Connection, url: str, run_id: str, take: Callable[[Stored], T]) -> T | None:
    """What `take` makes of one run. Raises StoreDamaged, and what `take` raises."""
    found = connection.execute(say.FIND, {"run_id": run_id}).mappings().first()
    if found is None:
        return None
    run, number = say.to_run(found), {"run": found["number"]}
    namespace, incarnation = meta(connection, url)
    contracts = {row.digest: row.body for row in connection.execute(say.CONTRACTS, number)}
    late = whole(connection.execute(say.EVIDENCE, {"run_id": run_id}).all(), run_id, url)
    with closing(_portions(connection, say.ROWS, number, run.head)) as portions:
        return take(Stored(namespace, incarnation, run, contracts, late, portions, partial(payloads.find, connection)))


def read_many(connection: sa.Connection, url: str, run_ids: Sequence[str], take: Callable[[Stored], T]) -> dict[str, T]:
    """What `take` makes of each of these runs, by run id. Raises StoreDamaged for what concerns all of them."""
    found = connection.execute(say.FIND_ALL, {"run_ids": list(run_ids)}).mappings().all()
    runs = {each["number"]: row for each in found for row in readable([each])}
    numbers, names = {"numbers": list(runs)}, {"run_ids": [row.run_id for row in runs.values()]}
    namespace, incarnation = meta(connection, url)
    contracts: defaultdict[int, dict[str, str]] = defaultdict(dict)
    for number, digest, body in connection.execute(_CONTRACTS, numbers):
        contracts[number][digest] = body
    late: defaultdict[str, list[sa.Row[Any]]] = defaultdict(list)
    for item in connection.execute(_EVIDENCE, names):
        late[item.run_id].append(item)
    spoken_to = set(connection.execute(_SPOKEN_TO, numbers).scalars())
    came: dict[str, T] = {}
    with closing(_portions(connection, _ROWS, numbers, sum(row.head for row in runs.values()))) as portions:
        for number, rows in groupby(chain.from_iterable(portions), itemgetter(0)):
            run = runs[number]
            try:
                items = whole(late[run.run_id], run.run_id, url)
                its = iter(lambda rows=rows: [row[1:] for row in islice(rows, PORTION)], [])  # type: ignore[misc]  # bound now
                its_contracts, values = contracts[number], partial(payloads.find, connection)
                came[run.run_id] = take(Stored(namespace, incarnation, run, its_contracts, items, its, values, number in spoken_to))
            except SQLAlchemyError:  # the store is to be asked again
                raise
            except Exception:  # noqa: BLE001, S112  # whoever reads the run by itself is told, and the others are not kept from going on
                continue
    return came


def _portions(connection: sa.Connection, rows: sa.Select[Any], of: dict[str, Any], many: int) -> Generator[Sequence[Raw]]:
    """What there is of so many rows, which a server sends in one go where they are few: its cursor costs two round trips more. To be closed where they are not
    taken to the end: a cursor left open would keep its connection at this moment for ever."""
    streamed = {"yield_per": PORTION} if many > PORTION else {}
    with closing(connection.execute(rows, of, execution_options=streamed)) as coming:
        yield from coming.partitions(PORTION)


def meta(connection: sa.Connection, url: str) -> tuple[str, int]:
    """The database's name and incarnation. Raises StoreDamaged."""
    row = connection.execute(say.META).first()
    if row is None:
        raise StoreDamaged(url=url, problem="its name is gone from its table meta")
    if type(row.namespace) is not str or type(row.incarnation) is not int or row.incarnation < 0:
        raise StoreDamaged(url=url, problem="its table meta is not what was stored")
    return row.namespace, row.incarnation


def whole(late: Sequence[sa.Row[Any]], run_id: str, url: str) -> list[Evidence]:
    """The late evidence about a run. Raises StoreDamaged."""
    if not all(map(say.is_whole, late)):
        raise StoreDamaged(url=url, problem=f"late evidence about run {run_id!r} is not what was stored")
    return [say.to_evidence(row) for row in late]


def readable(rows: Iterable[sa.RowMapping]) -> list[RunRow]:
    """Of these runs' own rows those that can be read: whoever asks for another one by itself is told."""
    found: list[RunRow] = []
    for row in rows:
        try:
            found.append(say.to_run(row))
        except JournalCorrupt:
            continue
    return found
