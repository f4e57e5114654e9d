"""Planted faults: the claim protocol made wrong on purpose, to show that its check can fail.

Owns each fault, the setting that shows it and the promise that it breaks. Invariant: a fault lasts as long as its `with`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from recovery import claims
from recovery.claims import World, held_while, load
from recovery.core.contracts import microseconds
from recovery.core.errors import LeaseUnavailable
from recovery.core.operations import Append as Wanted
from recovery.core.operations import Boot, Now, Sleep, Use
from recovery.ports import Append, Appended, AppendResult, Fenced, Owner, RunRow
from recovery.storage.memory import MemoryJournal, _woken
from recovery.storage.rules import first_taken
from recovery.storage.writer import Writer
from tests.model.claims import workers
from tests.model.claims.moves import Left, Setting
from tests.model.claims.promises import PROMISES

PAIR: Final = Setting("two workers", 2, Left(), ticks=2)
UNHEARD: Final = Setting("two workers, an answer lost", 2, Left(lost=1), ticks=2)
ORPHAN: Final = Setting("two workers come to an orphan", 3, Left(), ticks=2, orphan=True)
DYING: Final = Setting("two workers, one dies", 2, Left(deaths=1), ticks=2)


class Fault(NamedTuple):
    """patches: (owner, attribute, value)."""

    name: str
    setting: Setting
    breaks: tuple[int, ...]
    patches: tuple[tuple[Any, str, Any], ...]

    @property
    def promises(self) -> list[str]:
        return [PROMISES[number] for number in self.breaks]


# -- the store -----------------------------------------------------------------------------------------------------------


def _appending(*, fenced: bool = True, head: bool = True, token: bool = True) -> Callable[[MemoryJournal, Append], AppendResult]:
    """The append of `MemoryJournal`, without one of its conditions."""

    def append_one(self: MemoryJournal, member: Append) -> AppendResult:
        there, last = self._runs[member.run_id], member.rows[-1]
        if token and there.row.head >= last.seq:
            stored = there.rows[last.seq - 1]
            if (stored.token, stored.digest) == (last.token, last.digest):
                return Appended()
        if fenced and self._held(member.run_id, member.owner, member.epoch) is None:
            return Fenced(there.row)
        if head and there.row.head != member.head:
            return Fenced(there.row)
        if (taken := first_taken(member, lambda _claim: None)) is not None:
            return taken
        there.contracts.update(member.contracts)
        there.rows += member.rows
        there.row = replace(there.row, head=last.seq, head_digest=last.digest, status=member.status)
        return Appended()

    return append_one


def _claiming(*, counter: bool = True, epoch: bool = True, raised: int = 1, token: bool = True) -> Any:
    """The claim of `MemoryJournal`, without one of its conditions."""

    def claim(self: MemoryJournal, seen: RunRow, owner: Owner, *, lease_term_us: int, at_us: int) -> RunRow | None:
        there = self._runs[seen.run_id]
        now = there.row
        if (epoch and now.epoch != seen.epoch) or (counter and now.lease_counter != seen.lease_counter):
            return now if token and now.owner is not None and now.owner.token == owner.token else None
        there.row = replace(
            now,
            epoch=replace(now.epoch, n=now.epoch.n + raised),
            owner=owner,
            lease_counter=0,
            lease_term_us=lease_term_us,
            updated_at_us=max(now.updated_at_us, at_us),
            crashes=now.crashes + (now.owner is not None),
        )
        return there.row

    return claim


def _release_whoever_holds(self: MemoryJournal, run_id: str, owner: str, epoch: Any, due_us: int | None = None) -> bool:
    there = self._runs[run_id]
    there.row = replace(there.row if due_us is None else _woken(there.row, due_us), owner=None, crashes=0)
    return True


def _renew_whoever_holds(self: MemoryJournal, run_id: str, owner: str, epoch: Any) -> bool:
    there = self._runs[run_id]
    there.row = replace(there.row, lease_counter=there.row.lease_counter + 1)
    return True


def _keep_always(self: MemoryJournal, evidence: Any) -> None:
    self._evidence.append(evidence)


# -- the procedures --------------------------------------------------------------------------------------------------------


async def _commit_after_a_look(self: Writer, wanted: Wanted) -> None:
    """The epoch is read, and then the append is made without it."""
    append = self.prepare(wanted, await Now())
    row = await Use(lambda journal: journal.find(append.run_id))
    result: AppendResult = Fenced(row)
    if (row.owner and row.owner.token, row.epoch) == (append.owner, append.epoch):
        [result] = await Use(lambda journal: [_appending(fenced=False)(journal, append)])
    self.settle(append, result)


async def _visit_whoever_owns(world: World, claimed: RunRow, work: Any) -> Any:
    """As it was before this model: the writer is made from whatever row is loaded."""

    async def loaded_then_work() -> Any:
        return await work(await load(claimed.run_id))

    return await held_while(world, claimed, loaded_then_work)


async def _visit_loaded_before(world: World, claimed: RunRow, work: Any, *, early: list[Any]) -> Any:
    loaded = replace(early[-1], run=replace(early[-1].run, owner=claimed.owner, epoch=claimed.epoch))
    return await held_while(world, claimed, lambda: work(loaded))


async def _claim_after_loading(world: World, seen: RunRow, owner: Owner | None = None, *, early: list[Any]) -> RunRow | None:
    early.append(await load(seen.run_id))
    owner = owner or world.owner()
    return await Use(lambda journal: journal.claim(seen, owner, lease_term_us=world.lease_term_us, at_us=0))


async def _take(world: World, row: RunRow, *, again: bool, ask: bool) -> RunRow:
    """As shipped. Without `again` a term is not begun again by news of the owner; without `ask` a lease is never over."""
    began_us = since_us = await Boot()
    while not row.status.settled:
        now_us = await Boot()
        if row.owner is None or (ask and (world.proven_dead(row.owner) or now_us - since_us >= row.lease_term_us)):
            claimed = await claims.claim(world, row)
            if claimed is not None:
                return claimed
        elif now_us - began_us >= microseconds(world.wait_for_owner):
            raise LeaseUnavailable(run_id=row.run_id, owner=str(row.owner), epoch=str(row.epoch))
        else:
            await Sleep(await Now() + 1, "")
        seen = await claims.find(row.run_id)
        assert seen is not None
        if again and (seen.epoch, seen.lease_counter) != (row.epoch, row.lease_counter):
            since_us = await Boot()
        row = seen
    return row


async def _keep_nothing(self: Writer, wanted: Wanted, at_us: int) -> None:
    return


_EARLY: list[Any] = []

FAULTS: Final = (
    Fault("the fence is the head alone", PAIR, (2,), ((MemoryJournal, "_append_one", _appending(fenced=False)),)),
    Fault(
        "the fence is the owner alone", UNHEARD, (0, 1, 4), ((MemoryJournal, "_append_one", _appending(head=False, token=False)),)
    ),
    Fault("the epoch is in the predicate of the read only", PAIR, (2,), ((Writer, "commit", _commit_after_a_look),)),
    Fault("an append's token is not recognised", UNHEARD, (5,), ((MemoryJournal, "_append_one", _appending(token=False)),)),
    Fault("a claim does not compare the counter", PAIR, (9,), ((MemoryJournal, "claim", _claiming(counter=False)),)),
    Fault("a claim does not compare the epoch", ORPHAN, (9,), ((MemoryJournal, "claim", _claiming(epoch=False)),)),
    Fault("a claim does not raise the epoch", PAIR, (7,), ((MemoryJournal, "claim", _claiming(raised=0)),)),
    Fault("a claim's token is not recognised", UNHEARD, (8,), ((MemoryJournal, "claim", _claiming(token=False)),)),
    Fault("anybody gives a run up", PAIR, (10,), ((MemoryJournal, "release", _release_whoever_holds),)),
    Fault("anybody renews", PAIR, (10,), ((MemoryJournal, "renew", _renew_whoever_holds),)),
    Fault("late evidence is kept twice", UNHEARD, (12,), ((MemoryJournal, "add_evidence", _keep_always),)),
    Fault("late evidence is not kept", PAIR, (12,), ((Writer, "_keep_evidence", _keep_nothing),)),
    Fault(
        "a run is loaded before its claim commits",
        PAIR,
        (11,),
        (
            (claims, "claim", partial(_claim_after_loading, early=_EARLY)),
            (workers, "visit", partial(_visit_loaded_before, early=_EARLY)),
        ),
    ),
    Fault("a claim that was lost before the load", ORPHAN, (2,), ((workers, "visit", _visit_whoever_owns),)),
    Fault("a term is not begun again by a renewal", PAIR, (9,), ((workers, "take", partial(_take, again=False, ask=True)),)),
    Fault("a lease is never over", DYING, (14,), ((workers, "take", partial(_take, again=True, ask=False)),)),
)
