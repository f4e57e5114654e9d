"""Damage to a journal, at every row of a short one in portions of every size, and at the ends of a long one and of its portions: the run is refused in the name of
that row, and nothing of what was read in front of it is acted on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import sqlalchemy as sa

from recovery import Engine, errors
from recovery.core.chain import Row, chained, genesis, raw
from recovery.ports import Journal
from recovery.storage import statements as say
from recovery.storage.folding import Folding
from recovery.storage.memory import MemoryJournal
from recovery.storage.portions import PORTION
from recovery.storage.reading import assembled
from recovery.storage.reading import whole as whole_of
from recovery.storage.schema import journal as table
from recovery.storage.schema import run as run_table
from recovery.storage.sql import SqlJournal
from recovery.testing.pieces import in_one_piece
from tests.benchmarks.building import built
from tests.integration.counted_steps import many, sent, step

STEPS = PORTION  # of two rows each
ROWS = 2 * (STEPS - 1) + 1  # the last step is not recorded


@pytest.fixture
def engine(journal: Journal) -> Iterator[Engine]:
    with Engine(journal, workflows=[many]) as made:
        made.run("pattern", many, 1)
        numbers = range(STEPS - 1)
        built(made, "long", many, {"steps": STEPS}, "pattern", (step(number=number) for number in numbers), iter(numbers))
        sent.clear()
        yield made


def flipped(rows: dict[int, Row], seq: int) -> tuple[dict[int, Row], int, str]:
    body = rows[seq].body
    at = len(body) // 2
    return rows | {seq: replace(rows[seq], body=f"{body[:at]}{chr(ord(body[at]) ^ 1)}{body[at + 1 :]}")}, seq, "body"


def dropped(rows: dict[int, Row], seq: int) -> tuple[dict[int, Row], int, str]:
    left = {number: row for number, row in rows.items() if number != seq}
    return left, seq, "sequence number" if seq < len(rows) else "head"


def truncated(rows: dict[int, Row], seq: int) -> tuple[dict[int, Row], int, str]:
    return {number: row for number, row in rows.items() if number < seq}, seq, "head"


def swapped(rows: dict[int, Row], seq: int) -> tuple[dict[int, Row], int, str]:
    other = seq + 1 if seq < len(rows) else seq - 1
    changed = {seq: replace(rows[other], seq=seq), other: replace(rows[seq], seq=other)}
    return rows | changed, min(seq, other), "body"


def repeated(rows: dict[int, Row], seq: int) -> tuple[dict[int, Row], int, str]:
    """Once more where the next one belongs, or behind the last."""
    found = (seq + 1, "body") if seq < len(rows) else (len(rows) + 1, "body")
    return rows | {seq + 1: replace(rows[seq], seq=seq + 1)}, *found


def of_another_type(rows: dict[int, Row], seq: int) -> tuple[dict[int, Row], int, str]:
    return rows | {seq: replace(rows[seq], step=b"step")}, seq, "a text"  # type: ignore[arg-type]  # as SQLite would store it


DAMAGES = [flipped, dropped, swapped, repeated, truncated, of_another_type]
PLACES = [1, PORTION, PORTION + 1, ROWS]


def stored(journal: Journal) -> dict[int, Row]:
    loaded = in_one_piece(journal, "long")
    assert loaded is not None
    return {row.seq: row for row in loaded[1]}


def put(journal: Journal, now: dict[int, Row], then: dict[int, Row]) -> None:
    """Make the rows of the run other ones, below everything that would refuse it."""
    if isinstance(journal, MemoryJournal):
        there = journal._runs["long"]
        there.rows[:] = [then[seq] for seq in sorted(then)]
        return
    assert isinstance(journal, SqlJournal)
    changed = [seq for seq in now.keys() | then.keys() if now.get(seq) != then.get(seq)]
    with journal._database.transaction() as connection:
        number = connection.execute(sa.select(run_table.c.number).where(run_table.c.run_id == "long")).scalar_one()
        connection.execute(sa.delete(table).where(table.c.run == number, table.c.seq.in_(changed)))
        rows = [say.row_columns(then[seq]) | {"run": number} for seq in changed if seq in then]
        if rows:
            connection.execute(sa.insert(table), rows)


def test_a_row_at_a_border_is_found_by_its_number_and_nothing_is_done(engine: Engine) -> None:
    journal, whole = engine.journal, stored(engine.journal)
    assert len(whole) == ROWS
    for damage, place in product(DAMAGES, PLACES):
        if damage is of_another_type and not journal.url.startswith("sqlite"):
            continue  # the others refuse to store it
        spoilt, seq, field = damage(whole, place)
        if isinstance(journal, MemoryJournal) and seq > ROWS:
            continue  # rows behind the head are nobody's there
        put(journal, whole, spoilt)
        with pytest.raises(errors.JournalCorrupt) as refused:
            engine.recover("long")
        assert (refused.value.seq, refused.value.field, refused.value.exit_code) == (seq, field, 6), (damage, place)
        assert sent == []
        assert stored(journal) == spoilt
        put(journal, spoilt, whole)
    assert engine.recover("long").value == sum(range(STEPS))
    assert sent == [STEPS - 1]


def test_what_is_said_of_a_row_does_not_depend_on_the_portions() -> None:
    journal = MemoryJournal("namespace")
    with Engine(journal, workflows=[many]) as engine:
        engine.run("long", many, 4)
        whole, entries = stored(journal), engine.history("long")
    kept = journal.stream("long", lambda coming: coming._replace(portions=()))
    assert kept is not None

    def read(rows: dict[int, Row], size: int) -> Any:
        given = [raw(rows[seq]) for seq in sorted(rows)]
        return whole_of(Folding(kept._replace(portions=batched(given, size)), None, keeps=True))

    for size in range(1, len(whole) + 2):
        assert tuple(read(whole, size).entries) == entries
        for damage, place in product(DAMAGES, whole):
            spoilt, seq, field = damage(whole, place)
            with pytest.raises(errors.JournalCorrupt) as refused:
                read(spoilt, size)
            assert (refused.value.seq, refused.value.field) == (seq, field), (damage, place, size)


def test_a_broken_chain_is_told_before_what_was_wrong_in_front_of_it() -> None:
    """An entry of a newer format is no reason to wait for a newer version of this package where the journal is damaged."""
    journal = MemoryJournal("namespace")
    with Engine(journal, workflows=[many]) as engine:
        engine.run("long", many, 2)
    found = in_one_piece(journal, "long")
    kept = journal.stream("long", lambda coming: coming._replace(portions=()))
    assert found is not None
    assert kept is not None
    rows, previous = list[Row](), genesis(kept.namespace, "long")
    for row in found[1]:
        body = row.body.replace("{", '{"format":99,', 1) if row.seq == 2 else row.body
        rows.append(chained(previous, row.seq, row.kind, row.step, body, row.epoch, row.token))
        previous = rows[-1].digest
    newer = kept._replace(run=replace(kept.run, head_digest=previous))
    for size in (1, 2, len(rows)):
        with pytest.raises(errors.IncompatibleVersion, match="entry 2"):
            assembled(newer._replace(portions=batched(list(map(raw, rows)), size)), None)
        broken = [*rows[:-1], replace(rows[-1], body="{}")]
        with pytest.raises(errors.JournalCorrupt) as refused:
            assembled(newer._replace(portions=batched(list(map(raw, broken)), size)), None)
        assert (refused.value.seq, refused.value.field) == (len(rows), "body")


def batched(rows: list[Any], size: int) -> list[list[Any]]:
    return [rows[first : first + size] for first in range(0, len(rows), size)]
