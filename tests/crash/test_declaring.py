"""A declaration that the database was restored, killed with SIGKILL at each of its points. In a database of its own: it changes all epochs."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from recovery import Answer, Call, Engine, Environment, Found, Run, contracts, effect, workflow
from recovery.crashpoints import POINTS, VARIABLE, hooked
from recovery.storage import open_journal
from recovery.testing.pieces import in_one_piece
from tests.crash.test_points import DECLARED
from tests.warm import WarmParent


class Gone(BaseException):
    """The worker, in this process."""


@effect(contracts.Keyed(lookup=contracts.Lookup(), window=timedelta(hours=24)), environment=Environment("shop"))
def reserve(call: Call) -> str:
    raise AssertionError("a restored run sends nothing first")


@reserve.probe
def find(call: Call) -> Answer[str]:
    return Found("R1", fingerprint=call.fingerprint)


@workflow
def order(run: Run) -> str:
    return run.perform(reserve(), key="k1")


PLACES = [("sqlite_url", point) for point in POINTS if point.startswith(DECLARED)] + [("postgres_url", "restored.after")]


@pytest.mark.parametrize(("url", "point"), PLACES)
def test_a_declaration_killed_there_is_made_by_the_next_one(
    request: pytest.FixtureRequest, warm_parent: WarmParent, tmp_path: Path, url: str, point: str
) -> None:
    """It is never in force without who made it and why, and what it is about is not touched."""
    store_url = request.getfixturevalue(url)

    def kill(at: str) -> None:
        if at == "append.intent.before":
            raise Gone

    with hooked(kill), Engine(store_url, workflows=[order]) as engine, pytest.raises(Gone):
        engine.run("r", order)
    journal = open_journal(store_url)
    before = in_one_piece(journal, "r")
    declaring = ["-m", "recovery", "restored", "--db", store_url, "--by", "kim", "--reason", "disk failed"]
    ended = warm_parent.run(declaring, directory=tmp_path, environment=os.environ | {VARIABLE: point})
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    raised, noted = journal.incarnation() > 0, len(journal.evidence("")) == 1
    assert (raised, noted) == (point == "incarnation.after", point != "restored.before")
    warm_parent.run(declaring, directory=tmp_path, environment=os.environ).check_returncode()
    assert journal.incarnation() > 0
    assert in_one_piece(journal, "r") == before
    with Engine(store_url, workflows=[order]) as engine:
        assert engine.recover("r").result() == "R1"
    journal.close()
