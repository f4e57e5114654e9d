"""Right and wrong uses of sync effects and workflows. Each line marked `expect-error` is an error, and no other is."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_type

from recovery import (
    Absent,
    Answer,
    Applied,
    AsyncRun,
    Batched,
    Bound,
    BoundWorkflow,
    Call,
    Child,
    Compensated,
    Effect,
    Engine,
    Environment,
    Found,
    InFlight,
    Recovered,
    Refused,
    Rejected,
    Rejection,
    ReplyWas,
    Run,
    RunInfo,
    Status,
    Workflow,
    contracts,
    effect,
    errors,
    workflow,
)


@dataclass(frozen=True)
class Reservation:
    id: str
    units: int


class OutOfStock(Rejection):
    name = "out-of-stock"
    sku: str
    available: int = 0


inventory = Environment("inventory", scope=lambda: "warehouse-1")


@effect(contracts.Keyed(window=timedelta(hours=24)), environment=inventory, rejects=(OutOfStock,), timeout=timedelta(seconds=30))
def reserve(call: Call, *, sku: str, units: int = 1) -> Reservation:
    if call.remaining_seconds() < 1:
        raise ReplyWas(InFlight(retry_after=timedelta(seconds=1)))
    if units > 5:
        raise OutOfStock(sku=sku)
    return Reservation(call.key, units)


@reserve.probe
def find(call: Call, *, sku: str, units: int = 1) -> Answer[Reservation]:
    if units > 5:
        return Refused(OutOfStock(sku=sku, available=1))
    return Found(Reservation(call.key, units)) if sku else Absent()


@reserve.compensation(contracts.Keyed(window=timedelta(hours=24)))
def release(call: Call, outcome: Reservation, *, sku: str, units: int = 1) -> None:
    return None


@effect(contracts.Opaque())
def notify(call: Call, text: str) -> None:
    return None


assert_type(reserve(sku="a", units=2), Bound[Reservation])
assert_type(notify("hello"), Bound[None])
assert_type(release(Reservation("1", 2), sku="a", units=2), Bound[None])
assert_type(reserve.parse({"sku": "a"}), Bound[Reservation])
assert_type(reserve.decode_value({}), Reservation)
OutOfStock(sku="a").available.bit_length()


def choose(limit: int, *, spare: bool = False) -> str:
    return "FILTER-A"


@workflow
def resolve(run: Run, incident: str, limit: int = 2) -> Reservation:
    sku = run.decide("plan", choose, limit, spare=True)
    assert_type(sku, str)
    booking = run.perform(reserve(sku=sku, units=2), key="reservation-1")
    assert_type(booking, Reservation)
    attempted = run.attempt(notify(incident), name="tell")
    assert_type(attempted, Applied[None] | Rejected)
    match attempted:
        case Applied(value):
            assert_type(value, None)
        case Rejected(error):
            assert_type(error, Rejection)
    return booking


@workflow(name="other", version="2")
def other(run: Run) -> None:
    return None


resolve.bind("incident", limit=3)
assert_type(resolve.decode_result({}), Reservation)


def runs(database: str) -> None:
    with Engine(database, workflows=[resolve, other]) as engine:
        assert_type(engine, Engine)
        assert_type(engine.run("r", resolve, "incident"), Reservation)
        assert_type(engine.run("r", resolve, "incident", limit=3), Reservation)
        engine.run("r", other)
        assert_type(engine.recover("r"), Recovered[Any])
        assert_type(engine.get("r").status, Status)
        assert_type(engine.list(), list[RunInfo])
        engine.run("r", resolve)  # expect-error: the input is missing
        engine.run("r", resolve, 7)  # expect-error: wrong input
        engine.run("r", resolve, "incident", colour="red")  # expect-error: no such input
        engine.run("r", choose, 2)  # expect-error: not a workflow
        wrong: str = engine.run("r", resolve, "incident")  # expect-error: a Reservation
        print(wrong)


wanted: Workflow[[], None] = other


@effect(contracts.Probeable(batch=contracts.Batch.PER_ITEM_RESULT), rejects=(OutOfStock,))
def ship(call: Call, *, skus: list[str]) -> Batched[int]:
    return Batched([Found(1), Refused(OutOfStock(sku=skus[0])), InFlight()])


@ship.probe
def shipped(call: Call, *, skus: list[str]) -> Answer[Batched[int]]:
    return Found(Batched([Found(1)]))


@effect(contracts.Read(valid_for=timedelta(minutes=1)))
def in_stock(call: Call, *, sku: str) -> int:
    return 1


@effect(contracts.Keyed(window=contracts.UNPUBLISHED))
def once_only(call: Call) -> None:
    return None


@workflow
def batches(run: Run) -> int:
    sent = run.perform(ship(skus=["a", "b"]))
    assert_type(sent, Batched[int])
    assert_type(sent.applied, dict[int, int])
    assert_type(sent.rejected, dict[int, Rejection])
    return assert_type(run.perform(in_stock(sku="a")), int)


# -- wrong -------------------------------------------------------------------------------------------------------------

reserve(sku="a", units="2")  # expect-error: wrong type
reserve(units=2)  # expect-error: missing argument
reserve(sku="a", colour="red")  # expect-error: no such argument
reserve("a", units=2)  # expect-error: keyword-only
reserve(Reservation("1", 2))  # expect-error: not its argument
release(sku="a", units=2)  # expect-error: the outcome is missing
OutOfStock("a")  # expect-error: fields are keyword-only
OutOfStock(sku=1)  # expect-error: wrong field type
OutOfStock()  # expect-error: missing field
resolve.bind(5)  # expect-error: wrong input
resolve.bind()  # expect-error: missing input
Found()  # expect-error: an outcome is needed
Refused(errors.EffectInDoubt())  # expect-error: not a Rejection
Call(key="k")  # expect-error: a driver knows more than that
effect()  # expect-error: no contract
effect(contracts.Keyed())  # expect-error: no window
effect(contracts.Keyed(window=None))  # expect-error: say UNPUBLISHED
effect(contracts.FirstSent(window=contracts.UNPUBLISHED))  # expect-error: a fence is a number
effect(contracts.Read(window=timedelta(hours=1)))  # expect-error: a read has none
effect(contracts.Opaque(), timeout=30)  # expect-error: not a timedelta
effect(contracts.Opaque(), rejects=(ValueError,))  # expect-error: not a Rejection


@effect  # expect-error: no contract
def bare(call: Call) -> None:
    return None


@effect(contracts.Opaque())  # expect-error: the first parameter is no Call
def without_call(sku: str) -> None:
    return None


@reserve.probe  # expect-error: another parameter type
def wrong_parameter(call: Call, *, sku: int, units: int = 1) -> Answer[Reservation]:
    return Absent()


@reserve.probe  # expect-error: another outcome
def wrong_outcome(call: Call, *, sku: str, units: int = 1) -> Answer[int]:
    return Absent()


@reserve.probe  # expect-error: not an answer
def no_answer(call: Call, *, sku: str, units: int = 1) -> Reservation:
    return Reservation("1", 1)


@reserve.compensation(contracts.Opaque())  # expect-error: no outcome
def forgets_the_outcome(call: Call, *, sku: str, units: int = 1) -> None:
    return None


@workflow
def misuses(run: Run, incident: str) -> int:
    run.decide("plan", choose, "many")  # expect-error: wrong argument
    run.decide("plan", choose)  # expect-error: missing argument
    run.perform(reserve, key="reservation-1")  # expect-error: not bound
    run.perform(reserve(sku="a"), "reservation-1")  # expect-error: key is keyword-only
    run.perform(reserve(sku="a"), key=1)  # expect-error: a key is text
    count: int = run.perform(reserve(sku="a"))  # expect-error: a Reservation
    print(count)
    print(run.attempt(reserve(sku="a")).value)  # expect-error: may be rejected
    return run.perform(reserve(sku="a"))  # expect-error: a Reservation


@workflow  # expect-error: a def takes Run
def wrong_colour(run: AsyncRun) -> None:
    return None


@workflow
async def wrong_run(run: Run) -> None:
    return None


wrong_run.bind()  # expect-error: an async def takes AsyncRun
never: Effect[[int], str] = notify  # expect-error: other parameters and outcome


@workflow
def branches(run: Run) -> int:
    def one(branch: Run, number: int) -> str:
        return str(branch.decide("number", lambda: number))

    def booked(branch: Run) -> Reservation:
        return branch.perform(reserve(sku="FILTER-A", units=1))

    def numbered(branch: Run) -> str:
        return one(branch, 1)

    assert_type(run.gather(booked, numbered), tuple[Reservation, str])
    assert_type(run.gather(*[booked, booked]), tuple[Reservation, ...])
    assert_type(run.map(one, [1, 2]), list[str])
    assert_type((run.now()).year, int)
    run.map(one, ["a"])  # expect-error: items of another type
    run.gather(one)  # expect-error: a body that wants more than a run
    run.gather(booked(run))  # expect-error: a value, not a body
    return len(run.gather(booked))


@workflow
def small(run: Run, sku: str, units: int = 1) -> Reservation:
    return run.perform(reserve(sku=sku, units=units))


@workflow
def parents(run: Run) -> int:
    assert_type(small("FILTER-A"), BoundWorkflow[Reservation])
    child = run.start(small("FILTER-A", units=2), run_id="small-1", detached=True)
    assert_type(child, Child[Reservation])
    assert_type(child.result(), Reservation)
    assert_type(run.await_child(child), Reservation)
    assert_type(run.call_child(small("HOSE"), name="hose"), Reservation)
    assert_type(run.map(lambda branch, sku: branch.call_child(small(sku)), ["HOSE"]), list[Reservation])
    small(7)  # expect-error: wrong input
    run.start(small, run_id="small-2")  # expect-error: not bound
    run.start(small("HOSE"), "small-3")  # expect-error: run_id is keyword-only
    run.call_child(reserve(sku="HOSE"))  # expect-error: an effect, not a workflow
    run.perform(small("HOSE"))  # expect-error: a workflow, not an effect
    count: int = child.result()  # expect-error: a Reservation
    return count


@workflow(compensate_on=("failed", "cancelled"), keeps=(notify,))
def undoes(run: Run) -> Compensated:
    with run.saga("booking", keeps=[notify], when={"failed"}):
        run.perform(reserve(sku="a"))
    with run.saga("booking") as scope:
        assert_type(scope, None)
    assert_type(run.compensate().undone, tuple[str, ...])
    run.saga()  # expect-error: no name
    run.saga("booking", when={"completed"})  # expect-error: neither failed nor cancelled
    run.saga("booking", keeps=("notify",))  # expect-error: names, and no effects
    return run.compensate(keeps=(reserve, notify))


@workflow(compensate_on=("completed",))  # expect-error: neither failed nor cancelled
def undoes_what_went_well(run: Run) -> None:
    return None
