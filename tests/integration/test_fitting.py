"""Recorded runs beside code that has changed: what no longer fits is named before anything happens, in both colours."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from pydantic import TypeAdapter

from recovery import Answer, AsyncEngine, AsyncRun, Call, Effect, Engine, Environment, Run, Secret, Status, effect, errors, workflow
from recovery.core.errors import ExitCode
from recovery.operators.fitting import Checked
from recovery.ports import Journal
from recovery.storage import open_journal
from recovery.storage.exported import exported
from recovery.testing import replay_journal
from recovery.testing.inline import Program, inline_workflow
from recovery.testing.pieces import in_one_piece
from recovery.testing.steps import Step

from .world import QUICK, TIMEOUT, AnyWorkflow, Killed, Shop, keyed, once

STEPS = TypeAdapter(list[Step])

A: dict[str, Any] = {"decide": "a", "of": "x", "value": 1}
B: dict[str, Any] = {"decide": "b", "value": 2}
RESERVE: dict[str, Any] = {"perform": "reserve", "key": "k", "with": {"units": 1}}
NAP: dict[str, Any] = {"sleep": "0s"}
LAST: dict[str, Any] = {"perform": "reserve", "name": "last", "key": "last", "with": {"units": 1}}


def gathered(*branches: list[dict[str, Any]]) -> dict[str, Any]:
    return {"gather": list(branches), "as": "together"}


@dataclass(frozen=True)
class Change:
    """Steps as they were and as they are, each followed by the one that the old code dies in; and the first entry that does not fit."""

    old: list[dict[str, Any]]
    new: list[dict[str, Any]]
    seq: int
    step: str
    recorded: str
    attempted: str


CHANGES = {
    "removed": Change([A, B], [B], 2, "b#1", "step a#1", "step b#1"),
    "added": Change([B], [A, B], 2, "a#1", "step b#1", "step a#1"),
    "reordered": Change([A, B], [B, A], 2, "b#1", "step a#1", "step b#1"),
    "renamed": Change([A], [A | {"decide": "c"}], 2, "c#1", "step a#1", "step c#1"),
    "removed-at-the-end": Change([A], [A], 3, "last#1", "step last#1", "the end of the workflow"),
    "decision-from-other-arguments": Change([A], [A | {"of": "y"}], 2, "a#1", "a decision from arguments ", "one from "),
    "decision-into-effect": Change(
        [{"decide": "reserve", "value": 1}], [RESERVE], 2, "reserve#1", "a decision", "effect reserve"
    ),
    "effect-into-decision": Change(
        [RESERVE], [{"decide": "reserve", "value": 1}], 2, "reserve#1", "effect reserve", "a decision"
    ),
    "timer-into-decision": Change([NAP], [{"decide": "sleep", "value": 1}], 2, "sleep#1", "a timer", "a decision"),
    "decision-into-timer": Change([{"decide": "sleep", "value": 1}], [NAP], 2, "sleep#1", "a decision", "a timer"),
    "other-effect": Change(
        [RESERVE], [RESERVE | {"perform": "other", "name": "reserve"}], 2, "reserve#1", "effect reserve", "effect other"
    ),
    "other-key": Change([RESERVE], [RESERVE | {"key": "j"}], 2, "reserve#1", "key k", "key j"),
    "other-request": Change(
        [RESERVE], [RESERVE | {"with": {"units": 2}}], 2, "reserve#1", "a request with fingerprint ", "which differs in units"
    ),
    "other-number-of-branches": Change(
        [gathered([A], [B])], [gathered([A], [B], [RESERVE])], 2, "gather#1", "2 branches", "3 branches"
    ),
    "gather-into-decision": Change(
        [gathered([A])], [{"decide": "gather", "value": 1}], 2, "gather#1", "branches", "a decision"
    ),
    "swapped-inside-a-branch": Change(
        [gathered([A, B], [])], [gathered([B, A], [])], 3, "gather#1/0/b#1", "step gather#1/0/a#1", "step gather#1/0/b#1"
    ),
    "removed-at-the-end-of-a-branch": Change(
        [gathered([A, B])], [gathered([A])], 4, "gather#1/0/b#1", "step gather#1/0/b#1", "the end of branch gather#1/0"
    ),
    "moved-to-another-branch": Change(
        [gathered([A, B], [])], [gathered([A], [B])], 4, "gather#1/0/b#1", "step gather#1/0/b#1", "the end of branch gather#1/0"
    ),
}  # fmt: skip

COLOURS = ["sync", "async"]


def defined(shop: Shop, steps: list[dict[str, Any]], colour: str) -> AnyWorkflow:
    is_async = colour == "async"
    reserve = shop.async_effect(keyed()) if is_async else shop.effect(keyed())
    other = shop.async_effect(keyed()) if is_async else shop.effect(keyed())
    other.name = "other"
    program = Program(STEPS.validate_python(steps), {"reserve": reserve, "other": other})
    return inline_workflow(program, is_async=is_async)


def finished(came: Any) -> Any:
    return asyncio.run(came) if asyncio.iscoroutine(came) else came


def engine_of(journal: Journal, flow: AnyWorkflow) -> Any:
    return (AsyncEngine if flow.is_async else Engine)(journal, workflows=[flow], budget=QUICK)


def recorded(journal: Journal, shop: Shop, steps: list[dict[str, Any]], colour: str) -> None:
    """A run that died in its last step, behind its effect."""
    shop.fail = lambda: _die_in(shop, "last")
    flow = defined(shop, [*steps, LAST], colour)
    with pytest.raises(Killed):
        finished(engine_of(journal, flow).run("r", flow, None))
    shop.fail = lambda: None


def _die_in(shop: Shop, key: str) -> None:
    if shop.executions[key]:
        raise Killed


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("name", CHANGES)
def test_each_kind_of_change_is_named_with_the_first_entry_that_does_not_fit_and_stops_before_acting(
    name: str, colour: str
) -> None:
    change, shop, journal = CHANGES[name], Shop(), open_journal("memory://")
    recorded(journal, shop, change.old, colour)
    new = defined(shop, change.new if name == "removed-at-the-end" else [*change.new, LAST], colour)
    sent, before = dict(shop.sent), in_one_piece(journal, "r")

    found: Checked = finished(engine_of(journal, new).check())
    [from_text] = replay_journal(new, exported(journal, "r"))
    assert in_one_piece(journal, "r") == before
    for fit in (*found.fits, from_text):
        assert isinstance(fit.error, errors.Diverged)
        told(fit.error, change)
    assert found.exit_code is ExitCode.DIVERGED

    came = finished(engine_of(journal, new).recover("r"))
    assert came.status is Status.DIVERGED
    told(came.error, change)
    assert dict(shop.sent) == sent

    old = engine_of(journal, defined(shop, [*change.old, LAST], colour))
    assert [(fit.fits, fit.same_outcome) for fit in finished(old.check()).fits] == [(True, None)]
    assert finished(old.recover("r")).status is Status.COMPLETED
    assert [(fit.fits, fit.same_outcome) for fit in finished(old.check(settled=True)).fits] == [(True, True)]


def told(error: errors.Diverged, change: Change) -> None:
    assert (error.seq, error.step) == (change.seq, change.step)
    assert change.recorded in error.recorded
    assert change.attempted in error.attempted
    assert f"entry {change.seq}" in str(error)
    assert error.sides["recorded"] != error.sides["attempted"]


@pytest.mark.parametrize("colour", COLOURS)
def test_a_settled_run_is_checked_to_its_end(colour: str) -> None:
    shop, journal = Shop(), open_journal("memory://")
    old = defined(shop, [A, {"return": 1}], colour)
    finished(engine_of(journal, old).run("r", old, None))
    [more] = replay_journal(defined(shop, [A, RESERVE, {"return": 1}], colour), journal)
    assert isinstance(more.error, errors.Diverged)
    assert (more.error.seq, more.error.recorded, more.error.attempted) == (3, "the end of the run", "step reserve#1")
    [other] = replay_journal(defined(shop, [A, {"return": 2}], colour), journal)
    assert (other.fits, other.same_outcome) == (True, False)
    [fails] = replay_journal(defined(shop, [A, {"fail": "no"}], colour), journal)
    assert isinstance(fails.error, errors.Diverged)
    assert "fails with WorkflowFailure" in fails.error.attempted
    [branches] = replay_journal(defined(shop, [A, gathered([]), {"return": 1}], colour), journal)
    assert not branches.fits


@pytest.mark.parametrize("colour", COLOURS)
def test_a_run_that_failed_fits_code_that_fails_where_it_did(colour: str) -> None:
    shop, journal = Shop(stock=0), open_journal("memory://")
    old = defined(shop, [A, RESERVE], colour)
    with pytest.raises(errors.RunFailed):
        finished(engine_of(journal, old).run("r", old, None))
    [fit] = replay_journal(old, journal)
    assert (fit.fits, fit.same_outcome) == (True, True)
    guarded = defined(shop, [A, {"try": [RESERVE], "except": []}, {"return": 1}], colour)
    [fit] = replay_journal(guarded, journal)
    assert isinstance(fit.error, errors.Diverged)
    assert fit.error.attempted == "one that returns"


def test_every_branch_is_compared_behind_one_that_goes_no_further(journal: Journal) -> None:
    """One branch stands in front of an unsettled effect; what its sibling has recorded is compared all the same."""
    shop = Shop(fail=once(Killed()))
    flow = defined(shop, [gathered([B], [RESERVE])], "sync")
    with pytest.raises(Killed):
        engine_of(journal, flow).run("r", flow, None)
    [fit] = engine_of(journal, defined(shop, [gathered([B], [RESERVE])], "sync")).check().fits
    assert fit.fits
    [fit] = engine_of(journal, defined(shop, [gathered([A], [RESERVE])], "sync")).check().fits
    assert fit.error.step == "gather#1/0/a#1"


def test_a_patch_that_a_settled_run_never_met_is_no_misfit(journal: Journal) -> None:
    shop = Shop()
    reserve = shop.effect(keyed())

    @workflow(name="order")
    def before(run: Run) -> int:
        return run.perform(reserve(units=1), key="k")

    @workflow(name="order")
    def after(run: Run) -> int:
        booked = run.perform(reserve(units=1), key="k")
        if run.patched("second"):
            run.perform(reserve(units=1), key="j")
        return booked

    with Engine(journal) as engine:
        engine.run("r", before)
    [fit] = replay_journal(after, journal)
    assert (fit.fits, fit.same_outcome) == (True, True)


def test_an_input_that_no_longer_fits_names_the_first_entry(journal: Journal) -> None:
    @workflow(name="order")
    def before(run: Run, item: str) -> str:
        run.now()
        return item

    @workflow(name="order")
    def after(run: Run, item: int) -> int:
        run.now()
        return item

    with Engine(journal) as engine:
        engine.run("r", before, "a")
    [fit] = replay_journal(after, journal)
    assert isinstance(fit.error, errors.ValueUnreadable)
    with pytest.raises(errors.ValueUnreadable):
        fit.check()


def test_a_secret_that_differs_is_told_by_its_arguments_name_alone(journal: Journal) -> None:
    def paying(card: str) -> AnyWorkflow:
        @effect(keyed(), environment=Environment("shop"), name="pay", timeout=TIMEOUT)
        def pay(call: Call, *, card: Secret[str], cents: int) -> None:
            return None

        @workflow(name="order")
        def order(run: Run) -> None:
            run.perform(pay(card=card, cents=5), key="k")

        return order

    with Engine(journal) as engine:
        engine.run("r", paying("4711-0815"))
    [fit] = replay_journal(paying("0815-4711"), journal)
    assert isinstance(fit.error, errors.Diverged)
    assert fit.error.attempted.endswith("which differs in card")
    assert fit.error.sides["recorded"]["arguments"] == {"card": {"$withheld": "secret"}, "cents": 5}
    told = f"{fit.error} {fit.error.fields} {fit.error!r}"
    assert "4711" not in told
    assert "0815" not in told


def test_a_run_is_checked_by_its_own_version_or_by_the_one_that_is_asked_for(journal: Journal) -> None:
    shop = Shop()

    @workflow(name="order", version="1")
    async def first(run: AsyncRun) -> str:
        await run.now()
        raise Killed

    @workflow(name="order", version="2")
    async def second(run: AsyncRun) -> str:
        await run.uuid()
        return "second"

    async def play() -> None:
        async with AsyncEngine(journal, workflows=[first, second]) as engine:
            with pytest.raises(Killed):
                await engine.run("r", first)
            [own] = (await engine.check("r")).fits
            assert (own.fits, own.version, own.against) == (True, "1", "1")
            assert not (await engine.check(version="2")).fits[0].fits
            [aside] = replay_journal([first, second], journal)  # from a test that is an `async def` itself
            assert aside.fits
            third = await engine.check(version="3")
            assert (third.fits, third.unknown, third.exit_code) == ([], {"r": "order version 3"}, ExitCode.SETTLED)

    with pytest.raises(Killed):
        asyncio.run(play())
    assert shop.sent == {}


class Touched(BaseException):
    """Something of the user's was called that a replay must leave alone."""


