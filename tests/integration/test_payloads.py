"""Large values: where the limits are, that they come back, and that damaged ones are refused by name. W15."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from recovery import AsyncEngine, AsyncRun, Call, Engine, Environment, Rejection, Run, Status, contracts, effect, errors, workflow
from recovery.codec import SIZE_MAX
from recovery.core.entries import Intent, Settled
from recovery.core.policy import Budget
from recovery.ports import Journal, Stub
from recovery.storage import open_journal
from recovery.storage.memory import MemoryJournal
from recovery.storage.reading import read
from recovery.storage.resting import INLINE_MAX
from recovery.storage.sql import SqlJournal
from recovery.testing.pieces import in_one_piece

LARGE = "v" * 100_000
KEYED = contracts.Keyed(window=timedelta(days=1))
DEPOT = Environment("depot", scope="hall-1")


class TooLong(Rejection):
    document: str


@dataclass
class Desk:
    """A workflow of either colour over one effect, and how often each of them did something. `store`, `choose`: what effect and decision do."""

    journal: Journal
    is_async: bool
    store: Callable[[str], Any] = lambda document: document
    choose: Callable[[], Any] = lambda: LARGE
    stored: list[str] = field(default_factory=list)
    chosen: list[int] = field(default_factory=list)

    def made(self) -> Any:
        desk = self

        def decided() -> Any:
            desk.chosen.append(1)
            return desk.choose()

        def act(call: Call, document: str) -> Any:
            desk.stored.append(call.key)
            return desk.store(document)

        if self.is_async:

            @effect(KEYED, environment=DEPOT, rejects=(TooLong,), name="keep")
            async def keep_async(call: Call, *, document: str) -> Any:
                return act(call, document)

            @workflow(name="file")
            async def file_async(run: AsyncRun, document: str) -> Any:
                chosen = await run.decide("choose", decided)
                return [chosen, await run.perform(keep_async(document=document))]

            return file_async

        @effect(KEYED, environment=DEPOT, rejects=(TooLong,), name="keep")
        def keep(call: Call, *, document: str) -> Any:
            return act(call, document)

        @workflow(name="file")
        def file(run: Run, document: str) -> Any:
            chosen = run.decide("choose", decided)
            return [chosen, run.perform(keep(document=document))]

        return file

    def run(self, document: str = LARGE) -> Any:
        made, budget = self.made(), Budget(max_wait=timedelta(0))
        if self.is_async:
            return asyncio.run(AsyncEngine(self.journal, workflows=[made], budget=budget).run("r", made, document))
        return Engine(self.journal, workflows=[made], budget=budget).run("r", made, document)


@pytest.fixture(params=["def", "async def"])
def desk(request: pytest.FixtureRequest, journal: Journal) -> Desk:
    return Desk(journal, is_async=request.param == "async def")


def bodies(journal: Journal) -> list[str]:
    loaded = in_one_piece(journal, "r")
    assert loaded is not None
    return [row.body for row in loaded[1]]


def test_large_values_come_back_and_no_row_holds_one(desk: Desk) -> None:
    assert desk.run() == [LARGE, LARGE]
    assert desk.run() == [LARGE, LARGE]  # the same run id: its original outcome, out of the journal
    assert (len(desk.chosen), len(desk.stored)) == (1, 1)
    assert max(map(len, bodies(desk.journal))) < 1_000
    history = Engine(desk.journal).history("r")
    assert history[0].input == {"document": LARGE}  # type: ignore[union-attr]
    assert [entry.arguments for entry in history if isinstance(entry, Intent)] == [{"document": LARGE}]
    [kept, ended] = [entry for entry in history if isinstance(entry, Settled)]
    assert kept.observation is not None
    assert (kept.value, kept.observation.answer.value, ended.value) == (LARGE, LARGE, [LARGE, LARGE])


def test_equal_values_are_stored_once(journal: Journal) -> None:
    desk = Desk(journal, is_async=False)
    desk.run()
    digests = {each.digest for each in _references(journal)}
    assert len(digests) == 2  # the document wherever it was passed, and the outcome that holds it twice
    assert len(_references(journal)) == 6


def _references(journal: Journal) -> list[Any]:
    from recovery import codec
    from recovery.storage.resting import references

    return [each for body in bodies(journal) for each in references(codec.loads(body))]


@pytest.mark.parametrize(("over", "away"), [(0, 0), (1, 1)])
def test_what_is_inline_ends_at_64_kib_of_json(over: int, away: int) -> None:
    journal = open_journal("memory://")

    @workflow
    def echo(run: Run, text: str) -> int:
        return len(text)

    text = "ä" * ((INLINE_MAX - 2) // 2) + "x" * over  # the limit counts bytes of UTF-8, the quotes included
    assert Engine(journal).run("r", echo, text) == len(text)
    assert len(_references(journal)) == away
    assert read(journal, "r").opened.input == {"text": text}


def test_what_is_too_large_is_refused_at_the_call_with_its_path() -> None:
    """W15: 50 MB, before anything happened."""
    desk = Desk(open_journal("memory://"), is_async=False)
    with pytest.raises(errors.ValueNotStorable, match=r"document cannot be stored \(it takes 50000002 bytes.* Keep it in a file"):
        desk.run("x" * 50_000_000)
    assert desk.journal.find("r") is None
    assert SIZE_MAX == 16 * 1024 * 1024


@pytest.mark.parametrize(
    "value", ["x" * 50_000_000, math.nan, [1.0, math.inf], (1, 2)], ids=["50MB", "nan", "infinity", "other-type"]
)
def test_w15_an_argument_is_refused_at_the_call(value: Any) -> None:
    sent: list[Any] = []

    @effect(KEYED, environment=DEPOT)
    def keep(call: Call, *, document: Any) -> None:
        sent.append(document)

    @workflow
    def file(run: Run) -> None:
        run.perform(keep(document=value))

    engine = Engine("memory://", workflows=[file])
    with pytest.raises(errors.ValueNotStorable, match="at document") as refused:
        engine.run("r", file)
    assert len(str(refused.value)) < 400
    assert sent == []
    assert [type(entry).__name__ for entry in engine.history("r")] == ["Opened"]


@pytest.mark.parametrize("is_async", [False, True], ids=["def", "async def"])
@pytest.mark.parametrize("value", ["x" * 50_000_000, [1.0, math.inf], (1, 2)], ids=["50MB", "infinity", "other-type"])
def test_w15_whatever_cannot_be_stored_is_parked_as_applied(value: Any, *, is_async: bool) -> None:
    is_parked(Desk(open_journal("memory://"), is_async), value)


def test_w15_a_return_value_that_cannot_be_stored_has_happened(desk: Desk) -> None:
    is_parked(desk, math.nan)


def is_parked(desk: Desk, value: Any) -> None:
    desk.store, desk.choose = (lambda document: value), (lambda: 1)
    with pytest.raises(errors.EffectInDoubt) as parked:
        desk.run("small")
    assert parked.value.reason == "applied-value-unknown"
    row = desk.journal.find("r")
    assert row is not None
    assert row.status is Status.IN_DOUBT
    assert max(map(len, bodies(desk.journal))) < 1_000  # bounded evidence
    with pytest.raises(errors.EffectInDoubt):
        desk.run("small")
    assert len(desk.stored) == 1


@pytest.mark.parametrize(("value", "is_async"), [(math.nan, False), ("x" * (SIZE_MAX + 1), True)], ids=["nan", "16MB"])
def test_w15_a_decision_that_cannot_be_stored_was_not_made(value: Any, *, is_async: bool) -> None:
    desk = Desk(open_journal("memory://"), is_async)
    desk.choose = lambda: value
    with pytest.raises(errors.ValueNotStorable, match="decision 'choose'"):
        desk.run()
    desk.choose = lambda: "another"
    assert desk.run() == ["another", LARGE]


def test_a_large_rejection_is_raised_again_as_it_was(desk: Desk) -> None:
    def refuse(document: str) -> Any:
        raise TooLong(document=document)

    desk.store, desk.choose = refuse, lambda: 1
    for _ in range(2):
        with pytest.raises(errors.RunFailed) as failed:
            desk.run()
        assert failed.value.rejection == {"document": LARGE}
    assert len(desk.stored) == 1


def test_an_imitated_reference_is_a_value_like_any_other(desk: Desk) -> None:
    imitation = {"$payload": {"value": ["a" * 64, 3]}}
    desk.choose, desk.store = (lambda: imitation), lambda document: [imitation, {"$withheld": document}]
    for _ in range(2):
        assert desk.run("small") == [imitation, [imitation, {"$withheld": "small"}]]


# -- damage ---------------------------------------------------------------------------------------------------------------


def spoil(journal: Journal, how: str) -> None:
    """Every payload missing, cut, changed by one bit, empty, or text where bytes belong."""
    changed = {
        "cut": lambda body: body[:-1],
        "longer": lambda body: body + b" ",
        "flipped": lambda body: bytes([body[0] ^ 1]) + body[1:],
        "empty": lambda body: b"",
        "other": lambda body: b'"' + b"w" * 100_000 + b'"',
    }
    if isinstance(journal, MemoryJournal):
        there = journal._payloads
        journal._payloads = {} if how == "missing" else {digest: changed[how](body) for digest, body in there.items()}
        return
    assert isinstance(journal, SqlJournal)
    with journal._database.transaction() as connection:
        if how == "missing":
            connection.execute(sa.text("DELETE FROM run_payload"))
            connection.execute(sa.text("DELETE FROM payload"))
        for digest, body in connection.execute(sa.text("SELECT digest, body FROM payload")).all():
            connection.execute(
                sa.text("UPDATE payload SET body = :b WHERE digest = :d"), {"b": changed[how](bytes(body)), "d": digest}
            )


@pytest.mark.parametrize("how", ["cut", "longer", "empty", "other"])
def test_every_damage_of_a_payload_is_found(how: str) -> None:
    journal = open_journal("memory://")
    Desk(journal, is_async=False).run()
    spoil(journal, how)
    with pytest.raises(errors.JournalCorrupt, match=r"the payload of input\.document"):
        read(journal, "r")


@pytest.mark.parametrize("how", ["missing", "flipped"])
def test_a_damaged_payload_is_corruption_named_by_run_entry_and_field(journal: Journal, how: str) -> None:
    desk = Desk(journal, is_async=False)
    desk.run()
    spoil(journal, how)
    engine = Engine(journal)
    for asked in (lambda: desk.run(), lambda: engine.history("r"), lambda: engine.recover("r"), lambda: engine.get("r")):
        with pytest.raises(errors.JournalCorrupt) as corrupt:
            asked()
        assert (corrupt.value.run_id, corrupt.value.seq, corrupt.value.field) == ("r", 1, "the payload of input.document")
    [broken] = engine.verify().broken
    assert (broken.run_id, broken.seq, broken.field, broken.exit_code) == ("r", 1, "the payload of input.document", 6)
    assert len(desk.stored) == 1


def test_text_where_bytes_belong_is_damage_too(sqlite_url: str) -> None:
    journal = open_journal(sqlite_url)
    Desk(journal, is_async=False).run()
    assert isinstance(journal, SqlJournal)
    with journal._database.transaction() as connection:
        connection.execute(sa.text("UPDATE payload SET body = CAST(body AS TEXT)"))
    with pytest.raises(errors.JournalCorrupt, match=r"payload of input\.document"):
        read(journal, "r")
    journal.close()


def test_a_run_that_is_forgotten_while_it_is_read_is_read_to_its_end(journal: Journal) -> None:
    """Its rows and its payloads are of one moment: what is gone behind that is no damage."""
    Desk(journal, is_async=False, store=lambda document: 1).run()
    engine, reading = Engine(journal), journal.stream
    before = engine.history("r")

    def forgotten_meanwhile(run_id: str, take: Any) -> Any:
        def taken(stored: Any) -> Any:
            assert journal.forget(stored.run, Stub("r", "digest", "ann", "why", 1))
            return take(stored)

        return reading(run_id, taken)

    journal.stream = forgotten_meanwhile  # type: ignore[method-assign]
    assert engine.history("r") == before
    journal.stream = reading  # type: ignore[method-assign]
    with pytest.raises(errors.RunForgotten, match="ann"):
        engine.history("r")
