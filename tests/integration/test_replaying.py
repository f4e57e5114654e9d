"""A step that is given its recorded outcome at once comes to what it would have come to in the way of every step: whatever its code has become."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery import AsyncEngine, AsyncRun, Call, Effect, Engine, Environment, Rejection, Retry, Run, contracts, effect, workflow
from recovery.core.contracts import Lookup
from recovery.core.entries import encode, kind_of
from recovery.core.machine import Machine
from recovery.definitions.recovered import Recovered
from recovery.drivers.session import Session
from recovery.testing import ManualClock

KEYED = contracts.Keyed(window=timedelta(hours=24))
HERE = Environment("here", scope="one")
AGAIN = Retry(attempts=2, wait=lambda _: 1.0)  # else a pause is drawn, and no two runs are the same


class Refused(Rejection):
    why: str


def lost() -> str:
    raise OSError("no credentials")


def of(contract: Any = KEYED, environment: Environment = HERE, name: str = "reserve", **more: Any) -> Effect[..., Any]:
    @effect(contract, environment=environment, name=name, rejects=(Refused,), **more)
    def reserve(call: Call, *, number: int) -> int | None:
        if number == 3:
            raise Refused(why="three")
        return None if number == 2 else number

    return reserve


BASE = of()


@effect(KEYED, environment=HERE, name="reserve")
def told_in_words(call: Call, *, number: int) -> str:
    return str(number)


@effect(KEYED, environment=HERE, name="reserve")
def asked_for_more(call: Call, *, number: int, more: int = 1) -> int:
    return number


@effect(KEYED, environment=HERE, name="reserve")
def asked_otherwise(call: Call, *, number: float) -> int:
    return 1


@effect(KEYED, environment=HERE, name="reserve")
def undone(call: Call, *, number: int) -> int | None:
    return number


@undone.compensation(KEYED)
def release(call: Call, outcome: int | None, *, number: int) -> None:
    return None


BECOMES: dict[str, Effect[..., Any]] = {
    "the same": BASE,
    "defined again": of(),
    "of another name": of(name="take"),
    "elsewhere": of(environment=Environment("there", scope="one")),
    "in another scope": of(environment=Environment("here", scope="two")),
    "in a scope that is asked for": of(environment=Environment("here", scope=lambda: "one")),
    "in a scope that cannot be told": of(environment=Environment("here", scope=lost)),
    "under shorter keys": of(replace(KEYED, key_length_max=2)),
    "under another contract": of(contracts.Keyed(window=timedelta(hours=1))),
    "without its probe": of(replace(KEYED, lookup=Lookup())),
    "tried again": of(retry=AGAIN),
    "tried again where it is refused": of(retry=replace(AGAIN, on={Refused: AGAIN})),
    "of other values": told_in_words,
    "of more arguments": asked_for_more,
    "of other numbers": asked_otherwise,
    "undone": undone,
}


@dataclass(frozen=True)
class Asked:
    """One step of a workflow."""

    number: int
    key: str | None
    name: str | None = None
    by: str = "the same"


def chosen(given: int) -> int:
    return given


def chosen_in_words(given: int) -> str:
    return str(given)


def refuses(given: int) -> int:
    raise ValueError(f"not {given}")


CHOICES: dict[str, Callable[[int], Any]] = {
    "the same": chosen,
    "untyped": lambda given: {"given": given},
    "of another type": chosen_in_words,
    "fails": refuses,
    "tried again": AGAIN(chosen),
}


@dataclass(frozen=True)
class Chosen:
    """One decision of a workflow."""

    number: int
    name: str = "plan"
    by: str = "the same"


KEYS = st.sampled_from([None, None, "a", "b", "order-1"])
ASKED = st.builds(Asked, st.integers(0, 3), KEYS, st.sampled_from([None, "other"]))
CHOSEN = st.builds(Chosen, st.integers(0, 1), by=st.sampled_from(["the same", "untyped"]))
PLANS = st.lists(st.one_of(ASKED, ASKED, CHOSEN), min_size=1, max_size=5)
ELSE = st.builds(Chosen, st.integers(0, 1), st.sampled_from(["plan", "other"]), st.sampled_from(sorted(CHOICES)))
CHANGES: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict[str, Any], number=st.integers(0, 3), key=KEYS, by=st.sampled_from(sorted(BECOMES))
)
PLAN: list[Asked | Chosen] = []
"""What the workflow asks for, and what it does then; set by each test."""
END: list[Callable[[Run], Any]] = []


@workflow
def performs(run: Run) -> list[str]:
    told = []
    for asked in PLAN:
        if isinstance(asked, Chosen):
            told.append(repr(run.decide(asked.name, CHOICES[asked.by], asked.number)))
            continue
        bound = BECOMES[asked.by](number=asked.number)
        told.append(repr(run.attempt(bound, key=asked.key, name=asked.name)))
    told += [repr(end(run)) for end in END]
    return told


class Gone(BaseException):
    """As a worker's death leaves it, the run stays open."""


