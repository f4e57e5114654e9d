"""Children, as a session starts and adopts them. Everything here serves both colours.

Owns the way from a bound workflow to a new child, and from the child's settlement to a value or a raised error. Does no I/O. Invariant: what a
parent gets passed through the child's codec, on the first run too.
"""

from __future__ import annotations

from typing import Any, Final

from recovery.core import children
from recovery.core.child_errors import ChildFailed
from recovery.core.entries import OutcomeKind, Settled
from recovery.core.errors import DefinitionError
from recovery.core.ids import check_run_id
from recovery.core.kin import NewChild, child_run_id
from recovery.core.machine import Machine
from recovery.definitions.child import AsyncChild, BoundWorkflow, Child
from recovery.definitions.workflow import Workflow
from recovery.drivers.session import Session

RESULT: Final = "result"
"""The name of the step that waits for a child."""

JOINS_MAX: Final = 10
"""How many children are waited for at a time at the end of a workflow that has not waited for them."""


def bound_workflow(given: object, run_method: str, *, is_async: bool) -> BoundWorkflow[Any]:
    """A workflow is bound before it is started, and has the colour of its parent: one engine runs both. Raises DefinitionError before anything
    happened."""
    if not isinstance(given, BoundWorkflow):
        name = given.name if isinstance(given, Workflow) else type(given).__name__
        raise DefinitionError(
            what="call", name=f"run.{run_method}", problem=f"{name} is not a bound workflow",
            advice=f"Call it with its arguments first: `run.{run_method}({name}(...))`.",
        )  # fmt: skip
    given.taken()
    if given.workflow.is_async is not is_async:
        ours, its = ("async def", "def") if is_async else ("def", "async def")
        raise DefinitionError(
            what="workflow", name=given.workflow.name, problem=f"it is `{its}` and cannot be the child of an `{ours}` workflow",
            advice=f"Make both `{ours}`, since one engine runs both.",
        )  # fmt: skip
    return given


async def start(session: Session, step: str, bound: BoundWorkflow[Any], run_id: str | None, *, detached: bool) -> str:
    """Start a child; its run id. Raises InvalidName, ChildRefused and WorkflowUnknown."""
    machine = session.machine
    child = NewChild(
        run_id=child_run_id(session.run_id, step) if run_id is None else check_run_id(run_id),
        workflow=bound.workflow.name,
        version=bound.workflow.version,
        input=dict(bound.stored),
        input_digest=bound.digest,
        parent=session.run_id,
        step=step,
        depth=machine.kin.depth + 1,
        detached=detached,
    )
    await children.start(machine, step, child)
    return child.run_id


async def adopt(session: Session, step: str, child: Child[Any] | AsyncChild[Any]) -> Any:
    """The child's value. Raises ChildFailed where it settled without one."""
    settled = await children.adopt(session.machine, step, child.run_id)
    if settled.outcome is OutcomeKind.APPLIED:
        return child.decode(settled.value)
    fields = settled.value if isinstance(settled.value, dict) else {}
    raise ChildFailed(
        run_id=session.run_id,
        step=step,
        child=child.run_id,
        error=settled.error or settled.outcome.value,
        message=_told(settled, fields).removesuffix("."),
        rejection=fields.get("fields"),
    )


def _told(settled: Settled, fields: dict[str, Any]) -> str:
    """Why a child came to no value: its failure's message, or who cancelled it and why."""
    if settled.outcome is OutcomeKind.CANCELLED:
        return f"by {fields.get('by', '')}: {fields.get('reason', '')}"
    return str(fields.get("message", "")).removeprefix(f"{settled.error}: ")


def to_join(machine: Machine, error: Exception | None) -> list[str]:
    """The children that a workflow which has ended still has to wait for; none where the run will not settle now."""
    if machine.stopped is not None or (error is not None and machine.leaves_open(error)):
        return []
    unawaited = children.unawaited(machine)
    if unawaited:
        machine.steps.check_awaited()
    return unawaited