def touched(*_given: Any, **_named: Any) -> Any:
    raise Touched


def untouchable() -> Effect[..., Any]:
    @effect(keyed(), environment=Environment("shop"), name="pay", timeout=TIMEOUT)
    def pay(call: Call, *, cents: int) -> int:
        raise Touched

    @pay.probe
    def find(call: Call, *, cents: int) -> Answer[int]:
        raise Touched

    @pay.compensation(keyed())
    def refund(call: Call, outcome: int, *, cents: int) -> None:
        raise Touched

    return pay


PAY = untouchable()


@workflow
def other(run: Run) -> int:
    raise Touched


def in_a_deadline(run: Run) -> None:
    with run.deadline(timedelta(minutes=1)), run.saga("s"):
        run.perform(PAY(cents=1))


VERBS: dict[str, Any] = {
    "decide": lambda run: run.decide("a", touched),
    "perform": lambda run: run.perform(PAY(cents=1)),
    "attempt": lambda run: run.attempt(PAY(cents=1)),
    "now": lambda run: run.now(),
    "random": lambda run: run.random(),
    "uuid": lambda run: run.uuid(),
    "sleep": lambda run: run.sleep(timedelta(days=1)),
    "wait_for": lambda run: run.wait_for("a", schema=int),
    "receive": lambda run: run.receive("a", schema=int),
    "start": lambda run: run.start(other()).run_id,
    "call_child": lambda run: run.call_child(other()),
    "publish": lambda run: run.publish("a", 1),
    "deadline and saga": in_a_deadline,
    "compensate": lambda run: run.compensate(),
    "gather": lambda run: run.gather(lambda b: b.decide("a", touched), lambda b: b.perform(PAY(cents=1))),
    "map": lambda run: run.map(lambda b, cents: b.perform(PAY(cents=cents)), [1, 2]),
    "patched": lambda run: run.patched("a") and run.decide("a", touched),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_replay_does_nothing_whatever_the_code_has_become(verb: str) -> None:
    """Behind the record of an open run stands each thing that a run can do: none of it is done."""
    journal = open_journal("memory://")

    def ordering(then: Any) -> AnyWorkflow:
        @workflow(name="order")
        def order(run: Run) -> str:
            run.decide("first", lambda: 1)
            then(run)
            return "done"

        return order

    with pytest.raises(Touched):
        Engine(journal).run("r", ordering(touched))
    before = in_one_piece(journal, "r"), journal.inbox("r"), journal.runs()
    flow = ordering(VERBS[verb])
    [fit] = Engine(journal, workflows=[flow, other]).check().fits
    assert (fit.fits, fit.error) == (True, None)
    assert fit.then
    assert replay_journal([flow, other], exported(journal, "r"))[0].fits
    assert (in_one_piece(journal, "r"), journal.inbox("r"), journal.runs()) == before


@pytest.mark.parametrize("verb", VERBS)
def test_a_run_that_has_ended_fits_no_code_that_would_do_more(verb: str) -> None:
    journal = open_journal("memory://")

    def ordering(then: Any) -> AnyWorkflow:
        @workflow(name="order")
        def order(run: Run) -> str:
            run.decide("first", lambda: 1)
            then(run)
            return "done"

        return order

    Engine(journal).run("r", ordering(lambda _run: None))
    before = in_one_piece(journal, "r"), journal.inbox("r"), journal.runs()
    [fit] = Engine(journal, workflows=[ordering(VERBS[verb]), other]).check(settled=True).fits
    assert fit.fits is (verb in {"patched", "publish"}), fit.error
    if not fit.fits:
        assert isinstance(fit.error, errors.Diverged)
    assert (in_one_piece(journal, "r"), journal.inbox("r"), journal.runs()) == before
