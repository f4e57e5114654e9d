"""Operations: what the machine asks of the world, as values.

A procedure of the core is a coroutine that awaits operations; awaiting one yields the value itself to whoever drives the
coroutine, and the driver feeds back what happened. So the same procedure runs under the sync driver, the async driver and a
simulation, and nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import field
from typing import Any, Generic, TypeVar

from recovery.core.entries import JSON, Answered, Attempt, Entry, Intent, Settled, Status, kind_of
from recovery.core.gathering import Waiting
from recovery.core.heartbeats import Heard
from recovery.core.ids import ROOT
from recovery.core.resting import RestsFor
from recovery.core.values import value

T = TypeVar("T")


class Op(Generic[T]):
    """A request to the driver, answered with a T, or with an exception that is raised where it was awaited."""

    __slots__ = ()

    def __await__(self) -> Generator[Op[Any], Any, T]:
        return (yield self)  # type: ignore[no-any-return]  # the driver feeds a T; generators cannot say so


@value(frozen=True, slots=True)
class Now(Op[int]):
    """The wall clock, in microseconds."""


@value(frozen=True, slots=True)
class Boot(Op[int]):
    """The boot clock, in microseconds: for durations, never for windows."""


@value(frozen=True, slots=True)
class Append(Op[None]):
    """Make entries durable under the run's fence, all or none. Returns when they are.

    rides: returns at once, and they become durable with the run's next entries, or soon without any. keeps_look: who appends knows no next look of its
    own, and the row's stays what it is by then."""

    entries: tuple[Entry, ...]
    status: Status
    next_look_us: int | None = None
    reason: str = ""
    rests_for: RestsFor = RestsFor.NOTHING
    keeps_look: bool = False
    rides: bool = False


@value(frozen=True, slots=True)
class Flush(Op[None]):
    """Make durable what rides, if anything does."""


@value(frozen=True, slots=True)
class Send(Op[Answered]):
    """Perform the effect once, as the attempt that was just made durable."""

    subject: Any  # the bound call; the core never looks inside
    intent: Intent
    attempt: Attempt
    first_sent_us: int  # of the first attempt that may have left
    heard: Heard = field(default_factory=Heard)  # of its step, by earlier attempts and by this one


@value(frozen=True, slots=True)
class Ask(Op[Answered]):
    """Ask the environment, read-only but for the fence: `epoch` is the asker's, for environments that raise theirs to it."""

    subject: Any
    intent: Intent
    epoch: str


@value(frozen=True, slots=True)
class Close(Op[Answered]):
    """Close the key, as the attempt that was just made durable."""

    subject: Any
    intent: Intent
    attempt: Attempt


@value(frozen=True, slots=True)
class Cancel(Op[Answered]):
    """Undo what is found under the key, as the attempt that was just made durable, and say what it was."""

    subject: Any
    intent: Intent
    attempt: Attempt


@value(frozen=True, slots=True)
class HoldContract(Op[None]):
    """Hold a contract that turned out not to be true, until a person releases it. The same token again changes nothing."""

    contract: str  # digest
    reason: str
    at_us: int
    token: str


@value(frozen=True, slots=True)
class Decided:
    """What a deciding function gave, in stored form: a value, or the name of its error and a description.

    raised: that error itself, for a retry policy, and never stored. final: it is the decision, though it failed."""

    value: JSON
    error: str = ""
    raised: Exception | None = None
    final: bool = False


@value(frozen=True, slots=True)
class Decide(Op[Decided]):
    """Let the user's function choose."""

    subject: Any


@value(frozen=True, slots=True)
class Sleep(Op[None]):
    """Wait until the wall clock shows `until_us`, or something is heard; `why` is for the person who watches."""

    until_us: int
    why: str
    heard: Callable[[], bool] = field(default=lambda: False, compare=False, repr=False)


@value(frozen=True, slots=True)
class Deliver(Op[None]):
    """Put a message of the run's own into its inbox, unless another one has its slot."""

    kind: str
    name: str
    slot: str
    by: str
    at_us: int
    token: str


@value(frozen=True, slots=True)
class Poll(Op[None]):
    """Wait until the wall clock shows `until_us`, or `heard` says true of the store, which is asked now and then."""

    until_us: int
    heard: Callable[[Any], bool]
    why: str


@value(frozen=True, slots=True)
class Draw(Op[int]):
    """128 random bits."""


@value(frozen=True, slots=True)
class Enter(Op[None]):
    """Wait until no other branch of this run appends. Every Enter is followed by a Leave."""


@value(frozen=True, slots=True)
class Leave(Op[None]):
    """Let the next branch append."""


@value(frozen=True, slots=True)
class Turn(Op[None]):
    """Wait until it is a step's turn to return."""

    waiting: Waiting


@value(frozen=True, slots=True)
class Use(Op[T]):
    """Let `call` use the store. The async driver does it outside its event loop. alike: it reads what is the same for whoever asks at the same
    time, so that one answer may serve all whose `call` is this one."""

    call: Callable[[Any], T]
    alike: bool = False


@value(frozen=True, slots=True)
class Find(Op[Any]):
    """The store's row of a run, or None. The async driver asks for those of several runs at once."""

    run_id: str


@value(frozen=True, slots=True)
class Commit(Op[Any]):
    """Have the store make one append or one new run durable, together with whatever other runs bring at the same time. Answered with its result."""

    member: Any  # the store's own form of it


@value(frozen=True, slots=True)
class Returned:
    """The workflow's function has returned."""

    value: Any


@value(frozen=True, slots=True)
class Raised:
    """The workflow's function has raised an ordinary exception of its own."""

    error: Exception


@value(frozen=True, slots=True)
class Execute(Op[Returned | Raised]):
    """Run the workflow's function from its beginning, its steps going through `machine` and what becomes durable through `writer`.

    Answered with what the function did, or with the Unwind that left it."""

    subject: Any  # the workflow
    input: JSON
    machine: Any
    writer: Any


def bracket_of(append: Append) -> str:
    """The crash point around this append: named after what it makes durable last."""
    last = append.entries[-1]
    if isinstance(last, Settled) and last.step == ROOT:
        return "append.ended"
    return f"append.{kind_of(last)}"
