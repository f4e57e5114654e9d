"""The simulated environment's further knobs, each on both sides: what it does with the knob, and what without."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from recovery.core.contracts import Batch, Deletion, Enforced, Replay
from recovery.definitions.answer import (
    Absent,
    Accepted,
    Closed,
    Expired,
    Foreign,
    Found,
    Gone,
    InFlight,
    Mismatch,
    Refused,
    ReplyWas,
    TurnedAway,
    Unreachable,
)
from recovery.definitions.batched import Batched
from recovery.definitions.call import Call
from recovery.testing import Connection, Knobs, ManualClock, Marking, OutOfStock, SimulatedEnvironment
from tests.scenarios.test_environment import ask, call_of, world

MINUTE = timedelta(minutes=1)


def outside(**knobs: Any) -> tuple[ManualClock, SimulatedEnvironment, Connection]:
    return world(**knobs)


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("enforces", "epoch"),
        ("deletion", "invisible"),
        ("remembers", "success"),
        ("remembers", frozenset({"success"})),
        ("window", 5),
        ("lag", -MINUTE),
        ("retention", -MINUTE),
        ("lock_for", -MINUTE),
    ],
)
def test_a_knob_that_only_looks_turned_is_refused(knob: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"knob {knob}: "):
        Knobs(**{knob: value})


def test_a_knob_that_does_nothing_without_another_is_refused() -> None:
    with pytest.raises(ValueError, match="knob lock_for: nothing is locked"):
        Knobs(locks=False, lock_for=MINUTE)
    with pytest.raises(ValueError, match="knob asking_raises: no epoch"):
        Knobs(asking_raises=True)


def late_call(environment: SimulatedEnvironment, key: str = "k", **changed: Any) -> Call:
    """A call as a sender makes it that knows the environment's time."""
    now = environment.warehouse.look_up(call_of("nothing", 1))
    assert isinstance(now, Absent)
    assert now.as_of is not None
    return replace(call_of(key, 2), send_until=now.as_of, first_sent=now.as_of, **changed)


def send(connection: Connection, call: Call, marking: Marking = Marking.KEY) -> Any:
    try:
        return connection.reserve(call, {"sku": "A", "qty": 2}, marking)
    except (OutOfStock, OSError) as error:
        return error
    except ReplyWas as reply:
        return reply.answer


class Died(BaseException):
    """What ends a sender."""


def dying_at(environment: SimulatedEnvironment, place: str) -> Connection:
    def gate(passed: str) -> None:
        if passed == place:
            raise Died

    return environment.connect("D", gate)


def die(environment: SimulatedEnvironment, place: str, key: str = "k", marking: Marking = Marking.KEY) -> None:
    with pytest.raises(Died):
        dying_at(environment, place).reserve(call_of(key, 2), {"sku": "A", "qty": 2}, marking)


def test_a_copy_of_what_is_worked_on_is_in_flight_until_it_has_ended() -> None:
    clock, environment, connection = outside()
    environment.faults.takes_us.append(60_000_000)
    die(environment, "environment.working")
    assert (ask(connection, "k"), connection.look_up(call_of("k", 2))) == (InFlight(), InFlight())
    clock.advance(MINUTE)
    assert ask(connection, "k")["receipt"] == "R1"
    assert environment.executions() == {"k": 1}


@pytest.mark.parametrize("knobs", [{"locks": False}, {"lock_for": timedelta(seconds=10)}])
def test_without_a_lock_that_outlives_the_work_both_copies_act(knobs: dict[str, Any]) -> None:
    clock, environment, connection = outside(**knobs)
    environment.faults.takes_us.append(60_000_000)
    die(environment, "environment.working")
    clock.advance(timedelta(seconds=10))
    assert ask(connection, "k")["receipt"] == "R1"
    clock.advance(MINUTE)
    assert environment.executions() == {"k": 2}


def test_a_plain_read_misses_what_is_worked_on() -> None:
    _, environment, connection = outside(reads_open=False)
    environment.faults.takes_us.append(60_000_000)
    die(environment, "environment.working")
    assert isinstance(connection.look_up(call_of("k", 2)), Absent)


@pytest.mark.parametrize(("cancels", "done"), [(True, {}), (False, {"k": 1})])
def test_a_lost_sender_ends_the_work_or_not(cancels: bool, done: dict[str, int]) -> None:
    clock, environment, _ = outside(disconnect_cancels=cancels)
    environment.faults.takes_us.append(60_000_000)
    die(environment, "environment.working")
    clock.advance(MINUTE)
    assert environment.executions() == done


