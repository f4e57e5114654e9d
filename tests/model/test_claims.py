"""The model check of claims, bounded: every setting for its first states, the store's calls on the databases, and faults that it finds.
`make model` runs the full bound."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from recovery.storage import batches, open_journal, postgres, single
from recovery.storage.arrays import Many
from recovery.storage.place import Place
from recovery.storage.sql import SqlJournal
from tests.model.claims.interleaved import Meeting, Pair, meeting, pairs
from tests.model.claims.planted import FAULTS, ORPHAN, PAIR, UNHEARD
from tests.model.claims.promises import PROMISES
from tests.model.claims.search import SETTINGS, search
from tests.model.claims.store import Call, Stored
from tests.model.claims.stores import asked_in, check_one
from tests.model.planted import planted

FIRST = 1_000


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_the_protocol_keeps_its_promises_in_its_first_states(setting) -> None:
    found = search(setting, FIRST)
    assert found.violation == ""
    assert found.states == FIRST


def test_two_workers_keep_them_in_every_state() -> None:
    found = search(PAIR)
    assert found.violation == ""
    assert found.whole
    assert {"done", "FencedOut"} <= set(found.outcomes)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(fault) -> None:
    with planted(fault):
        found = search(fault.setting, 10_000)
    assert any(promise in found.violation for promise in fault.promises)
    assert "  1. " in found.violation


def test_every_promise_is_broken_by_some_fault() -> None:
    """But for three that only a store could break which loses or changes what it has."""
    broken = {number for fault in FAULTS for number in fault.breaks}
    assert {PROMISES[number] for number in set(range(len(PROMISES))) - broken} == {
        "no entry of an older epoch follows a claim",
        "what was acknowledged is where it was acknowledged",
        "a worker ends in one of the ways it knows",
    }


@pytest.mark.parametrize("setting", [UNHEARD, ORPHAN], ids=lambda setting: setting.name)
def test_sqlite_answers_every_call_of_these_histories_as_memory_does(setting, tmp_path: Path) -> None:
    journal = open_journal(f"sqlite:///{tmp_path / 'recovery.db'}")
    assert isinstance(journal, SqlJournal)
    asked = asked_in(setting, 2_500)
    assert sum(map(len, asked.values())) > 80
    assert [wrong for stored, calls in asked.items() for call in calls if (wrong := check_one(journal, stored, call))] == []
    journal.close()


@cache
def asked_of_two() -> dict[Stored, list[Call]]:
    return asked_in(PAIR, 2_000)


@pytest.fixture
def met(postgres_url: str) -> Iterator[Meeting]:
    with meeting(postgres_url) as met:
        yield met


def test_a_call_that_comes_while_another_is_open_on_postgresql_is_before_it_or_behind_it(met: Meeting) -> None:
    """Every shape of such a meeting, half of them with the open one's server process killed. `make model` has each of them both ways."""
    chosen = pairs(asked_of_two(), 1)
    assert len(chosen) > 60
    assert [wrong for at, pair in enumerate(chosen) if (wrong := met.hold(pair, killed=at % 2 == 0))] == []


def test_an_epoch_that_is_in_the_predicate_of_the_read_only_is_seen_on_postgresql(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = batches.APPEND.template
    looks = text.replace("        FOR NO KEY UPDATE) AS locked", ") AS locked")
    looks = looks.replace(
        "AND run.owner_token = w.owner\n      AND run.epoch_incarnation = w.incarnation AND run.epoch_n = w.n AND run.head = w.base\n    RETURNING",
        "\n    RETURNING",
    )
    assert len(looks) < len(text) - 100
    monkeypatch.setattr(postgres, "APPEND", Many(looks, **batches.APPEND.sources))
    claimed_over = [pair for pair in pairs(asked_of_two(), 1) if (pair.first.method, pair.second.method) == ("claim", "append")]
    with meeting(postgres_url) as met:  # here: a database takes its statements when it is made
        assert any(met.hold(pair, killed=False) for pair in claimed_over)


def _lone(pair: Pair) -> bool:
    """Whether a claim is met by an append that the statement for lone members writes."""
    if (pair.first.method, pair.second.method) != ("claim", "append"):
        return False
    (batch,) = pair.second.arguments
    return len(batch) == 1 and single.Single(Place()).statement(batch[0]) is not None


def test_the_statement_of_a_lone_append_is_fenced_where_it_writes(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its predicate is in the update itself: one that looks the run up first is seen to write behind a claim that it met."""
    meetings = [pair for pair in pairs(asked_of_two(), 12) if _lone(pair)]
    assert meetings
    with meeting(postgres_url) as met:
        assert [wrong for pair in meetings[:6] if (wrong := met.hold(pair, killed=False))] == []
    asked = "WHERE run.run_id = :run_id AND run.owner_token"
    looked_up = single._FENCE.replace(asked, "WHERE run.number = (SELECT run.number FROM {run} AS run " + asked).rstrip() + ")\n"
    assert looked_up != single._FENCE
    monkeypatch.setattr(single, "_FENCE", looked_up)
    monkeypatch.setattr(postgres, "single_at", single.Single)  # none that has its texts already
    with meeting(postgres_url) as met:
        assert any(met.hold(pair, killed=False) for pair in meetings)
