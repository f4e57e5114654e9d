"""The plan of PostgreSQL's batch statement, as a connection caches it while the tables are still empty, stays right when they have grown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recovery.storage import open_journal
from recovery.storage.postgres import APPEND, PostgresDatabase, _parameters
from recovery.storage.sql import SqlJournal
from tests.conformance.making import claim_of, member, opened


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def test_an_append_looks_into_indexes_by_value_whatever_the_planner_knows(postgres_url: str) -> None:
    journal = open_journal(postgres_url)
    assert isinstance(journal, SqlJournal)
    assert isinstance(journal._database, PostgresDatabase)
    append = member(opened(journal), keys=(claim_of("k1"),))
    statement = str(APPEND)
    for number, name in enumerate(("members", "keys", "contracts", "entries"), start=1):
        statement = statement.replace(f":{name}", f"${number}::text")
    with journal._database.writing() as connection:
        server = connection.connection.driver_connection
        assert server is not None
        server.execute("SET plan_cache_mode = force_generic_plan")
        server.execute(f"PREPARE batch AS {statement}")
        values = ", ".join("'" + value.replace("'", "''") + "'" for value in _parameters([append], [0]).values())
        [[[explained]]] = server.execute(f"EXPLAIN (FORMAT JSON) EXECUTE batch ({values})").fetchall()
        server.execute("DEALLOCATE batch; RESET plan_cache_mode")
    reads = [
        node for node in nodes(explained["Plan"]) if node.get("Relation Name") in {"run", "key"} and "Scan" in node["Node Type"]
    ]
    assert len(reads) == 3  # the locks, the owners of keys, the fence
    assert [node for node in reads if "Index Cond" not in node and "Recheck Cond" not in node] == []
    journal.close()
