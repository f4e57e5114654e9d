"""Claims: who works on a run, from taking it to giving it up.

Owns the World that procedures are given, and the waiting for an owner. Knows nothing of workflows' steps. Invariants: nothing of a run is read
for acting before its claim has committed; a run that is not settled is given up on the way out, and again by whoever keeps our leases if the store did not answer then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from operator import methodcaller
from typing import Final, TypeVar

from recovery.core.contracts import microseconds
from recovery.core.errors import (
    HeadMoved,
    JournalCorrupt,
    LeaseUnavailable,
    OverrideRefused,
    RecoveryError,
    RunNotFound,
    StoreUnavailable,
)
from recovery.core.ids import Epoch, check_run_id
from recovery.core.operations import Boot, Find, Now, Op, Sleep, Use
from recovery.core.policy import Budget, Lease, Riding
from recovery.crashpoints import around
from recovery.definitions.recovered import Recovered
from recovery.definitions.registry import Workflows
from recovery.ports import Claiming, Hold, Journal, Message, Owner, RunRow
from recovery.storage.reading import Loaded, assembled, recalled
from recovery.storage.resting import Sealing, is_digest, sealing_of
from recovery.vaults import Vault

T = TypeVar("T")

NOTHING_DONE = (HeadMoved, JournalCorrupt, OverrideRefused)
"""With these somebody gives a run up as it was."""

HOLDS: Final = methodcaller("holds")
"""What is held now, as a use of the store: one, so that those who ask at the same time ask for the same."""

ROWS_MAX: Final = 200
"""Of a longer run the rows are loaded when it is brought on: many of those would be in memory at once."""

POLL = timedelta(milliseconds=250)
"""How often a lease that is waited for is looked at."""


@dataclass(frozen=True, slots=True)
class Left:
    """A claim under which nobody works any more, and of which the store may not have heard that. due_us: as for `Claiming.release`."""

    run_id: str
    token: str
    due_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a reconciler is given. `hold` and `drop` keep the lease of a run alive; `raise_mark` lifts the clock to a journaled time;
    `held_contracts`: those that are held, as a load or the last renewal of a lease has read; `hearing`: for what a load reads. `messages`: the orders
    in a run's inbox when it was last read, if anybody here has the run; `tell`: something was put in just now. `abandon`: a claim is to be released once the store
    answers; `abandoned`: that one of this token, if there is one."""

    workflows: Workflows
    budget: Budget
    lease: Lease
    wait_for_owner: timedelta
    token: Callable[[], str]
    identify: Callable[[str], Owner]
    proven_dead: Callable[[Owner], bool]
    raise_mark: Callable[[int], None]
    hold: Callable[[RunRow], None]
    drop: Callable[[RunRow], None]
    held_contracts: Callable[[], frozenset[str]]
    hearing: Callable[[], Callable[[frozenset[str]], None]]  # asked for before what is held is read, and told of that
    messages: Callable[[str], Sequence[Message]] = lambda run_id: ()  # noqa: ARG005  # one signature
    tell: Callable[[str], None] = lambda run_id: None  # noqa: ARG005  # one signature
    abandon: Callable[[Left], None] = lambda left: None  # noqa: ARG005  # one signature
    abandoned: Callable[[str], Left | None] = lambda token: None  # noqa: ARG005  # one signature
    riding: Riding | None = None  # None: every outcome is durable before its workflow goes on
    vault: Vault | None = None  # what the journal's values are encrypted by
    tells: bool = False  # the caller is told what was concluded of each step

    def owner(self) -> Owner:
        return self.identify(self.token())

    @property
    def lease_term_us(self) -> int:
        return microseconds(self.lease.term)


async def existing(run_id: str) -> RunRow:
    """The row of a run that must be there. Raises InvalidName, RunNotFound."""
    row = await find(check_run_id(run_id))
    if row is None:
        raise RunNotFound(run_id=run_id, database=await Use(lambda journal: journal.url))
    return row


async def find(run_id: str) -> RunRow | None:
    """The run's row, or None."""
    return await Find(run_id)  # type: ignore[no-any-return]  # the store's row


def check_head(row: RunRow, if_head: str | None) -> None:
    """Whether a run is at the only head to go on from, if there is one. Raises HeadMoved."""
    if if_head is not None and not (if_head and row.head_digest.startswith(if_head)):
        raise HeadMoved(run_id=row.run_id, found=row.head_digest, expected=if_head)


async def sealing(world: World, run_id: str) -> Sealing | None:
    """How what is written to a run is encrypted; None: not at all."""
    return None if world.vault is None else await Use(lambda journal: sealing_of(journal, run_id))


