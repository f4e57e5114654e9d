"""Inboxes: what is said to a run from outside, in the same words on every dialect.

Owns the statements and the order of one delivery. Knows nothing of retries or of what messages mean. Invariant: a delivery takes the lock of the
run's row first. So the messages of one run get rising numbers in the order of their commits; none reaches a run that has settled; and an append that
says that the run rests is either seen, and woken, or comes later and then finds the message.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import bindparam

from recovery.core.errors import JournalCorrupt
from recovery.ports import Delivered, Delivery, Message, NotOpen, SlotTaken
from recovery.storage.schema import inbox, run
from recovery.storage.statements import RESTING, RESTS, to_run

_LOCKED: Final = sa.select(run).where(run.c.run_id == bindparam("run_id")).with_for_update(key_share=True)
"""FOR NO KEY UPDATE on PostgreSQL; on SQLite the transaction has the file's lock already."""

_BY_TOKEN: Final = sa.select(inbox).where(inbox.c.run == bindparam("run"), inbox.c.token == bindparam("token"))
_BY_SLOT: Final = sa.select(inbox).where(inbox.c.run == bindparam("run"), inbox.c.slot == bindparam("slot"))
_LAST: Final = sa.select(sa.func.coalesce(sa.func.max(inbox.c.number), 0)).where(inbox.c.run == bindparam("run"))
_BEHIND: Final = (
    sa.select(inbox)
    .join(run, run.c.number == inbox.c.run)
    .where(run.c.run_id == bindparam("run_id"), inbox.c.number > bindparam("after"))
    .order_by(inbox.c.number)
)
_INSERT: Final = sa.insert(inbox)
_WAKE: Final = (
    sa.update(run)
    .where(
        run.c.number == bindparam("of_number"),
        RESTS,
        run.c.next_look_us.is_(None) | (run.c.next_look_us > bindparam("new_look_us")),
    )
    .values(next_look_us=bindparam("new_look_us"))
)


def deliver(connection: sa.Connection, message: Message) -> Delivery:
    """One delivery, in a writing transaction of its own."""
    found = connection.execute(_LOCKED, {"run_id": message.run_id}).mappings().first()
    if found is None:
        return NotOpen(None)
    number = found["number"]
    same = connection.execute(_BY_TOKEN, {"run": number, "token": message.token}).first()
    if same is not None:
        return Delivered(_message(message.run_id, same))
    row = to_run(found)
    if row.status.settled:
        return NotOpen(row)
    if message.slot and (first := connection.execute(_BY_SLOT, {"run": number, "slot": message.slot}).first()):
        return SlotTaken(_message(message.run_id, first))
    stored = replace(message, number=connection.execute(_LAST, {"run": number}).scalar_one() + 1)
    connection.execute(_INSERT, _columns(stored) | {"run": number})
    connection.execute(_WAKE, {"of_number": number, "new_look_us": message.at_us})
    return Delivered(stored)


def tell(connection: sa.Connection, words: Iterable[Message]) -> None:
    """Deliver what an append says to other runs, in its transaction, to those that rest."""
    for word in words:
        if connection.execute(RESTING, {"run_id": word.run_id}).first() is not None:
            deliver(connection, word)


def behind(connection: sa.Connection, run_id: str, after: int) -> list[Message]:
    return [_message(run_id, row) for row in connection.execute(_BEHIND, {"run_id": run_id, "after": after}).all()]


def _columns(message: Message) -> dict[str, Any]:
    same = {name: getattr(message, name) for name in ("number", "kind", "name", "by", "body", "at_us", "token")}
    return same | {"slot": message.slot or None}


def _message(run_id: str, row: sa.Row[Any]) -> Message:
    """Raises JournalCorrupt for what nobody here wrote."""
    texts = (row.kind, row.name, row.by, row.body, row.token, row.slot or "")
    if any(type(text) is not str for text in texts) or type(row.at_us) is not int:
        raise JournalCorrupt(run_id=run_id, seq=row.number, field="a message of its inbox")
    return Message(
        run_id=run_id,
        kind=row.kind,
        name=row.name,
        slot=row.slot or "",
        by=row.by,
        body=row.body,
        at_us=row.at_us,
        token=row.token,
        number=row.number,
    )