@pytest.mark.parametrize(("opens", "done"), [(True, {"k": 2}), (False, {"k": 1})])
def test_without_its_key_store_it_executes_unprotected_or_not(opens: bool, done: dict[str, int]) -> None:
    _, environment, connection = outside(fail_open=opens)
    ask(connection, "k")
    environment.warehouse.key_store_down = True
    assert (ask(connection, "k") == TurnedAway()) is not opens
    assert environment.executions() == done


def test_a_deadline_is_checked_by_its_own_clock_to_the_last_microsecond() -> None:
    clock, environment, connection = outside(enforces=Enforced.DEADLINE)
    first, second = late_call(environment), late_call(environment, "k2")
    assert send(connection, first)["receipt"] == "R1"
    clock.advance(timedelta(microseconds=1))
    assert send(connection, second) == TurnedAway()


def test_a_deadline_is_checked_again_when_the_work_ends() -> None:
    clock, environment, connection = outside(enforces=Enforced.DEADLINE)
    environment.faults.takes_us.append(1_000_000)
    assert send(connection, late_call(environment)) == TurnedAway()
    clock.advance(MINUTE)
    assert environment.executions() == {}


def test_a_later_epoch_bars_an_earlier_one() -> None:
    _, environment, connection = outside(enforces=Enforced.EPOCH)
    call = call_of("k", 2)
    environment.warehouse.failures.append(False)
    send(connection, replace(call, epoch="0.2"))
    assert send(connection, call) == TurnedAway()
    assert send(connection, replace(call, epoch="0.10"))["receipt"] == "R1"


@pytest.mark.parametrize("raises", [True, False])
def test_a_question_raises_the_epoch_or_not(raises: bool) -> None:
    _, _, connection = outside(enforces=Enforced.EPOCH, asking_raises=raises)
    answer = connection.look_up(replace(call_of("k", 2), epoch="0.2"))
    assert isinstance(answer, Absent)
    assert answer.raised == ("0.2" if raises else "")
    assert (send(connection, call_of("k", 2)) == TurnedAway()) is raises


def test_what_was_first_sent_too_long_ago_is_refused() -> None:
    clock, environment, connection = outside(window=MINUTE)
    call = late_call(environment)
    clock.advance(MINUTE + timedelta(microseconds=1))
    assert send(connection, call, Marking.FIRST_SENT) == Expired()
    assert send(connection, call, Marking.KEY)["receipt"] == "R1"


def test_a_queue_accepts_copies_and_delivers_once_inside_its_window() -> None:
    clock, environment, connection = outside(window=MINUTE)
    assert [ask(connection, "k", marking=Marking.SWALLOW) for _ in range(2)] == [Accepted(), Accepted()]
    clock.advance(MINUTE)
    ask(connection, "k", marking=Marking.SWALLOW)
    assert environment.executions() == {"k": 2}


def test_a_name_is_ours_foreign_or_another_requests() -> None:
    _, environment, connection = outside()
    ask(connection, "k", marking=Marking.NAME)
    again = ask(connection, "k", marking=Marking.NAME)
    assert isinstance(again, Found)
    assert again.receipt == "R1"
    assert ask(connection, "k", 3, marking=Marking.NAME) == Mismatch()
    environment.warehouse.occupy("theirs")
    assert ask(connection, "theirs", marking=Marking.NAME) == Foreign()
    assert connection.look_up(call_of("theirs", 2), marking=Marking.NAME) == Foreign()
    assert ask(connection, "theirs") == Mismatch()


@pytest.mark.parametrize("deletion", [Deletion.VISIBLE, Deletion.INVISIBLE])
def test_a_removed_object_shows_or_not_and_its_name_is_free(deletion: Deletion) -> None:
    _, environment, connection = outside(deletion=deletion)
    ask(connection, "k", marking=Marking.NAME)
    environment.warehouse.remove("k")
    answer = connection.look_up(call_of("k", 2))
    assert answer == Gone() if deletion is Deletion.VISIBLE else isinstance(answer, Absent)
    assert ask(connection, "k", marking=Marking.NAME)["receipt"] == "R2"


def test_what_is_held_is_nobody_elses_and_is_taken_once() -> None:
    _, environment, connection = outside(stock=2)
    die(environment, "environment.prepared", marking=Marking.HOLD)
    assert environment.stock == {"A": 0}
    assert ask(connection, "other", marking=Marking.HOLD) == OutOfStock(sku="A", available=0)
    assert ask(connection, "k", marking=Marking.HOLD)["receipt"] == "R1"
    assert isinstance(ask(connection, "k", marking=Marking.HOLD), Found)
    assert environment.executions() == {"k": 1}


def test_a_close_leaves_a_tombstone_or_none() -> None:
    for tombstone, after in ((True, Closed()), (False, "R1")):
        _, _, connection = outside(tombstone=tombstone)
        connection.close(call_of("k", 2))
        came = ask(connection, "k")
        assert (came if came == Closed() else came["receipt"]) == after


