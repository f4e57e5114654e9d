"""Restored journals and environments (semantics section 7): no first send, lost effects reported and never done again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from recovery import (
    Absent,
    Answer,
    AsyncEngine,
    Call,
    Engine,
    Environment,
    Found,
    Gone,
    Mismatch,
    ReceiptRow,
    Run,
    Status,
    codec,
    contracts,
    effect,
    errors,
    workflow,
)
from recovery.core.comparison import Compared
from recovery.core.entries import Settled
from recovery.core.errors import ExitCode
from recovery.core.policy import Budget
from recovery.crashpoints import hooked
from recovery.engine.restoring import KIND
from recovery.ports import Journal
from recovery.storage import open_journal
from recovery.storage.memory import MemoryJournal
from recovery.testing.clock import ManualClock

from .late_world import Superseding
from .world import Killed

DAY = timedelta(hours=24)
QUICK = Budget(max_wait=timedelta(0))
ASKABLE = contracts.Keyed(window=DAY, lookup=contracts.Lookup())


@dataclass
class World:
    """An environment with receipts by key, and the app over it. `sent` counts requests; the code under test never reads it."""

    receipts: dict[str, tuple[str, str]] = field(default_factory=dict)  # key -> (fingerprint, receipt)
    sent: list[str] = field(default_factory=list)
    before: Callable[[], None] = lambda: None  # inside a request, before it is done
    after: Callable[[], None] = lambda: None  # after it is done, before its reply
    answer: Answer[str] | None = None  # what every probe says instead

    def __post_init__(self) -> None:
        self.shop = Environment("shop", scope="berlin")

    def app(self, contract: Any = ASKABLE, *, units: int = 2, key: str | None = "k1", probe: bool = True) -> Any:
        """`order`: buys under `key` (a derived one for None)."""
        plain = contract.kind.value == "opaque"

        @effect(contract, environment=self.shop, name="buy", timeout=timedelta(seconds=30))
        def buy(call: Call, *, units: int) -> str:
            self.sent.append(call.key)
            self.before()
            if plain or call.key not in self.receipts:
                self.receipts[call.key] = (call.fingerprint, f"R{len(self.receipts) + 1}")
            self.after()
            return self.receipts[call.key][1]

        if probe and not plain:

            @buy.probe
            def find(call: Call, *, units: int) -> Answer[str]:
                return self.look_up(call)

        @workflow
        def order(run: Run) -> str:
            return run.perform(buy(units=units), key=key)

        return order

    def look_up(self, call: Call) -> Answer[str]:
        if self.answer is not None:
            return self.answer
        if call.key not in self.receipts:
            return Absent()
        fingerprint, receipt = self.receipts[call.key]
        return Found(receipt, fingerprint=fingerprint, receipt=receipt)


def die() -> None:
    raise Killed


def declared(journal: Journal, **more: Any) -> int:
    made = Engine(journal, **more).declare_restored(by="kim", reason="disk failed, backup of noon")
    return made.restoration.incarnation


def opened_only(journal: Journal, made: Any, point: str = "append.intent.before") -> None:
    """A run that is killed before its intent is durable: what a backup of that moment holds."""

    def kill(at: str) -> None:
        if at == point:
            raise Killed

    with hooked(kill), pytest.raises(Killed):
        Engine(journal, workflows=[made]).run("r", made)


# -- declaring ---------------------------------------------------------------------------------------------------------


def test_a_declaration_names_who_and_why_and_which_runs_it_is_about(journal: Journal) -> None:
    world = World(before=die)
    made = world.app(contracts.Opaque())
    with pytest.raises(Killed):
        Engine(journal, workflows=[made]).run("r", made)
    clock = ManualClock()
    said = Engine(journal, clock=clock).declare_restored(by="kim", reason="disk failed")
    assert said.unsettled == ("r",)
    assert said.restoration.before == 0
    assert said.restoration.incarnation == clock.wall_us() // 1_000_000 == journal.incarnation()
    [note] = journal.evidence("")
    kept = {"by": "kim", "reason": "disk failed", "before": 0, "incarnation": said.restoration.incarnation}
    assert (note.kind, note.at_us, codec.loads(note.body)) == (KIND, clock.wall_us(), kept)


def test_two_restores_of_one_backup_have_epochs_of_their_own() -> None:
    """Counting alone would give the second timeline the epochs of the first."""
    clock, found = ManualClock(), []
    for _ in range(2):  # the same backup: an incarnation of 0
        found.append(
            Engine(open_journal("memory://"), clock=clock).declare_restored(by="kim", reason="again").restoration.incarnation
        )
        clock.advance(timedelta(seconds=1))
    assert found[0] < found[1]
    behind = open_journal("memory://")
    behind.raise_incarnation(0, found[1])
    slow = ManualClock(datetime(2020, 1, 1, tzinfo=UTC))
    assert Engine(behind, clock=slow).declare_restored(by="kim", reason="slow clock").restoration.incarnation == found[1] + 1


@pytest.mark.parametrize(("by", "reason"), [("", "x"), ("kim", " ")])
def test_a_declaration_without_a_person_or_a_reason_is_refused(by: str, reason: str) -> None:
    journal = open_journal("memory://")
    with pytest.raises(errors.NotAttributed):
        Engine(journal).declare_restored(by=by, reason=reason)
    assert (journal.incarnation(), journal.evidence("")) == (0, [])


@pytest.mark.parametrize("point", ["restored.before", "restored.after", "incarnation.before", "incarnation.after"])
def test_a_declaration_that_is_cut_short_never_rises_without_its_reason(journal: Journal, point: str) -> None:
    def kill(at: str) -> None:
        if at == point:
            raise Killed

    with hooked(kill), pytest.raises(Killed):
        declared(journal)
    assert journal.incarnation() == 0 or len(journal.evidence("")) == 1
    assert declared(journal) == journal.incarnation() > 0


def test_async_engines_declare_alike() -> None:
    journal = open_journal("memory://")
    made = asyncio.run(AsyncEngine(journal).declare_restored(by="kim", reason="disk failed"))
    assert journal.incarnation() == made.restoration.incarnation


# -- no first send -----------------------------------------------------------------------------------------------------


def test_restored_a_keyed_step_asks_before_its_first_send_and_adopts_what_the_lost_time_did(journal: Journal) -> None:
    """The backup knows the run and not the intent; the lost time sent it."""
    world = World()
    made = world.app()
    opened_only(journal, made)
    lost = MemoryJournal()  # the lost timeline: same step, same key
    with Engine(lost, workflows=[made]) as engine:
        assert engine.run("r", made) == "R1"
    declared(journal)
    recovered = Engine(journal, workflows=[made], budget=QUICK).recover("r")
    assert recovered.result() == "R1"
    assert [verdict.row for verdict in recovered.verdicts] == ["restored-ask", "receipt-original"]
    assert world.sent == ["k1"]  # by the lost timeline alone


def test_restored_a_keyed_step_without_a_match_parks_and_sends_nothing(journal: Journal) -> None:
    world = World()
    made = world.app()
    opened_only(journal, made)
    declared(journal)
    recovered = Engine(journal, workflows=[made], budget=QUICK).recover("r")
    assert recovered.status is Status.IN_DOUBT
    assert recovered.verdicts[-1].reason == "restored-without-match"
    assert world.sent == []


@pytest.mark.parametrize("contract", [contracts.Opaque(), contracts.Keyed(window=DAY)], ids=["keyless", "unaskable"])
def test_restored_a_step_that_cannot_be_asked_parks(journal: Journal, contract: Any) -> None:
    world = World()
    made = world.app(contract, probe=False)
    opened_only(journal, made)
    declared(journal)
    recovered = Engine(journal, workflows=[made], budget=QUICK).recover("r")
    assert (recovered.status, world.sent) == (Status.IN_DOUBT, [])


def test_without_the_declaration_the_same_backup_sends(journal: Journal) -> None:
    """What the declaration is for: nothing in a restored journal itself tells that time was lost."""
    world = World()
    made = world.app(contracts.Opaque())
    opened_only(journal, made)
    assert Engine(journal, workflows=[made]).recover("r").result() == "R1"


def test_restored_decision_2_under_key_1_parks_and_shows_both_requests(journal: Journal) -> None:
    """The lost time decided for five and sent that under k1; the restored run decides for two."""
    world = World()
    lost = MemoryJournal()
    five = world.app(units=5)
    Engine(lost, workflows=[five]).run("r", five)
    two = world.app(units=2)
    opened_only(journal, two)
    declared(journal)
    engine = Engine(journal, workflows=[two], budget=QUICK)
    recovered = engine.recover("r")
    assert (recovered.status, recovered.verdicts[-1].row) == (Status.IN_DOUBT, "key-mismatch")
    assert world.sent == ["k1"]
    before = engine.history("r")
    assert engine.recover("r").status is Status.IN_DOUBT
    assert engine.history("r") == before
    shown = documents_of(journal)
    assert shown.count("fingerprint") >= 2
    assert world.receipts["k1"][0] in shown


def documents_of(journal: Journal) -> str:
    """The doubt, as a person is shown it."""
    import io

    from recovery.console import doubt
    from recovery.console.paper import Paper
    from recovery.storage.reading import read

    loaded, stream = read(journal, "r"), io.StringIO()
    [step] = loaded.history.unsettled
    Paper(stream).print(doubt.effect(step, loaded.contracts[step.intent.contract], step.verdicts[-1]))
    return stream.getvalue()


def test_restored_an_environment_that_only_says_mismatch_parks_too(journal: Journal) -> None:
    world = World(answer=Mismatch())
    made = world.app()
    opened_only(journal, made)
    declared(journal)
    recovered = Engine(journal, workflows=[made], budget=QUICK).recover("r")
    assert (recovered.status, recovered.verdicts[-1].row, world.sent) == (Status.IN_DOUBT, "key-mismatch", [])


def test_restored_a_plan_knows_it_before_the_claim(journal: Journal) -> None:
    world = World(before=die)
    made = world.app()
    with pytest.raises(Killed):
        Engine(journal, workflows=[made]).run("r", made)
    engine = Engine(journal, workflows=[made])
    assert [step.row for step in engine.plan("r", probe=False).steps] == ["resend"]
    declared(journal)
    for planning in (engine, Engine(journal)):  # by the app, and from the journal alone
        assert [step.row for step in planning.plan("r", probe=False).steps] == ["restored-ask"]


def test_restored_a_worker_of_the_lost_time_is_refused_and_its_reply_is_evidence(journal: Journal) -> None:
    """It still runs, connected to the database that was put back."""
    world, came = World(), []
    made = world.app(probe=True)

    def restore_and_recover() -> None:
        world.after = lambda: None
        declared(journal)
        with Superseding(journal, workflows=[made], budget=QUICK) as other:
            came.append(other.recover("r"))

    world.after = restore_and_recover
    with pytest.raises(errors.FencedOut):
        Engine(journal, workflows=[made]).run("r", made)
    assert came[0].result() == "R1"
    assert [item.epoch.incarnation for item in journal.evidence("r")] == [0]
    assert world.sent == ["k1"]


def test_a_settled_run_stays_settled_over_a_restore(journal: Journal) -> None:
    world = World()
    made = world.app()
    engine = Engine(journal, workflows=[made])
    engine.run("r", made)
    before = engine.history("r")
    declared(journal)
    assert engine.recover("r").result() == "R1"
    assert (engine.history("r"), world.sent) == (before, ["k1"])


def test_a_run_opened_since_the_restore_is_not_restored(journal: Journal) -> None:
    world = World()
    made = world.app()
    journal.namespace()
    declared(journal)
    engine = Engine(journal, workflows=[made])
    assert engine.run("r", made) == "R1"
    assert engine.list()[0].epoch == f"{journal.incarnation()}.1"


# -- environments ------------------------------------------------------------------------------------------------------


def listing(world: World, *, is_async: bool = False) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)

    def rows() -> list[ReceiptRow]:
        return [
            ReceiptRow(key=key, fingerprint=fingerprint, outcome=receipt, at=at + timedelta(hours=index))
            for index, (key, (fingerprint, receipt)) in enumerate(world.receipts.items())
        ]

    if is_async:

        @world.shop.receipts
        async def listed_async(since: datetime | None) -> list[ReceiptRow]:
            return rows()
    else:

        @world.shop.receipts
        def listed(since: datetime | None) -> list[ReceiptRow]:
            return rows()


def test_orphans_are_receipts_that_no_intent_here_explains(journal: Journal) -> None:
    """A run that the backup does not know at all."""
    world = World()
    listing(world)
    made = world.app()
    Engine(journal, workflows=[made]).run("r", made)
    other = world.app(key="k2")
    Engine(MemoryJournal(), workflows=[other]).run("lost", other)
    engine = Engine(journal, workflows=[made], environments=[world.shop])
    [orphan] = engine.orphans()
    assert (orphan.environment, orphan.scope, orphan.key, orphan.outcome) == ("shop", "berlin", "k2", "R2")
    assert engine.orphans(since=orphan.at) == [orphan]
    assert engine.orphans(since=orphan.at + timedelta(microseconds=1)) == []


def test_async_listings_are_awaited_by_async_engines_and_refused_by_others() -> None:
    world = World(receipts={"k9": ("f", "R1")})
    listing(world, is_async=True)
    found = asyncio.run(AsyncEngine("memory://", environments=[world.shop]).orphans())
    assert [one.key for one in found] == ["k9"]
    with pytest.raises(errors.DefinitionError, match="cannot be awaited"):
        Engine("memory://", environments=[world.shop]).orphans()


def test_a_listing_is_defined_once_and_gives_rows() -> None:
    world = World()
    listing(world)
    with pytest.raises(errors.DefinitionError, match="already"):
        listing(world)
    strange = Environment("strange")
    strange.receipts(lambda since: ["k1"])  # type: ignore[arg-type,return-value,list-item]
    with pytest.raises(errors.DefinitionError, match="gave a str"):
        Engine("memory://", environments=[strange]).orphans()
    with pytest.raises(ValueError, match="time zone"):
        ReceiptRow(key="k", at=datetime(2026, 1, 1))  # noqa: DTZ001  # on purpose


def test_s25_an_environment_older_than_the_journal_is_reported_and_nothing_is_done_again(journal: Journal) -> None:
    world, clock = World(), ManualClock()
    made = world.app()
    engine = Engine(journal, workflows=[made], clock=clock)
    assert engine.run("r", made) == "R1"
    clock.advance(timedelta(minutes=1))
    assert engine.verify(against_environment=True).exit_code is ExitCode.SETTLED
    world.receipts.clear()  # the environment is restored to before it
    before = engine.history("r")
    found = engine.verify(against_environment=True)
    [lost] = found.compared
    assert (lost.verdict, lost.key, lost.recorded, found.exit_code) == (Compared.LOST, "k1", "R1", ExitCode.IN_DOUBT)
    assert engine.recover("r").result() == engine.run("r", made) == "R1"
    assert (engine.history("r"), world.sent, world.receipts) == (before, ["k1"], {})


def test_s25_a_settled_step_of_an_open_run_is_not_done_again_either(journal: Journal) -> None:
    world = World()
    clock = ManualClock()
    dies = [Killed()]

    @effect(ASKABLE, environment=world.shop, name="buy")
    def buy(call: Call, *, units: int) -> str:
        world.sent.append(call.key)
        world.receipts[call.key] = (call.fingerprint, "R1")
        return "R1"

    @buy.probe
    def find(call: Call, *, units: int) -> Answer[str]:
        return world.look_up(call)

    @workflow
    def order(run: Run) -> str:
        bought = run.perform(buy(units=2), key="k1")
        if dies:
            raise dies.pop()
        return bought

    engine = Engine(journal, workflows=[order], clock=clock)
    with pytest.raises(Killed):
        engine.run("r", order)
    world.receipts.clear()
    clock.advance(timedelta(hours=1))
    assert [one.verdict for one in engine.verify(against_environment=True).compared] == [Compared.LOST]
    assert engine.recover("r").result() == "R1"
    assert world.sent == ["k1"]


@pytest.mark.parametrize(
    ("answer", "verdict", "code"),
    [
        (Gone(), Compared.GONE, ExitCode.SETTLED),
        (Mismatch(), Compared.MISMATCH, ExitCode.IN_DOUBT),
        (Found("R7", receipt="R7"), Compared.MISMATCH, ExitCode.IN_DOUBT),
        (None, Compared.NOT_ASKED, ExitCode.SETTLED),
    ],
    ids=["gone", "mismatch", "another receipt", "no probe"],
)
def test_what_a_verification_says_of_other_answers(answer: Any, verdict: Compared, code: ExitCode) -> None:
    world, journal = World(), open_journal("memory://")
    made = world.app(ASKABLE if answer is not None else contracts.Keyed(window=DAY), probe=answer is not None)
    engine = Engine(journal, workflows=[made])
    engine.run("r", made)
    world.answer = answer
    found = engine.verify("r", against_environment=True)
    assert ([one.verdict for one in found.compared], found.exit_code) == ([verdict], code)
    assert engine.verify("r").compared == []  # not asked for


def test_an_environment_that_does_not_answer_or_is_another_one_is_said_so() -> None:
    world, journal = World(), open_journal("memory://")
    made = world.app()
    engine = Engine(journal, workflows=[made])
    engine.run("r", made)

    def down(call: Call, **_: Any) -> Answer[str]:
        raise ConnectionError

    world.look_up = down  # type: ignore[method-assign]
    assert engine.verify(against_environment=True).exit_code is ExitCode.UNRESOLVED
    world.shop = Environment("shop", scope="hamburg")
    moved = world.app()
    [one] = Engine(journal, workflows=[moved]).verify(against_environment=True).compared
    assert (one.verdict, one.why) == (Compared.NOT_ASKED, "the scope here is 'hamburg', and another one cannot tell")
    [unknown] = Engine(journal).verify(against_environment=True).compared
    assert unknown.verdict is Compared.NOT_ASKED


def test_async_engines_verify_alike() -> None:
    from recovery import AsyncRun

    journal = open_journal("memory://")

    @effect(ASKABLE, environment=Environment("shop"))
    async def buy(call: Call) -> str:
        return "R1"

    @buy.probe
    async def find(call: Call) -> Answer[str]:
        return Found("R1")

    @workflow
    async def order(run: AsyncRun) -> str:
        return await run.perform(buy(), key="k1")

    async def both() -> list[Compared]:
        engine = AsyncEngine(journal, workflows=[order])
        await engine.run("r", order)
        return [one.verdict for one in (await engine.verify(against_environment=True)).compared]

    assert asyncio.run(both()) == [Compared.SAME]


def test_a_settled_workflow_that_has_changed_is_asked_about_as_far_as_it_still_fits() -> None:
    world, journal = World(), open_journal("memory://")
    made = world.app()
    Engine(journal, workflows=[made]).run("r", made)
    changed = world.app(units=3)
    [one] = Engine(journal, workflows=[changed]).verify(against_environment=True).compared
    assert one.verdict is Compared.NOT_ASKED
    settled = [entry for entry in Engine(journal).history("r") if isinstance(entry, Settled)]
    assert len(settled) == 2
    assert world.sent == ["k1"]
