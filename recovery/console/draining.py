"""What came of every run that could go on: one line each for what did not end well, and how many there were. Owns its wording."""

from __future__ import annotations

from collections import Counter
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from recovery.console import words
from recovery.console.runs import damaged, status
from recovery.core.errors import ExitCode
from recovery.engine.draining import Brought, Drained

_LINES_MAX: Final = 100
_PROBLEM_MAX: Final = 800  # characters: a sentence of ours ends with what to do

_LEFT: Final = {
    ExitCode.IN_DOUBT: "in doubt or held: a person must look (`recover doubt` lists it)",
    ExitCode.DIVERGED: "diverged: the code must be mended (`recover doubt` lists it)",
    ExitCode.UNRESOLVED: "not due yet: a time has to come",
    ExitCode.OWNED: "at work elsewhere",
    ExitCode.WAITING: "waiting for what somebody must say (`recover waits` lists it)",
}


def drained(came: Drained, *, plan: bool) -> RenderableType:
    """`plan`: nothing was done, and each line says what would be."""
    told = [one for one in came.brought if plan or one.code is not ExitCode.SETTLED]
    parts: list[RenderableType] = [_line(one) for one in told[:_LINES_MAX]]
    if len(told) > _LINES_MAX:
        parts.append(Text(f"… and {len(told) - _LINES_MAX:,} more; all of them with --json", style="dim"))
    counts = Counter(one.status for one in came.brought)
    summary = Text(f"{len(came.brought):,} {'to be taken up' if plan else 'taken up'}", style="bold")
    if not plan:
        for each, count in sorted(counts.items()):
            summary.append(f", {count:,} ").append_text(status(each))
    parts.append(summary)
    parts += [Text(f"{count:,} left: {_LEFT[code]}", style="yellow") for code, count in sorted(came.left.items())]
    if came.damaged:
        parts.append(damaged(came.damaged))
    return Group(*parts)


def _line(one: Brought) -> Text:
    line = Text(words.bounded(one.run_id), style="bold").append(" ")
    return line.append_text(status(one.status)).append(f"  {words.bounded(one.problem, _PROBLEM_MAX)}" if one.problem else "")
