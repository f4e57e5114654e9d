"""Plain: what a workflow of steps means, as ordinary Python without a journal, an engine or a crash.

Owns the meaning that recovery must not change: the outcome, which effects there are, and what comes before what. Shares no code with
`testing.inline` or the engine, so that a mistake of theirs is a difference. Knows no history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, TypeAlias

from recovery.testing.steps import Attempt, Child, Decide, Fail, Gather, Perform, Receive, Return, Saga, Sleep, Step, Try, WaitFor

GONE = "gone"
"""What there is nothing of, ever."""


ANSWER = {"said": "yes"}
"""What the first to answer says; others say otherwise."""


class Failure(Exception):
    """The workflow's own: the stable name of what it raised."""


@dataclass(frozen=True, slots=True)
class ReceiptOf:
    """In the place of a receipt's id, which the environment chooses: that of this step."""

    step: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Wanted:
    """An effect: its name, what it is asked for, and whether it is declined."""

    effect: str
    arguments: dict[str, Any]
    declined: bool


At: TypeAlias = tuple[str, str]
"""A step of a run."""

RUN = "run-1"


@dataclass(slots=True)
class Meaning:
    """What a workflow and its children come to. outcomes, failures: by run. The others by step; after: what must be over before it begins; order: the
    steps of each branch. waits: the step of each answer, by its name. features: what there was on the way."""

    outcomes: dict[str, Any] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    effects: dict[At, Wanted] = field(default_factory=dict)
    decisions: dict[At, Any] = field(default_factory=dict)
    sleeps: dict[At, timedelta] = field(default_factory=dict)
    waits: dict[str, str] = field(default_factory=dict)
    after: dict[At, frozenset[At]] = field(default_factory=dict)
    order: dict[At, list[str]] = field(default_factory=dict)
    features: set[str] = field(default_factory=set)


def meaning_of(steps: list[Step]) -> Meaning:
    """Run it, in plain Python."""
    meaning = Meaning()
    _Branch(meaning, RUN, "", frozenset()).whole(steps, {})
    if len(meaning.order.get((RUN, ""), [])) > 1:
        meaning.features.add("sequence")
    if RUN in meaning.failures:
        meaning.features.add("failures")
    return meaning


