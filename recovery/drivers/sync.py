"""The sync driver: every leaf is a plain call on the calling thread.

Owns the claim that nothing suspends: a `def` workflow, its effects and the store run to their end before `finish` returns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from recovery.core.errors import InvariantViolated
from recovery.core.operations import Op
from recovery.definitions.deciding import Deciding
from recovery.definitions.effect import Bound
from recovery.definitions.run import Applied, Rejected, Run
from recovery.drivers.asking import bound_call, refuse_async
from recovery.drivers.loop import Driver
from recovery.drivers.session import Session

T = TypeVar("T")


def finish(procedure: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends."""
    try:
        procedure.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # the coroutine's own result
    raise InvariantViolated("the sync driver met something that suspends")


class SyncDriver(Driver):
    """Carries out operations by calling."""

    async def _use(self, call: Callable[[Any], T]) -> T:
        return call(self.surroundings.journal)

    async def _call(self, ask: Callable[[], Any], is_async: bool, seconds: float | None) -> Any:  # noqa: ARG002  # one signature
        """A plain call cannot be interrupted: its body keeps to `call.remaining_seconds()`."""
        return ask()

    async def _pause(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    async def run_workflow(self, session: Session, invoke: Callable[[Any], Any]) -> Any:
        return invoke(Run(SyncSession(self, session)))


class SyncSession:
    """What `Run` forwards to."""

    def __init__(self, driver: SyncDriver, session: Session) -> None:
        self._driver = driver
        self._session = session

    @property
    def run_id(self) -> str:
        return self._session.run_id

    def decide(self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        deciding = Deciding(name, fn, args, kwargs)
        refuse_async(deciding.is_async, "decision", name)
        return self._step(name, lambda step: self._session.decide(step, deciding))

    def perform(self, bound: Bound[Any], key: str | None, name: str | None) -> Any:
        bound = bound_call(bound, "perform")
        refuse_async(bound.effect.is_async, "effect", bound.effect.name)
        return self._step(name or bound.effect.name, lambda step: self._session.perform(step, bound, key))

    def attempt(self, bound: Bound[Any], key: str | None, name: str | None) -> Applied[Any] | Rejected:
        bound = bound_call(bound, "attempt")
        refuse_async(bound.effect.is_async, "effect", bound.effect.name)
        return self._step(name or bound.effect.name, lambda step: self._session.attempt(step, bound, key))

    def _step(self, name: str, procedure: Callable[[str], Coroutine[Op[Any], Any, T]]) -> T:
        step = self._session.machine.begin(name)
        try:
            result = finish(self._driver.drive(procedure(step)))
        except BaseException as error:  # an interrupted step has ended, too; raised again
            self._session.machine.finish(step, error)
            raise
        self._session.machine.finish(step)
        return result
