"""Right and wrong uses of what outlives a run's code: waits, deadlines, sagas, retries, versions. Each line marked `expect-error` is one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, assert_type
from uuid import UUID

from pydantic import BaseModel

from recovery import Call, Engine, Migrated, Retry, Run, contracts, effect, upcaster, versioned, workflow
from recovery.operators.fitting import Fit
from recovery.testing import replay_journal


class Approval(BaseModel):
    granted: bool


@versioned(2, name="plan")
class Plan(BaseModel):
    sku: str
    units: int


@upcaster(Plan, from_version=1)
def plan_2(old: dict[str, Any]) -> dict[str, Any]:
    return {"sku": old["sku"], "units": old["qty"]}


@versioned(1)
@dataclass
class Line:
    sku: str


assert_type(Plan(sku="a", units=1), Plan)
assert_type(Line("a").sku, str)


@effect(contracts.Keyed(window=timedelta(hours=24)))
def pay(call: Call, *, cents: int) -> str:
    return call.key


@pay.compensation(contracts.Keyed(window=timedelta(hours=24)))
def refund(call: Call, outcome: str, *, cents: int) -> None:
    return None


@workflow(version="2")
def order(run: Run, plan: Plan) -> str:
    asked = run.wait_for("approval", schema=Approval, about=pay(cents=5))
    assert_type(asked, Approval)
    assert_type(run.wait_for("size", schema=int, timeout=timedelta(days=1), default=None), int | None)
    assert_type(run.receive("lines", schema=Line), Line)
    run.publish("done", 1)
    with run.deadline(timedelta(hours=1)), run.saga("booking"):
        paid = run.perform(pay(cents=plan.units), key="pay-1", retry=Retry(attempts=3))
        assert_type(paid, str)
    both = run.gather(lambda b: b.random(), lambda b: b.perform(pay(cents=1)))
    assert_type(both, tuple[float, str])
    three = run.gather(lambda b: b.uuid(), lambda b: b.decide("n", lambda: 1), lambda b: b.run_id, limit=2)
    assert_type(three, tuple[UUID, int, str])
    bodies: list[Callable[[Run], float]] = [lambda b: b.random()]
    assert_type(run.gather(*bodies), tuple[float, ...])
    assert_type(run.map(lambda b, cents: b.perform(pay(cents=cents)), [1, 2]), list[str])
    return paid


@order.migrates(from_version="1")
def from_1(recorded: Sequence[str]) -> Migrated:
    return Migrated({"pay#1": "charge#1", "approval#1": None}, dropped=["note#1"])


def looks(engine: Engine) -> None:
    assert_type(engine.check().fits, list[Fit])
    assert_type([fit.fits for fit in replay_journal(order, Path("journals"))], list[bool])
    assert_type([one.version for one in engine.versions().in_use], list[str])
    assert_type(engine.change_version("r", by="ann", reason="x").dropped, tuple[str, ...])


# -- wrong -------------------------------------------------------------------------------------------------------------


@order.migrates(from_version="0")  # expect-error: no Migrated
def not_migrated(recorded: Sequence[str]) -> dict[str, str]:
    return {}


@upcaster(Plan, from_version=0)  # expect-error: not from an object
def from_text(old: str) -> dict[str, Any]:
    return {}


@workflow
def misuses(run: Run, plan: Plan) -> int:
    run.wait_for("approval")  # expect-error: no schema
    run.wait_for("approval", Approval)  # expect-error: schema is keyword-only
    run.wait_for("approval", schema=Approval, about=pay)  # expect-error: not bound
    run.wait_for("approval", schema=Approval, timeout=60)  # expect-error: not a timedelta
    granted: bool = run.wait_for("approval", schema=Approval)  # expect-error: an Approval
    size: int = run.wait_for("size", schema=int, default=None)  # expect-error: may be None
    line: str = run.receive("lines", schema=Line)  # expect-error: a Line
    run.perform(pay(cents="5"))  # expect-error: wrong type
    run.perform(pay(cents=5), retry=3)  # expect-error: not a Retry
    Retry(attempts="many")  # expect-error: a number
    run.sleep(60)  # expect-error: not a timedelta
    run.deadline(60)  # expect-error: neither a moment nor a duration
    run.saga("booking", keeps=[pay(cents=5)])  # expect-error: a call, not an effect
    run.patched(1)  # expect-error: a name
    both: tuple[str, str] = run.gather(lambda b: b.random(), lambda b: b.run_id)  # expect-error: a number and a text
    run.map(lambda b, cents: b.perform(pay(cents=cents)), ["1"])  # expect-error: wrong type
    print(granted, size, line, both)
    return run.random()  # expect-error: a float


def wrong_looks(engine: Engine) -> None:
    engine.change_version("r", "2", by="ann", reason="x")  # expect-error: keyword-only
    engine.change_version("r")  # expect-error: who, and why
    replay_journal(misuses, 7)  # expect-error: no journal
    versioned("2")  # expect-error: a number
    upcaster("Plan", from_version=1)  # expect-error: no class
