"""The loop that carries out operations, once for both colours.

Owns what happens for each operation. Its subclasses own only the leaves where `def` and `async def` differ: using the store, calling a
user's function, pausing, running a workflow. Under the sync driver no leaf ever suspends, so the whole loop runs to its end in one go.
Invariant: an operation's exception, cancellation included, is raised inside the procedure, where it was awaited.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from inspect import CORO_CLOSED, getcoroutinestate
from operator import methodcaller
from typing import Any, ClassVar, Final, TypeVar

from recovery.core.entries import Answered
from recovery.core.errors import InvariantViolated, RunLeftBehind, StoreUnavailable, UsageError
from recovery.core.gathering import Waiting
from recovery.core.operations import (
    Append,
    Ask,
    Boot,
    Cancel,
    Close,
    Commit,
    Decide,
    Decided,
    Deliver,
    Draw,
    Enter,
    Execute,
    Find,
    Flush,
    HoldContract,
    Leave,
    Now,
    Op,
    Poll,
    Raised,
    Returned,
    Send,
    Sleep,
    Turn,
    Use,
)
from recovery.crashpoints import around
from recovery.definitions.body import inside
from recovery.definitions.deciding import Deciding
from recovery.drivers.asking import Surroundings, called_too_late, failed_decision
from recovery.drivers.handing import Closed, HandedBack, begins
from recovery.drivers.patience import repeatable
from recovery.drivers.readings import Readings
from recovery.drivers.riding import Watchman
from recovery.drivers.session import Session
from recovery.drivers.watching import Watch
from recovery.forks import watch
from recovery.logs import logger
from recovery.ports import Append as Member
from recovery.ports import Hold, Journal, Message, NewRun, RunRow
from recovery.storage.writer import Writer

T = TypeVar("T")

_NAMESPACE: Final = methodcaller("namespace")
POLL_SECONDS: Final = 0.05
POLL_SECONDS_MAX: Final = 1.0
"""How often an inbox is looked at by a call that may wait for it."""


class Driver(ABC):
    """Drives procedures. `writer` is the run's own, for the operations of a workflow; None before there is a claim. `run_id`: what
    an operator's procedure is about, which has no workflow to drive. `pure`: held while the core thinks; None: where branches are tasks, of which one
    thinks at a time anyhow."""

    pure: Any  # a context, or None

    def __init__(self, surroundings: Surroundings, writer: Writer | None = None, run_id: str = "") -> None:
        self.surroundings = surroundings
        self._clock = surroundings.clock
        self._writer = writer
        self._run_id = writer.run_id if writer else run_id
        self._pid = os.getpid()
        self._left_behind: int | None  # the process whose run this is, where it is found in a child of that
        self.forked()
        watch(self)
        self._awaited = False  # somebody looks soon whether something still rides
        self.ended = False  # nothing rides any more
        self._left = False  # this coroutine is being closed: nothing may be awaited any more

    def forked(self) -> None:
        """A child carries nothing out: the run is its parent's."""
        self._left_behind = None if os.getpid() == self._pid else self._pid

    async def drive(self, procedure: Coroutine[Op[Any], Any, T]) -> T:
        """Carry out a procedure to its end."""
        try:
            return await self._driven(procedure, procedure.send, None)
        except BaseException as error:  # raised again, unless it struck between two operations: it belongs to the procedure, too
            if getcoroutinestate(procedure) == CORO_CLOSED:
                raise
            return await self._driven(procedure, procedure.throw, error)

    async def _driven(self, procedure: Coroutine[Op[Any], Any, T], resume: Callable[[Any], Op[Any]], came: Any) -> T:
        readings, send = Readings(), procedure.send
        while True:
            try:
                if (pure := self.pure) is None:
                    operation = resume(came)
                else:
                    with pure:
                        operation = resume(came)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]  # the procedure's own result
            except Closed as closed:
                self._left = False  # other branches go on
                raise closed.error from closed
            try:
                resume = send
                try:
                    if type(operation) is Now and not self._clock.asks():  # asked most often, and mostly of this host
                        came = readings.read(self._clock)
                    else:
                        came = await self._carried_out(operation, readings)
                except StoreUnavailable as error:
                    came = await self._again(operation, readings, error)
            except GeneratorExit as error:
                self._left = True
                resume, came = procedure.throw, Closed(error)
            except BaseException as error:  # noqa: BLE001  # all of it belongs to the procedure
                resume, came = procedure.throw, error

    async def _again(self, operation: Op[Any], readings: Readings, error: StoreUnavailable) -> Any:
        """Wait out an outage of the store, and have the same done once it answers. Raises its last error where nobody waits for it, or not for so long."""
        surroundings, boot_us = self.surroundings, self.surroundings.clock.boot_us
        patience, began_us, times = surroundings.patience, boot_us(), 0
        if patience is None or self._left or not repeatable(operation):
            raise error
        logger("waiting").warning("the database does not answer", run_id=self._run_id, problem=str(error))
        with patience.counted():
            while patience.lasts(boot_us() - began_us) and not surroundings.handing_back():
                times += 1
                await self._pause(patience.pause_seconds(times))
                try:
                    return await self._carried_out(operation, readings)
                except StoreUnavailable as again:
                    error = again
        raise error

    def _carried_out(self, operation: Op[Any], readings: Readings) -> Coroutine[Any, Any, Any]:
        """What carries it out. Raises RunLeftBehind, HandedBack."""
        if self._left_behind is not None or self.surroundings.handing_back():  # almost never
            self._check_ours(operation)
        kind = type(operation)
        return self._TIMED[kind](self, operation, readings) if kind in self._TIMED else self.CARRIERS[kind](self, operation)

    def _check_ours(self, operation: Op[Any]) -> None:
        """Whether this process is to carry it out. Raises RunLeftBehind, HandedBack."""
        if self._left_behind is not None:  # both would send: the fence refuses one of them only after that
            raise RunLeftBehind(run_id=self._run_id, parent=self._left_behind, child=os.getpid())
        if self.surroundings.handing_back() and begins(operation):
            raise HandedBack

    def _append(self, operation: Append) -> Coroutine[Any, Any, None]:
        assert self._writer is not None
        work = self._writer.commit(operation)
        return self._alone(work if operation.rides else self.drive(work))  # what rides asks for nothing

    async def flush(self) -> None:
        """Make durable what rides."""
        assert self._writer is not None
        if self._writer.aboard:
            await self._alone(self.drive(self._writer.flush()))

    def tell(self, line: Callable[[], None] | None) -> None:
        """Say something that may build on what rides, once that is durable. Of what was lost with its process nobody hears."""
        if line is None:
            return
        if self._writer is not None and self._writer.aboard:
            self._writer.lines.append(partial(copy_context().run, line))
        else:
            line()

    def _watch_aboard(self) -> None:
        """`_watch` what rides, unless somebody does already."""
        if not self._awaited and self._writer is not None and self._writer.aboard:
            self._watch()

    def _watch(self) -> None:
        """Look after half the limit whether what rides now still does, and after the other half see to it that it does not."""
        assert self._writer is not None
        if (watchman := self.surroundings.watchman) is not None:
            self._awaited = True
            self._later(watchman, self._writer.head)

    def _ridden(self, head: int | None) -> Writer | None:
        """Half the limit has passed since something rode behind entry `head`: who writes it, if it still does. What came later is looked after anew. None:
        whatever rides, behind whichever entry."""
        self._awaited = False
        if self.ended or self._writer is None or not self._writer.aboard:
            return None
        if head is not None and self._writer.head != head:
            self._watch()
            return None
        return self._writer

    async def _due(self, head: int | None) -> None:
        """Make durable what rides behind entry `head`, if it still does; None: behind whichever."""
        if (writer := self._ridden(head)) is not None:
            with suppress(Exception):  # the run hears of it from its writer, at its next step
                await self.drive(writer.flush())

    async def _ask(self, operation: Send | Ask | Close | Cancel, readings: Readings) -> Answered:
        stamped_us = None if isinstance(operation, Ask) else readings.get(operation.attempt.sent_at_us)
        clock = self._clock
        now_us = await self._wall() if clock.asks() else clock.wall_us()
        asked = self.surroundings.question(operation, self._run_id, now_us, stamped_us, self._aside)
        if asked.too_late:
            return called_too_late()
        with around(asked.bracket):
            try:
                seconds = asked.watch.remaining() if asked.is_async else None
                answer = asked.answer(await self._call(asked.ask, asked.is_async, seconds, asked.watch))
            except Exception as error:  # what it means is the effect's to say
                if (said := asked.raised(error)) is None:
                    raise
                answer = said
                asked.watch.failed()
            except BaseException:  # cancelled or interrupted: a thread that still asks keeps what it hears as late evidence
                asked.watch.abandoned = True
                raise
        if asked.watch.beats is not None:
            await self._caught_up()
        return answer

    async def _hold(self, order: HoldContract) -> None:
        hold = Hold(order.contract, held=True, by="recovery", reason=order.reason, at_us=order.at_us, token=order.token)
        with around("hold"):
            await self._use(lambda journal: journal.add_hold(hold))

    async def _decide(self, operation: Decide) -> Decided:
        deciding: Deciding = operation.subject
        with around("decide"):
            try:
                value = await self._call(deciding.make, deciding.is_async, None, Watch())
            except (UsageError, InvariantViolated):
                raise  # the code was wrong: nothing was decided, and better code still can
            except Exception as error:  # noqa: BLE001  # recorded, and raised again on replay
                return failed_decision(error)
        return Decided(deciding.encode(value))

    async def _sleep(self, operation: Sleep) -> None:
        """In naps, so that a clock that steps or a machine that was suspended is noticed. A virtual clock skips instead."""
        told = False
        while not operation.heard() and (seconds := self.surroundings.left(operation, await self._wall())):
            if not told:
                logger("waiting").info(operation.why, seconds=round(seconds, 3))  # an engine that waits looks like one that hangs
                told = True
            if not self._clock.skip(seconds):
                await self._pause(min(seconds, self.surroundings.nap_seconds_max))
            if self.surroundings.handing_back():
                raise HandedBack

    async def _deliver(self, word: Deliver) -> None:
        said = {"kind": word.kind, "name": word.name, "slot": word.slot, "by": word.by, "at_us": word.at_us, "token": word.token}
        message = Message(run_id=self._run_id, body="null", **said)  # type: ignore[arg-type]  # by name, each of its type
        with around("deliver"):
            await self._use(lambda journal: journal.deliver(message))

    async def _poll(self, operation: Poll) -> None:
        """Look at the store now and then, less and less often. A virtual clock skips: nobody else does anything meanwhile."""
        pause_seconds = POLL_SECONDS
        while not await self._use(operation.heard):
            seconds = self.surroundings.left(operation, await self._wall())
            if not seconds:
                return
            if not self._clock.skip(seconds):
                await self._pause(min(seconds, pause_seconds))
                pause_seconds = min(2 * pause_seconds, POLL_SECONDS_MAX)

    async def _execute(self, operation: Execute) -> Returned | Raised:
        driver = type(self)(self.surroundings, operation.writer)
        session = Session(operation.machine, await self._use(_NAMESPACE, alike=_NAMESPACE))
        workflow = operation.subject
        try:
            with inside():
                came: Returned | Raised = Returned(
                    await driver.run_workflow(session, partial(workflow.invoke, stored=operation.input))
                )
        except (InvariantViolated, GeneratorExit):  # our bug is not the workflow's failure; nor is to be closed
            driver.ended = True
            raise
        except Exception as error:  # noqa: BLE001  # the workflow's own failure, unless it swallowed a stop on its way
            came = Raised(error)
        except BaseException:  # interrupted or unwound: what rides is whoever's who ends the run from here on
            await driver.end()
            raise
        await driver.end()
        return came

    async def _now(self, _: Now, readings: Readings) -> int:
        boot_us = self._clock.boot_us()
        wall_us = await self._wall()
        readings.keep(wall_us, boot_us)
        return wall_us

    async def _wall(self) -> int:
        """The wall clock: as a use of the store where reading it asks a database."""
        clock = self._clock
        return await self._use(lambda journal: clock.wall_us(), alike=clock) if clock.asks() else clock.wall_us()  # noqa: ARG005  # the clock has it

    @abstractmethod
    async def _enter(self) -> None:
        """Wait until no other branch appends; `_leave` lets the next one."""

    @abstractmethod
    def _leave(self) -> None: ...

    @abstractmethod
    async def _alone(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what uses the run's writer while nobody else does, and see to it that what rides behind that is looked after."""

    @abstractmethod
    def _later(self, watchman: Watchman, head: int) -> None:
        """After a while, look whether what rides behind an entry still does."""

    async def end(self) -> None:
        """The workflow's function has ended: leave what rides to whoever ends the run, and be done with the writer."""
        self.ended = True

    @abstractmethod
    async def _turn(self, waiting: Waiting) -> None:
        """Wait until a step is released, or this one is given up."""

    @abstractmethod
    async def _use(self, call: Callable[[Any], T], *, alike: object = None) -> T:
        """Use the store. alike: one answer serves all who say the same here at the same time; it can be hashed."""

    @abstractmethod
    async def _commit(self, member: Member | NewRun) -> Any:
        """Make one append or one new run durable, with those of others."""

    @abstractmethod
    def _aside(self, call: Callable[[Journal], None]) -> None:
        """Use the store beside a user's function that is under way, from whatever thread that runs in."""

    @abstractmethod
    async def _caught_up(self) -> None:
        """Wait for what was done aside."""

    @abstractmethod
    def _call(self, ask: Callable[[], Any], is_async: bool, seconds: float | None, watch: Watch) -> Awaitable[Any]:
        """Call a user's function; where it can be interrupted, raise TimeoutError after `seconds`."""

    @abstractmethod
    async def _pause(self, seconds: float) -> None:
        """Let real time pass."""

    @abstractmethod
    async def run_workflow(self, session: Session, invoke: Callable[[Any], Any]) -> Any:
        """Run a workflow's function from its beginning."""

    # -- from an operation to what carries it out -----------------------------------------------------------------------

    async def _boot(self, _: Boot) -> int:
        return self._clock.boot_us()

    async def _drawn(self, _: Draw) -> int:
        return self.surroundings.draw()

    def _used(self, operation: Use[T]) -> Coroutine[Any, Any, T]:
        return self._use(operation.call, alike=operation.call if operation.alike else None)

    def _found(self, operation: Find) -> Coroutine[Any, Any, RunRow | None]:
        return self._use(lambda journal: journal.find(operation.run_id))

    async def _left_by(self, _: Leave) -> None:
        self._leave()

    CARRIERS: ClassVar[Mapping[type[Op[Any]], Callable[[Any, Any], Coroutine[Any, Any, Any]]]] = {
        Append: _append, Boot: _boot, Decide: _decide, Deliver: _deliver, Draw: _drawn, Execute: _execute, Find: _found, HoldContract: _hold,
        Leave: _left_by, Poll: _poll, Sleep: _sleep, Use: _used, Commit: lambda self, it: self._commit(it.member),
        Enter: lambda self, _: self._enter(), Flush: lambda self, _: self.flush(), Turn: lambda self, it: self._turn(it.waiting),
    }  # fmt: skip
    """By type: a ladder of comparisons took longer than most of what it led to."""

    _TIMED: ClassVar[Mapping[type[Op[Any]], Callable[[Any, Any, Readings], Coroutine[Any, Any, Any]]]] = {
        Ask: _ask, Cancel: _ask, Close: _ask, Now: _now, Send: _ask,
    }  # fmt: skip
    """Those that read the clocks, or are bounded by what they showed."""
