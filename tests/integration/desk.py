"""A desk: one engine of either colour over a clock that is moved by hand, and workflows that are written once for both colours."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator
from typing import Any

from recovery import AsyncEngine, AsyncRun, Engine, Run, errors, workflow
from recovery.core.entries import Decision
from recovery.definitions.workflow import Workflow
from recovery.ports import Journal
from recovery.testing import ManualClock

from .world import QUICK

Body = Callable[..., Generator[Any, Any, Any]]
"""A workflow that yields what its run gives, and is sent the value: `answer = yield run.wait_for(...)`."""


class Desk:
    def __init__(self, journal: Journal, colour: str, *bodies: Body, **options: Any) -> None:
        self.clock = options.pop("clock", None) or ManualClock()
        self.colour = colour
        self.workflows = {body.__name__: coloured(body, colour) for body in bodies}
        made = Engine if colour == "sync" else AsyncEngine
        self.engine: Any = made(
            journal, workflows=self.workflows.values(), budget=options.pop("budget", QUICK), clock=self.clock, **options
        )

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """A method of the engine, awaited where it is to be."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.colour == "sync":
                return getattr(self.engine, name)(*args, **kwargs)
            return asyncio.run(_awaited(lambda: getattr(self.engine, name)(*args, **kwargs)))

        return call

    def start(self, name: str, run_id: str = "r") -> Any:
        """The outcome, or the error that says why there is none yet."""
        try:
            return self.run(run_id, self.workflows[name])
        except errors.RecoveryError as error:
            return error

    def decisions(self, form: str, run_id: str = "r") -> list[Decision]:
        return [entry for entry in self.history(run_id) if isinstance(entry, Decision) and entry.form == form]


def coloured(body: Body, colour: str) -> Workflow[..., Any]:
    def called(run: Run) -> Any:
        steps = body(run)
        value = None
        while True:
            try:
                value = steps.send(value)
            except StopIteration as stop:
                return stop.value

    async def awaited(run: AsyncRun) -> Any:
        steps = body(run)
        proceed: Callable[[], Any] = lambda: next(steps)  # noqa: E731
        while True:
            try:
                asked = proceed()
            except StopIteration as stop:
                return stop.value
            try:
                value = await asked if inspect.isawaitable(asked) else asked
            except Exception as error:  # it belongs to the body
                proceed = lambda error=error: steps.throw(error)  # type: ignore[misc]  # noqa: E731
            else:
                proceed = lambda value=value: steps.send(value)  # type: ignore[misc]  # noqa: E731

    return workflow(name=body.__name__)(called if colour == "sync" else awaited)  # type: ignore[call-overload, no-any-return]  # one of them


async def _awaited(call: Callable[[], Any]) -> Any:
    came = call()
    return await came if inspect.isawaitable(came) else came
