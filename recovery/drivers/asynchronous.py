"""The async driver: user code on the event loop, everything that may block beside it.

Owns the bridge to threads. Invariants: no commit ever runs on the loop; a cancelled caller leaves a store call to finish, since
cancelling cannot undo a commit; a step has its identity before anything is awaited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from recovery.core.child_errors import ChildFailed
from recovery.core.children import JOINED
from recovery.core.compensation import Compensated
from recovery.core.entries import NOW, RANDOM, step_of
from recovery.core.entries import UUID as UUID_FORM
from recovery.core.errors import StepInterrupted
from recovery.core.gathering import Waiting
from recovery.core.ids import ROOT
from recovery.core.operations import Find, Op
from recovery.core.orders import heeding
from recovery.definitions.async_run import AsyncRun
from recovery.definitions.child import AsyncChild, BoundWorkflow
from recovery.definitions.deadline import SettingDeadline
from recovery.definitions.deciding import Deciding
from recovery.definitions.effect import Bound, Effect
from recovery.definitions.retry import Retry
from recovery.definitions.run import Applied, Rejected
from recovery.definitions.saga import AsyncSaga, kept_names, reasons
from recovery.definitions.wait import Wait
from recovery.drivers import children
from recovery.drivers.asking import Surroundings, bound_call
from recovery.drivers.branching import Branching, bodies_of, check_bodies, width
from recovery.drivers.closing import CLOSING
from recovery.drivers.loop import Driver
from recovery.drivers.posting import Post, in_context, post_of
from recovery.drivers.riding import Watchman
from recovery.drivers.session import Nap, Session
from recovery.drivers.turnstile import Turnstile
from recovery.drivers.undoing import Stretch
from recovery.drivers.watching import Watch
from recovery.ports import Append, Journal, NewRun, RunRow
from recovery.storage.committing import Ticket
from recovery.storage.writer import Writer

T = TypeVar("T")


class AsyncDriver(Driver):
    """Carries out operations by awaiting."""

    _threads: ThreadPoolExecutor  # from the first use of the store on

    def __init__(self, surroundings: Surroundings, writer: Writer | None = None, run_id: str = "") -> None:
        super().__init__(surroundings, writer, run_id)
        self.pure = None
        self._appending: Turnstile | None = None  # once branches append
        self._writing = Turnstile()
        self._looking: asyncio.Task[None] | None = None
        self._posted: Post | None = None
        self._asides: list[Future[None]] = []

    def _post(self) -> Post:
        """That of the loop that drives this, which stays the same one."""
        if self._posted is None:
            self._posted = post_of(asyncio.get_running_loop())
            self._threads = self._posted.threads
        return self._posted

    def crowded(self) -> bool:
        """Whether what begins now is to `make_way` first."""
        return not self._left and self._post().crowded()

    async def make_way(self) -> None:
        """Wait for a turn of the loop in which there is less to do."""
        await self._post().make_way()

    async def _enter(self) -> None:
        if self._appending is None:
            self._appending = Turnstile()
        await self._appending.enter()

    def _leave(self) -> None:
        assert self._appending is not None, "whoever leaves has entered"
        self._appending.leave()

    async def _alone(self, work: Coroutine[Any, Any, None]) -> None:
        if not self._writing.entered():
            await self._writing.enter()
        closed = False
        try:
            await work
        except GeneratorExit:  # where no loop need run: a look that cannot be begun would take the place of this
            closed = True
            raise
        finally:
            self._writing.leave()
            if not closed:  # it rides from here on, or still
                self._watch_aboard()

    def _later(self, watchman: Watchman, head: int) -> None:
        self._post().later(watchman.seconds, partial(self._look, head))

    def _look(self, head: int) -> None:
        if self._writing.taken:  # whoever writes now takes with them what rides, or looks after it behind that
            self._awaited = False
        elif self._ridden(head) is not None:
            self._looking = asyncio.get_running_loop().create_task(self._looked(head))

    async def _looked(self, head: int) -> None:
        assert self._writer is not None
        await self._writing.enter()
        try:
            await self._due(head)
        except asyncio.CancelledError:  # with its loop; whether it was stored is unknown to this run
            self._writer.failed = StepInterrupted(
                run_id=self._run_id, step=step_of(self._writer.aboard[-1]), reason="CancelledError"
            )
            raise
        finally:
            self._writing.leave()

    async def end(self) -> None:
        self.ended = True
        if self._looking is not None:
            await _to_its_end(self._looking)

    async def _turn(self, waiting: Waiting) -> None:
        come = asyncio.Event()
        waiting.wake = come.set
        if not waiting.released:
            await come.wait()

    async def _use(self, call: Callable[[Any], T], *, alike: object = None) -> T:
        asked = in_context(call, self.surroundings.journal)
        if self._left:
            CLOSING.hand_in(asked)
            return None  # type: ignore[return-value]  # whoever is closed only gives up
        return await self._post().use(asked, None if alike is None else (id(self.surroundings.journal), alike))

    async def _found(self, operation: Find) -> RunRow | None:
        return None if self._left else await self._post().find(self.surroundings.journal, operation.run_id)

    async def _commit(self, member: Append | NewRun) -> Any:
        if self._left:  # as in `_use`: whoever is closed waits for nothing
            CLOSING.hand_in(lambda: self.surroundings.committer.commit(member))
            return None
        post = self._post()
        return await post.commit(self.surroundings.committer, Ticket(member, post.tell))

    def _aside(self, call: Callable[[Journal], None]) -> None:
        self._asides.append(self._threads.submit(in_context(call, self.surroundings.journal)))

    async def _caught_up(self) -> None:
        while self._asides:
            await _to_its_end(asyncio.wrap_future(self._asides.pop()))

    def _call(self, ask: Callable[[], Any], is_async: bool, seconds: float | None, watch: Watch) -> Awaitable[Any]:
        """Awaited where it can be, else called in a thread of its own, where it may block and cannot be interrupted."""
        self._post()  # for what is done aside
        return watch.awaited(ask, seconds) if is_async else asyncio.to_thread(ask)

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    CARRIERS: ClassVar = {**Driver.CARRIERS, Find: _found}

    async def run_workflow(self, session: Session, invoke: Callable[[Any], Any]) -> Any:
        face = AsyncSession(self, session)
        try:
            value = await invoke(AsyncRun(face))
        except Exception as error:
            with suppress(ChildFailed):  # the workflow's own failure stands
                await face.join(error)
            raise
        await face.join(None)
        return value


class AsyncSession:
    """What `AsyncRun` forwards to."""

    def __init__(self, driver: AsyncDriver, session: Session, branch: str = ROOT) -> None:
        self._driver = driver
        self._session = session
        self._branch = branch

    @property
    def run_id(self) -> str:
        return self._session.run_id

    def now(self) -> Coroutine[Any, Any, datetime]:
        return self._step(NOW, self._session.now)

    def sleep(self, duration: timedelta) -> Coroutine[Any, Any, None]:
        nap = Nap.lasting(duration)
        return self._step("sleep", lambda step: self._session.sleep(step, nap))

    def sleep_until(self, at: datetime) -> Coroutine[Any, Any, None]:
        nap = Nap.until(at)
        return self._step("sleep", lambda step: self._session.sleep(step, nap))

    def deadline(self, at: timedelta | datetime, name: str) -> SettingDeadline:
        nap = Nap.to(at)
        return SettingDeadline(self._step(name, lambda step: self._session.deadline(step, nap)))

    def random(self) -> Coroutine[Any, Any, float]:
        return self._step(RANDOM, self._session.random)

    def uuid(self) -> Coroutine[Any, Any, UUID]:
        return self._step(UUID_FORM, self._session.uuid)

    def decide(self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Coroutine[Any, Any, Any]:
        deciding = Deciding(name, fn, args, kwargs)
        return self._decided(self._session.machine.begin(name, self._branch), deciding)

    def perform(self, bound: Bound[Any], key: str | None, name: str | None, retry: Retry | None) -> Coroutine[Any, Any, Any]:
        bound = bound_call(bound, "perform").retried(retry)
        step = self._session.machine.begin(name or bound.effect.name, self._branch)
        return self._performed(step, bound, key)

    def attempt(
        self, bound: Bound[Any], key: str | None, name: str | None, retry: Retry | None
    ) -> Coroutine[Any, Any, Applied[Any] | Rejected]:
        bound = bound_call(bound, "attempt").retried(retry)
        step = self._session.machine.begin(name or bound.effect.name, self._branch)
        return self._attempted(step, bound, key)

    def wait(self, wait: Wait[Any]) -> Coroutine[Any, Any, Any]:
        return self._step(wait.name, lambda step: self._session.wait(step, wait))

    def publish(self, name: str, value: Any) -> None:
        self._session.publish(self._branch, name, value)

    def log(self, level: int, event: str, fields: dict[str, Any]) -> None:
        self._driver.tell(self._session.line(self._branch, level, event, fields))

    def patched(self, name: str) -> bool:
        return self._session.machine.patched(name, self._branch)

    def compensate(self, name: str, keeps: Sequence[Effect[..., Any]]) -> Coroutine[Any, Any, Compensated]:
        machine, stretch = self._session.machine, Stretch(name, self._branch, kept_names(name, keeps))
        return self._step(name, lambda step: self._session.compensate(step, stretch.reached(machine)))

    def saga(self, name: str, keeps: Sequence[Effect[..., Any]], when: Collection[str]) -> AsyncSaga:
        stretch = Stretch(name, self._branch, kept_names(name, keeps), reasons(name, when))
        return AsyncSaga(self._session.stretches, stretch, self._undo)

    def _undo(self, stretch: Stretch) -> Coroutine[Any, Any, Compensated]:
        machine = self._session.machine
        step = machine.begin_undoing(stretch.name, self._branch)
        return self._driven(step, lambda step: self._session.compensate(step, stretch.reached(machine)))

    def branch(self, name: str) -> AsyncRun:
        return self._run(self._session.machine.branch(name, self._branch))

    def start(
        self, bound: BoundWorkflow[Any], run_id: str | None, name: str | None, *, detached: bool
    ) -> Coroutine[Any, Any, AsyncChild[Any]]:
        bound = children.bound_workflow(bound, "start", is_async=True)

        async def started(step: str) -> AsyncChild[Any]:
            child = await children.start(self._session, step, bound, run_id, detached=detached)
            return AsyncChild(child, bound.decode, self.await_child)

        return self._step(name or bound.workflow.name, started)

    def await_child(self, child: AsyncChild[Any]) -> Coroutine[Any, Any, Any]:
        return self._step(children.RESULT, lambda step: children.adopt(self._session, step, child))

    def call_child(self, bound: BoundWorkflow[Any], run_id: str | None, name: str | None) -> Coroutine[Any, Any, Any]:
        return self._called(self.start(bound, run_id, name, detached=False))

    async def _called(self, starting: Coroutine[Any, Any, AsyncChild[Any]]) -> Any:
        return await self.await_child(await starting)

    async def join(self, error: Exception | None) -> None:
        """The workflow has ended: wait for the children that it has not waited for. Raises ChildFailed, and Unwind."""
        handles = [AsyncChild(each, lambda _: None, self.await_child) for each in children.to_join(self._session.machine, error)]
        if handles:
            await self.map(lambda run, child: run.await_child(child), handles, children.JOINS_MAX, JOINED)

    def map(
        self, fn: Callable[[AsyncRun, Any], Coroutine[Any, Any, Any]], items: Iterable[Any], limit: int, name: str
    ) -> Coroutine[Any, Any, list[Any]]:
        return self.gather(bodies_of(fn, list(items)), limit, name)

    def gather(
        self, bodies: Sequence[Callable[[AsyncRun], Coroutine[Any, Any, Any]]], limit: int | None, name: str
    ) -> Coroutine[Any, Any, list[Any]]:
        """Begun here, before any await, as a step is."""
        check_bodies(bodies)
        machine = self._session.machine
        branching = Branching(machine, machine.gather(name, len(bodies), self._branch), nullcontext())
        return self._gathered(bodies, width(len(bodies), limit, self._driver.surroundings.at_once), branching)

    async def _gathered(
        self, bodies: Sequence[Callable[[AsyncRun], Coroutine[Any, Any, Any]]], tasks: int, branching: Branching
    ) -> list[Any]:
        async def run(number: int, path: str) -> Any:
            return await bodies[number](self._run(path))

        workers = [asyncio.ensure_future(work) for work in branching.works(run, tasks)]
        try:
            if workers:
                await asyncio.wait(workers)
        except asyncio.CancelledError:  # what a branch was doing is unknown from here on; raised again once all have ended
            branching.break_off()
            for worker in workers:
                worker.cancel()
            await asyncio.wait(workers)
            with suppress(BaseException):  # whatever the branches came to, this one was cancelled
                branching.come()
            raise
        return branching.come()

    def _run(self, branch: str) -> AsyncRun:
        return AsyncRun(AsyncSession(self._driver, self._session, branch))

    def _step(self, name: str, procedure: Callable[[str], Coroutine[Op[Any], Any, T]]) -> Coroutine[Any, Any, T]:
        """Begun here, before any await; a coroutine that nobody awaits keeps the next step from starting."""
        return self._stepped(self._session.machine.begin(name, self._branch), procedure)

    async def _stepped(self, step: str, procedure: Callable[[str], Coroutine[Op[Any], Any, T]]) -> T:
        if self._driver.crowded():
            await self._make_way(step)
        return await self._driven(step, procedure)

    async def _decided(self, step: str, deciding: Deciding) -> Any:
        if self._driver.crowded():
            await self._make_way(step)
        if (given := self._session.replays.decided(self._session, step, deciding)) is not None:
            return given.value
        return await self._driven(step, partial(self._session.decide, deciding=deciding))

    async def _make_way(self, step: str) -> None:
        """A step that has begun goes on in a turn of the loop that is not crowded: a replay asks nobody, and would keep the loop to its end."""
        try:
            await self._driver.make_way()
        except BaseException as error:  # cancelled; raised again
            self._session.machine.finish(step, error)
            raise

    async def _performed(self, step: str, bound: Bound[Any], key: str | None) -> Any:
        if self._driver.crowded():
            await self._make_way(step)
        if (given := self._session.replays.given(self._session, step, bound, key)) is not None:
            return given.value
        return await self._driven(step, partial(self._session.perform, bound=bound, key=key))

    async def _attempted(self, step: str, bound: Bound[Any], key: str | None) -> Applied[Any] | Rejected:
        if self._driver.crowded():
            await self._make_way(step)
        if (given := self._session.replays.given(self._session, step, bound, key)) is not None:
            return given
        return await self._driven(step, partial(self._session.attempt, bound=bound, key=key))

    async def _driven(self, step: str, procedure: Callable[[str], Coroutine[Op[Any], Any, T]]) -> T:
        try:
            result = await self._driver.drive(heeding(self._session.machine, step, procedure))
        except BaseException as error:  # a cancelled step has ended, too; raised again
            self._session.machine.finish(step, error)
            raise
        self._session.machine.finish(step)
        return result


async def _to_its_end(work: asyncio.Future[T]) -> T:
    """Await to the end even when cancelled, then let the cancellation go on: what a commit did must be known to its writer."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return work.result()
    work.exception()  # seen; the cancellation matters more
    raise cancelled
