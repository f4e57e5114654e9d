"""Branching: one gather as it is carried out, once for both colours.

Owns which branch runs next, what each came to, and what the gather comes to. Knows nothing of threads or tasks: whoever runs branches
carries out `works`. Invariants: every branch that was started is waited for; a branch that fails or stops keeps no other from going on;
nothing follows on a gather of which a branch has stopped.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from recovery.core.errors import DefinitionError, RecoveryError, StepInterrupted
from recovery.core.gathering import Gathering
from recovery.core.machine import Machine, Unwind
from recovery.core.wording import of_type


class RunBranch(Protocol):
    """Runs the body of one branch, given its number and its path."""

    def __call__(self, number: int, path: str, /) -> Coroutine[Any, Any, Any]: ...


@dataclass(slots=True)
class Branching:
    """The branches of one gather. `pure`: what to hold while the core thinks."""

    machine: Machine
    gathering: Gathering
    pure: Any
    _values: dict[int, Any] = field(default_factory=dict)
    _failures: dict[int, BaseException] = field(default_factory=dict)
    _broken: bool = False  # interrupted: nothing new is started

    def works(self, run: RunBranch, at_once: int) -> list[Coroutine[Any, Any, None]]:
        """What to carry out at the same time. Each has its first branch from here on: none may look alone before the others begin."""
        with self.pure:
            return [self._work(run, number) for _ in range(at_once) if (number := self.gathering.take()) is not None]

    async def _work(self, run: RunBranch, number: int | None) -> None:
        """Run one branch after the other, as long as there are any that nobody has started."""
        while number is not None:
            try:
                value = await run(number, self.gathering.path(number))
                with self.pure:
                    self.machine.ended(self.gathering, number)
            except BaseException as error:  # noqa: BLE001  # it is the gather's, and raised there
                self._failures[number] = error
                self._broken = self._broken or not isinstance(error, Exception | Unwind | BaseExceptionGroup)
            else:
                self._values[number] = value
            number = self._next()

    def break_off(self, unbegun: int = 0, why: BaseException | None = None) -> None:
        """Whoever gathers was interrupted, or raises `why`. unbegun: branches that were to begin, and never will. A step whose turn comes behind one of theirs
        waits for nobody then, and nothing follows on it: it returned out of turn."""
        with self.pure:
            self._broken = True
            if unbegun:
                about = {"run_id": self.machine.history.run_id, "step": self.gathering.step}
                unsaid = StepInterrupted(**about, reason="its branches were not begun")
                self.machine.stop(why if isinstance(why, RecoveryError) else unsaid)
            for _ in range(unbegun):
                self.gathering.ended()

    def come(self) -> list[Any]:
        """The values, in the order of the branches. Raises what stopped a branch, else the first failure in that order."""
        with self.pure:
            interrupted = next(
                (e for e in self._failures.values() if not isinstance(e, Exception | Unwind | BaseExceptionGroup)), None
            )
            if interrupted is not None or self._broken:
                with suppress(Unwind):
                    self.machine.joined(self.gathering)
            else:
                self.machine.joined(self.gathering)
        if interrupted is not None:
            raise interrupted
        if self._failures:
            raise self._first_failure()
        return [self._values[number] for number in sorted(self._values)]

    def _next(self) -> int | None:
        """A branch has ended."""
        with self.pure:
            number = None if self._broken or self.machine.steps.whole is not None else self.gathering.take()
            self.gathering.ended()
            return number

    def _first_failure(self) -> BaseException:
        first, *others = sorted(self._failures)
        error = self._failures[first]
        if others:
            named = ", ".join(f"{number} ({type(self._failures[number]).__name__})" for number in others[:5])
            more = f" and {len(others) - 5} more" if len(others) > 5 else ""  # as many as were named
            error.add_note(f"Raised in branch {first} of {self.gathering.step}. Branches {named}{more} failed too.")
        return error


def width(branches: int, *limits: int | None) -> int:
    """How many branches go on at the same time."""
    return max(1, min([branches, *(limit for limit in limits if limit is not None)]))


def bodies_of(fn: Any, items: Sequence[Any]) -> list[Any]:
    """One body for each item of a map."""
    if not callable(fn):
        raise _refused("map", fn, "Give a function that takes a run and an item: `run.map(restock, skus)`.")
    return [_Body(fn, item) for item in items]


def check_bodies(bodies: Sequence[Any]) -> None:
    """What is gathered is functions, and not what they would return. Raises DefinitionError before anything happened: called, it would be the workflow's own failure."""
    for body in bodies:
        if not callable(body):
            advice = "Give functions, each of which is called with a run of its own: `run.gather(lambda branch: branch.perform(...), ...)`."
            raise _refused("gather", body, advice)


def _refused(method: str, given: object, advice: str) -> DefinitionError:
    return DefinitionError(what="call", name=f"run.{method}", problem=f"{of_type(given)} is not a function", advice=advice)


@dataclass(frozen=True, slots=True)
class _Body:
    fn: Any
    item: Any

    def __call__(self, run: Any) -> Any:
        return self.fn(run, self.item)
