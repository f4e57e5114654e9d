"""`recover restored`, `orphans`, `verify` and the report of a contradiction, in this process, on a real file."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from recovery import AsyncEngine, Engine, contracts
from recovery.cli import app as command
from recovery.core.errors import ExitCode

from .late_world import Depot, Workplace
from .test_late_evidence import KEYED, superseded
from .test_restored import World, die, listing, opened_only
from .world import Killed

APP = "ledger_app:engine"


@dataclass
class Ended:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Recover = Callable[..., Ended]


@pytest.fixture
def recover(capsys: pytest.CaptureFixture[str]) -> Recover:
    """`recover ARGUMENTS`, in a pipe."""

    def recover(*arguments: str) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            command(list(arguments), prog_name="recover")
        told = capsys.readouterr()
        return Ended(int(ended.value.code or 0), told.out, told.err)

    return recover


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'journal.db'}"


def installed(monkeypatch: pytest.MonkeyPatch, engine: Any) -> None:
    """Make `engine` the app."""
    module = ModuleType("ledger_app")
    module.engine = engine  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ledger_app", module)


# -- restored ----------------------------------------------------------------------------------------------------------


def test_restored_says_what_follows_and_for_which_runs(recover: Recover, url: str) -> None:
    world = World(before=die)
    with Engine(url, workflows=[made := world.app(contracts.Opaque())]) as engine, pytest.raises(Killed):
        engine.run("r", made)
    ended = recover("restored", "--by", "kim", "--reason", "disk failed, backup of noon", "--db", url)
    assert ended.code == 0
    assert "declared restored:" in ended.out
    assert "1 run: r" in ended.out
    assert "each asks before it sends" in ended.out
    document = recover("restored", "--by", "kim", "--reason", "again", "--db", url, "--json").document
    assert document["unsettled"] == ["r"]
    assert document["incarnation"] > document["before"] > 0
    shown = recover("show", "r", "--db", url, "--json").document
    assert len(shown["entries"]) == 2  # nothing of a run was touched


def test_restored_needs_a_person_a_reason_and_a_database(recover: Recover, url: str, tmp_path: Path) -> None:
    assert recover("restored", "--reason", "x", "--db", url).code == 2
    assert recover("restored", "--by", " ", "--reason", "x", "--db", url).code == 2
    assert recover("restored", "--by", "kim", "--reason", "x", "--db", url).code == 2
    assert list(tmp_path.iterdir()) == []  # asking did not make one


# -- orphans -----------------------------------------------------------------------------------------------------------


def test_orphans_lists_what_nobody_here_remembers(recover: Recover, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    listing(world)
    with Engine(url, workflows=[made := world.app()], environments=[world.shop]) as engine:
        engine.run("r", made)
        installed(monkeypatch, engine)
        assert recover("orphans", "--app", APP).out == "no orphans: every receipt that shop listed has an intent here\n"
        world.receipts["k9"] = ("f9", "R9")
        ended = recover("orphans", "--app", APP)
        assert ended.code == 3
        assert "shop/berlin" in ended.out
        assert "k9" in ended.out
        [one] = recover("orphans", "--app", APP, "--json").document["orphans"]
        assert (one["key"], one["outcome"], one["fingerprint"]) == ("k9", "R9", "f9")
        assert recover("orphans", "--app", APP, "--since", "2026-06-01").code == 0
        assert recover("orphans", "--app", APP, "--since", one["at"]).code == 3
        assert recover("orphans", "--app", APP, "--since", "noon").code == 2


def test_orphans_needs_an_app_whose_environments_can_list(recover: Recover, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "needs the app" in recover("orphans", "--db", url).err
    with Engine(url) as engine:
        installed(monkeypatch, engine)
        assert "can list its receipts" in recover("orphans", "--app", APP).err


def test_orphans_and_verify_await_an_async_app(recover: Recover, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(receipts={"k9": ("f9", "R9")})
    listing(world, is_async=True)
    with Engine(url) as plain:
        plain.journal.namespace()
    installed(monkeypatch, AsyncEngine(url, environments=[world.shop]))
    assert recover("orphans", "--app", APP).code == 3
    assert recover("verify", "--against-env", "--app", APP).code == 0


# -- verify ------------------------------------------------------------------------------------------------------------


def two_runs(url: str) -> World:
    world = World()
    with Engine(url, workflows=[made := world.app()]) as engine:
        engine.run("r", made)
    other = world.app(key="k2")
    with Engine(url, workflows=[other]) as engine:
        engine.run("s", other)
    return world


def tampered(url: str, statement: str) -> list[Any]:
    """Change the file behind the journal's back; what its rows are then."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    with connection:
        connection.execute(statement)
    rows = connection.execute("SELECT * FROM journal ORDER BY run, seq").fetchall()
    connection.close()
    return rows


def test_verify_reads_every_chain_and_asks_nobody(recover: Recover, url: str) -> None:
    two_runs(url)
    ended = recover("verify", "--db", url)
    assert (ended.code, ended.out) == (0, "2 runs verified, 8 entries; 0 broken\n")
    document = recover("verify", "--run-id", "s", "--db", url, "--json").document
    assert (document["runs"], document["entries"], document["asked"], document["effects"]) == (1, 4, False, [])
    assert recover("verify", "--run-id", "elsewhere", "--db", url).code == 2


