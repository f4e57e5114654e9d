"""Sagas, as a user of Engine and AsyncEngine meets them: what is undone, in which order, and what a person is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from recovery import (
    Absent,
    Answer,
    AsyncEngine,
    AsyncRun,
    Call,
    Compensated,
    Effect,
    Engine,
    Environment,
    Found,
    Rejection,
    Run,
    Secret,
    Status,
    codec,
    contracts,
    effect,
    errors,
    workflow,
)
from recovery.core.comparison import Compared
from recovery.core.contracts import Contract
from recovery.core.entries import UNDOING, Decision, Intent, OutcomeKind, Settled
from recovery.ports import Journal
from recovery.storage import open_journal
from recovery.testing import ManualClock

from .world import QUICK, AnyWorkflow, Killed, keyed

OPAQUE = contracts.Opaque()
WORD: dict[str, Any] = {"by": "ann", "reason": "seen to", "evidence": "telephone"}


@pytest.fixture(name="memory")
def _memory() -> Journal:
    """For what does not depend on the store."""
    return open_journal("memory://")


class Refused(Rejection):
    part: str


@dataclass
class Works:
    """Parts that are taken and given back, with a receipt for each key. `fails`: what happens after the work of a call and before its reply."""

    done: list[str] = field(default_factory=list)
    receipts: dict[str, str] = field(default_factory=dict)
    fails: dict[str, Callable[[], None]] = field(default_factory=dict)
    refuses: set[str] = field(default_factory=set)

    def act(self, call: Call, what: str, part: str) -> str:
        if f"{what} {part}" in self.refuses:
            raise Refused(part=part)
        if call.key not in self.receipts:
            self.receipts[call.key] = f"{what}-{part}"
            self.done.append(f"{what} {part}")
        self.fails.get(f"{what} {part}", lambda: None)()
        return self.receipts[call.key]

    def take(self, contract: Contract | None = None, undo: Contract | None = None) -> Effect[..., str]:
        @effect(contract or keyed(), environment=Environment("works"), rejects=(Refused,), name="take")
        def take(call: Call, *, part: str) -> str:
            return self.act(call, "take", part)

        if take.contract.lookup is not None:

            @take.probe
            def find(call: Call, *, part: str) -> Answer[str]:
                return Found(self.receipts[call.key]) if call.key in self.receipts else Absent()

        @take.compensation(undo or keyed(), rejects=(Refused,))
        def give(call: Call, outcome: str, *, part: str) -> None:
            assert outcome == f"take-{part}", "a compensation is told what it undoes"
            self.act(call, "give", part)

        return take

    def take_async(self) -> Effect[..., str]:
        @effect(keyed(), environment=Environment("works"), rejects=(Refused,), name="take")
        async def take(call: Call, *, part: str) -> str:
            return self.act(call, "take", part)

        @take.compensation(keyed(), rejects=(Refused,))
        async def give(call: Call, outcome: str, *, part: str) -> None:
            self.act(call, "give", part)

        return take

    def tell(self) -> Effect[..., None]:
        """An effect without a compensation."""

        @effect(keyed(), environment=Environment("works"), name="tell")
        def tell(call: Call, *, text: str) -> None:
            self.act(call, "tell", text)

        return tell


def undone(engine: Engine, run_id: str) -> list[str]:
    """Which steps were undone, in the order of the intents."""
    return [entry.undoes for entry in engine.history(run_id) if isinstance(entry, Intent) and entry.undoes]


# -- what is undone ----------------------------------------------------------------------------------------------------


def test_a_saga_undoes_what_was_applied_in_it_in_reverse_and_raises_again(journal: Journal) -> None:
    works = Works(refuses={"take C"})
    take = works.take()

    @workflow
    def book(run: Run) -> None:
        run.perform(take(part="before"))
        with run.saga("booking"):
            run.perform(take(part="A"), key="a")
            run.perform(take(part="B"))
            run.perform(take(part="C"))

    with Engine(journal, workflows=[book], clock=ManualClock()) as engine:
        for _ in range(2):
            with pytest.raises(errors.RunFailed, match="Refused"):
                engine.run("r", book)
        assert works.done == ["take before", "take A", "take B", "give B", "give A"]
        assert undone(engine, "r") == ["take#3", "take#2"]
        keys = [entry.key for entry in engine.history("r") if isinstance(entry, Intent)]
        assert len(set(keys)) == len(keys) == 6
        assert "a/comp/1" in keys, "a business key is undone under one that says so"


def test_an_async_saga_does_the_same(journal: Journal) -> None:
    works = Works(refuses={"take C"})
    take = works.take_async()

    @workflow
    async def book(run: AsyncRun) -> str:
        try:
            async with run.saga("booking"):
                await run.perform(take(part="A"), key="a")
                await run.perform(take(part="B"))
                await run.perform(take(part="C"))
        except Refused as refused:
            return refused.part
        return "all"

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[book], clock=ManualClock()) as engine:
            assert await engine.run("r", book) == "C"
            assert await engine.run("r", book) == "C"

    asyncio.run(story())
    assert works.done == ["take A", "take B", "give B", "give A"]


def test_a_saga_that_comes_to_its_end_undoes_and_records_nothing(memory: Journal) -> None:
    works = Works()
    take = works.take()

    @workflow
    def book(run: Run) -> str:
        with run.saga("booking"):
            return run.perform(take(part="A"))

    with Engine(memory, workflows=[book], clock=ManualClock()) as engine:
        assert engine.run("r", book) == "take-A"
        assert [type(entry).__name__ for entry in engine.history("r")] == ["Opened", "Intent", "Settled", "Settled"]


def test_an_outer_saga_undoes_what_an_inner_one_has_not(memory: Journal) -> None:
    works = Works(refuses={"take no", "take never"})
    take = works.take()

    @workflow
    def book(run: Run) -> None:
        with run.saga("outer"):
            run.perform(take(part="A"))
            with run.saga("inner"):
                run.perform(take(part="B"))
            try:
                with run.saga("inner"):
                    run.perform(take(part="C"))
                    run.perform(take(part="no"))
            except Refused:
                run.perform(take(part="D"))
            run.perform(take(part="never"))

    with Engine(memory, workflows=[book], clock=ManualClock()) as engine, pytest.raises(errors.RunFailed):
        engine.run("r", book)
    assert works.done == ["take A", "take B", "take C", "give C", "take D", "give D", "give B", "give A"]


def test_compensate_undoes_once_what_the_run_has_applied(memory: Journal) -> None:
    works = Works()
    take = works.take()

    @workflow
    def book(run: Run) -> list[str]:
        run.perform(take(part="A"))
        first = run.compensate()
        run.perform(take(part="B"))
        second, third = run.compensate(), run.compensate()
        return [*first.undone, "|", *second.undone, "|", *third.undone]

    with Engine(memory, workflows=[book], clock=ManualClock()) as engine:
        assert engine.run("r", book) == ["take#1", "|", "take#2", "|"]
        assert engine.run("r", book) == ["take#1", "|", "take#2", "|"]
    assert works.done == ["take A", "give A", "take B", "give B"]


def test_branches_are_undone_in_the_order_of_their_outcomes(memory: Journal) -> None:
    works = Works(refuses={"take no"})
    take = works.take()

    @workflow
    def book(run: Run) -> None:
        def part(name: str) -> Callable[[Run], str]:
            return lambda branch: branch.perform(take(part=name))

        with run.saga("booking"):
            run.gather(part("A"), part("B"), part("C"), limit=1)
            run.perform(take(part="no"))

    with Engine(memory, workflows=[book], clock=ManualClock()) as engine:
        with pytest.raises(errors.RunFailed):
            engine.run("r", book)
        settled = [entry.step for entry in engine.history("r") if isinstance(entry, Settled)]
        applied = [step for step in settled if step.startswith("gather")]
        assert undone(engine, "r") == applied[::-1]


def test_a_branch_undoes_its_own(journal: Journal) -> None:
    works = Works(refuses={"take no"})
    take = works.take()

    @workflow
    def book(run: Run) -> None:
        def failing(branch: Run) -> None:
            with branch.saga("own"):
                branch.perform(take(part="A"))
                branch.perform(take(part="no"))

        run.gather(failing, lambda branch: branch.perform(take(part="B")))

    with Engine(journal, workflows=[book], clock=ManualClock()) as engine:
        for _ in range(2):
            with pytest.raises(errors.RunFailed):
                engine.run("r", book)
        assert undone(engine, "r") == ["gather#1/0/take#1"]
    assert sorted(works.done) == ["give A", "take A", "take B"]


# -- what is in the way ------------------------------------------------------------------------------------------------


def test_a_worker_that_dies_half_way_repeats_no_undoing(journal: Journal) -> None:
    works = Works(refuses={"take C"})
    take = works.take()

    @workflow
    def book(run: Run) -> None:
        with run.saga("booking"):
            run.perform(take(part="A"))
            run.perform(take(part="B"))
            run.perform(take(part="C"))

    def dies() -> None:
        works.fails.clear()
        raise Killed

    works.fails["give B"] = dies
    with Engine(journal, workflows=[book], clock=ManualClock()) as engine:
        with pytest.raises(Killed):
            engine.run("r", book)
        with pytest.raises(errors.RunFailed):
            engine.run("r", book)
    assert works.done == ["take A", "take B", "give B", "give A"]


def test_an_undoing_in_doubt_parks_and_goes_on_behind_a_persons_word(journal: Journal) -> None:
    works = Works(refuses={"take C"})
    take = works.take(undo=OPAQUE)

    @workflow
    def book(run: Run) -> None:
        with run.saga("booking"):
            run.perform(take(part="A"))
            run.perform(take(part="B"))
            run.perform(take(part="C"))

    def is_lost() -> None:
        works.fails.clear()
        raise ConnectionError

    works.fails["give B"] = is_lost
    with Engine(journal, workflows=[book], clock=ManualClock()) as engine:
        with pytest.raises(errors.EffectInDoubt, match="booking#1/give#1"):
            engine.run("r", book)
        engine.resolve("r", "booking#1/give#1", OutcomeKind.APPLIED, **WORD)
        with pytest.raises(errors.RunFailed):
            engine.run("r", book)
    assert works.done == ["take A", "take B", "give B", "give A"]


def test_what_is_in_doubt_is_not_undone(memory: Journal) -> None:
    works = Works()
    take = works.take(contract=OPAQUE)

    @workflow
    def book(run: Run) -> None:
        with run.saga("booking"):
            run.perform(take(part="A"))
            run.perform(take(part="B"))

    def is_lost() -> None:
        raise ConnectionError

    works.fails["take B"] = is_lost
    with Engine(memory, workflows=[book], clock=ManualClock()) as engine, pytest.raises(errors.EffectInDoubt):
        engine.run("r", book)
    assert works.done == ["take A", "take B"]


def test_copies_that_no_record_answers_are_waited_for(journal: Journal) -> None:
    works = Works(refuses={"take B"})
    take = works.take(contract=OPAQUE)
    clock = ManualClock()

    @workflow
    def book(run: Run) -> None:
        with run.saga("booking"):
            run.perform(take(part="A"))
            run.perform(take(part="B"))

    with Engine(journal, workflows=[book], clock=clock, budget=QUICK) as engine:
        with pytest.raises(errors.TimerPending, match="booking#1/quiet#1"):
            engine.run("r", book)
        assert works.done == ["take A"], "a copy of it could still act"
        clock.advance(timedelta(minutes=25))
        with pytest.raises(errors.RunFailed):
            engine.run("r", book)
    assert works.done == ["take A", "give A"]


def test_a_deadline_that_has_passed_does_not_keep_anything_from_being_undone(memory: Journal) -> None:
    works = Works()
    take = works.take()
    clock = ManualClock()

    @workflow
    def book(run: Run) -> str:
        try:
            with run.deadline(timedelta(minutes=10)), run.saga("booking"):
                run.perform(take(part="A"))
                clock.advance(timedelta(minutes=11))
                run.perform(take(part="B"))
        except errors.DeadlinePassed:
            return "too late"
        return "in time"

    with Engine(memory, workflows=[book], clock=clock) as engine:
        assert engine.run("r", book) == "too late"
        assert engine.run("r", book) == "too late"
    assert works.done == ["take A", "give A"]


def test_a_rejected_undoing_is_a_persons(journal: Journal) -> None:
    works = Works(refuses={"take C", "give B"})
    take = works.take()

    @workflow
    def book(run: Run) -> None:
        with run.saga("booking"):
            run.perform(take(part="A"))
            run.perform(take(part="B"))
            run.perform(take(part="C"))

    with Engine(journal, workflows=[book], clock=ManualClock()) as engine:
        with pytest.raises(errors.CompensationStuck, match=r"take#2, because .*rejected \(") as stuck:
            engine.run("r", book)
        assert works.done == ["take A", "take B"], "the order is kept: A is undone after B"
        assert (stuck.value.undone, stuck.value.left) == ("nothing", "take#1")
        engine.resolve("r", stuck.value.step, OutcomeKind.APPLIED, **WORD)
        with pytest.raises(errors.RunFailed):
            engine.run("r", book)
    assert works.done == ["take A", "take B", "give A"]


def test_compensate_tells_what_a_person_has_said(journal: Journal) -> None:
    works = Works()
    take, tell = works.take(), works.tell()

    @workflow
    def book(run: Run) -> Compensated:
        run.perform(tell(text="first"))
        run.perform(take(part="A"))
        run.perform(tell(text="second"))
        return run.compensate()

    with Engine(journal, workflows=[book], clock=ManualClock()) as engine:
        for said in (OutcomeKind.APPLIED, OutcomeKind.NOT_EXECUTED):
            with pytest.raises(errors.CompensationStuck, match="tell has no compensation") as stuck:
                engine.run("r", book)
            assert "is to be undone and cannot be by itself" in engine.explain("r", stuck.value.step).advice
            engine.resolve("r", stuck.value.step, said, **WORD)
        assert engine.run("r", book) == Compensated(undone=("take#1",), by_hand=("tell#2",), left=("tell#1",))


def test_a_saga_refuses_what_it_could_not_undo_before_it_is_sent(memory: Journal) -> None:
    works = Works()
    take, tell = works.take(), works.tell()

    @workflow
    def careless(run: Run) -> None:
        try:
            with run.saga("booking"):
                run.perform(take(part="A"))
                run.perform(tell(text="done"))
        except errors.UsageError:
            return

    @workflow
    def careful(run: Run) -> str:
        with run.saga("booking", keeps=(tell,)):
            run.perform(tell(text="hello"))
            run.perform(take(part="A"))
            raise ValueError

    with Engine(memory, workflows=[careless, careful], clock=ManualClock()) as engine:
        with pytest.raises(errors.DefinitionError, match=r"tell.*no compensation"):
            engine.run("r", careless)
        assert works.done == ["take A"], "better code can go on from here"
        assert not engine.get("r").status.settled
        with pytest.raises(errors.RunFailed):
            engine.run("s", careful)
    assert works.done == ["take A", "tell hello", "take A", "give A"]


def test_an_interrupt_undoes_nothing(memory: Journal) -> None:
    works = Works()
    take = works.take()
    interrupts = [KeyboardInterrupt]

    @workflow
    def book(run: Run) -> str:
        with run.saga("booking"):
            run.perform(take(part="A"))
            while interrupts:
                raise interrupts.pop()
            return run.perform(take(part="B"))

    with Engine(memory, workflows=[book], clock=ManualClock()) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.run("r", book)
        assert engine.run("r", book) == "take-B"
    assert works.done == ["take A", "take B"]


def test_nothing_follows_on_a_saga_that_an_interrupt_left_with_something_applied(journal: Journal) -> None:
    """Whoever swallows the interrupt, as `asyncio.timeout` and a TaskGroup do, would go on over effects that nobody undoes."""
    works = Works(refuses={"take X"})
    take = works.take_async()
    too_short = [True]

    @workflow
    async def timed(run: AsyncRun) -> str:
        try:
            async with asyncio.timeout(None) as limit, run.saga("booking"):
                await run.perform(take(part="A"))
                if too_short[0]:
                    limit.reschedule(0)
                    await asyncio.Event().wait()
        except TimeoutError:
            return "too late"
        return "booked"

    @workflow
    async def grouped(run: AsyncRun) -> str:
        taken = asyncio.Event()

        async def booking(run: AsyncRun) -> None:
            async with run.saga("booking"):
                await run.perform(take(part="B"))
                taken.set()
                await asyncio.Event().wait() if too_short[0] else None

        async def failing(run: AsyncRun) -> None:
            await taken.wait()
            await run.perform(take(part="X"))

        came = "booked"
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(booking(run.branch("one")))
                group.create_task(failing(run.branch("two")))
        except* Refused:
            came = "no"
        return came

    async def main() -> None:
        async with AsyncEngine(journal, workflows=[timed, grouped], clock=ManualClock()) as engine:
            for run_id, flow, then in (("t", timed, "booked"), ("g", grouped, "no")):
                too_short[0] = True
                with pytest.raises(errors.StepInterrupted, match="saga booking"):
                    await engine.run(run_id, flow)
                too_short[0] = False
                assert await engine.run(run_id, flow) == then, "nothing was lost: it goes on from there"

    asyncio.run(main())
    assert works.done == ["take A", "take B"]


def test_what_is_undone_by_hand_tells_no_secret_and_is_asked_all_the_same(memory: Journal) -> None:
    @effect(keyed(), environment=Environment("works"))
    def make_token(call: Call, *, part: str) -> Secret[str]:
        return "an-unspeakable-word"

    @workflow
    def book(run: Run) -> Compensated:
        run.perform(make_token(part="A"))
        return run.compensate()

    with Engine(memory, workflows=[book], clock=ManualClock()) as engine:
        with pytest.raises(errors.CompensationStuck) as stuck:
            engine.run("r", book)
        step = "compensate#1/by-hand#1"
        told = f"{stuck.value}{engine.doubt()}{engine.explain('r', step)}{engine.history('r')}"
        assert "unspeakable" not in told
        assert 'applied {"$withheld":"secret"}' in str(stuck.value)
        [asked] = [entry for entry in engine.history("r") if isinstance(entry, Intent) and entry.undoes]
        assert "unspeakable" not in codec.dumps(asked.arguments), (
            "nor is it stored once more where no mark would keep it from being shown"
        )
        engine.resolve("r", step, OutcomeKind.APPLIED, **WORD)
        assert engine.recover("r").value.by_hand == ("make_token#1",)


def test_a_changed_workflow_that_no_longer_reaches_what_it_undoes_diverges(memory: Journal) -> None:
    works = Works()
    take = works.take()
    parts = ["A", "B"]

    @workflow
    def book(run: Run) -> None:
        for part in parts:
            run.perform(take(part=part))
        run.compensate()
        raise KeyboardInterrupt

    with Engine(memory, workflows=[book], clock=ManualClock()) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.run("r", book)
        parts.pop()
        with pytest.raises(errors.Diverged):
            engine.run("r", book)
        assert [entry.value["undoes"] for entry in engine.history("r") if isinstance(entry, Decision) and entry.form == UNDOING]


def test_what_was_undone_is_not_lost(memory: Journal) -> None:
    works = Works(refuses={"take B"})
    take = works.take(contract=keyed(lookup=contracts.Lookup()))

    @workflow
    def book(run: Run) -> None:
        with run.saga("booking"):
            run.perform(take(part="A"))
            run.perform(take(part="B"))

    with Engine(memory, workflows=[book], clock=ManualClock()) as engine:
        with pytest.raises(errors.RunFailed):
            engine.run("r", book)
        works.receipts.clear()  # a service that keeps nothing of what was given back
        [taken, given] = engine.verify(against_environment=True).compared
    assert (taken.verdict, taken.why) == (Compared.NOT_ASKED, "it was undone")
    assert given.step == "booking#1/give#1"


# -- whole runs, and runs that nobody wants any more -------------------------------------------------------------------


def test_a_run_that_fails_undoes_what_it_has_applied_if_its_workflow_says_so(memory: Journal) -> None:
    works = Works(refuses={"take C"})
    take = works.take()

    @workflow(compensate_on=("failed",))
    def book(run: Run) -> None:
        for part in ("A", "B", "C"):
            run.perform(take(part=part))

    with Engine(memory, workflows=[book], clock=ManualClock()) as engine:
        for _ in range(2):
            with pytest.raises(errors.RunFailed, match="Refused"):
                engine.run("r", book)
        assert undone(engine, "r") == ["take#2", "take#1"]
    assert works.done == ["take A", "take B", "give B", "give A"]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_cancel_undoes_the_saga_that_it_comes_into_and_nothing_before_it(journal: Journal, colour: str) -> None:
    works = Works()
    booking = _waiting(works, colour)
    clock = ManualClock()
    with Engine(journal, workflows=[], clock=clock) as operator:
        _begun(journal, clock, booking)
        assert works.done == ["take before", "take A", "take B"]
        house = _house(journal, clock, booking)
        came = house(lambda engine: engine.cancel("r", by="ann", reason="no longer needed"))
        assert came.status is Status.CANCELLED
        assert works.done == ["take before", "take A", "take B", "give B", "give A"]
        assert undone(operator, "r") == ["take#3", "take#2"]
        before = len(operator.history("r"))
        assert house(lambda engine: engine.recover("r")).status is Status.CANCELLED
        assert len(operator.history("r")) == before


def test_a_cancelled_undoing_goes_on_behind_a_crash(journal: Journal) -> None:
    works = Works()
    booking, clock = _waiting(works, "sync"), ManualClock()
    _begun(journal, clock, booking)

    def dies() -> None:
        works.fails.clear()
        raise Killed

    works.fails["give B"] = dies
    with Engine(journal, workflows=[booking], clock=clock, budget=QUICK) as engine:
        with pytest.raises(Killed):
            engine.cancel("r", by="ann", reason="no longer needed")
        clock.advance(timedelta(hours=2))  # what it waited for would be due by now
        assert engine.recover("r").status is Status.CANCELLED
    assert works.done == ["take before", "take A", "take B", "give B", "give A"]


def test_a_cancel_lets_an_undoing_come_to_its_end(journal: Journal) -> None:
    works = Works(refuses={"take C"})
    take = works.take(undo=OPAQUE)

    @workflow
    def book(run: Run) -> None:
        with run.saga("booking"):
            for part in ("A", "B", "C"):
                run.perform(take(part=part))

    def is_lost() -> None:
        works.fails.clear()
        raise ConnectionError

    works.fails["give B"] = is_lost
    with Engine(journal, workflows=[book], clock=ManualClock(), budget=QUICK) as engine:
        with pytest.raises(errors.EffectInDoubt):
            engine.run("r", book)
        assert engine.cancel("r", by="ann", reason="no longer needed").status is Status.IN_DOUBT
        engine.resolve("r", "booking#1/give#1", OutcomeKind.APPLIED, **WORD)
        assert engine.recover("r").status is Status.CANCELLED
    assert works.done == ["take A", "take B", "give B", "give A"]


def test_a_saga_says_that_a_cancel_leaves_it_as_it_is(memory: Journal) -> None:
    works = Works()
    take = works.take()

    @workflow
    def book(run: Run) -> None:
        with run.saga("booking", when={"failed"}):
            run.perform(take(part="A"))
            run.sleep(timedelta(hours=1))

    with Engine(memory, workflows=[book], clock=ManualClock(), budget=QUICK) as engine:
        with pytest.raises(errors.TimerPending):
            engine.run("r", book)
        assert engine.cancel("r", by="ann", reason="no longer needed").status is Status.CANCELLED
    assert works.done == ["take A"]


def test_a_workflow_that_undoes_cancelled_runs_undoes_all_of_one(memory: Journal) -> None:
    works = Works()
    take, tell = works.take_async(), works.tell()

    @workflow(compensate_on=("cancelled",), keeps=(tell,))
    async def book(run: AsyncRun) -> None:
        await run.gather(lambda branch: branch.perform(take(part="A")), lambda branch: branch.perform(tell(text="hello")))
        await run.sleep(timedelta(hours=1))

    async def story() -> None:
        async with AsyncEngine(memory, workflows=[book], clock=ManualClock(), budget=QUICK) as engine:
            with pytest.raises(errors.TimerPending):
                await engine.run("r", book)
            assert (await engine.cancel("r", by="ann", reason="no longer needed")).status is Status.CANCELLED

    asyncio.run(story())
    assert sorted(works.done) == ["give A", "take A", "tell hello"]


def test_what_a_saga_is_undone_on_is_one_of_two_words() -> None:
    with pytest.raises(errors.DefinitionError, match="neither `failed` nor `cancelled`"):
        workflow(compensate_on=("completed",))  # type: ignore[call-overload]  # the word is the point


def _waiting(works: Works, colour: str) -> AnyWorkflow:
    """Something before, then a saga that waits in its middle."""
    if colour == "sync":
        take = works.take()

        @workflow(name="book")
        def book(run: Run) -> None:
            run.perform(take(part="before"))
            with run.saga("booking"):
                run.perform(take(part="A"))
                run.perform(take(part="B"))
                run.sleep(timedelta(hours=1))
                run.perform(take(part="C"))

        return book
    taking = works.take_async()

    @workflow(name="book")
    async def book_async(run: AsyncRun) -> None:
        await run.perform(taking(part="before"))
        async with run.saga("booking"):
            await run.perform(taking(part="A"))
            await run.perform(taking(part="B"))
            await run.sleep(timedelta(hours=1))
            await run.perform(taking(part="C"))

    return book_async


def _house(journal: Journal, clock: ManualClock, booking: AnyWorkflow) -> Callable[[Callable[[Any], Any]], Any]:
    """Does something with an engine of the workflow's colour."""

    def do(what: Callable[[Any], Any]) -> Any:
        if not booking.is_async:
            with Engine(journal, workflows=[booking], clock=clock, budget=QUICK) as engine:
                return what(engine)

        async def story() -> Any:
            async with AsyncEngine(journal, workflows=[booking], clock=clock, budget=QUICK) as engine:
                return await what(engine)

        return asyncio.run(story())

    return do


def _begun(journal: Journal, clock: ManualClock, booking: AnyWorkflow) -> None:
    with pytest.raises(errors.TimerPending):
        _house(journal, clock, booking)(lambda engine: engine.run("r", booking))
