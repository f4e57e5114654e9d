"""Plain: what a workflow of steps means, as ordinary Python without a journal, an engine or a crash.

Owns the meaning that recovery must not change: the outcome, which effects there are, and what comes before what. Shares no code with
`testing.inline` or the engine, so that a mistake of theirs is a difference. Knows no history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from recovery.testing.steps import Attempt, Decide, Fail, Gather, Perform, Return, Sleep, Step, Try

GONE = "gone"
"""What there is nothing of, ever."""


class Failure(Exception):
    """The workflow's own: the stable name of what it raised."""


@dataclass(frozen=True, slots=True)
class ReceiptOf:
    """In the place of a receipt's id, which the environment chooses: that of this step."""

    step: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """An effect: its name, what it is asked for, and whether it is declined."""

    effect: str
    arguments: dict[str, Any]
    declined: bool


@dataclass(slots=True)
class Meaning:
    """What a workflow comes to. effects and sleeps: by step. after: by step, what must be over before it begins. order: by branch."""

    outcome: Any = None
    failure: str = ""
    effects: dict[str, Wanted] = field(default_factory=dict)
    decisions: dict[str, Any] = field(default_factory=dict)
    sleeps: dict[str, timedelta] = field(default_factory=dict)
    after: dict[str, frozenset[str]] = field(default_factory=dict)
    order: dict[str, list[str]] = field(default_factory=dict)


def meaning_of(steps: list[Step]) -> Meaning:
    """Run it, in plain Python."""
    meaning = Meaning()
    try:
        came = _Branch(meaning, "", frozenset()).block(steps, {})
        meaning.outcome = None if came is None else came()
    except Failure as failure:
        meaning.failure = str(failure)
    return meaning


@dataclass(slots=True)
class _Branch:
    """One line of execution. last: what must be over before its next step begins."""

    meaning: Meaning
    path: str
    last: frozenset[str]
    counted: Counter[str] = field(default_factory=Counter)

    def step(self, name: str, *, noted: bool = True) -> str:
        self.counted[name] += 1
        step = f"{self.path}/{name}#{self.counted[name]}" if self.path else f"{name}#{self.counted[name]}"
        if noted:
            self.meaning.after[step] = self.last
            self.meaning.order.setdefault(self.path, []).append(step)
            self.last = frozenset({step})
        return step

    def block(self, steps: list[Step], known: dict[str, Any]) -> Callable[[], Any] | None:
        """What is returned, if anything is."""
        for step in steps:
            match step:
                case Decide():
                    made = self.step(step.decide)
                    known[step.decide] = self.meaning.decisions[made] = step.value
                case Perform():
                    came = self.effect(step.perform, step, known)
                    if came is None:
                        raise Failure("OutOfStock")
                    known[step.as_ or step.name or step.perform] = came
                case Attempt():
                    came = self.effect(step.attempt, step, known)
                    name, after = step.as_ or step.name or step.attempt, step.rejected if came is None else step.applied
                    known[name] = {"error": "OutOfStock", "sku": GONE, "available": 0} if came is None else came
                    if (returned := self.block(after, known)) is not None:
                        return returned
                case Try():
                    if (returned := self.guarded(step, known)) is not None:
                        return returned
                case Sleep():
                    self.meaning.sleeps[self.step("sleep")] = step.sleep
                case Gather():
                    known[step.as_] = self.gathered(step, known)
                case Return():
                    value = value_of(step.return_, known)
                    return lambda: value  # it returns
                case Fail():
                    raise Failure("recovery.testing.inline.WorkflowFailure")
                case _:
                    raise NotImplementedError(type(step).__name__)
        return None

    def effect(self, effect: str, step: Perform | Attempt, known: dict[str, Any]) -> dict[str, Any] | None:
        """Its value; None if it is declined."""
        arguments, made = value_of(step.with_, known), self.step(step.name or effect)
        declined = arguments["sku"] == GONE
        self.meaning.effects[made] = Wanted(effect, arguments, declined)
        return None if declined else {"receipt": ReceiptOf(made), **arguments}

    def guarded(self, step: Try, known: dict[str, Any]) -> Callable[[], Any] | None:
        try:
            return self.block(step.try_, known)
        except Failure:
            if step.except_ is None:
                raise
            return self.block(step.except_, known)
        finally:
            self.block(step.finally_, known)

    def gathered(self, step: Gather, known: dict[str, Any]) -> list[Any]:
        """Every branch goes to its end, whatever the others come to; then the first failure counts."""
        path, values, failures, ends = self.step("gather", noted=False), [], [], set(self.last)
        for number, steps in enumerate(step.gather):
            branch = _Branch(self.meaning, f"{path}/{number}", self.last)
            try:
                came = branch.block(steps, dict(known))
                values.append(None if came is None else came())
            except Failure as failure:
                failures.append(failure)
            ends |= branch.last
        self.last = frozenset(ends)
        if failures:
            raise failures[0]
        return values


def value_of(said: Any, known: dict[str, Any]) -> Any:
    """With what it refers to in its place."""
    if isinstance(said, dict):
        return {name: value_of(item, known) for name, item in said.items()}
    if isinstance(said, list):
        return [value_of(item, known) for item in said]
    return known[said[1:]] if isinstance(said, str) and said.startswith("$") else said
