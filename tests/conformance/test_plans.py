"""Plans of the batch statements: a look into an index for each member, whatever the planner knows of the tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from recovery.storage import alone, open_journal, together
from recovery.storage.batches import APPEND
from recovery.storage.place import Place
from recovery.storage.postgres import PostgresDatabase
from recovery.storage.sql import SqlJournal
from recovery.storage.sqlite import SqliteDatabase
from recovery.storage.staying import numbered
from tests.conformance.making import opened


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


@pytest.mark.parametrize("said", [APPEND.bare, APPEND.core], ids=["bare", "core"])
def test_an_append_looks_into_indexes_by_value_whatever_the_planner_knows(postgres_url: str, said: sa.TextClause) -> None:
    """The plan is the one that a connection caches while the tables are still empty, and keeps when they have grown."""
    journal = open_journal(postgres_url)
    assert isinstance(journal, SqlJournal)
    assert isinstance(journal._database, PostgresDatabase)
    opened(journal)
    statement, _ = numbered(str(said))
    with journal._database.writing() as connection:
        server = connection.connection.driver_connection
        assert server is not None
        [[[explained]]] = server.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {statement}").fetchall()
    reads = [
        node for node in nodes(explained["Plan"]) if node.get("Relation Name") in {"run", "key"} and "Scan" in node["Node Type"]
    ]
    assert len(reads) == 3  # the locks, the owners of keys, the fence
    assert [node for node in reads if "Index Cond" not in node and "Recheck Cond" not in node] == []
    journal.close()


@pytest.mark.parametrize("analyzed", [False, True])
def test_a_batch_on_sqlite_looks_each_run_up_by_its_name(sqlite_url: str, analyzed: bool) -> None:
    journal = open_journal(sqlite_url)
    assert isinstance(journal, SqlJournal)
    assert isinstance(journal._database, SqliteDatabase)
    opened(journal)  # one alone: to scan the table would cost least
    with journal._database.writing() as connection:
        if analyzed:
            connection.exec_driver_sql("ANALYZE")
        for template, width in ((together._FENCE, 13), (together._FENCE_AT_WORK, 8), (together._ROWS, 9), (together._LINKS, 2)):
            text = together.together_at(Place())._text(template, 64, width)
            steps = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", (None,) * 64 * width).all()
            [read] = [step.detail for step in steps if "run" in step.detail]
            assert read.startswith("SEARCH run USING")
            assert read.endswith("(run_id=?)")
        for text in said_alone():
            steps = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", (None,) * text.count("?")).all()
            reads = {step.detail for step in steps if " run " in step.detail}
            assert len(reads) == 1
            assert reads.pop().startswith("SEARCH run USING")
    journal.close()


def said_alone() -> Iterator[str]:
    there = alone.alone_at(Place())
    yield from (there._fence, there._fence_at_work, *there._rows, there._link)
