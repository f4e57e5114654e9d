"""The workflows that the journals of this directory were recorded with, as they were. Not to be changed: they are what must still fit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from pydantic import BaseModel

from recovery import (
    Absent,
    Answer,
    AsyncRun,
    Call,
    Environment,
    Found,
    Migrated,
    Rejection,
    ReplyWas,
    Run,
    Secret,
    TurnedAway,
    contracts,
    effect,
    errors,
    upcaster,
    versioned,
    workflow,
)

KEYED = contracts.Keyed(window=timedelta(hours=24), settle_window=timedelta(minutes=1), clock_error=timedelta(seconds=1))
shop = Environment("shop", scope="golden")


class Killed(BaseException):
    """The worker is gone."""


class OutOfStock(Rejection):
    sku: str


@versioned(2, name="booking")
class Booking(BaseModel):
    number: int
    sku: str
    door: str = "1"


@upcaster(Booking, from_version=1)
def booking_2(old: dict[str, Any]) -> dict[str, Any]:
    return old | {"door": "1"}


class World:
    """What the effects meet. `dies`: the worker dies behind the next effect; `turns_away`: how many requests do nothing; `ends`: it does not die at
    the end."""

    dies = False
    turns_away = 0
    ends = True
    receipts: ClassVar[dict[str, Booking]] = {}

    @classmethod
    def end(cls) -> bool:
        if not cls.ends:
            cls.ends = True
            raise Killed
        return True


def _reserve(key: str, sku: str) -> Booking:
    if sku == "none":
        raise OutOfStock(sku=sku)
    if World.turns_away:
        World.turns_away -= 1
        raise ReplyWas(TurnedAway(retry_after=timedelta(seconds=1)))
    made = World.receipts.setdefault(key, Booking(number=len(World.receipts) + 1, sku=sku))
    if World.dies:
        World.dies = False
        raise Killed
    return made


@effect(KEYED, environment=shop, rejects=(OutOfStock,))
def reserve(call: Call, *, sku: str) -> Booking:
    return _reserve(call.key, sku)


@reserve.probe
def find(call: Call, *, sku: str) -> Answer[Booking]:
    there = World.receipts.get(call.key)
    return Absent() if there is None else Found(there, fingerprint=call.fingerprint)


@reserve.compensation(KEYED)
def release(call: Call, outcome: Booking, *, sku: str) -> None:
    World.receipts.pop(call.key, None)


@effect(KEYED, environment=shop, rejects=(OutOfStock,))
async def reserve_later(call: Call, *, sku: str) -> Booking:
    return _reserve(call.key, sku)


@effect(contracts.Opaque(), environment=shop)
def mail(call: Call, *, to: Secret[str]) -> None:
    if World.dies:
        World.dies = False
        raise Killed


@workflow
def plain(run: Run, sku: str) -> dict[str, Any]:
    """Each kind of fact that a run draws or notes for itself, an effect, a rejection, branches and a patch."""
    began = run.now()
    chosen = run.decide("plan", lambda: {"of": sku, "large": "x" * 100_000})
    run.sleep(timedelta(minutes=5))
    first = run.perform(reserve(sku=sku), key=f"{run.run_id}/first")
    refused = run.attempt(reserve(sku="none"))
    both = run.gather(lambda b: b.decide("left", lambda: 1), lambda b: b.perform(reserve(sku="b"), name="right").number)
    patched = run.patched("later")
    drawn = (run.random(), str(run.uuid()))
    run.publish("done", 1)
    with run.deadline(timedelta(hours=1)):
        run.decide("bounded", lambda: True)
    return {
        "began": began.isoformat(), "size": len(chosen["large"]), "first": first.number, "refused": type(refused).__name__,
        "both": list(both), "patched": patched, "drawn": list(drawn),
    }  # fmt: skip


@workflow
def undone(run: Run) -> int:
    """Fails inside a saga, whose effects are undone."""
    with run.saga("booking"):
        run.perform(reserve(sku="a"), key=f"{run.run_id}/undone")
        raise ValueError("no")


@workflow
def child(run: Run, number: int) -> int:
    return run.decide("twice", lambda: number * 2)


@workflow
def parent(run: Run) -> list[int]:
    started = run.start(child(number=4))
    return [run.call_child(child(number=2), run_id=f"{run.run_id}-second"), started.result()]


@workflow
def waiting(run: Run) -> dict[str, Any]:
    """Waits for a child that waits itself."""
    return run.call_child(asking(), run_id="asking")


@workflow
def asking(run: Run) -> dict[str, Any]:
    """One answer, after one that does not fit; one that nobody gives."""
    answer = run.wait_for("colour", schema=int)
    none = run.wait_for("size", schema=str, timeout=timedelta(minutes=1), default="no answer")
    return {"answer": answer, "none": none}


@workflow
def silent(run: Run) -> str:
    return run.wait_for("word", schema=str)


@workflow
def impatient(run: Run) -> str:
    """Waits no longer for a child than its deadline."""
    started = run.start(silent(), run_id="silent", detached=True)
    try:
        with run.deadline(timedelta(minutes=5)):
            return started.result()
    except errors.DeadlinePassed:
        return "too late"


@workflow
def several(run: Run) -> list[int]:
    """What is forked and restarted."""
    made = [run.perform(reserve(sku=sku), name=f"of-{sku}").number for sku in "ab"]
    try:
        last = run.perform(reserve(sku="c"), name="of-c").number
    except errors.EffectForbidden:
        last = 0
    run.decide("end", World.end)
    return [*made, last]


@workflow
def notifying(run: Run, to: Secret[str]) -> str:
    """In doubt where its worker dies."""
    run.perform(mail(to=to), key=f"{run.run_id}/mail")
    return "sent"


@workflow(version="2")
def moved(run: Run) -> list[int]:
    return [run.perform(reserve(sku="b"), name="second").number, run.perform(reserve(sku="a"), name="first").number]


@moved.migrates(from_version="1")
def moved_1(recorded: Sequence[str]) -> Migrated:
    return Migrated({"second#1": "second#1", "first#1": "first#1"})


@workflow(name="moved", version="1")
def unmoved(run: Run) -> list[int]:
    came = [run.perform(reserve(sku="a"), name="first").number, run.perform(reserve(sku="b"), name="second").number]
    raise Killed(str(came))


@workflow
async def awaited(run: AsyncRun, sku: str) -> list[int]:
    """The other colour."""
    booked = await run.perform(reserve_later(sku=sku), key=f"{run.run_id}/first")
    both = await run.gather(lambda b: b.decide("left", lambda: 1), lambda b: b.sleep(timedelta(seconds=1)))
    return [booked.number, both[0]]


SYNC = [plain, undone, child, parent, asking, waiting, silent, impatient, several, notifying, unmoved, moved]
ASYNC = [awaited]