@pytest.mark.parametrize(
    ("statement", "seq", "field"),
    [
        ("UPDATE journal SET body = replace(body, 'R1', 'R7') WHERE run = 1 AND seq = 3", 3, "body"),
        ("UPDATE journal SET body = replace(body, 'R1', 'R7') WHERE run = 1 AND seq = 4", 4, "body"),  # the last row included
        ("UPDATE journal SET token = 'x' WHERE run = 1 AND seq = 1", 1, "body"),
        ("DELETE FROM journal WHERE run = 1 AND seq = 2", 2, "sequence number"),
        ("DELETE FROM journal WHERE run = 1 AND seq = 4", 4, "head"),
        ("UPDATE run SET head_digest = 'x' WHERE number = 1", 4, "head digest"),
    ],
)
def test_s23_a_corrupt_entry_is_named_refused_and_never_truncated(
    recover: Recover, url: str, monkeypatch: pytest.MonkeyPatch, statement: str, seq: int, field: str
) -> None:
    world = two_runs(url)
    left = tampered(url, statement)
    ended = recover("verify", "--db", url)
    assert ended.code == 6
    assert "1 run verified, 4 entries; 1 broken" in ended.out
    [broken] = recover("verify", "--db", url, "--json").document["broken"]
    assert (broken["run_id"], broken["seq"], broken["field"], broken["exit_code"]) == ("r", seq, field, 6)
    with Engine(url, workflows=[world.app()]) as engine:
        installed(monkeypatch, engine)
        for refused in (
            ("--run-id", "r"),
            ("show", "r"),
            ("--run-id", "r", "--plan"),
            ("verify", "--run-id", "r", "--against-env"),
        ):
            assert recover(*refused, "--app", APP).code == 6
        assert recover("--run-id", "s", "--app", APP).code in {0, 5}  # another run is not concerned
    assert tampered(url, "SELECT 1") == left
    assert world.sent == ["k1", "k2"]


def test_s25_verify_against_the_environment_names_the_lost_effect(
    recover: Recover, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    with Engine(url, workflows=[made := world.app()]) as engine:
        engine.run("r", made)
        installed(monkeypatch, engine)
        ended = recover("verify", "--against-env", "--app", APP)
        assert (ended.code, ended.out.splitlines()[-1]) == (0, "1 applied effect: 1 as recorded")
        world.receipts.clear()
        ended = recover("verify", "--against-env", "--app", APP)
        assert ended.code == 3
        assert ended.out.startswith("lost effect:\n  run ")
        assert "It is not done again" in ended.out
        [one] = recover("verify", "--against-env", "--app", APP, "--json").document["effects"]
        assert (one["verdict"], one["key"], one["recorded"], one["answered"]["kind"]) == ("lost", "k1", "R1", "absent")
    assert world.sent == ["k1"]
    assert "needs the app" in recover("verify", "--against-env", "--db", url).err


def test_the_worst_of_what_was_found_is_the_exit_code(recover: Recover, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = two_runs(url)
    tampered(url, "UPDATE journal SET token = 'x' WHERE run = 1 AND seq = 1")
    world.receipts.clear()
    with Engine(url, workflows=[world.app(key="k2")]) as engine:
        installed(monkeypatch, engine)
        document = recover("verify", "--against-env", "--app", APP, "--json").document
    assert [one["verdict"] for one in document["effects"]] == ["lost"]
    assert document["exit_code"] == ExitCode.CORRUPT


# -- restored, then recovered ------------------------------------------------------------------------------------------


def test_both_requests_of_a_mismatch_are_shown(recover: Recover, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    with Engine("memory://", workflows=[lost := world.app(units=5)]) as engine:
        engine.run("r", lost)
    with Engine(url, workflows=[made := world.app(units=2)]) as engine:
        opened_only(engine.journal, made)
        recover("restored", "--by", "kim", "--reason", "disk failed", "--db", url)
        installed(monkeypatch, engine)
        ended = recover("--run-id", "r", "--app", APP)
    assert ended.code == 3
    assert '{"units": 2}' in ended.out
    [own] = [line for line in ended.out.splitlines() if "the key's own" in line]
    assert world.receipts["k1"][0] in own
    assert '"R1"' in own


# -- contradictions ----------------------------------------------------------------------------------------------------


def test_a_person_sees_both_receipts_whose_they_are_and_what_would_undo_one(
    recover: Recover, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    depot = Depot(forgets=True)
    with Engine(url) as engine:
        place = Workplace(engine.journal, is_async=False)
        made = place.order(depot.effect(KEYED))
        superseded(place, made, depot)
        installed(monkeypatch, Engine(url, workflows=[made]))
        first = recover("--run-id", "r", "--app", APP)
        assert first.code == 0
        assert "duplicate detected:" in first.out
        [adopted] = [line for line in first.out.splitlines() if " adopted " in line]
        [against] = [line for line in first.out.splitlines() if "against it" in line]
        assert "receipt R2: the worker's own reply to attempt 2, epoch 0.2" in adopted
        assert "receipt R1: the reply of a superseded worker to attempt 1, epoch 0.1" in against
        assert 'put_back(outcome="R1", units=2) (undoes receipt R1); proposed only' in first.out
        assert "recorded what contradicts it; the outcome stands" in first.out
        second = recover("--run-id", "r", "--app", APP)
        assert "changed nothing: this is the original outcome" in second.out
        assert "duplicate detected:" in second.out
        document = recover("--run-id", "r", "--app", APP, "--json").document
        assert document["appended"] == 0
        [told] = document["contradictions"]
        assert (told["duplicate"], told["adopted"]["receipt"], told["against"][0]["receipt"]) == (True, "R2", "R1")
        assert told["proposals"][0]["arguments"] == {"outcome": "R1", "units": 2}
        shown = recover("show", "r", "--db", url)
        assert "duplicate detected:" in shown.out
        assert "against the outcome: entry 6" in shown.out
        assert shown.out.count("late to attempt 1") == 1  # in the chain, and not again beside it


def test_the_incident_app_lists_its_receipts() -> None:
    from recovery.examples import incident

    assert incident.engine.environments == (incident.inventory_service,)
    assert incident.inventory_service.listing is incident.applied
