"""Offspring: how the children of a run are stored, brought on and cancelled.

Owns what a family does, as procedures over operations: the check before a start, the one row that makes a child, its recovery on its parent's
behalf, and the word to the children of a cancelled run. Knows no workflow's steps. Invariant: a child's row names its parent and the step that
started it, and is never taken for another's.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from recovery.claims import World, find, load, owned, sealing
from recovery.core.chain import Row, chained, genesis
from recovery.core.child_errors import ChildOpen, ChildRefused
from recovery.core.children import noted, open_children, standing
from recovery.core.entries import Entry, Opened, OutcomeKind, Status, Verb, kind_of, step_of
from recovery.core.errors import LeaseUnavailable, WorkflowUnknown
from recovery.core.ids import Epoch, branch_of, digest_bytes, step_id
from recovery.core.instants import instant_us
from recovery.core.kin import DEPTH_MAX, Ended, NewChild, Open
from recovery.core.machine import Machine
from recovery.core.operations import Append, Commit, Now, Op, Use
from recovery.crashpoints import around
from recovery.definitions.recovered import Recovered
from recovery.obeying import message
from recovery.ports import Journal, NewRun, Owner, Payload, RunRow
from recovery.storage.reading import Loaded
from recovery.storage.resting import blinded, is_digest
from recovery.storage.resting import rest as at_rest
from recovery.storage.writer import Writer

CANCELLING: Final = "cancelled"
"""The step in which a cancelled run waits for a child, below the child's start."""

Bring = Callable[[World, RunRow], Coroutine[Op[Any], Any, Recovered[Any]]]
"""Brings an existing run as far as it can be brought."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """Where a run stands that nobody has yet: which due runs go before it, and from when on it is due; None: at once."""

    queue: str = ""
    priority: int = 0
    not_before_us: int | None = None


async def opened(
    world: World,
    run_id: str,
    first: Opened,
    status: Status,
    more: Sequence[Entry] = (),
    queued: Queued | None = None,
    owner: Owner | None = None,
) -> RunRow | None:
    """Store a run and its first entries in one commit, owned by us or, `queued`, by nobody. None: somebody else took the run id."""
    namespace, incarnation = await Use(_life, alike=True)
    sealed_by = await sealing(world, run_id)
    owner, token, previous = owner or world.owner(), world.token(), genesis(namespace, run_id)
    rows: list[Row] = []
    payloads: dict[str, Payload] = {}
    for seq, entry in enumerate((first, *more), 1):
        rested = at_rest(entry, seq, sealed_by)
        payloads |= {payload.digest: payload for payload in rested.payloads}
        rows.append(chained(previous, seq, kind_of(entry), step_of(entry), rested.body, Epoch(incarnation, 1), token))
        previous = rows[-1].digest
    about = (run_id, first.workflow, blinded(first.input_digest, sealed_by), status, owner, world.lease_term_us, first.at_us)
    new = NewRun(*about, rows=tuple(rows), payloads=tuple(payloads.values()))
    if queued is not None:
        new = replace(new, queue=queued.queue, priority=queued.priority, next_look_us=queued.not_before_us, let_go=True)
    with around("open"):
        return await owned(world, run_id, owner, Commit(new))


@dataclass(frozen=True, slots=True)
class Offspring:
    """The family of one run. `bring_on`: the recovery of a run."""

    world: World
    parent: str
    bring_on: Bring

    async def check(self, child: NewChild) -> None:
        """Raises ChildRefused and WorkflowUnknown. Changes nothing."""
        if child.depth > DEPTH_MAX:
            raise _refused(child, f"{DEPTH_MAX} runs are above it", "Let a run nearer to the first one start it, or a loop.")
        known = self.world.workflows
        if child.workflow not in known:
            raise WorkflowUnknown(run_id=child.run_id, workflow=child.workflow, known=", ".join(sorted(known)) or "none")
        if await find(child.run_id) is not None:
            raise _refused(child, "there is a run of this id", "Give it a run id of its own.")

    async def store(self, child: NewChild) -> None:
        """Store the child, queued and owned by nobody, if it is not there. Raises ChildRefused where another run came first."""
        row = await find(child.run_id)
        if row is None:
            first = Opened(
                workflow=child.workflow,
                version=child.version,
                input=child.input,
                input_digest=child.input_digest,
                at_us=await Now(),
                parent=child.parent,
                parent_step=child.step,
                depth=child.depth,
                detached=child.detached,
            )
            if await opened(self.world, child.run_id, first, Status.QUEUED, queued=Queued()) is not None:
                return
            row = await find(child.run_id)
            assert row is not None, "a run id that is taken stays taken"
        if not await self._is(row, child):
            raise _refused(
                child, "another run of this id was stored first", "Start it under a run id of its own, in corrected code."
            )

    async def _is(self, row: RunRow, child: NewChild) -> bool:
        if row.workflow != child.workflow or not is_digest(self.world.vault, row.input_digest, child.input_digest):
            return False
        first = (await load(row.run_id)).opened
        return (first.parent, first.parent_step) == (child.parent, child.step)

    async def bring(self, run_id: str, until_us: int | None) -> Ended | Open:
        """Run or recover the child under a claim of its own, with what is left of its parent's patience."""
        row = await find(run_id)
        assert row is not None, "a child is stored before its parent's next step"
        if not row.status.settled:
            try:
                came = await self.bring_on(await self._patience(until_us), row)
            except LeaseUnavailable as other:  # its owner tells us, or its lease ends
                return Open(other, await Now() + row.lease_term_us)
            if not came.status.settled:
                assert came.error is not None, "a run that is not settled says why"
                return Open(came.error, None if came.next_look is None else instant_us(came.next_look))
        ended = _ended(await load(run_id))
        if ended.settled.outcome is OutcomeKind.CANCELLED:
            await Use(lambda journal: self.world.tell(self.parent))  # noqa: ARG005  # it reads the inbox where the store may be used
        return ended

    async def _patience(self, until_us: int | None) -> World:
        if until_us is None:
            return replace(self.world, budget=replace(self.world.budget, max_wait=None))
        left = timedelta(microseconds=max(0, until_us - await Now()))
        return replace(self.world, budget=replace(self.world.budget, max_wait=left))

    async def ended(self, run_id: str) -> Ended | None:
        """The child's outcome, if it has one."""
        row = await find(run_id)
        return _ended(await load(run_id)) if row is not None and row.status.settled else None