@dataclass(slots=True)
class _Branch:
    """One line of execution. last: what must be over before its next step begins. applied: what happened in it, with its value."""

    meaning: Meaning
    run: str
    path: str
    last: frozenset[At]
    counted: Counter[str] = field(default_factory=Counter)
    applied: list[tuple[str, Wanted, dict[str, Any]]] = field(default_factory=list)

    def whole(self, steps: list[Step], known: dict[str, Any]) -> None:
        """A run, from its beginning to its end."""
        try:
            came = self.block(steps, known)
            self.meaning.outcomes[self.run] = None if came is None else came()
        except Failure as failure:
            self.meaning.failures[self.run] = str(failure)

    def step(self, name: str, *, noted: bool = True) -> str:
        self.counted[name] += 1
        step = f"{self.path}/{name}#{self.counted[name]}" if self.path else f"{name}#{self.counted[name]}"
        if noted:
            self.meaning.after[self.run, step] = self.last
            self.meaning.order.setdefault((self.run, self.path), []).append(step)
            self.last = frozenset({(self.run, step)})
        return step

    def block(self, steps: list[Step], known: dict[str, Any]) -> Callable[[], Any] | None:
        """What is returned, if anything is."""
        for step in steps:
            match step:
                case Return():
                    return partial(value_of, step.return_, dict(known))
                case Fail():
                    raise Failure("recovery.testing.inline.WorkflowFailure")
                case Attempt():
                    returned = self.attempted(step, known)
                case Try():
                    returned = self.guarded(step, known)
                case Saga():
                    returned = self.undone_together(step, known)
                case _:
                    returned = self.simple(step, known)
            if returned is not None:
                return returned
        return None

    def simple(self, step: Step, known: dict[str, Any]) -> None:
        """What never returns from a workflow."""
        features = self.meaning.features
        match step:
            case Decide():
                made = self.step(step.decide)
                features.add("decisions")
                known[step.decide] = self.meaning.decisions[self.run, made] = step.value
            case Perform():
                came = self.effect(step.perform, step, known)
                if came is None:
                    raise Failure("OutOfStock")
                known[step.as_ or step.name or step.perform] = came
            case Sleep():
                features.add("timers")
                self.meaning.sleeps[self.run, self.step("sleep")] = step.sleep
            case Gather():
                features.add("branches")
                known[step.as_] = self.gathered(step, known)
            case WaitFor():
                features.add("signals")
                self.meaning.waits[step.wait_for] = self.step(step.wait_for)
                known[step.wait_for] = ANSWER | {"about": step.wait_for}
            case Receive():
                features.add("signals")
                self.step(step.receive)
                known[step.as_ or step.receive] = ANSWER | {"about": step.receive}
            case Child():
                features.add("children")
                known[step.as_ or step.child] = self.child(step, known)
            case _:
                raise AssertionError(f"no rule for a {type(step).__name__}")

    def effect(self, effect: str, step: Perform | Attempt, known: dict[str, Any]) -> dict[str, Any] | None:
        """Its value; None if it is declined."""
        arguments, made = value_of(step.with_, known), self.step(step.name or effect)
        declined = arguments["sku"] == GONE
        wanted = self.meaning.effects[self.run, made] = Wanted(effect, arguments, declined)
        self.meaning.features |= ({"rejections"} if declined else set()) | ({"own keys"} if step.key else set())
        if declined:
            return None
        value = {"receipt": ReceiptOf((self.run, made)), **arguments}
        self.applied.append((made, wanted, value))
        return value

    def attempted(self, step: Attempt, known: dict[str, Any]) -> Callable[[], Any] | None:
        came = self.effect(step.attempt, step, known)
        known[step.as_ or step.name or step.attempt] = (
            {"error": "OutOfStock", "sku": GONE, "available": 0} if came is None else came
        )
        return self.block(step.rejected if came is None else step.applied, known)

    def guarded(self, step: Try, known: dict[str, Any]) -> Callable[[], Any] | None:
        try:
            return self.block(step.try_, known)
        except Failure:
            if step.except_ is None:
                raise
            self.meaning.features.add("errors caught")
            return self.block(step.except_, known)
        finally:
            self.block(step.finally_, known)

    def undone_together(self, step: Saga, known: dict[str, Any]) -> Callable[[], Any] | None:
        """What was applied in it is undone where a failure leaves it, the last first."""
        mark, made = len(self.applied), self.step(step.saga, noted=False)
        try:
            return self.block(step.do, known)
        except Failure:
            undoing = _Branch(self.meaning, self.run, made, self.last)
            for _, wanted, value in reversed(self.applied[mark:]):
                self.meaning.features.add("compensation")
                undo = undoing.step(f"undo-{wanted.effect}")
                arguments = {"outcome": value, **wanted.arguments}
                self.meaning.effects[self.run, undo] = Wanted(f"undo-{wanted.effect}", arguments, declined=False)
            self.last = undoing.last
            raise

    def gathered(self, step: Gather, known: dict[str, Any]) -> list[Any]:
        """Every branch goes to its end, whatever the others come to; then the first failure counts."""
        path, values, failures, ends = self.step("gather", noted=False), [], [], set(self.last)
        for number, steps in enumerate(step.gather):
            branch = _Branch(self.meaning, self.run, f"{path}/{number}", self.last)
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

    def child(self, step: Child, known: dict[str, Any]) -> Any:
        """Its value where it is waited for; else its run id."""
        assert step.run_id is not None, "it is drawn with one"
        self.step(step.child)
        family = _Branch(self.meaning, step.run_id, "", self.last)
        family.whole(step.do, {"input": value_of(step.with_, known)})
        if step.how != "call":
            return step.run_id
        self.last |= family.last
        return self.meaning.outcomes[step.run_id]


def value_of(said: Any, known: dict[str, Any]) -> Any:
    """With what it refers to in its place."""
    if isinstance(said, dict):
        return {name: value_of(item, known) for name, item in said.items()}
    if isinstance(said, list):
        return [value_of(item, known) for item in said]
    return known[said[1:]] if isinstance(said, str) and said.startswith("$") else said
