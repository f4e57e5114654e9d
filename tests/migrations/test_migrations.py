"""Migrations: fresh equals upgraded, the tables equal the code, and an installed wheel can migrate without a checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.pool import NullPool

from recovery.core.entries import Status
from recovery.core.errors import StoreUrlError
from recovery.core.resting import RestsFor
from recovery.storage import open_journal
from recovery.storage import postgres as _postgres  # noqa: F401  # names the predicates of the partial indexes there
from recovery.storage.migrate import migrate, scripts
from recovery.storage.place import Place
from recovery.storage.schema import OPEN_PREDICATE, VERSION, VERSION_TABLE, metadata
from recovery.storage.urls import parsed
from tests.conformance.blocking import together, wait_until_blocked_by

ROOT = Path(__file__).parents[2]


@pytest.fixture
def engine(empty_store_url: str) -> Iterator[sa.Engine]:
    made = sa.create_engine(parsed(empty_store_url).url, poolclass=NullPool)
    yield made
    made.dispose()


# -- drift -------------------------------------------------------------------------------------------------------------


def differences(engine: sa.Engine) -> list[Any]:
    with engine.connect() as connection:
        options = {"version_table": VERSION_TABLE, "compare_server_default": engine.dialect.name == "postgresql"}
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))


def test_a_migrated_database_equals_the_tables_in_the_code(empty_store_url: str, engine: sa.Engine) -> None:
    migrate(empty_store_url)
    assert differences(engine) == []


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE run ADD COLUMN mood text",
        "DROP INDEX run_open",
        "CREATE TABLE stray (a int)",
        "ALTER TABLE evidence DROP COLUMN kind",
    ],
)
def test_drift_would_be_seen(empty_store_url: str, engine: sa.Engine, change: str) -> None:
    migrate(empty_store_url)
    with engine.begin() as connection:
        connection.exec_driver_sql(change)
    assert differences(engine) != []


def _parts(statement: str) -> list[str]:
    text = " ".join(statement.split()).replace('"', "").removesuffix(" )")
    return re.split(r"(?: \( |, )(?=\w+ [A-Z]|CONSTRAINT )", text)


def described(engine: sa.Engine) -> set[tuple[str, ...]]:
    """What autogenerate does not compare, too: checks, predicates of indexes, collations, identities."""
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            rows = connection.exec_driver_sql(f"SELECT name, sql FROM sqlite_master WHERE tbl_name <> '{VERSION_TABLE}'")
            return {(row.name, *sorted(_parts(row.sql or ""))) for row in rows}  # constraints may stand in any order
        constraints = connection.exec_driver_sql(
            "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint "
            f"WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text <> '{VERSION_TABLE}'"
        )
        indexes = connection.exec_driver_sql(
            f"SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> '{VERSION_TABLE}'"
        )
        columns = connection.exec_driver_sql(
            "SELECT table_name, column_name, data_type, is_nullable, coalesce(collation_name, ''), coalesce(column_default, ''), "
            f"is_identity FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> '{VERSION_TABLE}'"
        )
        return {tuple(row) for rows in (constraints, indexes, columns) for row in rows}


def test_a_fresh_schema_equals_an_upgraded_one_to_the_last_constraint(empty_store_url: str, engine: sa.Engine) -> None:
    migrate(empty_store_url)
    upgraded = described(engine)
    with engine.begin() as connection:
        metadata.drop_all(connection)
        metadata.create_all(connection)
    assert described(engine) == upgraded
    assert len(upgraded) > 10


def test_the_code_knows_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(scripts()))
    assert ScriptDirectory.from_config(config).get_heads() == [VERSION]


def test_version_names_sort_in_the_order_of_the_migrations() -> None:
    """A database is newer if its version is the greater text."""
    config = Config()
    config.set_main_option("script_location", str(scripts()))
    names = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()][::-1]
    assert names == sorted(names)


# -- invariants that the tables hold by themselves ---------------------------------------------------------------------

RUN = {
    "run_id": "run-1", "workflow": "w", "status": "running", "reason": "", "input_digest": "d", "epoch_incarnation": 0, "epoch_n": 1,
    "owner_token": "t", "owner_host": "", "owner_boot_id": "", "owner_pid_namespace": "", "owner_pid": 0, "owner_process_start": 0,
    "lease_counter": 0, "lease_term_us": 1, "head": 1, "head_digest": "d", "created_at_us": 1, "updated_at_us": 1,
}  # fmt: skip
ENTRY = {"seq": 1, "kind": "k", "step": "", "body": "{}", "epoch_incarnation": 0, "epoch_n": 1, "token": "t", "digest": "d"}


@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        ("run", {"run_id": ""}),
        ("run", {"status": "sleeping"}),
        ("run", {"rests_for": "luck"}),
        ("run", {"epoch_n": 0}),
        ("run", {"epoch_incarnation": -1}),
        ("run", {"owner_token": ""}),
        ("run", {"lease_counter": -1}),
        ("run", {"lease_term_us": -1}),
        ("run", {"head": 0}),
        ("run", {"number": 1}),
        ("journal", {"seq": 0}),
        ("journal", {"seq": 7}),
        ("journal", {"epoch_n": 0}),
        ("journal", {"token": ""}),
        ("journal", {"run": 99}),
        ("meta", {"id": 2}),
        ("meta", {}),
        ("key", {"key": ""}),
        ("run_contract", {"digest": "unknown"}),
        ("hold", {"subject": "", "token": "u"}),
        ("hold", {"token": "t"}),
        ("stub", {"run": 99}),
        ("stub", {}),
    ],
)
def test_the_tables_refuse_what_can_never_be(empty_store_url: str, engine: sa.Engine, table: str, wrong: dict[str, Any]) -> None:
    migrate(empty_store_url)
    right = {
        "run": RUN | {"run_id": "run-2", "number": 2},
        "journal": ENTRY | {"run": 1, "seq": 2},
        "meta": {"id": 1, "namespace": "n", "incarnation": 0, "format": 1},
        "key": {"environment": "", "scope": "", "key": "k", "fingerprint": "f", "run_id": "r", "step": "s"},
        "run_contract": {"run": 1, "digest": "d"},
        "hold": {"token": "t", "subject": "s", "held": True, "by": "b", "reason": "r", "at_us": 1},
        "stub": {"run": 1, "outcome_digest": "d", "by": "b", "reason": "r", "at_us": 1},
    }
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA foreign_keys = ON")
        connection.execute(sa.insert(metadata.tables["run"]), RUN | {"number": 1})
        connection.execute(sa.insert(metadata.tables["journal"]), [ENTRY | {"run": 1}, ENTRY | {"run": 1, "seq": 7}])
        connection.execute(sa.insert(metadata.tables["contract"]), {"digest": "d", "body": "{}"})
        if table != "meta":  # its one row is there already
            with connection.begin_nested():
                connection.execute(sa.insert(metadata.tables[table]), right[table])
        with pytest.raises(sa.exc.IntegrityError):
            connection.execute(sa.insert(metadata.tables[table]), right[table] | wrong)


def test_the_statuses_are_those_of_the_code() -> None:
    checks = [str(c.sqltext) for c in metadata.tables["run"].constraints if isinstance(c, sa.CheckConstraint)]
    [status] = [check for check in checks if check.startswith("status IN")]
    assert all(f"'{each.value}'" in status for each in Status)


def test_what_a_run_may_rest_for_is_what_the_code_knows() -> None:
    checks = [str(c.sqltext) for c in metadata.tables["run"].c.rests_for.constraints if isinstance(c, sa.CheckConstraint)]
    assert checks == [f"rests_for IN ({', '.join(repr(each.value) for each in RestsFor)})"]


# -- the index of open runs --------------------------------------------------------------------------------------------


def test_open_runs_are_found_through_their_index(empty_store_url: str, engine: sa.Engine) -> None:
    """Recovery costs what is open, not what was ever stored."""
    from recovery.storage.statements import runs

    migrate(empty_store_url)
    statuses = [status for status in Status if not status.settled]
    query = runs(statuses, 100, "").compile(engine, compile_kwargs={"literal_binds": True})
    assert OPEN_PREDICATE in str(query)
    with engine.begin() as connection:
        rows = [RUN | {"run_id": f"run-{n}", "status": "running" if n % 500 == 0 else "completed"} for n in range(2000)]
        connection.execute(sa.insert(metadata.tables["run"]), rows)
    with engine.connect() as connection:
        explain = "EXPLAIN QUERY PLAN " if engine.dialect.name == "sqlite" else "EXPLAIN "
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql("ANALYZE run")
        plan = "\n".join(str(row) for row in connection.exec_driver_sql(explain + str(query).replace("%", "%%")))
    assert "run_open" in plan


# -- migrating ---------------------------------------------------------------------------------------------------------


def test_migrating_says_from_where_to_where_and_is_safe_to_repeat(empty_store_url: str) -> None:
    assert migrate(empty_store_url) == (None, VERSION)
    namespace = open_and_ask(empty_store_url)
    assert migrate(empty_store_url) == (VERSION, VERSION)
    assert open_and_ask(empty_store_url) == namespace


def open_and_ask(url: str) -> str:
    journal = open_journal(url)
    try:
        return journal.namespace()
    finally:
        journal.close()


def test_two_databases_have_two_namespaces(tmp_path: Path) -> None:
    assert open_and_ask(f"sqlite:///{tmp_path}/a.db") != open_and_ask(f"sqlite:///{tmp_path}/b.db")


def test_migrating_at_once_migrates_once(empty_store_url: str) -> None:
    results = together([lambda: migrate(empty_store_url)] * 4)
    assert sorted(results, key=str) == sorted([(None, VERSION)] + [(VERSION, VERSION)] * 3, key=str)


def test_a_migration_waits_for_the_one_that_is_under_way(empty_postgres_url: str) -> None:
    from recovery.storage.migrate import _ADVISORY_LOCK
    from tests.conformance.blocking import in_thread

    with psycopg.connect(empty_postgres_url) as holder, psycopg.connect(empty_postgres_url, autocommit=True) as watcher:
        holder.execute("SELECT pg_advisory_xact_lock(%s)", (_ADVISORY_LOCK,))
        waiting = in_thread(lambda: migrate(empty_postgres_url))
        wait_until_blocked_by(watcher, holder.info.backend_pid)
        holder.commit()
        assert waiting.result(20) == (None, VERSION)


def test_a_migration_that_fails_leaves_nothing(empty_store_url: str, engine: sa.Engine) -> None:
    """Somebody else's table has one of our names: the tables made before it are rolled back."""
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE evidence (theirs int)")
    with pytest.raises(StoreUrlError, match="evidence"):
        migrate(empty_store_url)
    with engine.connect() as connection:
        assert sa.inspect(connection).get_table_names() == ["evidence"]


