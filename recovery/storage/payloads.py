"""Payloads in an SQL database: bytes by digest, and which runs refer to them.

Owns the statements about the tables `payload` and `run_payload`, in whoever's transaction; the same on SQLite and PostgreSQL. Knows neither what
the bytes mean nor how a digest is made. Invariants: a link stands only beside its bytes, and bytes go with their last link. On PostgreSQL a
run that begins to refer to bytes and one that is forgotten at this moment meet at the lock of the bytes' row: each then sees what the other did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import sqlalchemy as sa
from sqlalchemy import bindparam

from recovery.core.errors import InvariantViolated
from recovery.ports import Payload
from recovery.storage.place import text
from recovery.storage.schema import payload, run_payload

_ROUNDS_MAX: Final = 100  # each further one means that somebody forgot the last run that referred to the same bytes, just now

_INSERT: Final = text(
    "INSERT INTO {payload} (digest, body) VALUES (:digest, :body) ON CONFLICT DO NOTHING", bindparam("body", type_=sa.LargeBinary)
)
_LINK: Final = text("INSERT INTO {run_payload} (run, digest) VALUES (:run, :digest) ON CONFLICT DO NOTHING")
# FOR KEY SHARE on PostgreSQL: whoever would delete the row waits for us. On SQLite the transaction has the file's lock already.
_KEPT: Final = sa.select(payload.c.digest).where(payload.c.digest == bindparam("digest")).with_for_update(read=True, key_share=True)
_OF_RUN: Final = (
    sa.select(payload.c.digest)
    .join(run_payload, run_payload.c.digest == payload.c.digest)
    .where(run_payload.c.run == bindparam("of_number"))
    .order_by(payload.c.digest)
    .with_for_update(of=payload)
)
_UNLINK: Final = sa.delete(run_payload).where(run_payload.c.run == bindparam("of_number"))
_DROP: Final = sa.delete(payload).where(
    payload.c.digest.in_(bindparam("digests", expanding=True)), ~sa.exists().where(run_payload.c.digest == payload.c.digest)
)
_FIND: Final = sa.select(payload.c.digest, payload.c.body).where(payload.c.digest.in_(bindparam("digests", expanding=True)))


def refer(connection: sa.Connection, links: Iterable[tuple[int, Payload]]) -> None:
    """Store payloads, each unless it is there, and note which run (by its number) refers to them. In a transaction that holds the runs' rows."""
    for number, item in sorted(links, key=lambda link: link[1].digest):  # one order for everybody: nobody waits in a circle
        for _ in range(_ROUNDS_MAX):
            connection.execute(_INSERT, {"digest": item.digest, "body": item.body})
            if connection.execute(_KEPT, {"digest": item.digest}).first() is not None:
                break
        else:
            raise InvariantViolated(f"payload {item.digest[:12]} is neither there nor can it be stored")
        connection.execute(_LINK, {"run": number, "digest": item.digest})


def release(connection: sa.Connection, number: int) -> None:
    """The run refers to nothing any more; what no other run refers to is deleted."""
    digests = connection.execute(_OF_RUN, {"of_number": number}).scalars().all()
    connection.execute(_UNLINK, {"of_number": number})
    if digests:  # a statement of its own: it sees the links of everybody whom the locks have waited for
        connection.execute(_DROP, {"digests": digests})


def find(connection: sa.Connection, digests: Sequence[str]) -> dict[str, bytes]:
    """Their bytes. What is no bytes, as SQLite would store in any column, is told as none: no digest fits."""
    rows = connection.execute(_FIND, {"digests": list(digests)}).all()
    return {row.digest: row.body if type(row.body) is bytes else b"" for row in rows}
