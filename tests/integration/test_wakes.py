"""A run that rests is due as soon as one of its branches can go on: on each store, in both colours."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from recovery import AsyncEngine, AsyncRun, Call, Engine, Run, codec, contracts, effect, errors, workflow
from recovery.core.entries import Status
from recovery.core.errors import StoreUnavailable
from recovery.core.mail import SIGNAL
from recovery.ports import Append, AppendResult, Journal, Message, RunRow, Wanted
from recovery.testing import ManualClock

from .world import QUICK


@effect(contracts.Opaque())
def tell(call: Call) -> None:
    raise ConnectionError("the line went dead")


@effect(contracts.Opaque())
async def atell(call: Call) -> None:
    raise ConnectionError("the line went dead")


@workflow(name="both")
def both(run: Run) -> list[Any]:
    """One branch is in doubt for good, and the other one waits for two answers."""
    return list(run.gather(lambda branch: branch.perform(tell()), _asking))


def _asking(branch: Run) -> str:
    return branch.wait_for("first", schema=str) + branch.wait_for("second", schema=str)


@workflow(name="both")
async def aboth(run: AsyncRun) -> list[Any]:
    async def telling(branch: AsyncRun) -> None:
        await branch.perform(atell())

    async def asking(branch: AsyncRun) -> str:
        return await branch.wait_for("first", schema=str) + await branch.wait_for("second", schema=str)

    return list(await run.gather(telling, asking))


class Desk:
    """One engine of either colour."""

    def __init__(self, journal: Journal, colour: str) -> None:
        self.journal, self.clock, self.workflow = journal, ManualClock(), both if colour == "sync" else aboth
        made: Any = Engine if colour == "sync" else AsyncEngine
        self.engine = made(journal, workflows=[self.workflow], budget=QUICK, clock=self.clock)

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        came = getattr(self.engine, name)(*args, **kwargs)
        return asyncio.run(came) if asyncio.iscoroutine(came) else came

    @property
    def row(self) -> RunRow:
        row = self.journal.find("r")
        assert row is not None
        return row

    @property
    def due(self) -> list[str]:
        """What a worker would take now."""
        return [row.run_id for row in self.journal.due(Wanted(now_us=self.clock.wall_us(), limit=9)).runs]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_run_in_doubt_is_due_when_another_of_its_branches_is_answered(journal: Journal, colour: str) -> None:
    desk = Desk(journal, colour)
    with pytest.raises(errors.EffectInDoubt):
        desk.call("run", "r", desk.workflow)
    assert (desk.row.status, desk.row.next_look_us, desk.due) == (Status.IN_DOUBT, None, [])
    desk.call("signal", "r", "first", "a", by="ann")
    assert desk.due == ["r"]
    looked = desk.call("recover", "r")
    assert looked.status is Status.IN_DOUBT
    assert (desk.row.status, desk.due) == (Status.IN_DOUBT, [])  # and waits for the second one
    desk.call("send", "r", "gossip", "nobody asked", by="ann")
    assert desk.due == ["r"]
    lengths = []
    for _ in range(3):
        desk.call("recover", "r")
        lengths.append(desk.row.head)
    assert len(set(lengths)) == 1  # looked at in vain, it says so once
    assert desk.due == []
    desk.call("signal", "r", "second", "b", by="ann")
    assert desk.due == ["r"]


class Deaf:
    """A journal whose append that says `status` is stored after somebody has spoken, and is not heard of."""

    def __init__(self, inner: Journal, speak: Any) -> None:
        self._inner, self._speak = inner, speak

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(self, batch: list[Append]) -> list[AppendResult]:
        rests = any(member.status is Status.WAITING for member in batch)
        if rests:
            self._speak()
        came = self._inner.append(batch)
        if rests:
            raise StoreUnavailable(
                url="here", problem="its acknowledgement is lost", fate="Whether the last write is stored is unknown"
            )
        return came


@workflow
def asking(run: Run) -> str:
    return run.wait_for("first", schema=str)


@workflow(name="asking")
async def aasking(run: AsyncRun) -> str:
    return await run.wait_for("first", schema=str)


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_an_answer_in_front_of_a_rest_that_its_writer_never_hears_of_makes_the_run_due(journal: Journal, colour: str) -> None:
    desk = Desk(journal, colour)
    asked = asking if colour == "sync" else aasking
    made: Any = type(desk.engine)
    whole = made(journal, workflows=[asked], budget=QUICK, clock=desk.clock)

    def speak() -> None:
        number = len(journal.inbox("r")) + 1
        journal.deliver(_answer(number, desk.clock.wall_us()))

    deaf = made(Deaf(journal, speak), workflows=[asked], budget=QUICK, clock=desk.clock)
    with pytest.raises(StoreUnavailable):
        _finished(deaf.run("r", asked))
    row = desk.row
    assert (row.status, row.owner) == (Status.WAITING, None)
    assert row.next_look_us is not None
    assert desk.due == ["r"]
    assert _finished(whole.recover("r")).result() == "1"


def _answer(number: int, at_us: int) -> Message:
    """The answer to the one wait, as a person's process stores it."""
    return Message(
        run_id="r", kind=SIGNAL, name="first", slot="first#1", by="ann", body=codec.dumps({"value": str(number)}), at_us=at_us,
        token=f"a{number}",
    )  # fmt: skip


def _finished(came: Any) -> Any:
    return asyncio.run(came) if asyncio.iscoroutine(came) else came
