"""What `recover queues` does: one look, one report.

Owns the documents of queues. Invariant: it reads, and neither creates nor migrates a database.
"""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import Any

from recovery.cli.output import Output
from recovery.cli.target import Target
from recovery.core.errors import ExitCode
from recovery.core.instants import iso
from recovery.core.limits import Queue
from recovery.ports import Standing


def listed(output: Output, target: Target) -> ExitCode:
    """Those in which runs stand that can go on, and those that the app names, by name."""
    with closing(target.journal()) as journal:
        now_us = journal.now_us()
        there = {each.queue: each for each in journal.standing(now_us)}
    limits = {} if target.app is None else target.app.queues
    named = set() if target.app is None else {made.queue for made in target.app.scheduled.values()}
    found = [there.get(name, Standing(queue=name)) for name in sorted({*there, *limits, *named})]
    from recovery.console.queues import queues

    output.answer(
        lambda: {
            "at": iso(now_us),
            "queues": [_document(each) | _limits(limits.get(each.queue)) for each in found],
            "limits_known": target.app is not None,
        },
        lambda _: queues(found, limits, now_us, limits_known=target.app is not None),
    )
    return ExitCode.SETTLED


def _document(standing: Standing) -> dict[str, Any]:
    return {
        "queue": standing.queue,
        "at_work": standing.at_work,
        "due": standing.due,
        "due_since": None if standing.due_since_us is None else iso(standing.due_since_us),
        "later": standing.later,
        "next_due": None if standing.next_due_us is None else iso(standing.next_due_us),
    }


def _limits(queue: Queue | None) -> dict[str, Any]:
    rate = None if queue is None else queue.rate
    return {
        "concurrency": None if queue is None else queue.concurrency,
        "rate": None if rate is None else {"count": rate.count, "per_seconds": rate.per / timedelta(seconds=1)},
        "priority": None if queue is None else queue.priority,
    }