async def hear(world: World) -> None:
    """Which contracts are held: read behind each load of a run."""
    told = world.hearing()
    told(_subjects(await Use(HOLDS, alike=True)))


def _subjects(holds: Iterable[Hold]) -> frozenset[str]:
    return frozenset(hold.subject for hold in holds)


async def load(run_id: str) -> Loaded:
    """The run, whole. After a claim: in a new transaction, as here."""
    with around("load"):
        return await Use(lambda journal: recalled(journal, run_id))


async def take(world: World, row: RunRow, owner: Owner | None = None) -> RunRow:
    """Claim the run: at once where its owner is gone or has left it, else when its lease has ended on our own boot clock.

    Returns the claimed row, or a row that was settled meanwhile. Raises LeaseUnavailable when the wait is over."""
    began_us = since_us = await Boot()
    while not row.status.settled:
        row = await _heard_of(world, row)
        now_us = await Boot()
        if row.owner is None or world.proven_dead(row.owner) or now_us - since_us >= row.lease_term_us:
            claimed = await claim(world, row, owner)
            if claimed is not None:
                return claimed
        elif now_us - began_us >= microseconds(world.wait_for_owner):
            raise LeaseUnavailable(run_id=row.run_id, owner=str(row.owner), epoch=str(row.epoch))
        else:
            await Sleep(await Now() + microseconds(POLL), f"{row.run_id}: waiting for {row.owner} to finish or its lease to end")
        seen = await find(row.run_id)
        assert seen is not None, "runs are never deleted"
        if (seen.epoch, seen.lease_counter) != (row.epoch, row.lease_counter):
            since_us = await Boot()
        row = seen
    return row


async def _heard_of(world: World, row: RunRow) -> RunRow:
    """The run as it stands once the store has heard that we have left it, if it had not and hears it now."""
    left = None if row.owner is None else world.abandoned(row.owner.token)
    if left is None:
        return row
    with around("release"):
        await Use(partial(_give_up, world, left=left))
    return await existing(row.run_id)


@dataclass(frozen=True, slots=True)
class Taken:
    """A run that was claimed with others, and how it stood behind that. loaded: None, where it is to be loaded by itself; spoken_to: whether its inbox had
    anything then. What is held was read with them, after their claim."""

    row: RunRow
    loaded: Loaded | None = None
    spoken_to: bool = True


def take_many(world: World, journal: Journal, seen: Sequence[RunRow], at_us: int) -> list[Taken]:
    """Claim runs that nobody has, or whose owners are gone, and load them, each in one go; their leases are kept from then on. Left out is what cannot be
    claimed with others: whoever claims it by itself is told why. Interrupted, none of them is kept."""
    owner = world.owner()
    try:
        with around("claim"):
            claimed = journal.claim_many(
                [row for row in seen if _legible(world, row)], owner, lease_term_us=world.lease_term_us, at_us=at_us
            )
        for row in claimed:
            world.hold(row)
        return loaded_together(world, journal, claimed)
    except BaseException:  # interrupted, or the store does not answer: the claim may have committed; raised again
        for row in seen:
            world.drop(replace(row, owner=owner))
        with around("release"):
            for row in seen:
                _give_up(world, journal, Left(row.run_id, owner.token))
        raise


def _legible(world: World, seen: RunRow) -> bool:
    try:
        is_digest(world.vault, seen.input_digest, "")
    except RecoveryError:
        return False
    return True


def loaded_together(world: World, journal: Journal, claimed: Sequence[RunRow]) -> list[Taken]:
    """Runs that were just claimed, as they stand behind that, in one go. Raises StoreUnavailable."""
    if not claimed:
        return []
    with around("load"):
        found = short_ones(journal, claimed)
    told = world.hearing()
    told(_subjects(journal.holds()))
    return [Taken(row, *found.get(row.run_id, (None, True))) for row in claimed]


def short_ones(journal: Journal, rows: Sequence[RunRow]) -> dict[str, tuple[Loaded, bool]]:
    """Those of these runs that are not long, and are whole, read in one go; and whether their inboxes have anything."""
    vault, short = journal.vault, [row.run_id for row in rows if row.head <= ROWS_MAX]
    return journal.stream_many(short, lambda stored: (assembled(stored, vault), stored.spoken_to)) if short else {}


