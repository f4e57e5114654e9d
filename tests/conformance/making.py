"""Runs and appends for storage tests: small, legal, chained like real ones."""

from __future__ import annotations

from itertools import count
from typing import Any

import sqlalchemy as sa

from recovery.core.chain import Chain, Row, chained, genesis
from recovery.core.entries import Status
from recovery.core.errors import JournalCorrupt
from recovery.core.ids import Epoch
from recovery.core.resting import RestsFor
from recovery.ports import Append, Appended, Journal, KeyClaim, NewRun, Owner, Payload, RunRow, Stored
from recovery.storage.memory import MemoryJournal
from recovery.storage.schema import metadata
from recovery.storage.sql import SqlJournal

_tokens = count(1)


def owner(name: str = "alice") -> Owner:
    return Owner(token=f"{name}-{next(_tokens)}", host="host", boot_id="boot", pid_namespace="pid:[1]", pid=42, process_start=77)


def row_after(run: RunRow, *, body: str = '{"a":1}', kind: str = "decision", step: str = "plan#1", token: str = "") -> Row:
    """The row that continues the run's head."""
    return chained(run.head_digest, run.head + 1, kind, step, body, run.epoch, token or f"token-{next(_tokens)}")


def new_run(journal: Journal, run_id: str = "run-1", *, by: Owner | None = None, status: Status = Status.RUNNING) -> NewRun:
    epoch = Epoch(journal.incarnation(), 1)
    first = chained(genesis(journal.namespace(), run_id), 1, "opened", "", "{}", epoch, f"token-{next(_tokens)}")
    return NewRun(
        run_id=run_id,
        workflow="resolve",
        input_digest="input",
        status=status,
        owner=by or owner(),
        lease_term_us=30_000_000,
        at_us=1_000,
        rows=(first,),
    )


def opened(journal: Journal, run_id: str = "run-1", *, by: Owner | None = None, status: Status = Status.RUNNING) -> RunRow:
    row = journal.open_run(new_run(journal, run_id, by=by, status=status))
    assert row is not None
    return row


def member(
    run: RunRow,
    *rows: Row,
    status: Status = Status.RUNNING,
    keys: tuple[KeyClaim, ...] = (),
    contracts: tuple[tuple[str, str], ...] = (),
    reason: str = "",
    next_look_us: int | None = None,
    rests_for: RestsFor = RestsFor.NOTHING,
    payloads: tuple[Payload, ...] = (),
) -> Append:
    """An append by whoever `run` says owns it, on top of the head that it says."""
    assert run.owner is not None
    return Append(
        run_id=run.run_id,
        owner=run.owner.token,
        epoch=run.epoch,
        head=run.head,
        rows=rows or (row_after(run),),
        status=status,
        at_us=2_000,
        next_look_us=next_look_us,
        reason=reason,
        rests_for=rests_for,
        keys=keys,
        contracts=contracts,
        payloads=payloads,
    )


def claim_of(name: str, *, step: str = "reserve#1", fingerprint: str = "print") -> KeyClaim:
    return KeyClaim(environment="inventory", scope="warehouse-1", key=name, fingerprint=fingerprint, step=step)


def appended(journal: Journal, append: Append) -> RunRow:
    """Append, and return the run as it is then."""
    assert journal.append([append]) == [Appended()]
    row = journal.find(append.run_id)
    assert row is not None
    return row


def verified(stored: Stored) -> int:
    """How many rows of a run came, all of which verify. Raises JournalCorrupt."""
    chain = Chain(stored.namespace, stored.run.run_id)
    for portion in stored.portions:
        chain.follow(portion)
    if broken := chain.end(stored.run.head, stored.run.head_digest):
        raise JournalCorrupt(run_id=stored.run.run_id, seq=broken[0], field=broken[1])
    return chain.length


def raise_incarnation(journal: Journal) -> None:
    """What declaring a database restored does to it."""
    seen = journal.incarnation()
    assert journal.raise_incarnation(seen, seen + 1) == seen + 1


def stored(journal: Journal) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that a journal's database holds, table by table: what "nothing was written" is compared on."""
    if isinstance(journal, MemoryJournal):
        runs = [(key, there.row, tuple(there.rows), tuple(there.contracts)) for key, there in journal._runs.items()]
        links = [(key, digest) for key, there in journal._runs.items() for digest in sorted(there.payloads)]
        found = {"run": runs, "key": list(journal._keys.items()), "evidence": [(item,) for item in journal._evidence]}
        return found | {"payload": list(journal._payloads.items()), "run_payload": links}
    assert isinstance(journal, SqlJournal)
    with journal._database.snapshot() as connection:
        return {table.name: [tuple(row) for row in connection.execute(sa.select(table))] for table in metadata.sorted_tables}