def test_a_frozen_0001_database_is_upgraded_and_keeps_what_it_had(empty_store_url: str, engine: sa.Engine) -> None:
    """Rows as 0001 had them, written by plain SQL: today's statements may say something else."""
    from recovery.storage.migrate import upgrade

    with engine.begin() as connection:
        assert upgrade(connection, empty_store_url, Place(), "0001") == (None, "0001")
        values = RUN | {"number": 7}
        columns, marks = ", ".join(values), ", ".join(f":{name}" for name in values)
        connection.execute(sa.text(f"INSERT INTO run ({columns}) VALUES ({marks})"), values)
        connection.execute(sa.text("INSERT INTO key VALUES ('shop', '', 'K1', 'f', 'run-1', 's#1')"))
        namespace = connection.execute(sa.text("SELECT namespace FROM meta")).scalar()
    assert migrate(empty_store_url) == ("0001", VERSION)
    assert differences(engine) == []
    journal = open_journal(empty_store_url)
    try:
        row = journal.find("run-1")
        assert row is not None
        assert (row.workflow, row.status, journal.namespace()) == ("w", Status.RUNNING, namespace)
        assert journal.key_owner("shop", "", "K1") == ("run-1", "s#1", "f")
        assert (journal.holds(), journal.stub("run-1")) == ([], None)
    finally:
        journal.close()


