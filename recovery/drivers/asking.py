"""What both drivers know about an operation before and after the one line in which they differ: calling or awaiting.

Owns the checks around user functions and the waiting for a named time. Invariant: nothing is sent after an attempt's deadline, and
whatever an effect's body raises becomes an answer, never a conclusion.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from recovery.core.entries import Answered, AnswerKind, Observation, Source
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
from recovery.drivers.beating import Aside, Beats, last_of
from recovery.drivers.patience import Patience
from recovery.drivers.riding import Watchman
from recovery.drivers.strands import Strands, Threads
from recovery.drivers.watching import Watch, nobody
from recovery.ports import Clock, Journal
from recovery.storage.committing import Committer
from recovery.storage.resting import late_item, sealing_of

Progress = Callable[[Sleep | Poll, float], None]
"""Told on every nap what is waited for and how many seconds are left."""


class Told(Watch):
    """What one call may learn of itself at any time. `ends_us`: its deadline, on the boot clock. It is no part of what it asks for (`Question`): each call
    would be a circle that only a garbage collection ends."""

    __slots__ = ("_aside", "_operation", "_run_id", "_surroundings", "beats", "ends_us")

    def __init__(
        self, surroundings: Surroundings, operation: Asked, run_id: str, aside: Aside | None, silence: float | None, ends_us: int
    ) -> None:
        self.silence, self.abandoned, self._heard = silence, False, nobody
        self._surroundings, self._operation, self._run_id, self._aside = surroundings, operation, run_id, aside
        self.ends_us = ends_us
        self.beats: Beats | None = None  # from the first sign of life on

    def remaining(self) -> float:
        """Seconds, at least 0."""
        return max(0.0, (self.ends_us - self._surroundings.clock.boot_us()) / 1_000_000)

    def stopped(self) -> bool:
        return self.abandoned or self._surroundings.unwanted(self._run_id)

    def said(self, progress: Any) -> None:
        """A sign of life. Only a sending says any."""
        if isinstance(self._operation, Send):
            if self.beats is None:
                place = self._surroundings
                self.beats = Beats(self._operation, self._run_id, place.clock, self, self._aside or place.use)
            self.beats.beat(progress)

    def failed(self) -> None:
        """It has ended without an outcome."""
        if self.beats is not None:
            self.beats.failed()

    def keep(self, answer: Answered) -> None:
        """It was answered, and nobody waits for that any more."""
        assert not isinstance(self._operation, Ask), "nobody outlives a question"
        self._surroundings.keep(self._operation, self._run_id, answer)


@value(frozen=True, slots=True)
class Question:
    """One call of a user's function about one effect. attempts: it is an attempt, which is not made behind its deadline."""

    bracket: str
    call: Call
    function: Callable[[Call], Any]  # the user's: reached through `_call` alone
    answer: Callable[[Any], Answered]
    raised: Callable[[Exception], Answered | None]
    is_async: bool
    attempts: bool
    too_late: bool
    watch: Told

    def ask(self) -> Any:
        """Call it. A `def` attempt runs where nobody can interrupt it, in a thread, and one that says signs of life in one that can be left alone."""
        if not self.attempts:
            return self.function(self.call)
        if self.is_async:
            return self._in_time()
        if self.watch.silence is None:
            return self._outliving()
        return self.watch.called(self._outliving, self.watch.remaining())

    def _in_time(self) -> Any:
        """Looked at once more where the body starts: a thread may have been waited for until the deadline had passed."""
        if self.watch.remaining() <= 0:
            raise ReplyWas(NotSent(detail=_TOO_LATE))
        return self.function(self.call)

    def _outliving(self) -> Any:
        """A reply that comes after its caller has given up is still a fact, and is kept."""
        try:
            value = self._in_time()
        except Exception as error:  # a user's function; raised again, and what it tells is kept
            if self.watch.abandoned and (told := self.raised(error)) is not None:
                self.watch.keep(told)
            raise
        if self.watch.abandoned:
            self.watch.keep(self.answer(value))
        return value


Asked: TypeAlias = Send | Ask | Close | Cancel


def _itself(subject: Any) -> Any:
    return subject


_THREADS: Final = Threads()


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
    strands: Strands = _THREADS  # what the branches of a `def` workflow run on

    def question(
        self,
        operation: Asked,
        run_id: str,
        now_us: int,
        stamped_us: int | None = None,
        aside: Aside | None = None,
    ) -> Question:
        """The call that this operation asks for. `now_us`: the wall clock, just read; `stamped_us`: the boot clock when the attempt was
        stamped. The deadline holds on both: a suspended process must not send because its wall clock stood still or was set back. `aside`:
        uses the store without being waited for; None: at once."""
        bound, intent = self.stand_in(operation.subject), operation.intent
        if isinstance(operation, Ask):
            number, epoch, send_until_us, lasts_us = 0, operation.epoch, now_us + intent.timeout_us, intent.timeout_us
        else:
            attempt = operation.attempt
            number, epoch, send_until_us = attempt.number, attempt.epoch, attempt.send_until_us
            lasts_us = send_until_us - attempt.sent_at_us
        boot_us = self.clock.boot_us()
        ends_us = boot_us + max(0, send_until_us - now_us)  # at once where it is over by the wall clock
        ends_us = ends_us if stamped_us is None else min(ends_us, stamped_us + lasts_us)
        sending = operation if isinstance(operation, Send) else None
        heartbeat = None if sending is None else bound.effect.heartbeat  # only sendings say signs of life
        watch = Told(self, operation, run_id, aside, None if heartbeat is None else heartbeat.total_seconds(), ends_us)
        call = Call(
            run_id=run_id,
            step=intent.step,
            key=intent.key,
            fingerprint=intent.fingerprint,
            scope=intent.scope,
            epoch=epoch,
            attempt=number,
            send_until=moment(send_until_us),
            first_sent=None if sending is None else moment(sending.first_sent_us),
            remaining=watch.remaining,
            stopped=watch.stopped,
            last_heartbeat=None if sending is None else last_of(sending),
            beat=watch.said,
        )
        bracket, body, answer, raised = _function_of(operation, bound)
        return Question(bracket, call, body, answer, raised, bound.effect.is_async, number > 0, boot_us >= ends_us, watch)

    def use(self, call: Callable[[Journal], None]) -> None:
        """Use the store in the caller's own thread."""
        call(self.journal)

    def keep(self, operation: Send | Close | Cancel, run_id: str, answer: Answered) -> None:
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


def _function_of(
    operation: Asked, bound: Bound[Any]
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