async def claim(world: World, seen: RunRow, owner: Owner | None = None) -> RunRow | None:
    """Raise the epoch, whoever owns the run; None: it moved since it was seen. Raises EncryptionKeyMissing, before anything, where it could not be read."""
    is_digest(world.vault, seen.input_digest, "")
    owner, at_us = owner or world.owner(), await Now()
    with around("claim"):
        term_us = world.lease_term_us
        claiming = Use(lambda journal: journal.claim(seen, owner, lease_term_us=term_us, at_us=at_us))
        return await owned(world, seen.run_id, owner, claiming)


async def owned(world: World, run_id: str, owner: Owner, taking: Op[RunRow | None]) -> RunRow | None:
    """Take the run. Interrupted, or where the answer was lost, that may have been done all the same: a run that nobody works on is then given up."""
    try:
        return await taking
    except StoreUnavailable:
        world.abandon(Left(run_id, owner.token))
        raise
    except Exception:  # an answer of the store: it did not claim, so nothing is to be given up
        raise
    except BaseException:  # interrupted: the claim may have committed; raised again
        with around("release"):
            await Use(partial(_give_up, world, left=Left(run_id, owner.token)))
        raise


async def in_hand(world: World, run_id: str, owner: Owner, work: Awaitable[T]) -> T:
    """Take the run and work on it. An interrupt strikes anywhere, between the one and the other, too; a cancel only where something is awaited, which is
    seen to there."""
    try:
        return await work
    except (KeyboardInterrupt, SystemExit):
        with around("release"):
            await Use(partial(_give_up, world, left=Left(run_id, owner.token)))
        raise


async def visit(world: World, claimed: RunRow, work: Callable[[Loaded], Awaitable[T]], beforehand: Loaded | None = None) -> T:
    """Work on a run that was just claimed, as it is loaded after that, or as it was loaded then, `beforehand`; `held_while` the work lasts.

    Raises JournalCorrupt, and LeaseUnavailable where somebody else has claimed it before it was loaded."""

    async def loaded_then_work() -> T:
        loaded = beforehand or await load(claimed.run_id)
        # A writer made from this row would be the other's.
        if (loaded.run.owner, loaded.run.epoch) != (claimed.owner, claimed.epoch):
            owner = str(loaded.run.owner) if loaded.run.owner else "nobody any more"
            raise LeaseUnavailable(run_id=claimed.run_id, owner=owner, epoch=str(loaded.run.epoch))
        if loaded.run.epoch <= loaded.epoch:  # a claim is above every entry before it, or the fence tells nobody apart
            raise JournalCorrupt(run_id=claimed.run_id, seq=loaded.run.head, field="the run's epoch")
        world.raise_mark(loaded.highest_us)
        return await work(loaded)

    assert claimed.owner is not None
    return await in_hand(world, claimed.run_id, claimed.owner, held_while(world, claimed, loaded_then_work))


async def held_while(world: World, row: RunRow, work: Callable[[], Awaitable[T]]) -> T:
    """Keep the lease alive during the work, and give the run up afterwards, however it ends, unless that settled it. Where the work broke off, the
    run is due: its last append may be durable all the same, and say that it rests before anybody has looked what came until then."""
    due_us: int | None = row.updated_at_us
    settled = False
    try:
        world.hold(row)
        done = await work()
        settled, due_us = isinstance(done, Recovered) and done.status.settled, None
        return done
    except NOTHING_DONE:
        due_us = None
        raise
    finally:
        world.drop(row)
        if not settled:
            assert row.owner is not None
            with around("release"):
                await Use(partial(_release, world, left=Left(row.run_id, row.owner.token, due_us), epoch=row.epoch))


def let_go(world: World, journal: Claiming, row: RunRow) -> None:
    """Give up a run that was claimed with others and not brought on, as it was."""
    assert row.owner is not None
    world.drop(row)
    with around("release"):
        _release(world, journal, Left(row.run_id, row.owner.token), row.epoch)


def standing(journal: Journal, left: Left) -> RunRow | None:
    """The run, if a claim that was left is there and stands. Raises what the store raises."""
    row = journal.find(left.run_id)
    return row if row is not None and row.owner is not None and row.owner.token == left.token else None


def _give_up(world: World, journal: Journal, left: Left) -> None:
    try:
        if (row := standing(journal, left)) is not None:
            journal.release(left.run_id, left.token, row.epoch, left.due_us)
    except RecoveryError:
        world.abandon(left)


def _release(world: World, journal: Claiming, left: Left, epoch: Epoch) -> None:
    """On the way out: where it fails, it is done again later; and the dead process or the ended lease says the same."""
    try:
        journal.release(left.run_id, left.token, epoch, left.due_us)
    except RecoveryError:
        world.abandon(left)
