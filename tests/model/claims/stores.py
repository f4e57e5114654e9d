"""The same calls on the databases: whatever some history asks of the store, in each state in which some history asks it.

Owns which calls those are, and a database in a given state. Knows nothing of workers. Invariant: the databases are the shipped ones; only
their rows are put there.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

import sqlalchemy as sa

from recovery.ports import Owner, RunRow
from recovery.storage import statements as say
from recovery.storage.schema import contract, evidence, journal, key, meta, run, run_contract
from recovery.storage.sql import SqlJournal
from recovery.testing.pieces import in_one_piece
from tests.model.claims.moves import Protocol, Setting
from tests.model.claims.store import EMPTY, NAMESPACE, Call, Store, Stored
from tests.model.claims.workers import RUN

KEYS: Final = (("inventory", "here", "key-1"),)
_COPIED: Final = tuple(field.name for field in fields(RunRow) if field.name not in ("status", "epoch", "owner"))
"""Every field that is a column as it stands; derived, so that a new one is not left out of the state that is put there."""


def asked_in(setting: Setting, states_max: int) -> dict[Stored, list[Call]]:
    """Every call that reaches the store in these states, by the state of the store, each once."""
    protocol = Protocol(setting)
    start = protocol.start()
    known, frontier = {start}, [start]
    asked: dict[Stored, dict[Call, None]] = {}
    for state in frontier:  # grows while it is read
        for _, after, done in protocol.moves(state):
            if done is not None:
                stored = state.stored
                for call in done.calls:
                    asked.setdefault(stored, {})[call] = None
                    stored = after_call(stored, call)[1]
            if after not in known and len(known) < states_max:
                known.add(after)
                frontier.append(after)
    return {stored: list(calls) for stored, calls in asked.items()}


def after_call(stored: Stored, call: Call) -> tuple[Any, Stored]:
    """What the store in memory answers, and what it holds then."""
    store = Store(stored)
    return call.on(store), store.value


# -- a database in a given state -------------------------------------------------------------------------------------------


def put(there: SqlJournal, stored: Stored) -> None:
    """Make the database hold this and nothing else."""
    there._database.ready(writing=True)
    with there._database.transaction() as connection:
        for table in (journal, run_contract, evidence, key, contract, run):
            connection.execute(sa.delete(table))
        connection.execute(sa.update(meta).values(namespace=NAMESPACE, incarnation=stored.incarnation))
        row = stored.run
        if row is None:
            return
        owner = say.owner_columns(row.owner or Owner("")) | {"owner_token": row.owner.token if row.owner else None}
        columns = {name: getattr(row, name) for name in _COPIED}
        columns |= {"status": row.status.value, "epoch_incarnation": row.epoch.incarnation, "epoch_n": row.epoch.n}
        number = connection.execute(sa.insert(run).values(**columns, **owner).returning(run.c.number)).scalar_one()
        connection.execute(sa.insert(journal), [say.row_columns(each) | {"run": number} for each in stored.rows])
        for digest, body in stored.contracts:
            connection.execute(sa.insert(contract).values(digest=digest, body=body))
            connection.execute(sa.insert(run_contract).values(run=number, digest=digest))
        for (environment, scope, name), (run_id, step, fingerprint) in stored.keys:
            connection.execute(
                sa.insert(key).values(
                    environment=environment, scope=scope, key=name, fingerprint=fingerprint, run_id=run_id, step=step
                )
            )
        for item in stored.evidence:
            connection.execute(sa.insert(evidence).values(**say.evidence_columns(item)))


def held_in(there: SqlJournal) -> Any:
    """Everything that the database holds, as far as a state in memory says it."""
    loaded = in_one_piece(there, RUN)
    if loaded is None:
        return as_held(EMPTY._replace(incarnation=there.incarnation()))
    row, rows, contracts = loaded
    keys = [(name, owner) for name in KEYS if (owner := there.key_owner(*name))]
    return row, tuple(rows), tuple(contracts.items()), keys, tuple(there.evidence(RUN)), there.incarnation()


def as_held(stored: Stored) -> Any:
    return stored.run, stored.rows, stored.contracts, list(stored.keys), stored.evidence, stored.incarnation


def check_one(there: SqlJournal, stored: Stored, call: Call) -> str:
    """Make the call on the database in this state; "" if answer and state are what they are in memory."""
    put(there, stored)
    answer, after = after_call(stored, call)
    came, holds = call.on(there), held_in(there)
    if came != answer:
        return f"{call.method} answered {came}, in memory {answer}"
    return "" if holds == as_held(after) else f"{call.method} left {holds}, in memory {as_held(after)}"
