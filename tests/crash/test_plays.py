"""The soak in small: the plays of a few seeds, and that a soak finds what is wrong. `make soak` plays hundreds, with servers killed as well."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.crash.children import Nursery, spoilt
from tests.postgres import PostgresServer
from tests.soak.house import House
from tests.soak.judging import violations
from tests.soak.playing import carried_out
from tests.soak.plays import Act, Fault, Play, play

SEEDS = range(12)
APPLIED_AND_KILLED = Act((Fault("point", "send.after:1"),))


@pytest.fixture(scope="session")
def house(crash_directory: Path, nursery: Nursery, postgres_server: PostgresServer) -> Iterator[House]:
    directory = crash_directory / "house"
    directory.mkdir()
    with House(directory, nursery, postgres_server) as made:
        yield made


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_play_keeps_what_is_promised(house: House, seed: int) -> None:
    drawn = play(seed, servers=False)
    played = carried_out(drawn, house)
    assert violations(drawn, played, house) == [], drawn


def test_a_seed_makes_the_same_play_again() -> None:
    assert [play(seed) for seed in range(50)] == [play(seed) for seed in range(50)]
    assert len({str(play(seed)) for seed in range(50)}) == 50


def test_an_intent_that_is_not_written_is_found_out(tmp_path: Path) -> None:
    """Planted: the journal acknowledges intents and forgets them. Whoever recovers then knows of no effect, and does it again."""
    drawn = Play(0, "sqlite", "sync", ("blind",), (APPLIED_AND_KILLED,), "killed")
    with Nursery(tmp_path, spoilt("unwritten")) as nursery, House(tmp_path, nursery, warm=False) as made:
        found = violations(drawn, carried_out(drawn, made), made)
    assert any(said.startswith("the effect of step 1 (blind) happened") for said in found), found


SPOILT = {
    "happened 2 times": "INSERT INTO execution (key) SELECT key FROM execution WHERE key GLOB :run",
    "the stock does not add up": "UPDATE stock SET units = units - 1",
    "the outcome is": 'UPDATE receipt SET value = \'{"id": "0"}\' WHERE key GLOB :run',
}
"""What is said -> what the service would have to have done."""


def test_what_the_service_has_decides(tmp_path: Path, nursery: Nursery) -> None:
    drawn = Play(0, "sqlite", "sync", ("keyed", "probed"), (APPLIED_AND_KILLED,), "killed")
    with House(tmp_path, nursery, warm=False) as made:
        played = carried_out(drawn, made)
        assert violations(drawn, played, made) == []
        for said, statement in SPOILT.items():
            assert said not in "\n".join(violations(drawn, played, made))
            with closing(sqlite3.connect(made.service.file)) as books, books:
                books.execute(statement, {"run": f"{played.run_id}:*"} if ":run" in statement else {})
            assert said in "\n".join(violations(drawn, played, made))
