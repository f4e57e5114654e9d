"""Steps: the closed vocabulary of workflows that are written down in a scenario.

Owns what each step may say. `inline` gives them their meaning. Invariant: a step names only effects and values, never code.

A string that begins with `$` refers to an earlier value: `$input`, `$plan`, `$plan.sku`. `$$` begins a string with a plain dollar.
`{$odd: nan}` is a value that no journal can store; also `50MB`, `infinity` and `pair`, which would come back as a list.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, StringConstraints, Tag, model_validator

from recovery.definitions.retry import Retry
from recovery.testing.forms import Duration, Name, Strict, by_verb
from recovery.testing.knobs import OutOfStock

Arguments: TypeAlias = Annotated[
    Annotated[dict[str, Any], Tag("mapping")] | Annotated[str, StringConstraints(pattern=r"^\$[^$]"), Tag("reference")],
    Discriminator(lambda value: "reference" if isinstance(value, str) else "mapping"),
]


KINDS = frozenset({"mapping", "reference", "steps", "module", "[key]"})
"""Names that pydantic's errors give to kinds of values, beside the verbs."""


class Decide(Strict):
    """Choose once, journaled. `values`: what is chosen the first, second, ... time that anybody asks; the last one stays."""

    decide: Name = Field(description="the step's name, under which later steps find the value")
    value: Any = Field(None, description="what is chosen, always")
    values: list[Any] = Field(default_factory=list, description="one per time asked, over all processes")
    of: Any = Field(None, description="what it is chosen from; a recorded decision from something else diverges")


class RetrySpec(Strict):
    """How a step is tried again. Waits are fixed: a play must be the same each time."""

    attempts: int | None = Field(None, ge=1, description="how many in all")
    within: Duration | None = Field(None, description="how long after the first one may begin another may")
    wait: Duration = Field(timedelta(0), description="how long before the next one")
    out_of_stock: RetrySpec | None = Field(None, description="how it is wanted again, under a new key, after OutOfStock")

    def built(self) -> Retry:
        seconds = self.wait.total_seconds()
        on: dict[type[Exception], Retry | None] = {} if self.out_of_stock is None else {OutOfStock: self.out_of_stock.built()}
        return Retry(attempts=self.attempts, within=self.within, wait=lambda _: seconds, on=on)


class Perform(Strict):
    """Do an effect once. A declared rejection is raised and, uncaught, fails the run."""

    perform: Name = Field(description="the name of an effect of the environment")
    with_: Arguments = Field(alias="with", description="its arguments, or a reference to them")
    key: str | None = Field(None, description="a business key; without one the engine derives it")
    retry: RetrySpec | None = Field(None, description="how it is tried again; as the budget says by default")
    name: Name | None = Field(None, description="the step's name; the effect's by default")
    as_: Name | None = Field(None, alias="as", description="the name under which later steps find the value")


class Attempt(Strict):
    """Do an effect once and go on in one of two branches."""

    attempt: Name = Field(description="the name of an effect of the environment")
    with_: Arguments = Field(alias="with", description="its arguments, or a reference to them")
    key: str | None = Field(None, description="a business key; without one the engine derives it")
    retry: RetrySpec | None = Field(None, description="how it is tried again; as the budget says by default")
    name: Name | None = Field(None, description="the step's name; the effect's by default")
    as_: Name | None = Field(None, alias="as", description="the value, or the rejection's fields with its name as `error`")
    applied: list[Step] = Field(default_factory=list, description="what follows if it happened")
    rejected: list[Step] = Field(default_factory=list, description="what follows a declared rejection")


class Try(Strict):
    """Ordinary error handling around steps: `except` follows any exception of its own, `finally` always runs."""

    try_: list[Step] = Field(alias="try", description="the guarded steps")
    except_: list[Step] | None = Field(None, alias="except", description="what follows an exception, which is then over")
    finally_: list[Step] = Field(default_factory=list, alias="finally", description="what follows in any case")


class Sleep(Strict):
    """Wait, durably."""

    sleep: Duration = Field(description="for how long")


class WaitFor(Strict):
    """Wait for one answer, which a `signal` gives. The answer is any JSON."""

    wait_for: Name = Field(description="what is answered, under which later steps find the answer")
    about: Name | None = Field(None, description="the effect that the answer approves")
    with_: Arguments | None = Field(None, alias="with", description="the arguments of that effect")
    by: list[str] | None = Field(None, description="who may answer; anybody by default")
    timeout: Duration | None = Field(None, description="when it ends unanswered, which fails the run unless something catches it")
    valid_for: Duration | None = Field(None, description="how long the approved effect may be sent after the answer")
    default: Any = Field(None, description="the answer where nobody gives one in time")


