"""The report of a recovery: where the run stands now, and what this call did.

Owns its wording. Takes the run as it was read and what the engine concluded. Invariant: it says whether anything was changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from recovery.console import contradictions, doubt, misfits, words
from recovery.console.paper import Paper, facts
from recovery.console.runs import STYLES
from recovery.core.entries import OutcomeKind, Status
from recovery.core.errors import Diverged
from recovery.core.rows import Reason
from recovery.definitions.recovered import Recovered, StepVerdict
from recovery.storage.reading import Loaded

_OUTCOME_MAX: Final = 2000  # characters
_STEPS_MAX: Final = 100
"""Steps that are told one by one: half of them from the beginning, which are those that a dead worker left, half from the end."""
_SENT = {"send": "sent", "resend": "re-sent under the same key", "ask": "asked", "close": "closed"}
_CAME_TO = {"adopt": "adopted its outcome", "reject": "adopted its rejection", "not_executed": "proved it not executed",
            "park": "left it in doubt", "wait": "will look again", "keep": "kept its outcome", "diverge": "stopped"}  # fmt: skip


def recovered(paper: Paper, loaded: Loaded, what: Recovered[object], *, appended: int, was_settled: bool) -> RenderableType:
    """`appended`: how many entries this call added to the journal; `was_settled`: before it began."""
    run = loaded.run
    rows: list[tuple[str, RenderableType]] = [("workflow", words.bounded(run.workflow))]
    rows += _outcome(loaded)
    if what.error is not None and loaded.history.ended is None:
        rows.append(("because", Text(words.safe(str(what.error)))))
    rows.append(("this call", _done(what, appended, was_settled=was_settled)))
    rows.append(("journal", f"{words.counted(run.head, 'entry', 'entries')}, head {words.digest(run.head_digest)}"))
    title = f"run {words.bounded(run.run_id)}: {what.status.value.replace('_', ' ')}"
    style = STYLES[what.status].removeprefix("bold ")
    parts: list[RenderableType] = [paper.panel(title, facts(rows), style)]
    if isinstance(what.error, Diverged):
        parts.append(paper.panel("side by side", misfits.beside(what.error), style))
    parts += [contradictions.panel(paper, one) for one in what.contradictions]
    if not what.status.settled:
        for step in loaded.history.unsettled:
            verdict = step.verdicts[-1] if step.verdicts else None
            parts.append(paper.panel("not settled", doubt.effect(step, loaded.contracts.get(step.intent.contract), verdict), style))
    return Group(*parts)


def _outcome(loaded: Loaded) -> list[tuple[str, RenderableType]]:
    ended = loaded.history.ended
    if ended is None:
        return []
    if ended.outcome is OutcomeKind.APPLIED:
        outcome = Text(words.value(ended.value, _OUTCOME_MAX), style="bold green")
    elif ended.outcome is OutcomeKind.CANCELLED:
        outcome = Text(
            words.bounded(f"none: cancelled by {ended.value['by']}: {ended.value['reason']}", _OUTCOME_MAX), style="bold yellow"
        )
    else:
        message = ended.value.get("message", "") if isinstance(ended.value, dict) else ""
        told = message if str(message).startswith(f"{ended.error}: ") else f"{ended.error}: {message}"
        outcome = Text(words.bounded(told, _OUTCOME_MAX), style="bold red")
    return [("outcome", outcome), ("settled", words.instant(ended.at_us))]


def _done(what: Recovered[object], appended: int, *, was_settled: bool) -> RenderableType:
    """What this call sent and concluded, step by step; or that it changed nothing."""
    lines = [Text(line) for line in abridged(_by_step(what.verdicts))]
    if not appended:
        lines.append(Text("appended nothing" if lines else _unchanged(what.status, was_settled=was_settled), style="bold"))
    elif not lines:
        lines.append(Text(_recorded(what, was_settled=was_settled)))
    return Text("\n").join(lines)


def _recorded(what: Recovered[object], *, was_settled: bool) -> str:
    """What this call has appended that belongs to no effect."""
    if was_settled:
        return "recorded what contradicts it; the outcome stands"
    return "sent nothing; recorded that the code no longer fits" if isinstance(what.error, Diverged) else "continued the workflow"


def abridged(lines: Sequence[str]) -> Sequence[str]:
    """The lines of a call; of very many the first and the last, and how many lie between."""
    half = _STEPS_MAX // 2
    if len(lines) <= _STEPS_MAX:
        return lines
    return [*lines[:half], f"… {len(lines) - 2 * half:,} steps more; all of them with --json", *lines[-half:]]


def _act(verdict: StepVerdict) -> str:
    """What was done and why; that a first sending is one needs no reason."""
    done = (_SENT | _CAME_TO)[verdict.action]
    return done if verdict.reason == Reason.NOTHING_SENT.value else f"{done} ({verdict.reason})"


def _unchanged(status: Status, *, was_settled: bool) -> str:
    if not status.settled:
        return "changed nothing"
    return "changed nothing: this is the original outcome" if was_settled else "changed nothing: its worker settled it meanwhile"


def _by_step(verdicts: Sequence[StepVerdict]) -> list[str]:
    grouped: dict[str, list[StepVerdict]] = {}
    for verdict in verdicts:
        grouped.setdefault(verdict.step, []).append(verdict)
    told = []
    for step, of in grouped.items():
        if [verdict.reason for verdict in of] == [Reason.SETTLED.value]:
            continue
        acts = Counter(_act(verdict) for verdict in of)
        each = [act if times == 1 else f"{act}, {times} times" for act, times in acts.items()]
        told.append(f"{words.bounded(step)}: {'; '.join(each)}")
    return told