REASONS = {
    "the answer to approval": RestsFor.ANSWER,
    "the next message of chat": RestsFor.MESSAGE,
    "an answer to child r.a": RestsFor.CHILD_ANSWER,
    "child r.a": RestsFor.CHILD,
    "sleeping": RestsFor.TIME,
    "retrying": RestsFor.TIME,
    "rate-limited": RestsFor.TIME,
    "in-flight": RestsFor.ENVIRONMENT,
    "The answer to all": RestsFor.ENVIRONMENT,
    "": RestsFor.NOTHING,
}
"""As 0005 had them, of runs that waited. The last but one is nobody's: case counts."""


@pytest.mark.parametrize("place", [Place(), Place(prefix="our_")])
def test_what_a_run_rests_for_is_filled_from_its_reason_once(empty_store_url: str, engine: sa.Engine, place: Place) -> None:
    from recovery.storage.migrate import upgrade

    with engine.begin() as connection:
        assert upgrade(connection, empty_store_url, place, "0005") == (None, "0005")
        rows = [
            RUN | {"run_id": f"{status} {reason}", "status": status, "reason": reason}
            for reason in REASONS
            for status in ("waiting", "held", "running", "failed")
        ]
        columns, marks = ", ".join(RUN), ", ".join(f":{name}" for name in RUN)
        connection.execute(sa.text(f"INSERT INTO {place.named('run')} ({columns}) VALUES ({marks})"), rows)
        assert upgrade(connection, empty_store_url, place) == ("0005", VERSION)
        found = connection.execute(sa.text(f"SELECT status, reason, rests_for FROM {place.named('run')}")).all()
    assert len(found) == 4 * len(REASONS)
    assert {row.reason: row.rests_for for row in found if row.status == "waiting"} == REASONS
    assert {row.rests_for for row in found if row.status != "waiting"} == {""}


