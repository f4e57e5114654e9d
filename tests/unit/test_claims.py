"""Taking a run: at once from who is gone, else to the microsecond when its lease has ended on the watcher's own boot clock."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from recovery import codec
from recovery.claims import POLL, World, take, visit
from recovery.core.chain import chained, genesis
from recovery.core.contracts import microseconds
from recovery.core.entries import Opened, Status, encode
from recovery.core.errors import LeaseUnavailable
from recovery.core.ids import Epoch
from recovery.core.operations import Boot, Find, Now, Op, Sleep, Use
from recovery.core.policy import Budget, Lease
from recovery.ports import Append, NewRun, Owner, RunRow
from recovery.storage.memory import MemoryJournal

TERM_US = 30_000_000
POLL_US = microseconds(POLL)
BOOTED_US, WALL_US = 7_000_000, 1_000_000_000
OPERATIONS_MAX = 2_000  # a term takes 120 polls of five operations
OPENED = Opened(workflow="w", version="1", input=None, input_digest="d", at_us=0)
OTHER, MINE = Owner("other"), Owner("mine")


@dataclass
class Watch:
    """A run that OTHER holds, and whoever drives `take` on two clocks that run alike. `due`: what happens on the way, and when. `naps`: how
    long each wait was, on the wall clock. `beforehand`: done once, right before the first claim."""

    wait_for_owner: timedelta = timedelta(days=1)
    term_us: int = TERM_US
    dead: bool = False
    due: list[tuple[int, Callable[[], object]]] = field(default_factory=list)
    beforehand: list[Callable[[], object]] = field(default_factory=list)
    gone_us: int = 0
    naps: list[int] = field(default_factory=list)
    journal: MemoryJournal = field(default_factory=MemoryJournal)

    def __post_init__(self) -> None:
        first = chained(genesis(self.journal.namespace(), "r"), 1, "opened", "", codec.dumps(encode(OPENED)), Epoch(0, 1), "t1")
        self.journal.open_run(NewRun("r", "w", "d", Status.RUNNING, OTHER, self.term_us, 0, (first,)))

    @property
    def row(self) -> RunRow:
        row = self.journal.find("r")
        assert row is not None
        return row

    def renewed(self) -> None:
        assert self.journal.renew("r", OTHER.token, Epoch(0, 1))

    def taken_over(self) -> None:
        assert self.journal.claim(self.row, Owner("third"), lease_term_us=self.term_us, at_us=0)

    def released(self) -> None:
        assert self.journal.release("r", OTHER.token, Epoch(0, 1))

    def settled(self) -> None:
        row = self.row
        last = chained(row.head_digest, 2, "settled", "", "{}", row.epoch, "t2")
        self.journal.append([Append("r", OTHER.token, row.epoch, row.head, (last,), Status.COMPLETED, 0)])
        assert self.row.status is Status.COMPLETED

    # -- driving -------------------------------------------------------------------------------------------------------

    def take(self) -> RunRow:
        return self.drive(take(self.world(), self.row))

    def drive(self, procedure: Coroutine[Op[Any], Any, RunRow | None]) -> Any:
        try:
            told: Any = None
            for _ in range(OPERATIONS_MAX):
                told = self._carry_out(procedure.send(told))
            raise AssertionError("it goes on and on")
        except StopIteration as stop:
            return stop.value
        finally:
            procedure.close()

    def world(self) -> World:
        return World(
            workflows={}, budget=Budget(), lease=Lease(), wait_for_owner=self.wait_for_owner, token=self._token, identify=Owner,
            proven_dead=lambda owner: self.dead and owner == OTHER, raise_mark=lambda at_us: None, hold=lambda row: None,
            drop=lambda row: None, held_contracts=frozenset, hearing=lambda: lambda held: None,
        )  # fmt: skip

    def _token(self) -> str:
        if self.beforehand:
            self.beforehand.pop()()
        return MINE.token

    def _carry_out(self, operation: Op[Any]) -> Any:
        match operation:
            case Boot():
                return BOOTED_US + self.gone_us
            case Now():
                return WALL_US + self.gone_us
            case Use(call=call):
                return call(self.journal)
            case Find(run_id=run_id):
                return self.journal.find(run_id)
            case Sleep(until_us=until_us):
                self.naps.append(until_us - WALL_US - self.gone_us)
                self.gone_us += max(0, self.naps[-1])
                while self.due and self.due[0][0] <= self.gone_us:
                    self.due.pop(0)[1]()
                return None
        raise AssertionError(operation)


def test_a_run_that_was_given_up_is_taken_without_a_wait() -> None:
    watch = Watch()
    watch.released()
    assert watch.take().owner == MINE
    assert watch.naps == []


def test_a_run_whose_owner_is_proven_dead_is_taken_without_a_wait() -> None:
    watch = Watch(dead=True)
    assert watch.take().owner == MINE
    assert watch.naps == []


def test_a_settled_run_is_not_taken() -> None:
    watch = Watch(dead=True)
    watch.settled()
    assert watch.take() == watch.row
    assert watch.row.owner == OTHER


@pytest.mark.parametrize(("term_us", "taken_us"), [(TERM_US, TERM_US), (TERM_US + 1, TERM_US + POLL_US)])
def test_a_lease_ends_in_the_very_moment_at_which_its_term_is_over(term_us: int, taken_us: int) -> None:
    """A look that comes a microsecond too early takes nothing, and the next one does."""
    watch = Watch(term_us=term_us)
    assert watch.take().owner == MINE
    assert watch.gone_us == taken_us
    assert watch.naps == [POLL_US] * (taken_us // POLL_US)


@pytest.mark.parametrize("news", [Watch.renewed, Watch.taken_over])
def test_news_of_the_owner_starts_the_term_again(news: Callable[[Watch], None]) -> None:
    watch = Watch()
    watch.due = [(20_000_000, lambda: news(watch))]
    assert watch.take().owner == MINE
    assert watch.gone_us == 20_000_000 + TERM_US


def test_a_run_that_ends_meanwhile_is_returned_as_it_is() -> None:
    watch = Watch()
    watch.due = [(1_000_000, watch.settled)]
    assert watch.take().status is Status.COMPLETED
    assert watch.gone_us == 1_000_000


@pytest.mark.parametrize(
    ("wait_us", "naps"), [(0, 0), (1, 1), (POLL_US, 1), (POLL_US + 1, 2)], ids=["not at all", "a moment", "a poll", "longer"]
)
def test_the_wait_for_an_owner_is_over_in_the_very_moment_that_was_said(wait_us: int, naps: int) -> None:
    watch = Watch(wait_for_owner=timedelta(microseconds=wait_us))
    with pytest.raises(LeaseUnavailable):
        watch.take()
    assert watch.naps == [POLL_US] * naps
    assert watch.row.owner == OTHER


def test_renewals_do_not_make_the_wait_longer() -> None:
    watch = Watch(wait_for_owner=timedelta(seconds=5))
    watch.due = [(3_000_000, watch.renewed)]
    with pytest.raises(LeaseUnavailable):
        watch.take()
    assert watch.gone_us == 5_000_000


def test_a_claim_that_came_too_late_waits_for_the_new_owner() -> None:
    watch = Watch(dead=True)
    watch.beforehand = [watch.taken_over]
    assert watch.take().epoch == Epoch(0, 3)
    assert watch.gone_us == TERM_US


def test_a_claim_that_was_lost_before_the_run_was_loaded_works_on_nothing() -> None:
    """Else its writer would be made from the row that is there by then: with the other's token and epoch, past every fence."""
    watch = Watch()
    claimed = watch.journal.claim(watch.row, MINE, lease_term_us=TERM_US, at_us=0)
    assert claimed is not None
    watch.taken_over()

    async def work(_loaded: object) -> None:
        raise AssertionError("this run is another's")

    with pytest.raises(LeaseUnavailable, match=r"epoch 0\.3"):
        watch.drive(visit(watch.world(), claimed, work))
    assert watch.row.owner == Owner("third")
