"""Informing: a run's own row, for people.

Owns when a run counts as orphaned. Knows no engine and no entries, so that a command which only looks needs neither. Invariant: nothing is read and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable

from recovery.core.entries import Status
from recovery.core.instants import moment
from recovery.definitions.recovered import RunInfo
from recovery.ports import Owner, RunRow


def info_of(row: RunRow, proven_dead: Callable[[Owner], bool]) -> RunInfo:
    """proven_dead: whether a process is known to be gone."""
    return RunInfo(
        run_id=row.run_id,
        workflow=row.workflow,
        status=row.status,
        reason=row.reason,
        rests_for=row.rests_for,
        owner=None if row.owner is None else str(row.owner),
        orphaned=_orphaned(row, proven_dead),
        epoch=str(row.epoch),
        entries=row.head,
        created_at=moment(row.created_at_us),
        updated_at=moment(row.updated_at_us),
        next_look=None if row.next_look_us is None else moment(row.next_look_us),
        queue=row.queue,
        priority=row.priority,
    )


def _orphaned(row: RunRow, proven_dead: Callable[[Owner], bool]) -> bool:
    """Whether nobody works on a run that somebody should: a run that waits has let its owner go on purpose."""
    dead = row.owner is not None and proven_dead(row.owner)
    return (row.status is Status.RUNNING and (row.owner is None or dead)) or (
        row.status in {Status.WAITING, Status.IN_DOUBT} and dead
    )
