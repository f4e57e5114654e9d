"""What both drivers know about an operation before and after the one line in which they differ: calling or awaiting.

Owns the checks around user functions and the waiting for a named time. Invariant: nothing is sent after an attempt's deadline, and
whatever an effect's body raises becomes an answer, never a conclusion.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from recovery.core.entries import Answered, AnswerKind, Attempt, Intent, Observation, Source
from recovery.core.errors import DefinitionError, RecoveryError
from recovery.core.ids import Epoch
from recovery.core.instants import moment
from recovery.core.operations import Ask, Cancel, Close, Decided, Poll, Send, Sleep
from recovery.core.values import value
from recovery.crashpoints import around
from recovery.definitions.answer import NotSent, ReplyWas
from recovery.definitions.call import Call
from recovery.definitions.effect import Bound, Effect
from recovery.definitions.replies import error_name, message_of
from recovery.drivers.beating import Aside, Beats, silence_of
from recovery.drivers.patience import Patience
from recovery.drivers.riding import Watchman
from recovery.drivers.strands import Strands, Threads
from recovery.drivers.watching import Watch
from recovery.ports import Clock, Journal
from recovery.storage.committing import Committer
from recovery.storage.resting import late_item, sealing_of

Progress = Callable[[Sleep | Poll, float], None]
"""Told on every nap what is waited for and how many seconds are left."""


@value(frozen=True, slots=True)
class Question:
    """One call of a user's function about one effect."""

    bracket: str
    call: Call
    ask: Callable[[], Any]
    is_async: bool
    answer: Callable[[Any], Answered]
    raised: Callable[[Exception], Answered | None]
    too_late: bool = False
    watch: Watch = field(default_factory=Watch)
    beats: Beats | None = None


def _itself(subject: Any) -> Any:
    return subject


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a driver works with."""

    journal: Journal
    clock: Clock
    committer: Committer
    progress: Progress | None = None
    nap_seconds_max: float = 1.0
    stand_in: Callable[[Any], Any] = _itself  # in simulations: the bound call that is made in the place of an operation's own
    draw: Callable[[], int] = lambda: secrets.randbits(128)
    unwanted: Callable[[str], bool] = lambda run_id: False  # noqa: ARG005  # whether a run was cancelled or taken over, as far as is known here
    handing_back: Callable[[], bool] = lambda: False  # whether nothing is to begin here any more, and runs are to be let go
    patience: Patience | None = None  # with a store that does not answer; None: as long as the store's own retries last
    at_once: int | None = None  # branches of one gather; None: 32 threads in a `def` workflow, all in an `async def`
    watchman: Watchman | None = (
        None  # sees to it that nothing rides for too long; None: in simulations it does until the run's next entries
    )
    strands: Strands = field(default_factory=Threads)  # what the branches of a `def` workflow run on

    def question(
        self,
        operation: Send | Ask | Close | Cancel,
        run_id: str,
        now_us: int,
        stamped_us: int | None = None,
        aside: Aside | None = None,
    ) -> Question:
        """The call that this operation asks for. `now_us`: the wall clock, just read; `stamped_us`: the boot clock when the attempt was
        stamped. The deadline holds on both: a suspended process must not send because its wall clock stood still or was set back. `aside`:
        uses the store without being waited for; None: at once."""
        bound, intent = self.stand_in(operation.subject), operation.intent
        attempt = None if isinstance(operation, Ask) else operation.attempt
        send_until_us = attempt.send_until_us if attempt else now_us + intent.timeout_us
        boot_us = self.clock.boot_us()
        ends_us = boot_us + max(0, send_until_us - now_us)  # at once where it is over by the wall clock
        ends_us = ends_us if stamped_us is None else min(ends_us, stamped_us + _lasts_us(attempt, intent))
        watch = Watch(silence_of(operation, bound.effect.heartbeat))
        beats = Beats(operation, run_id, self.clock, watch, aside or self._at_once) if isinstance(operation, Send) else None
        call = Call(
            run_id=run_id,
            step=intent.step,
            key=intent.key,
            fingerprint=intent.fingerprint,
            scope=intent.scope,
            epoch=operation.epoch if isinstance(operation, Ask) else operation.attempt.epoch,
            attempt=attempt.number if attempt else 0,
            send_until=moment(send_until_us),
            first_sent=moment(operation.first_sent_us) if isinstance(operation, Send) else None,
            remaining=lambda: max(0.0, (ends_us - self.clock.boot_us()) / 1_000_000),
            stopped=lambda: watch.abandoned or self.unwanted(run_id),
            last_heartbeat=None if beats is None else beats.last,
            beat=_unheard if beats is None else beats.beat,
        )
        bracket, body, answer, raised = _function_of(operation, bound)
        ask = partial(_in_time, call, body) if attempt else partial(body, call)
        if not isinstance(operation, Ask) and not bound.effect.is_async:
            ask = partial(_outliving, ask, watch, answer, raised, partial(self._keep, operation, run_id))
            if watch.silence is not None:
                ask = partial(watch.called, ask, max(0.0, (ends_us - boot_us) / 1_000_000))
        return Question(
            bracket=bracket,
            call=call,
            ask=ask,
            is_async=bound.effect.is_async,
            answer=answer,
            raised=raised,
            too_late=boot_us >= ends_us,
            watch=watch,
            beats=beats,
        )

    def _at_once(self, call: Callable[[Journal], None]) -> None:
        call(self.journal)

    def _keep(self, operation: Send | Close | Cancel, run_id: str, answer: Answered) -> None:
        """Late evidence about an attempt whose caller was cancelled. Best effort: without it the attempt is unknown, as it was."""
        attempt, now_us = operation.attempt, self.clock.wall_us()
        late = Observation(
            step=attempt.step,
            source=Source.LATE,
            asked_at_us=attempt.sent_at_us,
            observed_at_us=now_us,
            answer=answer,
            attempt=attempt.number,
            epoch=attempt.epoch,
        )
        epoch = Epoch.parse(attempt.epoch)
        assert epoch is not None, "an attempt names the epoch that made it"
        with suppress(RecoveryError):
            item = late_item(run_id, epoch, now_us, late, sealing_of(self.journal, run_id))
            with around("evidence"):
                self.journal.add_evidence(item)

    def left(self, sleep: Sleep | Poll, now_us: int) -> float:
        """Seconds until the named time, at least 0. Tells the watcher."""
        seconds = max(0.0, (sleep.until_us - now_us) / 1_000_000)
        if seconds and self.progress is not None:
            self.progress(sleep, seconds)
        return seconds


def _unheard(_: Any) -> None:
    """Only a sending says signs of life."""


def _lasts_us(attempt: Attempt | None, intent: Intent) -> int:
    """How long one call may take."""
    return intent.timeout_us if attempt is None else attempt.send_until_us - attempt.sent_at_us


def _function_of(
    operation: Send | Ask | Close | Cancel, bound: Bound[Any]
) -> tuple[str, Callable[[Call], Any], Callable[[Any], Answered], Callable[[Exception], Answered | None]]:
    """The bracket around an operation, the user's function that it calls, and what its return or its error mean."""
    effect = bound.effect
    answer: Callable[[Any], Answered]
    match operation:
        case Send():
            bracket, body, answer, raised = "send", bound.invoke, effect.returned, bound.raised
        case Close() | Cancel():
            body = bound.close if isinstance(operation, Close) else bound.cancel
            bracket, answer, raised = "close", effect.probed, effect.probe_raised
        case _:
            bracket, body, answer, raised = "probe", bound.ask, effect.probed, effect.probe_raised
    return bracket, body, answer, raised


