"""Messages to runs: one behaviour on memory, SQLite and PostgreSQL."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import count

import pytest

from recovery.core.entries import Status
from recovery.core.resting import GRAVEST_FIRST
from recovery.ports import Appended, Delivered, Journal, Message, NotOpen, RunRow, SlotTaken, Stub
from tests.conformance.making import appended, member, opened

_tokens = count(1)


def message(*, slot: str = "", token: str = "", body: str = '{"approved":true}', at_us: int = 50, run_id: str = "run-1") -> Message:
    return Message(
        run_id=run_id,
        kind="signal",
        name="approval",
        slot=slot,
        body=body,
        by="ann",
        at_us=at_us,
        token=token or f"m{next(_tokens)}",
    )


def waiting(journal: Journal, run: RunRow, next_look_us: int | None = None) -> RunRow:
    return appended(journal, member(run, status=Status.WAITING, reason="waiting for approval", next_look_us=next_look_us))


def settled(journal: Journal, run: RunRow) -> RunRow:
    return appended(journal, member(run, status=Status.COMPLETED))


def test_messages_are_read_in_the_order_of_their_delivery(journal: Journal) -> None:
    opened(journal)
    opened(journal, "run-2")
    given = [message(), message(run_id="run-2"), message(body="2")]
    assert [journal.deliver(each) for each in given] == [
        Delivered(replace(given[0], number=1)),
        Delivered(replace(given[1], number=1)),
        Delivered(replace(given[2], number=2)),
    ]
    assert journal.inbox("run-1") == [replace(given[0], number=1), replace(given[2], number=2)]
    assert journal.inbox("run-1", after=1) == [replace(given[2], number=2)]
    assert journal.inbox("run-1", after=2) == []
    assert journal.inbox("nobody") == []


def test_the_first_message_of_a_slot_wins(journal: Journal) -> None:
    opened(journal)
    first, second = message(slot="approval#1"), message(slot="approval#1", body='{"approved":false}')
    journal.deliver(first)
    assert journal.deliver(second) == SlotTaken(replace(first, number=1))
    assert journal.inbox("run-1") == [replace(first, number=1)]
    assert journal.deliver(message(slot="approval#2")) != SlotTaken(replace(first, number=1))


def test_a_repeated_delivery_is_delivered_once(journal: Journal) -> None:
    """Its acknowledgement was lost; meanwhile the run took the message in, and settled."""
    run = opened(journal)
    given = message(slot="approval#1")
    journal.deliver(given)
    settled(journal, run)
    assert journal.deliver(given) == Delivered(replace(given, number=1))
    assert journal.inbox("run-1") == [replace(given, number=1)]


def test_neither_a_settled_run_nor_an_unknown_one_takes_messages(journal: Journal) -> None:
    assert journal.deliver(message()) == NotOpen(None)
    run = settled(journal, opened(journal))
    assert journal.deliver(message()) == NotOpen(run)
    assert journal.inbox("run-1") == []


def test_a_message_moves_no_head(journal: Journal) -> None:
    run = opened(journal)
    journal.deliver(message())
    assert journal.find("run-1") == run
    assert journal.append([member(run)]) == [Appended()]


@pytest.mark.parametrize("status", GRAVEST_FIRST)
@pytest.mark.parametrize(("look_us", "then_us"), [(None, 50), (1_000, 50), (10, 10)])
def test_a_message_wakes_a_run_that_rests(journal: Journal, status: Status, look_us: int | None, then_us: int) -> None:
    """Whatever the gravest of its branches rests on: another one may wait for this."""
    run = appended(journal, member(opened(journal), status=status, next_look_us=look_us))
    journal.deliver(message())
    assert journal.find("run-1") == replace(run, next_look_us=then_us)


@pytest.mark.parametrize("status", [Status.RUNNING, Status.QUEUED, Status.DIVERGED])
def test_a_message_wakes_no_run_that_does_not_rest(journal: Journal, status: Status) -> None:
    run = appended(journal, member(opened(journal), status=status, next_look_us=1_000))
    journal.deliver(message())
    assert journal.find("run-1") == run


def test_a_refused_message_wakes_nobody(journal: Journal) -> None:
    run = opened(journal)
    journal.deliver(message(slot="approval#1"))
    run = waiting(journal, run, 1_000)
    journal.deliver(message(slot="approval#1"))
    assert journal.find("run-1") == run


def test_a_forgotten_run_keeps_no_messages(journal: Journal) -> None:
    run = opened(journal)
    journal.deliver(message())
    assert journal.forget(settled(journal, run), Stub("run-1", "digest", "ann", "retention", 99))
    assert journal.inbox("run-1") == []
    assert isinstance(journal.deliver(message()), NotOpen)


def test_no_wake_up_is_lost(journal: Journal) -> None:
    """A message and the append that says that the run waits, at the same moment: the run is woken, or finds the message behind its append."""
    for number in range(20):
        run = opened(journal, f"run-{number}")
        start = threading.Barrier(2)

        def tell(run_id: str = run.run_id, start: threading.Barrier = start) -> None:
            start.wait()
            journal.deliver(message(run_id=run_id))

        sender = threading.Thread(target=tell)
        sender.start()
        start.wait()
        waiting(journal, run)
        seen = journal.inbox(run.run_id)
        sender.join()
        now = journal.find(run.run_id)
        assert now is not None
        assert seen or now.next_look_us == 50


def test_of_two_messages_for_one_slot_at_the_same_moment_one_wins(journal: Journal) -> None:
    for number in range(10):
        run = opened(journal, f"run-{number}")
        start = threading.Barrier(2)
        came = []

        def tell(run_id: str = run.run_id, start: threading.Barrier = start, came: list[object] = came) -> None:
            start.wait()
            came.append(journal.deliver(message(run_id=run_id, slot="approval#1")))

        senders = [threading.Thread(target=tell) for _ in range(2)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        assert sorted(type(each).__name__ for each in came) == ["Delivered", "SlotTaken"]