def test_other_tables_and_another_alembic_in_the_same_database_are_left_alone(empty_store_url: str, engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)")
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('9999')")
    assert migrate(empty_store_url) == (None, VERSION)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().all() == ["9999"]


def test_memory_has_nothing_to_migrate() -> None:
    with pytest.raises(StoreUrlError, match="nothing to migrate"):
        migrate("memory://")


# -- as installed ------------------------------------------------------------------------------------------------------


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}}
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, env=inherited | environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_alembic_works_in_a_checkout(empty_store_url: str) -> None:
    """Its settings are in pyproject.toml; the database is in the environment."""
    migrate(empty_store_url)
    alembic = (sys.executable, "-m", "alembic")
    assert f"{VERSION} (head)" in run(*alembic, "current", cwd=ROOT, RECOVERY_DB=empty_store_url)
    assert "No new upgrade operations detected" in run(*alembic, "check", cwd=ROOT, RECOVERY_DB=empty_store_url)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment with our wheel in it. Its dependencies are the ones that are installed here."""
    directory = tmp_path_factory.mktemp("wheel")
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        directory,
        ROOT,
        cwd=ROOT,
    )
    [wheel] = directory.glob("*.whl")
    venv.create(directory / "venv", with_pip=False)
    python = directory / "venv" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--quiet", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=directory)
    site = Path(run(python, "-c", "import site; print(site.getsitepackages()[0])", cwd=directory).strip())
    (site / "dependencies.pth").write_text(f"{Path(psycopg.__file__).parents[1]}\n")
    return python


def test_an_installed_wheel_migrates_without_a_checkout(installed: Path, empty_store_url: str, tmp_path: Path) -> None:
    code = "import sys, recovery; from recovery.storage.migrate import *; print(recovery.__file__, scripts(), migrate(sys.argv[1]))"
    told = run(installed, "-c", code, empty_store_url, cwd=tmp_path)
    assert str(ROOT) not in told
    assert told.count(str(installed.parents[1])) == 2
    assert told.strip().endswith(f"(None, {VERSION!r})")
    assert len(open_and_ask(empty_store_url)) == 32


def test_threads_migrate_databases_of_their_own_at_the_same_time(tmp_path: Path) -> None:
    """alembic has one current migration for a whole process: unguarded, a thread creates its tables in another one's database."""
    files = [tmp_path / f"journal-{number}.db" for number in range(8)]
    results = together([partial(migrate, f"sqlite:///{file}") for file in files])
    assert results == [(None, VERSION)] * len(files)
