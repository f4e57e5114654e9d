"""Journals that earlier versions wrote, replayed with today's code: read whole, compared step by step, and with the same outcomes."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from recovery import AsyncEngine, Budget, Engine
from recovery.core.entries import FORMS, KINDS, Decision, encode, kind_of
from recovery.storage.exported import imported_file
from recovery.storage.reading import read
from recovery.testing import ManualClock, replay_journal
from tests.golden.writing import DATABASE, DIGESTS, MANIFEST, code_of, digests, directories, text_of, write

DIRECTORIES = directories()


@pytest.fixture(params=DIRECTORIES, ids=lambda path: path.name)
def directory(request: pytest.FixtureRequest) -> Path:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def engine(directory: Path, tmp_path: Path) -> Iterator[Engine]:
    """On a copy of the old database, which its first use brings to today's schema."""
    shutil.copy(directory / DATABASE, tmp_path / DATABASE)
    with Engine(f"sqlite:///{tmp_path / DATABASE}", workflows=code_of(directory).SYNC, clock=ManualClock()) as engine:
        yield engine


def manifest(directory: Path) -> dict[str, Any]:
    return json.loads((directory / MANIFEST).read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def test_they_are_what_was_written(directory: Path) -> None:
    listed = dict(line.split("  ")[::-1] for line in (directory / DIGESTS).read_text(encoding="utf-8").splitlines())
    assert digests(directory) == listed
    with pytest.raises(FileExistsError):
        write(directory)


def test_the_texts_verify_and_fit(directory: Path) -> None:
    code, told = code_of(directory), manifest(directory)["runs"]
    found = {fit.run_id: fit for fit in replay_journal([*code.SYNC, *code.ASYNC], directory)}
    assert found.keys() == told.keys()
    for run_id, fit in found.items():
        fit.check()
        assert fit.same_outcome is (None if told[run_id]["outcome"] is None else True), run_id
        assert (fit.workflow, fit.version) == (told[run_id]["workflow"], told[run_id]["version"])


def test_the_database_holds_the_same_runs_with_the_same_outcomes(directory: Path, engine: Engine) -> None:
    for run_id, told in manifest(directory)["runs"].items():
        loaded, (_, exported) = read(engine.journal, run_id), imported_file(text_of(directory, run_id))
        assert loaded.entries == exported.entries
        assert (loaded.run.head_digest, loaded.run.status.value) == (told["head_digest"], told["status"])
        ended = loaded.history.ended
        assert (None if ended is None else encode(ended)) == told["outcome"]
    assert not engine.verify().broken
    assert not engine.check(settled=True).misfits


def test_settled_runs_return_their_outcomes_and_nothing_is_done(directory: Path, engine: Engine) -> None:
    code, world = code_of(directory), code_of(directory).World
    before = {info.run_id: info.entries for info in engine.list()}
    assert engine.run("parent", code.parent) == [4, 8]
    assert engine.run("moved", code.moved) == engine.get("moved").result()
    assert engine.recover("plain").contradictions
    assert engine.run("asking", code.asking) == {"answer": 7, "none": "no answer"}
    assert {info.run_id: info.entries for info in engine.list()} == before
    assert world.receipts == {}

    async def other() -> Any:
        async with AsyncEngine(engine.journal, workflows=code.ASYNC) as awaited:
            assert not (await awaited.check("awaited", settled=True)).misfits
            return await awaited.run("awaited", code.awaited, "a")

    assert asyncio.run(other()) == [1, 1]


def test_an_open_run_is_ended_by_todays_code(directory: Path, engine: Engine) -> None:
    """It died behind an effect whose receipt the environment still has."""
    code = code_of(directory)
    code.World.receipts = {key: code.Booking(**made) for key, made in manifest(directory)["receipts"].items()}
    try:
        there = code.World.receipts["open/first"].number
        made = len(code.World.receipts)
        came = engine.recover("open", budget=Budget(max_wait=timedelta(days=1))).result()
        assert (came["first"], came["size"], len(code.World.receipts)) == (there, 100_000, made + 1)
    finally:
        code.World.receipts = {}


def test_every_kind_of_entry_and_every_form_that_there_was_is_among_them() -> None:
    """What has come since is in the next directory: `make golden` refuses to write one that leaves something out."""
    entries = [entry for path in DIRECTORIES for file in path.glob("*.journal") for entry in imported_file(file)[1].entries]
    assert {kind_of(entry) for entry in entries} == {*KINDS}
    assert {entry.form for entry in entries if isinstance(entry, Decision)} <= {*FORMS}
    assert len({entry.form for entry in entries if isinstance(entry, Decision)}) >= 20
