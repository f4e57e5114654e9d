"""Journals that were never performed: a run's rows put together from those of a short one, so that a benchmark of reading does not first wait for writing.

Owns the putting together. Must not know what is measured. Invariant: the journal is one that the engine could have written; it verifies, and its replay asks for nothing new.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from recovery import codec
from recovery.core.chain import Row, chained, genesis
from recovery.core.entries import Attempt, Entry, Intent, Settled, Status, kind_of, step_of
from recovery.core.ids import Epoch, derive_key
from recovery.definitions.effect import Bound
from recovery.definitions.workflow import Workflow
from recovery.engine.wiring import Wiring
from recovery.ports import Append, Appended, Journal, KeyClaim, NewRun, Owner
from recovery.storage.reading import Loaded, read
from recovery.storage.resting import rest
from recovery.storage.schema import journal as journal_table
from recovery.storage.schema import key as key_table
from recovery.storage.schema import run as run_table
from recovery.storage.sql import SqlJournal

AT_ONCE = 10_000
"""Rows of one append."""


def built(
    engine: Wiring,
    run_id: str,
    workflow: Workflow[..., Any],
    given: Any,
    template: str,
    calls: Iterator[Bound[Any]],
    values: Iterator[Any],
) -> None:
    """A run that nobody has, whose journal ends behind the last of these calls, each of one effect of which `template`, a run of the same engine, has performed one.
    given: its input as it is stored; values: what each call returned."""
    journal = engine.journal
    pattern = read(journal, template)
    opened = replace(pattern.opened, input=given, input_digest=workflow.digest(given))
    namespace, epoch, owner = journal.namespace(), Epoch(pattern.incarnation, 1), Owner(secrets.token_hex(8))
    first = _row(genesis(namespace, run_id), 1, opened, epoch)
    about = (run_id, opened.workflow, opened.input_digest, Status.RUNNING, owner, 1_000_000, opened.at_us)
    assert journal.open_run(NewRun(*about, rows=(first,))) is not None
    entries = _steps(pattern, run_id, namespace, calls, values)
    known = tuple((digest, codec.dumps(contract.to_json())) for digest, contract in pattern.contracts.items())
    _append(journal, run_id, owner, epoch, first, entries, known)
    assert journal.release(run_id, owner.token, epoch)


def settled(journal: Journal, template: str, many: int) -> None:
    """So many copies of a settled run with all that is stored of it. Their digests are those of the template, so that nobody can read them; they are only there."""
    assert isinstance(journal, SqlJournal)
    with journal._database.transaction() as connection:
        [run] = connection.execute(sa.select(run_table).where(run_table.c.run_id == template)).mappings().all()
        same = {name: value for name, value in run.items() if name != "number"}
        for first in range(0, many, AT_ONCE):
            copies = [same | {"run_id": f"{COPY}{number}"} for number in range(first, min(first + AT_ONCE, many))]
            connection.execute(sa.insert(run_table), copies)
        copied = run_table.c.run_id.like(f"{COPY}%")
        rows = {column.name: column for column in journal_table.c} | {"run": run_table.c.number}
        of_each = (
            sa.select(*rows.values()).select_from(journal_table.join(run_table, copied)).where(journal_table.c.run == run["number"])
        )
        connection.execute(sa.insert(journal_table).from_select(list(rows), of_each))
        renamed = {"key": key_table.c.key + run_table.c.run_id, "run_id": run_table.c.run_id}
        keys = {column.name: column for column in key_table.c} | renamed
        of_each = sa.select(*keys.values()).select_from(key_table.join(run_table, copied)).where(key_table.c.run_id == template)
        connection.execute(sa.insert(key_table).from_select(list(keys), of_each))


COPY = "settled-"


def _steps(pattern: Loaded, run_id: str, namespace: str, calls: Iterator[Bound[Any]], values: Iterator[Any]) -> Iterator[Entry]:
    """Of each call its intent with the first attempt, and its settlement."""
    intent = next(each for each in pattern.entries if isinstance(each, Intent))
    settled = next(each for each in pattern.entries if isinstance(each, Settled) and each.step)
    assert isinstance(intent.attempt, Attempt)
    assert settled.observation is not None
    for number, (call, value) in enumerate(zip(calls, values, strict=True), 1):
        step = f"{call.effect.name}#{number}"
        yield replace(
            intent,
            step=step,
            key=derive_key(namespace, run_id, step),
            fingerprint=call.fingerprint,
            arguments=call.stored,
            attempt=replace(intent.attempt, step=step),
        )
        answer = replace(settled.observation.answer, value=value)
        yield replace(settled, step=step, value=value, observation=replace(settled.observation, step=step, answer=answer))


def _append(
    journal: Journal,
    run_id: str,
    owner: Owner,
    epoch: Epoch,
    last: Row,
    entries: Iterator[Entry],
    contracts: tuple[tuple[str, str], ...],
) -> None:
    """Make them durable, so many at once."""
    token, head = secrets.token_hex(8), last
    rows: list[Row] = []
    keys: list[KeyClaim] = []

    def stored() -> None:
        append = Append(run_id, owner.token, epoch, head.seq, tuple(rows), Status.RUNNING, 0, keys=tuple(keys), contracts=contracts)
        assert journal.append([append]) == [Appended()]

    for entry in entries:
        rows.append(_row(last.digest, last.seq + 1, entry, epoch, token))
        last = rows[-1]
        if isinstance(entry, Intent):
            keys.append(KeyClaim(entry.environment, entry.scope, entry.key, entry.fingerprint, entry.step))
        if len(rows) == AT_ONCE:
            stored()
            head, rows, keys, token = last, [], [], secrets.token_hex(8)
    if rows:
        stored()


def _row(previous: str, seq: int, entry: Entry, epoch: Epoch, token: str = "opened") -> Row:
    return chained(previous, seq, kind_of(entry), step_of(entry), rest(entry, seq).body, epoch, token)
