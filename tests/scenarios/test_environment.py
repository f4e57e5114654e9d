"""The simulated environment: against a model a few lines long, and knob by knob."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from recovery.codec import fingerprint
from recovery.definitions.answer import Absent, Closed, Found, Indeterminate, Mismatch, NotSent, Refused, ReplyWas, Unreachable
from recovery.definitions.call import Call
from recovery.testing import (
    Anchor,
    Connection,
    Knobs,
    ManualClock,
    Marking,
    OnMismatch,
    OutOfStock,
    Remembered,
    SimulatedEnvironment,
)

KEYS = st.sampled_from(["k1", "k2", "k3"])
UNITS = st.integers(1, 4)
WINDOW = timedelta(hours=1)


def call_of(key: str, qty: int, *, remaining: float = 30.0) -> Call:
    return Call(
        run_id="run-1", step="reserve#1", key=key, fingerprint=fingerprint({"qty": qty}), epoch="0.1", attempt=1, scope="",
        send_until=datetime(2026, 1, 1, tzinfo=UTC), remaining=lambda: remaining,
    )  # fmt: skip


def ask(connection: Connection, key: str, qty: int = 2, marking: Marking = Marking.KEY, **about: Any) -> Any:
    """What comes back, raised or returned."""
    try:
        return connection.reserve(call_of(key, qty, **about), {"sku": "A", "qty": qty}, marking)
    except (OutOfStock, OSError) as error:
        return error
    except ReplyWas as reply:
        return reply.answer


def world(stock: int = 10, **knobs: Any) -> tuple[ManualClock, SimulatedEnvironment, Connection]:
    clock = ManualClock()
    environment = SimulatedEnvironment(clock, stock={"A": stock}, knobs=Knobs(**knobs))
    return clock, environment, environment.connect("P")


class AgainstModel(RuleBasedStateMachine):
    """A key store is a dict of key -> (request, outcome, since); forgetting is deleting. Everything else follows."""

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.environment, self.connection = world(stock=12, window=WINDOW)
        self.left = 12
        self.known: dict[str, tuple[int, Any, int]] = {}
        self.done: dict[str, int] = {}

    @rule(key=KEYS, qty=UNITS)
    def send(self, key: str, qty: int) -> None:
        self.forget()
        came = ask(self.connection, key, qty)
        if key in self.known:
            request, outcome, _ = self.known[key]
            assert came == (outcome if request == qty else Mismatch())
            return
        if self.left < qty:
            assert came == OutOfStock(sku="A", available=self.left)
        else:
            self.left -= qty
            self.done[key] = self.done.get(key, 0) + 1
            assert came == {"receipt": f"R{sum(self.done.values())}", "sku": "A", "qty": qty}
        self.known[key] = (qty, came, self.clock.boot_us())

    @rule(key=KEYS)
    def look(self, key: str) -> None:
        self.forget()
        answer = self.connection.look_up(call_of(key, 1))
        if key in self.known and isinstance(self.known[key][1], OutOfStock):
            assert isinstance(answer, Refused)
        else:
            assert isinstance(answer, Found if key in self.done else Absent)

    @rule(minutes=st.integers(1, 40))
    def wait(self, minutes: int) -> None:
        self.clock.advance(timedelta(minutes=minutes))

    @rule(more=UNITS)
    def restock(self, more: int) -> None:
        self.environment.warehouse.restock({"A": more})
        self.left += more

    @invariant()
    def stock_and_counts_agree(self) -> None:
        assert self.environment.stock == {"A": self.left}
        assert self.environment.executions() == self.done

    def forget(self) -> None:
        end = WINDOW // timedelta(microseconds=1)
        self.known = {key: kept for key, kept in self.known.items() if self.clock.boot_us() < kept[2] + end}


AgainstModel.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestAgainstModel = AgainstModel.TestCase


def test_a_window_ends_exactly() -> None:
    clock, environment, connection = world(window=WINDOW)
    ask(connection, "k")
    clock.advance(WINDOW - timedelta(microseconds=1))
    assert ask(connection, "k")["receipt"] == "R1"
    clock.advance(timedelta(microseconds=1))
    assert ask(connection, "k")["receipt"] == "R2"
    assert environment.executions() == {"k": 2}


@pytest.mark.parametrize(("anchor", "receipt"), [(Anchor.FIRST_SEEN, "R2"), (Anchor.COMPLETED, "R1")])
def test_a_windows_anchor(anchor: Anchor, receipt: str) -> None:
    """The first request is declined and forgotten; the window counts from it, or from the one that is remembered."""
    clock, environment, connection = world(stock=0, window=WINDOW, window_starts=anchor, remembers=frozenset({Remembered.SUCCESS}))
    assert ask(connection, "k") == OutOfStock(sku="A", available=0)
    clock.advance(timedelta(minutes=40))
    environment.warehouse.restock({"A": 10})
    assert ask(connection, "k")["receipt"] == "R1"
    clock.advance(timedelta(minutes=40))
    assert ask(connection, "k")["receipt"] == receipt


def test_a_rejection_is_remembered_or_forgotten() -> None:
    for remembers, receipt in ((frozenset(Remembered), None), (frozenset({Remembered.SUCCESS}), "R1")):
        _, environment, connection = world(stock=1, remembers=remembers)
        ask(connection, "k")
        environment.warehouse.restock({"A": 10})
        came = ask(connection, "k")
        assert came == (OutOfStock(sku="A", available=1) if receipt is None else {"receipt": receipt, "sku": "A", "qty": 2})


@pytest.mark.parametrize("after", [False, True])
def test_a_failure_is_repeated_for_ever_if_remembered(after: bool) -> None:
    _, environment, connection = world(remembers=frozenset(Remembered))
    environment.warehouse.failures.append(after)
    assert isinstance(ask(connection, "k"), ConnectionError)
    assert ask(connection, "k") == ask(connection, "k") == Indeterminate()
    assert environment.executions() == ({"k": 1} if after else {})


def test_a_forgotten_failure_after_its_effect_executes_twice() -> None:
    _, environment, connection = world()
    environment.warehouse.failures.append(True)
    ask(connection, "k")
    ask(connection, "k")
    assert environment.executions() == {"k": 2}


def test_a_mismatch_is_refused_or_not_noticed() -> None:
    for knob, came in ((OnMismatch.REFUSES, Mismatch()), (OnMismatch.REPLAYS, {"receipt": "R1", "sku": "A", "qty": 2})):
        _, _, connection = world(mismatch=knob)
        ask(connection, "k", 2)
        assert ask(connection, "k", 3) == came


def test_markings() -> None:
    """A marker can be found and is not deduplicated; without one there is nothing to find."""
    _, environment, connection = world()
    ask(connection, "m", marking=Marking.MARKER)
    ask(connection, "m", marking=Marking.MARKER)
    ask(connection, "n", marking=Marking.NONE)
    assert environment.executions() == {"m": 2, "n": 1}
    assert isinstance(connection.look_up(call_of("m", 2)), Found)
    assert isinstance(connection.look_up(call_of("n", 2)), Absent)


def test_a_look_up_lags() -> None:
    clock, _, connection = world(lag=timedelta(seconds=60))
    ask(connection, "k", marking=Marking.MARKER)
    clock.advance(timedelta(seconds=59))
    answer = connection.look_up(call_of("k", 2))
    assert answer == Absent(as_of=datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC))
    clock.advance(timedelta(seconds=1))
    assert isinstance(connection.look_up(call_of("k", 2)), Found)


def test_a_held_request_lands_on_its_own() -> None:
    clock, environment, connection = world()
    environment.faults.hold.append(60_000_000)
    assert isinstance(ask(connection, "k", remaining=10.0), TimeoutError)
    assert (clock.boot_us(), environment.executions()) == (10_000_000, {})
    clock.advance(timedelta(seconds=50))
    assert environment.executions() == {"k": 1}


def test_a_held_request_that_arrives_in_time_is_answered() -> None:
    clock, environment, connection = world()
    environment.faults.hold.append(5_000_000)
    assert ask(connection, "k")["receipt"] == "R1"
    assert clock.boot_us() == 5_000_000


def test_a_request_held_until_delivered() -> None:
    clock, environment, connection = world()
    environment.faults.hold.append(None)
    assert isinstance(ask(connection, "k"), TimeoutError)
    clock.advance(timedelta(days=3))
    assert environment.executions() == {}
    assert (environment.deliver(), environment.deliver()) == (1, 0)
    assert environment.executions() == {"k": 1}


def test_a_dropped_reply_is_a_done_effect() -> None:
    _, environment, connection = world()
    environment.faults.drop_replies = 1
    assert isinstance(ask(connection, "k"), ConnectionError)
    assert environment.executions() == {"k": 1}
    assert ask(connection, "k")["receipt"] == "R1"


def test_down_means_nothing_arrives_and_nothing_is_told() -> None:
    _, environment, connection = world()
    environment.faults.down = True
    assert isinstance(ask(connection, "k"), ConnectionError)
    assert isinstance(connection.look_up(call_of("k", 2)), Unreachable)
    assert isinstance(connection.close(call_of("k", 2)), Unreachable)
    environment.faults.down = False
    assert environment.executions() == {}
    assert ask(connection, "k")["receipt"] == "R1"


def test_a_refused_connection_is_proof_that_nothing_left() -> None:
    _, environment, connection = world()
    environment.faults.down = environment.faults.refuses = True
    assert ask(connection, "k") == NotSent()
    assert environment.executions() == {}


def test_pruned_receipts_are_absent_and_keys_act_again() -> None:
    _, environment, connection = world()
    ask(connection, "k")
    environment.warehouse.prune()
    assert isinstance(connection.look_up(call_of("k", 2)), Absent)
    assert ask(connection, "k")["receipt"] == "R2"


def test_close_tells_the_outcome_or_refuses_for_ever() -> None:
    clock, environment, connection = world(stock=2, window=WINDOW)
    ask(connection, "done", 2)
    ask(connection, "declined", 2)
    assert isinstance(connection.close(call_of("done", 2)), Found)
    assert isinstance(connection.close(call_of("declined", 2)), Refused)
    assert connection.close(call_of("new", 2)) == Closed()
    clock.advance(timedelta(days=400))
    environment.warehouse.restock({"A": 10})
    assert ask(connection, "new") == Closed()
    assert environment.executions() == {"done": 1}


def test_places_are_passed_in_order() -> None:
    _, environment, _ = world()
    passed: list[str] = []
    gated = environment.connect("P", passed.append)
    ask(gated, "k")
    environment.faults.hold.append(1)
    ask(gated, "l")
    assert [place for place in passed if place] == [
        "environment.received", "environment.committed", "environment.held", "environment.committed",
    ]  # fmt: skip


def test_a_connection_shows_nothing_of_the_judge() -> None:
    _, _, connection = world()
    assert {name for name in dir(connection) if not name.startswith("_")} == {
        "reserve", "reserve_each", "look_up", "close", "cancel", "available",
    }  # fmt: skip
    assert "Simulated" not in repr(connection)
