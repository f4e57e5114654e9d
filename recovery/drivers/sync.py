"""The sync driver: every leaf is a plain call on the calling thread.

Owns the claim that nothing suspends: a `def` workflow, its effects and the store run to their end before `finish` returns.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

from recovery.core.child_errors import ChildFailed
from recovery.core.children import JOINED
from recovery.core.compensation import Compensated
from recovery.core.entries import NOW, RANDOM
from recovery.core.entries import UUID as UUID_FORM
from recovery.core.errors import InvariantViolated
from recovery.core.gathering import Waiting
from recovery.core.ids import ROOT
from recovery.core.operations import Op
from recovery.core.orders import heeding
from recovery.definitions.child import BoundWorkflow, Child
from recovery.definitions.deadline import Deadline
from recovery.definitions.deciding import Deciding
from recovery.definitions.effect import Bound, Effect
from recovery.definitions.retry import Retry
from recovery.definitions.run import Applied, Rejected, Run
from recovery.definitions.saga import Saga, kept_names, reasons
from recovery.definitions.wait import Wait
from recovery.drivers import children
from recovery.drivers.asking import Surroundings, bound_call, refuse_async
from recovery.drivers.branching import Branching, RunBranch, bodies_of, check_bodies, width
from recovery.drivers.loop import Driver
from recovery.drivers.riding import Watchman
from recovery.drivers.session import Nap, Session
from recovery.drivers.strands import Lock, Strand
from recovery.drivers.undoing import Stretch
from recovery.drivers.watching import Watch
from recovery.ports import Append, Journal, NewRun
from recovery.storage.writer import Writer
from recovery.threads import Signal

T = TypeVar("T")

THREADS_MAX: Final = 32  # of one gather


def finish(procedure: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends."""
    try:
        procedure.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # the coroutine's own result
    raise InvariantViolated("the sync driver met something that suspends")


def _begin(taken: threading.Lock, work: Coroutine[Any, Any, None]) -> None:
    """In a strand: carry the work out, unless that was broken off before."""
    if taken.acquire(blocking=False):
        finish(work)


class SyncDriver(Driver):
    """Carries out operations by calling. The branches of a gather are threads; what they ask the core is asked one at a time."""

    pure: Lock

    def __init__(self, surroundings: Surroundings, writer: Writer | None = None, run_id: str = "") -> None:
        super().__init__(surroundings, writer, run_id)

    def forked(self) -> None:
        """A child is refused everything, and gets to hear it only if it does not wait for a thread that it does not have."""
        super().forked()
        self.pure = self.surroundings.strands.lock()
        self._appending = self.surroundings.strands.lock()
        self._writing = threading.Lock()

    async def _enter(self) -> None:
        self._appending.acquire()

    def _leave(self) -> None:
        self._appending.release()

    async def _alone(self, work: Coroutine[Any, Any, None]) -> None:
        with self._writing:
            await work
        self._watch_aboard()

    def _later(self, watchman: Watchman, head: int) -> None:
        watchman.call_later(partial(self._look, watchman, head))

    def _look(self, watchman: Watchman, head: int, early: bool) -> None:
        """In the watchman's thread, which waits for nobody: whoever writes now takes with them what rides. early: the engine is closed, and nobody looks later."""
        if not self._writing.acquire(blocking=False):
            self._later(watchman, head)
            return
        try:
            finish(self._due(None if early else head))
        finally:
            self._writing.release()

    async def end(self) -> None:
        self.ended = True
        with self._writing:
            """Whoever looked after what rides has come to an end."""

    async def _turn(self, waiting: Waiting) -> None:
        come = self.surroundings.strands.signal()
        with self.pure:
            waiting.wake = come.set
            if waiting.released:
                return
        come.wait()

    async def _use(self, call: Callable[[Any], T], *, alike: object = None) -> T:  # noqa: ARG002  # each asks for itself
        return call(self.surroundings.journal)

    async def _commit(self, member: Append | NewRun) -> Any:
        return self.surroundings.committer.commit(member)

    def _aside(self, call: Callable[[Journal], None]) -> None:
        call(self.surroundings.journal)

    async def _caught_up(self) -> None:
        """Nothing is: it is done by the time that a heartbeat returns."""

    async def _call(self, ask: Callable[[], Any], is_async: bool, seconds: float | None, watch: Watch) -> Any:  # noqa: ARG002  # one signature
        """A plain call cannot be interrupted: its body keeps to `call.remaining_seconds()`."""
        return ask()

    async def _pause(self, seconds: float) -> None:
        Signal().wait(seconds)

    async def run_workflow(self, session: Session, invoke: Callable[[Any], Any]) -> Any:
        face = SyncSession(self, session)
        try:
            value = invoke(Run(face))
        except Exception as error:
            with suppress(ChildFailed):  # the workflow's own failure stands
                face.join(error)
            raise
        face.join(None)
        return value