async def cancel_down(world: World, machine: Machine, writer: Writer) -> ChildOpen | None:
    """A cancelled run ends after its children: cancel those that are open and not detached, and bring each to its end. Why that cannot be, noted,
    so that the last of them wakes the run; None where all have ended."""
    history, family = machine.history, machine.kin.family
    assert history.cancelled is not None
    assert family is not None
    for run_id in open_children(history):
        row = await find(run_id)
        if row is None or row.status.settled:  # none: its parent died before it was stored
            continue
        order = history.cancelled
        await tell_cancelled(world, run_id, history.run_id, by=order.by, reason=order.reason)
        stands = await family.bring(run_id, machine.deadline_us)
        if isinstance(stands, Ended):
            continue
        step = step_id(history.children[run_id].step, CANCELLING, 1)
        error = standing(history.run_id, step, run_id, stands)
        waits, rest, is_news = noted(history, step, run_id, error, stands, await Now())
        if is_news or machine.understated(branch_of(step), rest):
            await writer.commit(Append((waits,), *rest))
            history.add(waits)
        machine.rests[branch_of(step)] = rest
        if await family.ended(run_id) is None:
            return error
    return None


async def tell_cancelled(world: World, run_id: str, parent: str, *, by: str, reason: str) -> None:
    """Cancel a child on its parent's account, and what it has started. The same however often it is said, and the first cancel of a run wins."""
    row = await find(run_id)
    if row is None or row.status.settled:
        return
    whose = f"its parent {parent} was cancelled"
    why, at_us = f"{whose}: {reason}" if reason else whose, await Now()
    token = digest_bytes(b"recovery-cancelled-1", parent.encode(), run_id.encode())
    order = message(token, run_id, Verb.CANCEL, by=by, reason=why, at_us=at_us)
    with around("deliver"):
        await Use(lambda journal: journal.deliver(order))
    await Use(lambda journal: world.tell(run_id))  # noqa: ARG005  # it reads the inbox where the store may be used
    for child in open_children((await load(run_id)).history):
        await tell_cancelled(world, child, run_id, by=by, reason=reason)


def _life(journal: Journal) -> tuple[str, int]:
    """The database's name, and which of its lives this is."""
    return journal.namespace(), journal.incarnation()


async def given_up(row: RunRow) -> None:
    assert row.owner is not None
    token = row.owner.token
    with around("release"):
        await Use(lambda journal: journal.release(row.run_id, token, row.epoch))


def _ended(loaded: Loaded) -> Ended:
    ended = loaded.history.ended
    assert ended is not None, "a settled run has an ending"
    return Ended(ended, loaded.history.ended_seq)


def _refused(child: NewChild, problem: str, advice: str) -> ChildRefused:
    return ChildRefused(run_id=child.parent, step=child.step, child=child.run_id, problem=problem, advice=advice)