def dies(_: Run) -> None:
    raise Gone


@contextmanager
def straight(*, on: bool) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Machine, "straight", on)
        yield


KEY = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


def without_keys(text: str) -> str:
    """Derived keys are those of a database."""
    return KEY.sub("derived", text)


def ran(before: list[Asked | Chosen], after: list[Asked | Chosen], end: list[Callable[[Run], Any]], *, on: bool) -> tuple[str, ...]:
    """All that can be seen of a run whose worker died behind `before`, and that was taken over by code that asks for `after`."""
    with Engine("memory://", workflows=[performs], clock=ManualClock()) as engine:
        PLAN[:], END[:] = before, [dies]
        with pytest.raises(Gone):
            engine.run("r", performs)
        PLAN[:], END[:] = after, end
        with straight(on=on):
            try:
                came: Recovered[Any] | Exception = engine.recover("r")
            except Exception as error:  # whatever it raises is to be the same
                came = error
        journal = [f"{kind_of(entry)} {encode(entry)}" for entry in engine.history("r")]
        return (*map(without_keys, (repr(came), f"{came}", repr(getattr(came, "error", None)), *journal)),)


def the_same(before: list[Asked | Chosen], after: list[Asked | Chosen], end: list[Callable[[Run], Any]]) -> tuple[str, ...]:
    try:
        straightly = ran(before, after, end, on=True)
    except Exception:  # two steps of one key, for example, before anything is compared
        with pytest.raises(Exception):  # noqa: B017  # whatever it is
            ran(before, after, end, on=False)
        raise
    assert straightly == ran(before, after, end, on=False)
    return straightly


def apart(plan: list[Asked | Chosen]) -> list[Asked | Chosen]:
    """With each key once: one key has one step."""
    seen: set[str | None] = set()
    kept: list[Asked | Chosen] = []
    for asked in plan:
        if isinstance(asked, Asked):
            asked, key = (replace(asked, key=None) if asked.key in seen else asked), asked.key
            seen.add(key)
        kept.append(asked)
    return kept


@settings(deadline=None, max_examples=60)  # a busy machine is no failure
@given(PLANS, st.data())
def test_whatever_the_code_has_become(plan: list[Asked | Chosen], data: st.DataObject) -> None:
    before = apart([*plan, *plan])  # so that each form comes twice
    after = list(before)
    for at in data.draw(st.lists(st.integers(0, len(before)), max_size=2)):
        if at == len(after):
            after.append(Asked(1, None))
        else:
            there = after[at]
            after[at] = replace(there, **data.draw(CHANGES)) if isinstance(there, Asked) else data.draw(ELSE)
    the_same(before, apart(after), [])


@pytest.mark.parametrize("by", sorted(BECOMES))
def test_each_change_by_itself(by: str) -> None:
    before = [Asked(1, f"k{number}") for number in range(3)] + [Asked(2, None), Asked(1, None), Asked(0, None)]
    for at in (2, 5):
        the_same(before, [replace(asked, by=by) if number >= at else asked for number, asked in enumerate(before)], [])


def compensates(run: Run) -> object:
    return run.compensate()


def undoes_a_saga(run: Run) -> object:
    try:
        with run.saga("both"):
            run.perform(undone(number=7))
            raise ValueError("no")
    except ValueError:
        return "undone"


