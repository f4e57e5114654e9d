"""Long effects in real processes: a worker that blocks for longer than its lease stays the owner, and outlives its connections."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from recovery import Engine, errors
from recovery.core.entries import Attempt, Intent, Observation, Settled
from recovery.storage.migrate import migrate
from tests.crash.long_worker import LEASE, RUN, TERM, work
from tests.warm import Program, WarmParent, ended_after

PATIENCE_SECONDS = 60
TERMINATE = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


@contextmanager
def at_work(warm_parent: WarmParent, url: str, colour: str, directory: Path) -> Iterator[Program]:
    """A worker inside its effect."""
    command = ["-W", "error", str(Path(__file__).with_name("long_worker.py")), url, colour]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RECOVERY_")}
    with ended_after(warm_parent.start(command, directory=directory, environment=environment)) as worker:
        until = time.monotonic() + PATIENCE_SECONDS
        while not (directory / "begun").exists():
            assert worker.poll() is None, worker.communicate(timeout=PATIENCE_SECONDS)
            assert time.monotonic() < until
            time.sleep(0.01)
        yield worker


def ended(worker: Program, directory: Path) -> str:
    (directory / "go").touch()
    said, problems = worker.communicate(timeout=PATIENCE_SECONDS)
    assert worker.returncode == 0, problems
    return said.strip()


def check_once(url: str, directory: Path) -> None:
    """One attempt under one epoch, one observation, one outcome."""
    with Engine(url, workflows=[work]) as engine:
        entries = engine.history(RUN)
    [intent] = [entry for entry in entries if isinstance(entry, Intent)]
    [settled, _] = [entry for entry in entries if isinstance(entry, Settled)]
    assert settled.observation is not None
    assert settled.observation.attempt == 1
    assert not [entry for entry in entries if isinstance(entry, Attempt | Observation)]
    assert intent.attempt is not None
    assert (directory / "done").read_text() == f"{intent.attempt.epoch}\n"


@pytest.mark.parametrize(("colour", "store"), [("sync", "postgres_url"), ("async", "sqlite_url")])
def test_an_effect_that_blocks_for_longer_than_its_lease_keeps_its_run(
    tmp_path: Path, request: pytest.FixtureRequest, warm_parent: WarmParent, colour: str, store: str
) -> None:
    url = str(request.getfixturevalue(store))
    migrate(url)
    with at_work(warm_parent, url, colour, tmp_path) as worker:
        with (
            Engine(url, workflows=[work], lease=LEASE, wait_for_owner=1.25 * TERM) as other,
            pytest.raises(errors.LeaseUnavailable),
        ):
            other.recover(RUN)
        assert ended(worker, tmp_path) == "done"
    check_once(url, tmp_path)


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_w10_connections_that_die_during_a_long_effect_are_made_anew(
    tmp_path: Path, warm_parent: WarmParent, postgres_url: str, colour: str
) -> None:
    with at_work(warm_parent, postgres_url, colour, tmp_path) as worker:
        with psycopg.connect(postgres_url.replace("postgresql+psycopg", "postgresql"), autocommit=True) as connection:
            assert connection.execute(TERMINATE).fetchone() != (0,)
        assert ended(worker, tmp_path) == "done"
    check_once(postgres_url, tmp_path)
