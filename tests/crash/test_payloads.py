"""A worker is killed for real between the statements that store a payload and what refers to it: nothing is ever half-written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from recovery.core.errors import RunNotFound
from recovery.storage import open_journal
from recovery.storage.migrate import migrate
from recovery.storage.opening import digests_of
from recovery.storage.sql import SqlJournal
from recovery.testing.pieces import in_one_piece
from tests.crash.payload_worker import LARGE, engine, report
from tests.warm import WarmParent

OUTCOME = f"filed: {f'topic {LARGE}'[:20]}: {LARGE}"
MOMENTS = (2, 6, 12, 14, 20)
"""One in each append (the run, the decision, the intent, the settlement, the end), of which each has two statements about its one payload and so four
moments: behind the bytes, or behind the link."""


def killed(parent: WarmParent, directory: Path, url: str, run_id: str, at: int) -> bool:
    """Whether the worker came to the moment and was killed there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RECOVERY_")}
    script = str(Path(__file__).with_name("payload_worker.py"))
    ended = parent.run((script, url, run_id, str(at)), directory=directory, environment=kept)
    assert ended.returncode in {0, -9}, ended.stderr
    return ended.returncode == -9


def check_stored(url: str, run_ids: list[str]) -> None:
    """Every reference has its bytes, every byte has a reference, and nothing else is there."""
    journal = open_journal(url)
    assert isinstance(journal, SqlJournal)
    with journal._database.snapshot() as connection:
        links = connection.execute(sa.text("SELECT run.run_id, digest FROM run_payload JOIN run ON number = run")).all()
        bytes_of = set(connection.execute(sa.text("SELECT digest FROM payload")).scalars())
    referred: set[tuple[str, str]] = set()
    for run_id in run_ids:
        loaded = in_one_piece(journal, run_id)
        if loaded is not None:
            referred |= {(run_id, digest) for digest in digests_of(loaded[1])}
    assert {tuple(link) for link in links} == referred
    assert bytes_of == {digest for _, digest in referred}
    with engine(url) as made:
        assert made.verify().broken == []
    journal.close()


def test_a_worker_that_is_killed_around_a_payload_leaves_all_of_it_or_nothing(
    tmp_path: Path, store_url: str, warm_parent: WarmParent
) -> None:
    migrate(store_url)  # a worker's first statements would else be those of a migration
    moments = (
        MOMENTS if store_url.startswith("sqlite") else MOMENTS[1::2]
    )  # a decision and a settlement; more would be more of the same
    run_ids = [f"run-{number}" for number in moments]
    for number, run_id in zip(moments, run_ids, strict=True):
        assert killed(warm_parent, tmp_path, store_url, run_id, number), f"moment {number} was not reached"
    check_stored(store_url, run_ids)
    made: Any
    with engine(store_url) as made:
        for run_id in run_ids:
            try:
                assert made.recover(run_id).result() == OUTCOME
            except RunNotFound:
                assert made.run(run_id, report, f"topic {LARGE}") == OUTCOME
    check_stored(store_url, run_ids)


def test_the_worker_is_whole_by_itself(tmp_path: Path, sqlite_url: str, warm_parent: WarmParent) -> None:
    assert not killed(warm_parent, tmp_path, sqlite_url, "run", 21)  # no moment is behind the last of MOMENTS
    check_stored(sqlite_url, ["run"])
