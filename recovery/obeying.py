"""Obeying: orders on their way from a run's inbox into its journal, and the end of a run that was cancelled.

Owns what an order is as a message, when a claimed run's inbox is read, and that a cancelled run ends as cancelled once everything that it
has begun is settled. Procedures over operations; what an order stops while a workflow runs is in `core.orders`. Invariant: whoever gives a
run up has read its inbox after its last entry, so that no order waits for a run that nobody looks at again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from recovery import codec
from recovery.claims import World, load
from recovery.core.compensation import unfinished
from recovery.core.entries import OutcomeKind, Override, Settled, Status, Verb
from recovery.core.errors import Diverged
from recovery.core.history import History
from recovery.core.ids import ROOT
from recovery.core.machine import Machine
from recovery.core.operations import Append, Now, Use
from recovery.core.order_errors import RunCancelled
from recovery.core.orders import PAUSED, news
from recovery.core.rows import Action, ParkingReason
from recovery.ports import Message
from recovery.storage.reading import Loaded
from recovery.storage.writer import writer_of

ORDER: Final = "order"
"""The kind of a message that is an order."""


def message(token: str, run_id: str, verb: Verb, *, by: str, reason: str, at_us: int) -> Message:
    """An order for whoever is at work on a run. There is one cancel for a run: the first one wins."""
    slot = verb.value if verb is Verb.CANCEL else ""
    body = codec.dumps({"reason": reason})
    return Message(run_id=run_id, kind=ORDER, name=verb.value, slot=slot, by=by, body=body, at_us=at_us, token=token)


def orders(messages: Iterable[Message]) -> tuple[Override, ...]:
    """The orders among messages, as the entries that they are to become. Their time is when they were given."""
    return tuple(
        Override(
            step=ROOT,
            verb=Verb(each.name),
            by=each.by,
            at_us=each.at_us,
            reason=codec.loads(each.body)["reason"],
            message=each.number,
        )
        for each in messages
        if each.kind == ORDER
    )


async def disobeyed(history: History) -> list[Override]:
    """The orders in a run's inbox that its journal does not have."""
    found = await Use(lambda journal: journal.inbox(history.run_id))
    return news(history, orders(found))


async def obeyed(world: World, loaded: Loaded) -> Loaded:
    """A run that was loaded under our claim, with the orders in its inbox taken in."""
    found = await disobeyed(loaded.history)
    if not found:
        return loaded
    writer, run = writer_of(loaded, world.token), loaded.run
    for order in found:
        loaded.history.add(order)
    held = loaded.history.held
    if held is not None:
        wanted = Append(tuple(found), Status.HELD, None, PAUSED if held.verb is Verb.PAUSE else held.reason)
    elif run.status is Status.HELD:  # due at once: what came while it was held is looked at now
        wanted = Append(tuple(found), standing_status(loaded.history), found[-1].at_us)
    else:
        wanted = Append(tuple(found), run.status, None, run.reason, run.rests_for, keeps_look=True)
    await writer.commit(wanted)
    return await load(run.run_id)


def standing_status(history: History) -> Status:
    """What a run is doing by its entries alone, orders apart."""
    if history.divergence is not None:
        return Status.DIVERGED
    last = [step.verdicts[-1] for step in history.unsettled if step.verdicts]
    if any(verdict.action == Action.PARK.value and verdict.reason != ParkingReason.HELD.value for verdict in last):
        return Status.IN_DOUBT
    return Status.WAITING if any(verdict.action == Action.WAIT.value for verdict in last) else Status.RUNNING


# -- the end of a cancelled run ----------------------------------------------------------------------------------------


def may_end(machine: Machine) -> bool:
    """Whether a cancelled run can end now: everything that it has begun is settled, and nothing but the cancel has stopped its workflow, or its
    code does not fit any more, which matters to nobody where nothing is left to judge."""
    if machine.history.cancelled is None or machine.history.unsettled:
        return False
    if machine.stopped is None or isinstance(machine.stopped.error, RunCancelled):
        return True
    return isinstance(machine.stopped.error, Diverged) and not unfinished(machine.history)


async def cancelled_end(history: History) -> Settled:
    """The outcome of a cancelled run."""
    order = history.cancelled
    assert order is not None
    value = {"by": order.by, "reason": order.reason}
    return Settled(step=ROOT, outcome=OutcomeKind.CANCELLED, at_us=await Now(), value=value)
