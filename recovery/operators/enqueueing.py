"""Enqueueing: a run is stored for whichever worker comes first.

Owns the name that a run gets from a business key, and that the same is enqueued once. Invariant: what is enqueued is durable on return, with its input, and
nothing of it has begun; a run id stands for one workflow and one input, whether it was enqueued or run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recovery.claims import World, find
from recovery.core.entries import Opened, Status
from recovery.core.errors import DefinitionError
from recovery.core.ids import RUN_ID_PATTERN, check_run_id, check_step_name, digest_bytes
from recovery.core.limits import PRIORITY_MAX
from recovery.core.operations import Now
from recovery.definitions.child import BoundWorkflow
from recovery.offspring import Queued, opened
from recovery.reconciler import check_same


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """A run that is there. is_new: stored by this call; False: it was there already, at whatever status."""

    run_id: str
    status: Status
    is_new: bool


async def enqueue(world: World, bound: BoundWorkflow[Any], run_id: str, queued: Queued) -> Enqueued:
    """Store a run, unless it is there with the same workflow and input. Raises InvalidName, and RunInputDiffers where it is another one."""
    check_run_id(run_id)
    if queued.queue:
        check_step_name(queued.queue, "queue name")
    if abs(queued.priority) > PRIORITY_MAX:
        problem = f"its priority {queued.priority} is not within {-PRIORITY_MAX} and {PRIORITY_MAX}"
        raise DefinitionError(
            what="call", name="enqueue", problem=problem, advice="A look costs one step for each priority in use."
        )
    bound.taken()
    workflow = bound.workflow
    row = await find(run_id)
    if row is None:
        first = Opened(
            workflow=workflow.name, version=workflow.version, input=dict(bound.stored), input_digest=bound.digest, at_us=await Now()
        )
        row = await opened(world, run_id, first, Status.QUEUED, queued=queued)
        if row is not None:
            return Enqueued(run_id=run_id, status=row.status, is_new=True)
        row = await find(run_id)
        assert row is not None, "a run id that is taken stays taken"
    await check_same(world, row, workflow, bound.digest)
    return Enqueued(run_id=run_id, status=row.status, is_new=False)


def named(bound: BoundWorkflow[Any], run_id: str | None, key: str | None) -> str:
    """The id of the run: as it was given, or the one that a business key stands for, for one workflow and for ever."""
    if (run_id is None) == (key is None):
        problem = "it has both a run id and a key" if run_id is not None else "it has neither a run id nor a key"
        raise DefinitionError(what="call", name="enqueue", problem=problem, advice="Give one: the same one means the same run.")
    if key is None:
        return run_id or ""
    if not key:
        raise DefinitionError(
            what="call",
            name="enqueue",
            problem="its key is empty",
            advice="Every run without one would be the same: give a run id.",
        )
    plain = f"{bound.workflow.name}:{key}"
    if ":" not in bound.workflow.name and RUN_ID_PATTERN.fullmatch(plain):  # else "a" and "b:c" would be "a:b" and "c"
        return plain
    return digest_bytes(b"recovery-enqueued-1", bound.workflow.name.encode(), key.encode(errors="surrogatepass"))
