"""Databases that somebody or something changed: exit 6, one sentence, nothing sent, nothing written."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from recovery import Engine, errors
from recovery.storage import open_journal
from recovery.storage.reading import read
from tests.integration.cli_place import APP, Place
from tests.warm import WarmParent

OF_THE_RUN = "WHERE run_id = '{run}'"
OF_ITS_ROWS = "WHERE run = (SELECT number FROM run WHERE run_id = '{run}')"

FOR_EVERY_RUN = {
    "status": f"UPDATE run SET status = CASE status WHEN 'completed' THEN 'running' ELSE 'completed' END {OF_THE_RUN}",
    "another ending": f"UPDATE run SET status = 'failed' {OF_THE_RUN}",
    "no status": f"PRAGMA ignore_check_constraints = 1; UPDATE run SET status = 'nonsense' {OF_THE_RUN}",
    "workflow": f"UPDATE run SET workflow = 'notify' {OF_THE_RUN}",
    "input": f"UPDATE run SET input_digest = '00' {OF_THE_RUN}",
    "no kind of rest": f"PRAGMA ignore_check_constraints = 1; UPDATE run SET rests_for = 'nonsense' {OF_THE_RUN}",
    "epoch": f"PRAGMA ignore_check_constraints = 1; UPDATE run SET epoch_n = 0 {OF_THE_RUN}",
    "epoch of another type": f"PRAGMA ignore_check_constraints = 1; UPDATE run SET epoch_n = 'x' {OF_THE_RUN}",
    "a time without a name": f"UPDATE run SET updated_at_us = 9223372036854775807 {OF_THE_RUN}",
    "a next look without a name": f"UPDATE run SET next_look_us = -9223372036854775807 {OF_THE_RUN}",
    "a time that is none": f"UPDATE run SET created_at_us = 'x' {OF_THE_RUN}",
    "an owner that is none": f"UPDATE run SET owner_pid = 'x' {OF_THE_RUN}",
    "bytes for a text": f"UPDATE journal SET body = CAST(body AS BLOB) {OF_ITS_ROWS}",
    "no UTF-8": f"UPDATE journal SET body = CAST(x'7bff7d' AS TEXT) {OF_ITS_ROWS}",
    "contract": "UPDATE contract SET body = replace(body, '1200000000', '1')",
    "contract that is no JSON": "UPDATE contract SET body = 'x'",
    "contract that is a list": "UPDATE contract SET body = '[]'",
    "contract gone": "DELETE FROM run_contract",
    "late evidence": "INSERT INTO evidence (digest, run_id, step, epoch_incarnation, epoch_n, at_us, kind, body) "
    "VALUES ('d', '{run}', 'book#1', 0, 1, 1, 'observation', '{{}}')",
    "meta": "DELETE FROM meta",
    "format": "UPDATE meta SET format = 'x'",
}


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory, warm_parent: WarmParent) -> Place:
    """One run that ended, one that died after its effect."""
    place = Place(tmp_path_factory.mktemp("worked"), "sqlite:///shop.db", warm_parent)
    place.worker("order", "ended", "screw")
    place.worker("order", "open", "screw", crash_at="send.after")
    with sqlite3.connect(place.directory / "shop.db") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return place


OUTSIDE_RUNS = {
    "a name of another type": "UPDATE meta SET namespace = x'fffe'",
    "an incarnation of another type": "UPDATE meta SET incarnation = 'x'",
    "an incarnation below zero": "PRAGMA ignore_check_constraints = 1; UPDATE meta SET incarnation = -1",
    "no version": "UPDATE recovery_version SET version_num = ''",
    "a version of another type": "UPDATE recovery_version SET version_num = x'ff'",
}


@pytest.mark.parametrize("damage", OUTSIDE_RUNS.values(), ids=OUTSIDE_RUNS)
def test_damage_outside_all_runs_is_damage_and_no_bug(worked: Place, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "shop.db"
    path.write_bytes((worked.directory / "shop.db").read_bytes())
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(damage)
    connection.close()
    journal = open_journal(f"sqlite:///{path}", create=False)
    for asked in (lambda: read(journal, "open"), journal.incarnation):
        with pytest.raises(errors.StoreDamaged):
            asked()
    journal.close()


def test_a_verification_goes_on_behind_a_run_whose_evidence_or_stub_is_damaged(worked: Place, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    path.write_bytes((worked.directory / "shop.db").read_bytes())
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(FOR_EVERY_RUN["late evidence"].format(run="ended"))
    connection.executescript(f"""DELETE FROM journal {OF_ITS_ROWS.format(run="open")};
        INSERT INTO stub SELECT number, 'd', 'ann', '', 9223372036854775807 FROM run WHERE run_id = 'open'""")
    connection.close()
    with Engine(f"sqlite:///{path}") as engine:
        found = engine.verify()
    assert [(one.run_id, one.exit_code) for one in found.broken] == [("ended", 6), ("open", 6)]


@pytest.mark.parametrize("run", ["ended", "open"])
def test_a_verification_goes_on_behind_a_run_whose_own_row_is_damaged(worked: Place, tmp_path: Path, run: str) -> None:
    path = tmp_path / "shop.db"
    path.write_bytes((worked.directory / "shop.db").read_bytes())
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(FOR_EVERY_RUN["a time that is none"].format(run=run))
    connection.close()
    with Engine(f"sqlite:///{path}") as engine:
        found = engine.verify()
    assert [(one.run_id, one.exit_code) for one in found.broken] == [(run, 6)]
    assert (found.runs, found.entries > 0) == (2, True)


def test_a_list_of_runs_shows_the_others_beside_one_whose_own_row_is_damaged(worked: Place, tmp_path: Path) -> None:
    place = Place(tmp_path, "sqlite:///shop.db", worked.parent)
    path = tmp_path / "shop.db"
    path.write_bytes((worked.directory / "shop.db").read_bytes())
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(FOR_EVERY_RUN["a time that is none"].format(run="ended"))
    connection.close()
    ended = place.recover("runs", "--db", place.url, "--json")
    assert (ended.code, [one["run_id"] for one in ended.document["runs"]]) == (6, ["open"])
    [damaged] = ended.document["damaged"]
    assert damaged["run_id"] == "ended"
    assert "is corrupt" in damaged["problem"]
    told = place.recover("runs", "--db", place.url)
    assert told.code == 6
    assert "run ended is damaged" in told.out


def _content(path: Path) -> list[str]:
    """Everything but who holds the run: a recovery claims before it reads, and releases."""
    connection = sqlite3.connect(path)
    connection.text_factory = bytes
    rows = [
        repr(row) for table in ("journal", "contract", "evidence", "key") for row in connection.execute(f"SELECT * FROM {table}")
    ]
    connection.close()
    return rows


@pytest.mark.parametrize("run", ["ended", "open"])
@pytest.mark.parametrize("damage", FOR_EVERY_RUN)
def test_damage_exits_6_and_nothing_is_sent_or_written(worked: Place, tmp_path: Path, damage: str, run: str) -> None:
    place = Place(tmp_path, "sqlite:///shop.db", worked.parent)
    path = tmp_path / "shop.db"
    path.write_bytes((worked.directory / "shop.db").read_bytes())
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(FOR_EVERY_RUN[damage].format(run=run))
    connection.close()
    before = _content(path)
    ended = place.recover("--run-id", run, "--app", APP, "--no-wait")
    assert ended.code == 6, ended
    assert "restore it from a backup" in ended.sentence
    if damage != "epoch":  # a reader believes one that equals its last entry's; a claimant is above it
        journal = open_journal(f"sqlite:///{path}", create=False)
        with pytest.raises((errors.JournalCorrupt, errors.StoreDamaged)):
            read(journal, run)
        journal.close()
    assert _content(path) == before
    assert place.ledger() == []
