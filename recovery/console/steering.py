"""Orders about what is to become of a run, for people. Owns their wording; takes what the operators' procedures came to."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from recovery.console import words
from recovery.console.operating import why
from recovery.console.paper import Paper, facts
from recovery.console.runs import status
from recovery.core.entries import Status, Verb
from recovery.definitions.recovered import RunInfo
from recovery.operators.cancelling import Told

_DONE = {Verb.PAUSE: "paused", Verb.RESUME: "resumed"}


def cancelled(report: RenderableType, info: RunInfo) -> RenderableType:
    """The report of a recovery, and who goes on where a living owner was told."""
    if info.status.settled or info.owner is None:
        return report
    return Group(report, Text(_waits(info.owner), style="bold yellow"))


def told(paper: Paper, done: Told) -> RenderableType:
    rows: list[tuple[str, RenderableType]] = [("by", why(done.by, done.reason)), ("status", status(done.status))]
    if not done.taken_in:
        rows.append(("waits", Text(_waits(done.owner), style="bold yellow")))
    elif done.status is Status.HELD:
        rows.append(("next", f"recover resume {words.bounded(done.run_id)}"))
    else:
        rows.append(("next", f"recover --run-id {words.bounded(done.run_id)}"))
    about = "is told" if not done.taken_in else _DONE[done.verb]
    return paper.panel(f"run {words.bounded(done.run_id)}: {about}", facts(rows), "yellow")


def _waits(owner: str) -> str:
    who = words.bounded(owner) or "whoever has the run"
    return f"{who} is at work on the run, and takes the order in at its next step or renewal of the lease"