class SyncSession:
    """What `Run` forwards to."""

    def __init__(self, driver: SyncDriver, session: Session, branch: str = ROOT) -> None:
        self._driver = driver
        self._session = session
        self._branch = branch

    @property
    def run_id(self) -> str:
        return self._session.run_id

    def now(self) -> datetime:
        return self._step(NOW, self._session.now)

    def sleep(self, duration: timedelta) -> None:
        nap = Nap.lasting(duration)
        self._step("sleep", lambda step: self._session.sleep(step, nap))

    def sleep_until(self, at: datetime) -> None:
        nap = Nap.until(at)
        self._step("sleep", lambda step: self._session.sleep(step, nap))

    def deadline(self, at: timedelta | datetime, name: str) -> Deadline:
        nap = Nap.to(at)
        return self._step(name, lambda step: self._session.deadline(step, nap))

    def random(self) -> float:
        return self._step(RANDOM, self._session.random)

    def uuid(self) -> UUID:
        return self._step(UUID_FORM, self._session.uuid)

    def decide(self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        deciding = Deciding(name, fn, args, kwargs)
        refuse_async(deciding.is_async, "decision", name)
        with self._driver.pure:
            step = self._session.machine.begin(name, self._branch)
            given = self._session.replays.decided(self._session, step, deciding)
        return self._carried_out(step, lambda step: self._session.decide(step, deciding)) if given is None else given.value

    def perform(self, bound: Bound[Any], key: str | None, name: str | None, retry: Retry | None) -> Any:
        bound = bound_call(bound, "perform") if retry is None else bound_call(bound, "perform").retried(retry)
        effect = bound.effect
        refuse_async(effect.is_async, "effect", effect.name)
        step, given = self._begun(name or effect.name, bound, key)
        return self._carried_out(step, lambda step: self._session.perform(step, bound, key)) if given is None else given.value

    def attempt(self, bound: Bound[Any], key: str | None, name: str | None, retry: Retry | None) -> Applied[Any] | Rejected:
        bound = bound_call(bound, "attempt") if retry is None else bound_call(bound, "attempt").retried(retry)
        effect = bound.effect
        refuse_async(effect.is_async, "effect", effect.name)
        step, given = self._begun(name or effect.name, bound, key)
        return self._carried_out(step, lambda step: self._session.attempt(step, bound, key)) if given is None else given

    def wait(self, wait: Wait[Any]) -> Any:
        return self._step(wait.name, lambda step: self._session.wait(step, wait))

    def publish(self, name: str, value: Any) -> None:
        with self._driver.pure:
            self._session.publish(self._branch, name, value)

    def log(self, level: int, event: str, fields: dict[str, Any]) -> None:
        with self._driver.pure:
            self._driver.tell(self._session.line(self._branch, level, event, fields))

    def patched(self, name: str) -> bool:
        with self._driver.pure:
            return self._session.machine.patched(name, self._branch)

    def compensate(self, name: str, keeps: Sequence[Effect[..., Any]]) -> Compensated:
        machine, stretch = self._session.machine, Stretch(name, self._branch, kept_names(name, keeps))
        return self._step(name, lambda step: self._session.compensate(step, stretch.reached(machine)))

    def saga(self, name: str, keeps: Sequence[Effect[..., Any]], when: Collection[str]) -> Saga:
        stretch = Stretch(name, self._branch, kept_names(name, keeps), reasons(name, when))
        return Saga(self._session.stretches, stretch, self._undo, self._driver.pure)

    def _undo(self, stretch: Stretch) -> None:
        machine, pure = self._session.machine, self._driver.pure
        with pure:
            step = machine.begin_undoing(stretch.name, self._branch)
        self._carried_out(step, lambda step: self._session.compensate(step, stretch.reached(machine)))

    def branch(self, name: str) -> Run:
        with self._driver.pure:
            return self._run(self._session.machine.branch(name, self._branch))

    def start(self, bound: BoundWorkflow[Any], run_id: str | None, name: str | None, *, detached: bool) -> Child[Any]:
        bound = children.bound_workflow(bound, "start", is_async=False)
        step = lambda step: children.start(self._session, step, bound, run_id, detached=detached)  # noqa: E731
        return Child(self._step(name or bound.workflow.name, step), bound.decode, self.await_child)

    def await_child(self, child: Child[Any]) -> Any:
        return self._step(children.RESULT, lambda step: children.adopt(self._session, step, child))

    def call_child(self, bound: BoundWorkflow[Any], run_id: str | None, name: str | None) -> Any:
        return self.await_child(self.start(bound, run_id, name, detached=False))

    def join(self, error: Exception | None) -> None:
        """The workflow has ended: wait for the children that it has not waited for. Raises ChildFailed, and Unwind."""
        with self._driver.pure:
            handles = [Child(each, lambda _: None, self.await_child) for each in children.to_join(self._session.machine, error)]
        if handles:
            self.map(lambda run, child: run.await_child(child), handles, children.JOINS_MAX, JOINED)

    def map(self, fn: Callable[[Run, Any], Any], items: Iterable[Any], limit: int, name: str) -> list[Any]:
        return self.gather(bodies_of(fn, list(items)), limit, name)

    def gather(self, bodies: Sequence[Callable[[Run], Any]], limit: int | None, name: str) -> list[Any]:
        check_bodies(bodies)
        pure, machine = self._driver.pure, self._session.machine
        with pure:
            branching = Branching(machine, machine.gather(name, len(bodies), self._branch), pure)

        async def run(number: int, path: str) -> Any:
            return bodies[number](self._run(path))

        self._together(width(len(bodies), limit, self._driver.surroundings.at_once or THREADS_MAX), branching, run)
        return branching.come()

    def _together(self, threads: int, branching: Branching, run: RunBranch) -> None:
        """Run branches in threads, or one after the other in this one. Whoever interrupts waits for what is under way."""
        works = branching.works(run, threads)
        if threads == 1:
            for work in works:
                finish(work)
            return
        context = contextvars.copy_context
        strand = self._driver.surroundings.strands.strand
        taken = [threading.Lock() for _ in works]  # by the strand that begins the work, or by whoever breaks it off before
        workers = [strand(context().run, _begin, lock, work) for lock, work in zip(taken, works, strict=True)]
        started: list[Strand] = []
        try:
            for worker in workers:
                worker.start()
                started.append(worker)
            for worker in workers:
                worker.join()
        except BaseException as error:  # an interrupt cannot break off a call in another thread; raised again once all have ended
            unbegun = [lock.acquire(blocking=False) for lock in taken]
            branching.break_off(sum(unbegun), error)
            for worker, work, is_unbegun in zip(workers, works, unbegun, strict=True):
                if is_unbegun:
                    work.close()
                if worker in started or not is_unbegun:  # one whose start was interrupted may never come to its end
                    worker.join()
            raise

    def _run(self, branch: str) -> Run:
        return Run(SyncSession(self._driver, self._session, branch))

    def _step(self, name: str, procedure: Callable[[str], Coroutine[Op[Any], Any, T]]) -> T:
        machine, pure = self._session.machine, self._driver.pure
        with pure:
            step = machine.begin(name, self._branch)
        return self._carried_out(step, procedure)

    def _begun(self, name: str, bound: Bound[Any], key: str | None) -> tuple[str, Applied[Any] | None]:
        """An effect's step, and what it is given where it is only replayed."""
        with self._driver.pure:
            step = self._session.machine.begin(name, self._branch)
            return step, self._session.replays.given(self._session, step, bound, key)

    def _carried_out(self, step: str, procedure: Callable[[str], Coroutine[Op[Any], Any, T]]) -> T:
        machine, pure = self._session.machine, self._driver.pure
        try:
            with pure:
                begun = heeding(machine, step, procedure)
            result = finish(self._driver.drive(begun))
        except BaseException as error:  # an interrupted step has ended, too; raised again
            with pure:
                machine.finish(step, error)
            raise
        with pure:
            machine.finish(step)
        return result