def test_a_cancel_undoes_what_is_there_and_bars_nothing() -> None:
    _, environment, connection = outside()
    assert not connection.cancel(call_of("k", 2))
    ask(connection, "k", marking=Marking.MARKER)
    assert connection.cancel(call_of("k", 2))
    assert environment.stock == {"A": 10}
    assert ask(connection, "k", marking=Marking.MARKER)["receipt"] == "R2"


ITEMS: list[dict[str, Any]] = [{"sku": "A", "qty": 4}, {"sku": "A", "qty": 9}, {"sku": "A", "qty": 3}]


def test_an_atomic_batch_is_all_or_nothing() -> None:
    _, environment, connection = outside(batch=Batch.ATOMIC)
    call = call_of("k", 2)
    with pytest.raises(OutOfStock):
        connection.reserve(call, {"items": [{"sku": "A", "qty": 4}, {"sku": "A", "qty": 11}]})
    assert environment.stock == {"A": 10}
    assert connection.reserve(call_of("k2", 2), {"items": ITEMS[::2]})["receipt"] == "R1"
    assert environment.stock == {"A": 3}


@pytest.mark.parametrize(("batch", "done"), [(Batch.PER_ITEM_KEY, {"k/0": 1, "k/2": 1}), (Batch.PER_ITEM_RESULT, {"k/0": 2})])
def test_a_batch_that_broke_off_is_taken_up_by_item_or_done_anew(batch: Batch, done: dict[str, int]) -> None:
    _, environment, connection = outside(batch=batch)
    environment.warehouse.breaks.append(1)
    with pytest.raises(ConnectionError):
        connection.reserve_each(call_of("k", 2), ITEMS)
    shown = connection.look_up(call_of("k", 2), items=3)
    assert isinstance(shown, Found)
    assert isinstance(shown.outcome, Batched)
    assert [type(item) for item in shown.outcome.items] == [Found, Unreachable, Unreachable]
    came = connection.reserve_each(call_of("k", 2), ITEMS)
    assert isinstance(came.items[1], Refused)
    assert environment.executions() == done


def test_a_replay_shows_the_first_reply_or_the_present_state() -> None:
    for replay in (Replay.ORIGINAL, Replay.CURRENT):
        _, environment, connection = outside(replay=replay)
        ask(connection, "k")
        environment.warehouse.alter("k", {"qty": 5})
        came = ask(connection, "k")
        assert (came.outcome["qty"] if isinstance(came, Found) else came["qty"]) == (5 if replay is Replay.CURRENT else 2)


def test_a_receipt_is_kept_for_so_long() -> None:
    clock, _, connection = outside(retention=MINUTE)
    ask(connection, "k")
    clock.advance(MINUTE - timedelta(microseconds=1))
    assert isinstance(connection.look_up(call_of("k", 2)), Found)
    clock.advance(timedelta(microseconds=1))
    assert isinstance(connection.look_up(call_of("k", 2)), Absent)


def test_another_scope_knows_nothing_and_a_blind_credential_sees_nothing() -> None:
    _, environment, connection = outside()
    ask(connection, "k")
    environment.warehouse.hidden = True
    assert isinstance(connection.look_up(call_of("k", 2)), Absent)
    environment.warehouse.hidden = False
    environment.warehouse.scope = "elsewhere"
    assert isinstance(connection.look_up(call_of("k", 2)), Absent)
    assert ask(connection, "k")["receipt"] == "R2"
    environment.warehouse.scope = ""
    assert ask(connection, "k")["receipt"] == "R1"


def test_a_restored_environment_has_forgotten_what_came_after_the_backup() -> None:
    _, environment, connection = outside()
    with pytest.raises(ValueError, match="backed up"):
        environment.restore()
    ask(connection, "before")
    environment.back_up()
    ask(connection, "after")
    environment.restore()
    assert environment.stock == {"A": 8}
    assert ask(connection, "before")["receipt"] == "R1"
    assert ask(connection, "after")["receipt"] == "R3"  # ids are not given twice


def test_requests_are_turned_away_without_a_trace() -> None:
    _, environment, connection = outside()
    environment.warehouse.turns_away = 1
    assert ask(connection, "k") == TurnedAway()
    assert ask(connection, "k")["receipt"] == "R1"


def test_every_knob_is_tried_here_or_beside() -> None:
    beside = {"window", "window_starts", "remembers", "mismatch", "lag"}
    here = {
        "retention", "locks", "lock_for", "reads_open", "fail_open", "tombstone", "deletion", "replay", "batch", "enforces",
        "asking_raises", "disconnect_cancels",
    }  # fmt: skip
    assert set(Knobs.__dataclass_fields__) == beside | here