class Receive(Strict):
    """Take the next message of a topic, which a `send` gives."""

    receive: Name = Field(description="the topic")
    as_: Name | None = Field(
        None, alias="as", description="the name under which later steps find the message; the topic by default"
    )
    timeout: Duration | None = Field(None, description="when it ends without one")
    default: Any = Field(None, description="what is taken for a message then; it fails the run otherwise")


class Publish(Strict):
    """Say how far the run is."""

    publish: Name = Field(description="under which name")
    value: Any = Field(description="what is said")


class Deadline(Strict):
    """Set a deadline and do steps in its scope."""

    deadline: Duration = Field(description="how long from now")
    do: list[Step] = Field(min_length=1, description="what it bounds")
    passed: list[Step] | None = Field(None, description="what follows where it passes first; it fails the run otherwise")


class Gather(Strict):
    """Branches that go on beside each other. What a branch names stays its own; their values come together as a list."""

    gather: list[list[Step]] = Field(min_length=1, description="the steps of each branch; what one returns is its value")
    as_: Name = Field("gather", alias="as", description="the name under which later steps find the values, in order")


class Saga(Strict):
    """Steps whose effects are undone together if an exception leaves them, which is then raised on."""

    saga: Name = Field(description="the name of the step that undoes them")
    do: list[Step] = Field(description="the steps")
    keeps: list[Name] = Field(default_factory=list, description="effects that stay when the rest is undone")


class Compensate(Strict):
    """Undo what has been applied so far."""

    compensate: Name = Field(
        description="the step's name, under which later steps find what was `undone`, undone `by_hand` and `left`"
    )


class Child(Strict):
    """Start a child, a run of its own with steps of its own. In them, `$input` is what it was started with, and nothing else is known."""

    child: Name = Field(description="the name of the step and of the child's workflow; one workflow has one name")
    do: list[Step] = Field(description="the child's steps; what they return is its value")
    how: Literal["call", "start", "detach"] = Field(
        "call", description="wait for its outcome here, at the end of this workflow, or not at all"
    )
    with_: Any = Field(None, alias="with", description="its input")
    run_id: str | None = Field(None, description="its run id; without one the engine derives it")
    as_: Name | None = Field(
        None, alias="as", description="the name under which later steps find its value, or its run id where it is not waited for"
    )


class Return(Strict):
    """End the workflow with this value."""

    return_: Any = Field(alias="return", description="the value")


class Fail(Strict):
    """End the workflow with an exception of its own."""

    fail: str = Field(description="its message")


Step: TypeAlias = Annotated[
    Annotated[Decide, Tag("decide")]
    | Annotated[Perform, Tag("perform")]
    | Annotated[Attempt, Tag("attempt")]
    | Annotated[Try, Tag("try")]
    | Annotated[Sleep, Tag("sleep")]
    | Annotated[WaitFor, Tag("wait_for")]
    | Annotated[Receive, Tag("receive")]
    | Annotated[Publish, Tag("publish")]
    | Annotated[Deadline, Tag("deadline")]
    | Annotated[Gather, Tag("gather")]
    | Annotated[Saga, Tag("saga")]
    | Annotated[Compensate, Tag("compensate")]
    | Annotated[Child, Tag("child")]
    | Annotated[Return, Tag("return")]
    | Annotated[Fail, Tag("fail")],
    by_verb(
        "decide",
        "perform",
        "attempt",
        "try",
        "sleep",
        "wait_for",
        "receive",
        "publish",
        "deadline",
        "gather",
        "saga",
        "compensate",
        "child",
        "return",
        "fail",
    ),
]

STEPS = (Decide, Perform, Attempt, Try, Sleep, WaitFor, Receive, Publish, Deadline, Gather, Saga, Compensate, Child, Return, Fail)


class Module(Strict):
    """A workflow of your own, by `module:name`. With one of the two, the scenario runs in that colour only."""

    sync: str | None = Field(None, pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", description="a `def` workflow")
    async_: str | None = Field(
        None, alias="async", pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", description="an `async def` workflow"
    )

    @model_validator(mode="after")
    def _one_at_least(self) -> Module:
        if self.sync is None and self.async_ is None:
            raise ValueError("it names neither a sync nor an async workflow")
        return self


Code: TypeAlias = Annotated[
    Annotated[list[Step], Tag("steps")] | Annotated[Module, Tag("module")],
    Discriminator(lambda value: "module" if isinstance(value, dict | Module) else "steps"),
]
"""A workflow: steps, or code of your own."""

for _step in STEPS:
    _step.model_rebuild()