_TOO_LATE: Final = "its deadline had passed before its first byte"


def called_too_late() -> Answered:
    """The attempt's deadline passed between its commit and its first byte: proof that this attempt never left."""
    return Answered(kind=AnswerKind.NOT_SENT, detail=_TOO_LATE)


def _in_time(call: Call, body: Callable[[Call], Any]) -> Any:
    """Asked once more where the body starts: a thread may have been waited for until the deadline had passed."""
    if call.remaining_seconds() <= 0:
        raise ReplyWas(NotSent(detail=_TOO_LATE))
    return body(call)


def _outliving(
    ask: Callable[[], Any],
    watch: Watch,
    answer: Callable[[Any], Answered],
    raised: Callable[[Exception], Answered | None],
    keep: Callable[[Answered], None],
) -> Any:
    """Ask where nobody can interrupt: in a thread. A reply that comes after its caller has given up is still a fact, and is kept."""
    try:
        value = ask()
    except Exception as error:  # a user's function; raised again, and what it tells is kept
        if watch.abandoned and (told := raised(error)) is not None:
            keep(told)
        raise
    if watch.abandoned:
        keep(answer(value))
    return value


def failed_decision(error: Exception) -> Decided:
    """A deciding function's failure in stored form: its type's name and a bounded message."""
    return Decided(message_of(error), error=error_name(error), raised=error)


def bound_call(given: object, run_method: str) -> Bound[Any]:
    """An effect is bound before it is performed. Raises DefinitionError before anything happened."""
    if isinstance(given, Bound):
        given.taken()
        return given
    name = given.name if isinstance(given, Effect) else type(given).__name__
    raise DefinitionError(
        what="call", name=f"run.{run_method}", problem=f"{name} is not a bound effect",
        advice=f"Call it with its arguments first: `run.{run_method}({name}(...))`.",
    )  # fmt: skip


def refuse_async(is_async: bool, what: str, name: str) -> None:
    """A sync run cannot await. Raises DefinitionError before anything happened."""
    if is_async:
        raise DefinitionError(
            what=what, name=name, problem="it is an `async def` and cannot be awaited in a `def` workflow",
            advice="Make the workflow an `async def` that takes AsyncRun, or this a `def`.",
        )  # fmt: skip
