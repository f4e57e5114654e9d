"""A service lends its SQLAlchemy engine: its pool is used, its sessions are told nothing, and its tables are beside ours."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import QueuePool
from typer.testing import CliRunner

from recovery import AsyncEngine, Engine, cli
from recovery.core.errors import DefinitionError, StoreUrlError
from recovery.storage.migrate import migrate
from recovery.storage.urls import lent
from tests.integration.totals import async_total, total


@pytest.fixture
def service(empty_store_url: str) -> Iterator[sa.Engine]:
    """A service's engine, with a table of its own that is called like one of ours."""
    made = sa.create_engine(empty_store_url.replace("postgresql://", "postgresql+psycopg://"))
    with made.begin() as connection:
        connection.execute(sa.text("CREATE TABLE run (number integer)"))
        connection.execute(sa.text("INSERT INTO run VALUES (7)"))
    yield made
    made.dispose()


def test_its_database_is_used_in_both_colours_and_its_tables_are_left_alone(service: sa.Engine) -> None:
    migrate(lent(service, "", "app_"))
    with Engine(service, table_prefix="app_", workflows=[total]) as engine:
        assert engine.run("r", total, 1) == 6

    async def story() -> list[str]:
        async with AsyncEngine(service, table_prefix="app_", workflows=[async_total]) as again:
            assert await again.run("r", async_total, 1) == 6
            await again.run("s", async_total, 2)
            return [info.run_id for info in await again.list()]

    assert asyncio.run(story()) == ["r", "s"]
    with service.connect() as connection:
        assert connection.execute(sa.text("SELECT number FROM run")).scalars().all() == [7]
        assert connection.execute(sa.text("SELECT count(*) FROM app_run")).scalar() == 2


def test_its_pool_is_used_its_sessions_are_told_nothing_and_it_outlives_the_engine(empty_postgres_url: str) -> None:
    service = sa.create_engine(empty_postgres_url.replace("postgresql://", "postgresql+psycopg://"), pool_size=1, max_overflow=0)
    said: list[Any] = []
    sa.event.listen(service, "before_cursor_execute", lambda *about: said.append(about[2]))
    migrate(lent(service, "jobs", ""))
    with Engine(service, schema="jobs", workflows=[total]) as engine:
        assert engine.run("r", total, 1) == 6
    assert any("jobs.run" in text or '"jobs"."run"' in text for text in said)
    assert isinstance(service.pool, QueuePool)
    assert service.pool.checkedin() == 1  # not closed
    with service.connect() as connection:
        shown = [connection.execute(sa.text(f"SHOW {name}")).scalar() for name in ("lock_timeout", "enable_seqscan", "search_path")]
        assert shown == ["0", "on", '"$user", public']
        assert connection.get_isolation_level() == "READ COMMITTED"
        assert connection.execute(sa.text("SELECT count(*) FROM jobs.run")).scalar() == 1
    service.dispose()


def test_one_whose_sessions_do_not_carry_every_text_is_refused(empty_postgres_url: str) -> None:
    migrate(empty_postgres_url)
    service = sa.create_engine(
        empty_postgres_url.replace("postgresql://", "postgresql+psycopg://"), connect_args={"client_encoding": "latin1"}
    )
    with Engine(service, workflows=[total]) as engine, pytest.raises(StoreUrlError, match='"client_encoding": "utf8"'):
        engine.run("r", total, 1)
    service.dispose()


APP = """
import sqlalchemy as sa
from recovery import Engine, Run, workflow

@workflow
def greet(run: Run, name: str) -> str:
    return f"Hello {{name}}"

service = sa.create_engine({url!r})
engine = Engine(service, table_prefix="app_", workflows=[greet])
"""


def test_every_command_finds_it_through_the_app(empty_store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = empty_store_url.replace("postgresql://", "postgresql+psycopg://")
    (tmp_path / "lending.py").write_text(APP.format(url=url))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("RECOVERY_DB", raising=False)

    def typed(*arguments: str) -> str:
        ended = CliRunner().invoke(cli.app, [*arguments, "--app", "lending:engine"])
        assert ended.exit_code == 0, ended.output
        return ended.stdout

    try:
        assert "table_prefix=app_ was migrated from nothing" in typed("migrate")
        app = importlib.import_module("lending")
        assert app.engine.run("ann", app.greet, "Ann") == "Hello Ann"
        assert "ann" in typed("runs")
        assert "Hello Ann" in typed("show", "ann")
        assert '"Hello Ann"' in typed("--run-id", "ann")
        assert "1 run verified" in typed("verify")
        app.engine.close()
        app.service.dispose()
    finally:
        sys.modules.pop("lending", None)


class Async:
    """As much of SQLAlchemy's AsyncEngine as is looked at; it cannot be imported without greenlet."""

    url = sa.make_url("postgresql+asyncpg://me:s3cret@host/db")
    dialect = None


def test_what_cannot_be_lent_is_refused_with_the_next_step(sqlite_url: str) -> None:
    for engine in (
        Async(),
        sa.create_engine("sqlite://"),
        sa.create_engine(sqlite_url.replace("sqlite:///", "sqlite:///file:") + "?uri=true"),
    ):
        with pytest.raises(StoreUrlError, match=r"Nothing was changed\. (Give create_engine|Name the file)") as caught:
            Engine(engine)  # type: ignore[arg-type]  # the point
        assert "s3cret" not in str(caught.value)


def test_a_url_says_its_place_itself(sqlite_url: str) -> None:
    with pytest.raises(DefinitionError, match=r"\?schema=\.\.\.&table_prefix="):
        Engine(sqlite_url, table_prefix="app_")


def test_a_schema_of_sqlite_is_refused_and_a_name_that_cannot_be_too(sqlite_url: str) -> None:
    service = sa.create_engine(sqlite_url)
    with pytest.raises(StoreUrlError, match="SQLite has no schemas"):
        Engine(service, schema="jobs")
    with pytest.raises(StoreUrlError, match="table_prefix is not"):
        Engine(service, table_prefix="App")
