"""Claims of operators: a run's journal, for the length of one order.

Owns that an order is written under a claim, loaded after it, and given up again. Invariant: only a hold and a fence take a run from a living
owner, because stopping it is what they are for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from recovery.claims import World, claim, existing, in_hand, take, visit
from recovery.core.entries import Entry, Override, Status
from recovery.core.errors import HeadMoved, LeaseUnavailable, OverrideRefused
from recovery.core.operations import Append, Now
from recovery.core.resting import GRAVEST_FIRST, RestsFor
from recovery.ports import Owner, RunRow
from recovery.storage.reading import Loaded
from recovery.storage.writer import Writer, writer_of

T = TypeVar("T")

TRIES_MAX: Final = 20  # an owner renews every few seconds, so that losing more than two of these is a fight with another operator

WORDS_MAX: Final = 10_000  # characters of whatever a person says with an order


@dataclass(frozen=True, slots=True)
class Claimed:
    """A run that is ours for now, as it was loaded after the claim."""

    loaded: Loaded
    writer: Writer

    async def append(self, *entries: Entry) -> None:
        """Make entries durable. The run's status, reason and next look stay as they are."""
        run = self.loaded.run
        await self._commit(Append(entries, run.status, None, run.reason, run.rests_for, keeps_look=True))

    async def move(self, *entries: Entry, to: Status, reason: str = "", rests_for: RestsFor = RestsFor.NOTHING) -> None:
        """Make entries durable, and the run's status another one. A run that rests and is not held is due: what its branches wait for is told by
        the next look at them."""
        due = to in GRAVEST_FIRST and to is not Status.HELD
        still_held = to is Status.HELD is self.loaded.run.status
        await self._commit(Append(entries, to, await Now() if due else None, reason, rests_for, keeps_look=still_held))

    async def _commit(self, wanted: Append) -> None:
        await self.writer.commit(wanted)
        for entry in wanted.entries:
            self.loaded.history.add(entry)

    def check_head(self, seen: Loaded) -> None:
        """Raises HeadMoved where somebody appended between our look and our claim."""
        if self.loaded.run.head_digest != seen.run.head_digest:
            raise HeadMoved(run_id=seen.run.run_id, found=self.loaded.run.head_digest, expected=seen.run.head_digest)


async def under_claim(world: World, run_id: str, work: Callable[[Claimed], Awaitable[T]], *, by_force: bool = False) -> T:
    """Do `work` under a claim. Raises LeaseUnavailable where somebody else is at work, unless it is by force."""
    owner = world.owner()
    return await in_hand(world, run_id, owner, _claimed(world, run_id, owner, work, by_force=by_force))


async def _claimed(world: World, run_id: str, owner: Owner, work: Callable[[Claimed], Awaitable[T]], *, by_force: bool) -> T:
    row = await (_taken_by_force(world, run_id, owner) if by_force else _taken(world, run_id, owner))

    async def ordered(loaded: Loaded) -> T:
        if loaded.run.status.settled:  # by its owner, between our look and our claim: neither epoch nor lease tells of that
            raise _settled(loaded.run)
        return await work(Claimed(loaded, writer_of(loaded, world.token)))

    return await visit(world, row, ordered)


async def _taken(world: World, run_id: str, owner: Owner) -> RunRow:
    row = await take(world, await existing(run_id), owner)
    if row.status.settled:
        raise _settled(row)
    return row


async def _taken_by_force(world: World, run_id: str, owner: Owner) -> RunRow:
    seen = await existing(run_id)
    for _ in range(TRIES_MAX):
        if seen.status.settled:
            raise _settled(seen)
        row = await claim(world, seen, owner)
        if row is not None:
            return row
        seen = await existing(run_id)
    raise LeaseUnavailable(run_id=run_id, owner="somebody who claims it again and again", epoch=str(seen.epoch))


def _settled(row: RunRow) -> OverrideRefused:
    return OverrideRefused(
        verb="An order",
        about=f"run {row.run_id!r}",
        problem=f"it is settled ({row.status.value}), so there is nothing to order",
        advice=f"See it with `recover show {row.run_id}`.",
    )


def attributed(verb: str, about: str, *, by: str, reason: str, **more: str) -> None:
    """An order names who gave it and why, in words that can be kept. Raises OverrideRefused."""
    for name, value in {"by": by, "reason": reason, **more}.items():
        if not value.strip():
            raise OverrideRefused(verb=verb, about=about, problem=f"it needs {name}", advice=f"Say it with --{name}.")
    keepable(verb, about, by=by, reason=reason)


def keepable(verb: str, about: str, **words: str) -> None:
    """Whether every store can keep these words. Asked before a run is claimed for them, since a claim is felt by whoever was at work on it
    even where nothing can be written then. Raises OverrideRefused."""
    for name, said in words.items():
        if problem := unkept(said):
            raise OverrideRefused(verb=verb, about=about, problem=f"its {name} {problem}", advice="Say it in other words.")


def unkept(words: str) -> str:
    """Why a person's words cannot be kept; "" if they can. PostgreSQL keeps no NUL character, and nothing keeps a lone surrogate, which is
    what a byte of a command line becomes that is no UTF-8."""
    if len(words) > WORDS_MAX:
        return f"has {len(words):,} characters, and {WORDS_MAX:,} are kept"
    if any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in words):
        return "holds a character that cannot be stored"
    return ""


def order_of(entry: Override) -> str:
    """An order in a few words."""
    return f"{entry.verb.value} by {entry.by}" + (f": {entry.reason}" if entry.reason else "")
