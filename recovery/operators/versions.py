"""Versions in use: which version of its workflow each open run goes by, and which versions nobody needs any more.

Owns the counting. Reads every open run once and nothing else. Invariant: a version is called removable only if no open run that could be read
goes by it, and none could not be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from recovery.claims import World
from recovery.core.entries import Status
from recovery.core.errors import RecoveryError, RunForgotten
from recovery.core.operations import Use
from recovery.operators.fitting import pages
from recovery.ports import Journal
from recovery.storage.listing import Damaged
from recovery.storage.reading import Loaded, read


@dataclass(slots=True, kw_only=True)
class VersionInUse:
    """One version of one workflow. registered: this engine has it. newest: new runs start with it. runs: how many are open, by status.

    example: an open run of it, "" where there is none. taken_over_by: the version that its runs would go on with, where it is not registered."""

    workflow: str
    version: str
    registered: bool
    newest: bool
    runs: Counter[Status] = field(default_factory=Counter)
    example: str = ""
    taken_over_by: str = ""

    @property
    def open(self) -> int:
        """How many open runs go by it."""
        return self.runs.total()


@dataclass(slots=True)
class Versions:
    """Every version that is registered or that an open run goes by. broken: open runs that cannot be read, and why."""

    in_use: list[VersionInUse] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)

    def removable(self, version: VersionInUse) -> bool:
        """Whether the code of a version can go: no open run needs it, and no new one starts with it."""
        return version.registered and not version.newest and not version.open and not self.broken


async def versions(world: World) -> Versions:
    """Which versions are in use, in the order in which they were registered; those that only runs name come last."""
    found: dict[tuple[str, str], VersionInUse] = {}
    for workflow in world.workflows.every():
        newest = world.workflows[workflow.name] is workflow
        found[workflow.name, workflow.version] = VersionInUse(
            workflow=workflow.name, version=workflow.version, registered=True, newest=newest
        )
    answer = Versions()
    async for row in pages([status for status in Status if not status.settled]):
        if isinstance(row, Damaged):
            answer.broken[row.run_id] = row.problem
            continue
        try:
            loaded = await Use(_reading(row.run_id))
        except RunForgotten:
            continue
        except RecoveryError as error:
            answer.broken[row.run_id] = str(error)
            continue
        if loaded.run.status.settled:
            continue  # it has ended since it was listed
        place = loaded.run.workflow, loaded.history.version
        if place not in found:
            other = world.workflows.get(place[0])
            found[place] = VersionInUse(
                workflow=place[0], version=place[1], registered=False, newest=False,
                taken_over_by="" if other is None else other.version,
            )  # fmt: skip
        found[place].runs[loaded.run.status] += 1
        found[place].example = found[place].example or row.run_id
    answer.in_use = list(found.values())
    return answer


def _reading(run_id: str) -> Callable[[Journal], Loaded]:
    def reading(journal: Journal) -> Loaded:
        return read(journal, run_id, values=False)

    return reading
