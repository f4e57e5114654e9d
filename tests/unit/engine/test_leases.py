"""Leases: who is kept alive, by which claim, and for how long."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

from recovery.claims import Left
from recovery.core.entries import Status
from recovery.core.errors import JournalCorrupt
from recovery.core.ids import Epoch
from recovery.engine.leases import Leases
from recovery.ports import Hold, Message, Owner, RunRow
from recovery.storage.memory import MemoryJournal

ROW = RunRow(
    run_id="r", workflow="w", status=Status.RUNNING, reason="", input_digest="d", epoch=Epoch(0, 1), owner=Owner("first"),
    lease_counter=0, lease_term_us=1, head=1, head_digest="d", created_at_us=0, updated_at_us=0,
)  # fmt: skip


class Renewing(MemoryJournal):
    """Says which claims were renewed. `fails` is raised by the next renewal."""

    def __init__(self) -> None:
        super().__init__()
        self.renewed: list[str] = []
        self.news = threading.Semaphore(0)
        self.fails: Exception | None = None
        self.kept = True

    def renew(self, run_id: str, owner: str, epoch: Epoch) -> bool:
        self.renewed.append(owner)
        self.news.release()
        if self.fails is not None:
            error, self.fails = self.fails, None
            raise error
        return self.kept

    def wait(self, times: int = 1) -> None:
        for _ in range(times):
            assert self.news.acquire(timeout=30)


def leases(journal: Renewing) -> Leases:
    return Leases(journal, timedelta(milliseconds=1))


def test_the_end_of_an_older_claim_leaves_the_newer_one_of_the_same_run_alive() -> None:
    journal = Renewing()
    kept = leases(journal)
    newer = replace(ROW, owner=Owner("second"))
    kept.hold(ROW)
    kept.hold(newer)
    kept.drop(ROW)
    journal.wait(3)
    kept.drop(newer)
    kept.close()
    assert journal.renewed[-1] == "second"


def test_closing_an_engine_keeps_the_runs_alive_that_are_still_at_work() -> None:
    journal = Renewing()
    kept = leases(journal)
    kept.hold(ROW)
    kept.close()
    journal.wait(3)
    thread = kept._thread
    assert thread is not None
    kept.drop(ROW)
    thread.join(30)
    assert not thread.is_alive()


def test_a_failing_renewal_does_not_end_the_others() -> None:
    journal = Renewing()
    journal.fails = ZeroDivisionError()
    kept = leases(journal)
    kept.hold(ROW)
    journal.wait(3)
    kept.drop(ROW)
    kept.close()


def test_a_claim_that_was_lost_is_renewed_no_more() -> None:
    journal = Renewing()
    journal.kept = False
    kept = leases(journal)
    kept.hold(ROW)
    journal.wait()
    kept.close()
    kept.hold(replace(ROW, run_id="another"))
    journal.wait()
    assert "r" not in kept._held
    kept.close()


def test_it_can_be_closed_and_used_again() -> None:
    journal = Renewing()
    kept = leases(journal)
    for _ in range(20):
        kept.hold(ROW)
        kept.drop(ROW)
        kept.close()
    kept.close()
    kept.hold(ROW)
    journal.wait()
    kept.drop(ROW)
    kept.close()


class Listening(Renewing):
    """Says when the held contracts were asked for. `deaf`: the next question about them fails."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Semaphore(0)
        self.deaf = False

    def holds(self) -> list[Hold]:
        self.asked.release()
        if self.deaf:
            raise OSError("gone")
        return super().holds()

    def hear_out(self) -> None:
        """Until a question that began after now has been answered."""
        for _ in range(3):
            assert self.asked.acquire(timeout=30)


def test_a_renewal_hears_which_contracts_are_held_and_which_no_more() -> None:
    journal = Listening()
    kept = leases(journal)
    kept.hold(ROW)
    assert kept.held_contracts() == frozenset()
    journal.add_hold(Hold("payments", True, "ann", "stop", 1, "t1"))
    while not kept.held_contracts():
        journal.hear_out()
    assert kept.held_contracts() == {"payments"}
    journal.add_hold(Hold("payments", False, "ann", "go on", 2, "t2"))
    while kept.held_contracts():
        journal.hear_out()
    kept.drop(ROW)
    kept.close()


def test_an_answer_to_who_asked_earlier_takes_back_nothing_that_was_heard_since() -> None:
    kept = leases(Renewing())
    early, late = kept.hearing(), kept.hearing()
    late(frozenset({"c"}))
    early(frozenset())
    assert kept.held_contracts() == {"c"}
    kept.hearing()(frozenset())
    assert kept.held_contracts() == frozenset()


def test_a_store_that_cannot_be_read_releases_no_contract_and_ends_no_lease() -> None:
    journal = Listening()
    journal.add_hold(Hold("payments", True, "ann", "stop", 1, "t1"))
    kept = leases(journal)
    kept.hold(ROW)
    while not kept.held_contracts():
        journal.hear_out()
    journal.deaf = True
    journal.hear_out()
    journal.wait(3)
    assert kept.held_contracts() == {"payments"}
    kept.drop(ROW)
    kept.close()


class Spoken(Renewing):
    """Says from where on its inbox was read."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def inbox(self, run_id: str, after: int = 0) -> list[Message]:
        self.asked.append(after)
        said = [("note", "chat"), ("order", "pause"), ("note", "chat")]
        every = [
            Message(run_id=run_id, kind=kind, name=name, slot="", body="{}", by="ann", at_us=0, token=f"{number}", number=number)
            for number, (kind, name) in enumerate(said, 1)
        ]
        return every[after:]


def test_of_an_inbox_the_orders_are_kept_and_what_was_read_is_not_read_again() -> None:
    journal = Spoken()
    kept = Leases(journal, timedelta(hours=1))
    kept.hold(ROW)
    for _ in range(2):
        kept.read_inbox(ROW.run_id)
        assert [(each.number, each.name) for each in kept.messages(ROW.run_id)] == [(2, "pause")]
    assert journal.asked == [0, 3]
    kept.drop(ROW)
    kept.close()
    assert not kept.messages(ROW.run_id)


class Spoilt(Renewing):
    """Has a row that cannot be read. Says which claims were released."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Semaphore(0)

    def find(self, run_id: str) -> RunRow:
        if run_id == "spoilt":
            raise JournalCorrupt(run_id=run_id, seq=0, field="status")
        return replace(ROW, run_id=run_id)

    def release(self, run_id: str, owner: str, epoch: Epoch, due_us: int | None = None) -> bool:
        self.released.release()
        return True


def test_a_claim_that_was_left_on_a_row_that_cannot_be_read_keeps_no_other_from_being_given_up() -> None:
    journal = Spoilt()
    kept = leases(journal)
    kept.abandon(Left("spoilt", "another"))
    kept.abandon(Left("r", "first"))
    assert journal.released.acquire(timeout=30)
    kept.close()
    assert kept.abandoned("first") is None
    assert kept.abandoned("another") is not None, "it may be mended"
