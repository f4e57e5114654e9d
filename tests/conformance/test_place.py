"""A journal beside a service's own tables: in a schema of its own, or behind a prefix, and everything works there."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import psycopg
import pytest
import sqlalchemy as sa
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from recovery.core.errors import SchemaMismatch, StoreDamaged, StoreUrlError
from recovery.storage import open_journal
from recovery.storage.memory import MemoryJournal
from recovery.storage.migrate import migrate
from recovery.storage.place import Place, tables_at, text
from recovery.storage.schema import VERSION, VERSION_TABLE, metadata, run
from tests.conformance.making import appended, member, opened, stored
from tests.conformance.test_against_model import Twins, ours

PLACES = {"sqlite": ["table_prefix=app_"], "postgresql": ["table_prefix=app_", "schema=jobs", "schema=user&table_prefix=app_"]}
ALL = [f"{kind}:{options}" for kind, each in PLACES.items() for options in each]
OURS = {VERSION_TABLE, *metadata.tables}


@pytest.fixture(params=ALL)
def placed_url(request: pytest.FixtureRequest) -> str:
    """The URL of a journal at a place of its own, in a database where nothing of ours is."""
    kind, _, options = request.param.partition(":")
    url = request.getfixturevalue("sqlite_url" if kind == "sqlite" else "empty_postgres_url")
    return with_options(url, options)


def with_options(url: str, options: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{options}"


def without_options(url: str) -> str:
    """The same database, and the place of who says none."""
    return sa.make_url(url).difference_update_query(["schema", "table_prefix"]).render_as_string(hide_password=False)


def names(url: str) -> set[str]:
    """Every table, index and sequence that is there, with its schema."""
    made = sa.make_url(url)
    if made.get_backend_name() == "sqlite":
        with sqlite3.connect(str(made.database)) as there:
            return {f"public.{name}" for (name,) in there.execute("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")}
    with psycopg.connect(without_options(url)) as server:
        found = server.execute(
            "SELECT relnamespace::regnamespace || '.' || relname FROM pg_class WHERE relnamespace::regnamespace::text !~ '^(pg_|information)'"
        )
        return {name.replace('"', "") for (name,) in found}


def test_everything_of_ours_is_at_its_place_and_nothing_is_elsewhere(placed_url: str) -> None:
    assert migrate(placed_url) == (None, VERSION)
    assert migrate(placed_url) == (VERSION, VERSION)
    query = sa.make_url(placed_url).query
    front = f"{query.get('schema', 'public')}.{query.get('table_prefix', '')}"
    found = names(placed_url)
    assert {name for name in found if not name.startswith(front)} == set()
    assert {f"{front}{table}" for table in OURS} <= found


@pytest.mark.parametrize("placed_url", [ALL[0], ALL[-1]], indirect=True)
def test_it_answers_as_the_model_does_and_a_neighbour_in_the_same_database_is_left_alone(placed_url: str) -> None:
    for url in (placed_url, without_options(placed_url)):
        migrate(url)
    placed = open_journal(placed_url)
    neighbour = open_journal(without_options(placed_url))
    appended(neighbour, member(opened(neighbour, "1-a")))  # by a name that the histories have, too
    before = stored(neighbour)
    model = MemoryJournal()
    model._namespace = placed.namespace()
    assert neighbour.namespace() != model._namespace  # or two lives would have the same keys
    machine = type("Placed", (Twins,), {"model": model, "real": placed})
    run_state_machine_as_test(machine, settings=settings(ours, max_examples=4))
    assert placed.first_rows(["1-a"]) == model.first_rows(["1-a"])
    assert stored(neighbour) == before
    neighbour.close()
    placed.close()


def test_an_unmigrated_place_is_not_taken_for_its_neighbour(empty_postgres_url: str) -> None:
    migrate(empty_postgres_url)
    for options in PLACES["postgresql"]:
        journal = open_journal(with_options(empty_postgres_url, options))
        with closing(journal), pytest.raises(SchemaMismatch, match="is not migrated"):
            journal.runs()


def test_a_file_is_given_the_tables_of_a_second_place_by_its_first_write(sqlite_url: str) -> None:
    plain, placed = open_journal(sqlite_url), open_journal(f"{sqlite_url}?table_prefix=app_")
    opened(plain)
    assert placed.runs() == []
    assert {name for name in names(sqlite_url) if name.startswith("public.app_")} == set()  # a read makes none
    opened(placed, "run-2")
    assert [row.run_id for row in plain.runs()] == ["run-1"]
    assert [row.run_id for row in placed.runs()] == ["run-2"]
    plain.close()
    placed.close()


def test_what_is_gone_is_named_as_it_is_there(placed_url: str) -> None:
    migrate(placed_url)
    query = sa.make_url(placed_url).query
    name = f"{query.get('table_prefix', '')}payload"
    engine = sa.create_engine(without_options(placed_url).replace("postgresql://", "postgresql+psycopg://"), poolclass=sa.NullPool)
    with engine.begin() as connection:
        schema = f'"{query["schema"]}".' if "schema" in query else ""
        cascade = " CASCADE" if engine.dialect.name == "postgresql" else ""
        connection.exec_driver_sql(f"DROP TABLE {schema}{name}{cascade}")
    with pytest.raises(StoreDamaged, match=rf"no table {name}\b"):
        migrate(placed_url)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("table_prefix=App_", "table_prefix is not 1 to 24 small letters"),
        ("table_prefix=1_", "table_prefix is not"),
        ('table_prefix=a"b', "table_prefix is not"),
        (f"table_prefix={'a' * 25}", "table_prefix is not"),
        (f"schema={'a' * 64}", "schema is not 1 to 63 small letters"),
        ("table_prefix=run_", "table_prefix ends with run_, where tables of two places could have one name"),
        ("table_prefix=jobs_run_", "table_prefix ends with run_"),
        ("table_prefix=sqlite_", "table_prefix begins with sqlite_"),
        ("schema=pg_temp", "schema pg_temp is one that PostgreSQL keeps for itself"),
        ("schema=information_schema", "PostgreSQL keeps for itself"),
        ("schema=a-b", "schema is not"),
        ("schema=a&schema=b", "it says schema or table_prefix twice"),
    ],
)
def test_a_name_that_some_tool_would_have_to_quote_is_refused(options: str, said: str) -> None:
    with pytest.raises(StoreUrlError, match=said):
        open_journal(f"postgresql://host/db?{options}")


def test_sqlite_has_no_schemas(sqlite_url: str) -> None:
    with pytest.raises(StoreUrlError, match=r"SQLite has no schemas.*Use table_prefix"):
        open_journal(f"{sqlite_url}?schema=jobs")


def test_the_longest_prefix_leaves_every_name_whole() -> None:
    names = [
        name
        for table in metadata.tables.values()
        for name in (table.name, *(part.name for part in table.constraints | table.indexes))
    ]
    assert max(len(str(name)) for name in names) + 24 + len("_seq") <= 63
    assert Place("a" * 63, "a" * 24).problem() == ""


def test_a_statement_is_told_of_its_place_once_and_one_that_is_not_ours_never() -> None:
    tables, statement = tables_at(Place("jobs", "app_")), sa.select(run.c.number)
    assert str(tables.statement(statement)) == "SELECT jobs.app_run.number \nFROM jobs.app_run"
    assert tables.statement(statement) is tables.statement(statement)
    assert tables_at(Place()).statement(statement) is statement
    assert str(tables.statement(text("DELETE FROM {run}"))) == 'DELETE FROM "jobs"."app_run"'
    theirs = sa.Table("run", sa.MetaData(), sa.Column("number", sa.Integer))
    assert str(tables.statement(sa.select(theirs))) == str(sa.select(theirs))
