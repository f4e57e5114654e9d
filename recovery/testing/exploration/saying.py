"""Saying: what people say to a run that is explored, and which of its waits nobody has answered.

Owns both. Must not know which way is searched. Invariant: a wait counts as unanswered only if no history had an answer to it: behind it
nothing was played but what follows on the end of the wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pydantic_core import to_jsonable_python

from recovery.core.entries import LAPSED, Status
from recovery.core.mail import waits_in
from recovery.storage.reading import Whole
from recovery.testing.exploration.branching import RUN, Moment
from recovery.testing.moves import Fork, Order, Restart, Send, Signal


def answers(name: str, value: Any, *, by: str = "ann", run_id: str = RUN) -> Signal:
    """Somebody answers what `run.wait_for(name)` waits for; where a call is to be approved, that call. run_id: of a child, as its parent names it."""
    return Signal.model_validate({"signal": name, "value": to_jsonable_python(value), "by": by, "id": run_id})


def sends(topic: str, value: Any, *, by: str = "ann") -> Send:
    """Somebody sends a message, which `run.receive(topic)` takes."""
    return Send.model_validate({"send": topic, "value": to_jsonable_python(value), "by": by})


def orders(verb: str, *, by: str = "ann") -> Order:
    """Somebody orders the run to `pause`, to `resume`, or to `cancel`."""
    return Order.model_validate({"order": verb, "by": by})


def restarts(
    step: str,
    *,
    reuse: Sequence[str] = (),
    new_key: Mapping[str, str] | None = None,
    forbid: Sequence[str] = (),
    wait: timedelta = timedelta(0),
    by: str = "ann",
) -> Restart:
    """Somebody begins a new generation of the run at a step. reuse, forbid: steps whose outcome is taken over, or which are not done again; new_key:
    those that are done anew, with the reason. wait: how long for an owner that stands still. As `engine.restart` has it; an order that comes too early is refused, and is given no second time."""
    words = {"reuse": list(reuse), "new_key": dict(new_key or {}), "forbid": list(forbid)}
    return Restart.model_validate({"restart": step, "by": by, **words}).model_copy(update={"wait": wait})


def forks(
    run_id: str,
    *,
    at: str = "",
    reuse: Sequence[str] = (),
    new_key: Mapping[str, str] | None = None,
    forbid: Sequence[str] = (),
    by: str = "ann",
) -> Fork:
    """Somebody forks the run in front of a step; the new run is recovered then like the first. The rest as `restarts` has it."""
    words = {"reuse": list(reuse), "new_key": dict(new_key or {}), "forbid": list(forbid)}
    return Fork.model_validate({"fork": run_id, "at": at, "by": by, **words})


@dataclass(slots=True)
class Waits:
    """The waits that were met, as people know them: those that somebody has answered, and those that nobody was about to."""

    answered: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)

    @property
    def unanswered(self) -> tuple[str, ...]:
        return tuple(sorted(self.left - self.answered))

    def note(self, reading: Callable[[str], Whole], moment: Moment) -> None:
        """Look at a moment at which nobody has anything left to say, and nobody is at work."""
        run = moment.run
        if run is None or not (run.status is Status.WAITING or run.status.settled):
            return
        for wait in waits_in(reading(RUN).history):
            known_as = f"{'the next message of' if wait.wait.value['queue'] else 'the answer to'} {wait.wait.value['name']}"
            if wait.ended is not None and wait.ended.form != LAPSED:
                self.answered.add(known_as)
            elif wait.ended is not None or run.next_look_us is None or run.next_look_us > moment.now_us:
                self.left.add(known_as)
