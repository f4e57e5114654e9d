"""Orders: what people say about a run while somebody is at work on it.

Owns when an order that was heard is taken in, and what it stops: a cancelled run and a paused one begin no step that is not recorded. Knows
nothing of inboxes: orders come as the entries that they are to become. Invariants: an order is durable before it stops anything; what is
under way when it comes is not broken off, and its answer is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from recovery.core.compensation import undone_by_cancel
from recovery.core.entries import Entry, Override, Status, Verb
from recovery.core.errors import RecoveryError, RunHeld
from recovery.core.history import History, held_by
from recovery.core.ids import ROOT, branch_of
from recovery.core.operations import Op
from recovery.core.order_errors import RunCancelled, RunPaused
from recovery.core.resting import GOES_ON, Rest

if TYPE_CHECKING:
    from recovery.core.machine import Machine

T = TypeVar("T")

PAUSED: Final = "paused"
"""Why a run is held that somebody paused."""


def news(history: History, heard: Sequence[Override]) -> list[Override]:
    """The orders that the run has not taken in yet, in the order in which they were given."""
    if not heard:
        return []  # almost always
    taken = {order.message for order in history.overrides}
    found = {order.message: order for order in heard if order.message not in taken}
    return [found[number] for number in sorted(number for number in found if number is not None)]


def refusal(history: History, recorded: str | None, *, undoing: bool) -> RecoveryError | None:
    """Why no step may begin where the record goes on with `recorded` (None: with nothing); None while nothing speaks against it.

    Where it goes on with what was undone because the run was cancelled, the workflow had been stopped here."""
    there = None if recorded is None else history.steps.get(recorded)  # room that a change of version left is not recorded
    if there is not None and (undoing or not undone_by_cancel(there)):
        return None
    return unwanted(history, undoing=undoing)


def unwanted(history: History, *, undoing: bool = False) -> RecoveryError | None:
    """Why no step may begin that is not recorded; None while nothing speaks against it. A cancel does not speak against an undoing: a run that
    nobody wants any more does not leave half of what it had begun."""
    if (cancelled := history.cancelled) is not None and not undoing:
        return RunCancelled(run_id=history.run_id, by=cancelled.by, reason=cancelled.reason)
    return None if history.held is None else held_back(history.run_id, history.held)


def held_back(run_id: str, held: Override) -> RunHeld:
    """That a run is held or paused, as an error."""
    kind = RunPaused if held.verb is Verb.PAUSE else RunHeld
    return kind(run_id=run_id, reason=f"by {held.by}: {held.reason}")


def held_at_least(history: History, entries: Sequence[Entry], standing: Rest) -> Rest:
    """How a run stands behind entries: what is under way while it is paused goes on, and the run is held all the same."""
    if not history.overrides and not isinstance(entries[0], Override):
        return standing  # almost always
    orders = [entry for entry in entries if isinstance(entry, Override) and entry.step == ROOT]
    held = held_by([*history.overrides, *orders])
    graver = standing.status in {Status.IN_DOUBT, Status.HELD}
    return standing if held is None or graver else Rest(Status.HELD, None, PAUSED)


async def heed(machine: Machine, step: str) -> None:
    """Take in what was heard, durably, in the name of a step."""
    for order in news(machine.history, machine.heard()):
        pauses = order.verb is Verb.PAUSE and machine.history.cancelled is None
        rest = Rest(Status.HELD, None, PAUSED) if pauses else GOES_ON
        await machine.append(step, partial(_unless_taken, machine.history, order), rest)


def _unless_taken(history: History, order: Override, _before: int) -> list[Override]:
    """Another branch may have been faster."""
    return news(history, [order])


def ordered(machine: Machine) -> bool:
    """Whether something was heard that the run has not taken in."""
    return bool(news(machine.history, machine.heard()))


def heeding(machine: Machine, step: str, procedure: Callable[[str], Coroutine[Op[Any], Any, T]]) -> Coroutine[Op[Any], Any, T]:
    """A step that has just begun, unless an order that came in the meantime stops it. Raises Unwind."""
    if machine.heard() or machine.history.overrides:
        return _heeded(machine, step, procedure)
    return procedure(step)  # almost always


async def _heeded(machine: Machine, step: str, procedure: Callable[[str], Coroutine[Op[Any], Any, T]]) -> T:
    if machine.heard():
        await heed(machine, step)
    if step not in machine.history.steps:
        check_wanted(machine, step)
    return await procedure(step)


def check_wanted(machine: Machine, step: str) -> None:
    """Raises Unwind where an order says that this step is not to begin, or not to wait."""
    if not machine.history.overrides:
        return  # almost always
    if (reason := unwanted(machine.history, undoing=machine.undoes(step))) is not None:
        raise machine.stop(reason, branch_of(step))


def order(verb: Verb, *, by: str, reason: str, at_us: int, message: int | None) -> Override:
    """An order about a whole run."""
    return Override(step=ROOT, verb=verb, by=by, at_us=at_us, reason=reason, message=message)