def gathers(run: Run) -> object:
    return run.map(lambda branch, number: branch.perform(BASE(number=number)), range(3), limit=1)


@pytest.mark.parametrize("by", sorted(CHOICES))
@pytest.mark.parametrize("was", ["the same", "untyped"])
@pytest.mark.parametrize(("number", "name"), [(0, "plan"), (1, "plan"), (0, "other")])
def test_each_change_of_a_decision(was: str, by: str, number: int, name: str) -> None:
    before: list[Asked | Chosen] = [Asked(1, None), Chosen(0, by=was), Asked(1, None)]
    the_same(before, [before[0], Chosen(number, name, by), before[2]], [])


@pytest.mark.parametrize("end", [compensates, undoes_a_saga, gathers], ids=lambda end: end.__name__)
def test_what_is_undone_was_only_replayed(end: Callable[[Run], Any]) -> None:
    plan = [Asked(number, None, by="undone") for number in range(5)]
    told = the_same(plan, plan, [end])
    assert "completed" in told[0]


def test_behind_a_gather_steps_are_given_at_once_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of its branches return in the order that is recorded, and go the way of every step."""
    asked: list[str] = []
    perform, dying = Session.perform, [True]

    def counted(self: Session, step: str, bound: Any, key: str | None) -> Any:
        asked.append(step)
        return perform(self, step, bound, key)

    @workflow
    def gathers_first(run: Run) -> list[Any]:
        came = run.map(lambda branch, number: branch.perform(BASE(number=number)), range(3), limit=1)
        came += [run.perform(BASE(number=number)) for number in (0, 1, 2)]
        if dying.pop():
            raise Gone
        return came

    with Engine("memory://", workflows=[gathers_first], clock=ManualClock()) as engine:
        with pytest.raises(Gone):
            engine.run("r", gathers_first)
        dying[:] = [False]
        monkeypatch.setattr(Session, "perform", counted)
        recovered = engine.recover("r")
    assert recovered.value == [0, 1, None, 0, 1, None]
    assert asked == [f"map#1/{number}/reserve#1" for number in range(3)]


def test_in_an_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both colours go the short way, and come to the same."""

    @effect(KEYED, environment=HERE)
    async def reserve(call: Call, *, number: int) -> int:
        return number

    dying = [True]

    @workflow
    async def adds(run: AsyncRun) -> int:
        total = 0
        for number in range(6):
            total += await run.perform(reserve(number=number))
        if dying.pop():
            raise Gone
        return total

    asked: list[str] = []
    perform = Session.perform

    def counted(self: Session, step: str, bound: Any, key: str | None) -> Any:
        asked.append(step)
        return perform(self, step, bound, key)

    async def taken_over() -> Recovered[int]:
        async with AsyncEngine("memory://", workflows=[adds], clock=ManualClock()) as engine:
            with pytest.raises(Gone):
                await engine.run("r", adds)
            dying[:] = [False]
            monkeypatch.setattr(Session, "perform", counted)
            return await engine.recover("r")

    recovered = asyncio.run(taken_over())
    assert recovered.value == 15
    assert [verdict.action for verdict in recovered.verdicts] == ["keep"] * 6
    assert asked == ["reserve#1"]


def test_steps_are_given_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what is compared here is the same way twice. The first of its form is read, and goes the way of every step."""
    asked: list[str] = []
    attempt = Session.attempt

    def counted(self: Session, step: str, bound: Any, key: str | None) -> Any:
        asked.append(step)
        return attempt(self, step, bound, key)

    monkeypatch.setattr(Session, "attempt", counted)
    plan: list[Asked | Chosen] = [
        Asked(1, None),
        Chosen(1),
        Asked(2, None),
        Asked(0, "a"),
        Asked(1, "b"),
        Asked(3, None),
        Asked(1, None),
    ]
    with Engine("memory://", workflows=[performs], clock=ManualClock()) as engine:
        PLAN[:], END[:] = plan, [dies]
        with pytest.raises(Gone):
            engine.run("r", performs)
        asked.clear()
        END[:] = []
        monkeypatch.setattr(Session, "decide", None)
        recovered = engine.recover("r")
    assert len(recovered.verdicts) == 6
    assert asked == ["reserve#1", "reserve#5"]
