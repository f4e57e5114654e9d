"""A plan for people: one line for each unsettled intent. Owns its wording; takes the plan as the engine made it."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from recovery.console import words
from recovery.console.paper import Paper
from recovery.console.timeline import answer
from recovery.core.exitcodes import ExitCode
from recovery.operators.planning import Plan, PlannedStep

_WOULD = {
    "send": "send it", "resend": "send it again under the same key", "ask": "ask the environment", "close": "close the key",
    "wait": "wait", "park": "leave it in doubt", "adopt": "adopt its outcome", "reject": "adopt its rejection",
    "not_executed": "record that it was not executed", "keep": "keep its outcome", "diverge": "stop: it diverged",
}  # fmt: skip


def plan(paper: Paper, made: Plan, owner: str) -> RenderableType:
    """`owner`: who has the run, and what that means for a recovery."""
    parts: list[RenderableType] = [_step(step) for step in made.steps] or [Text("no intent is unsettled")]
    parts.append(Text(made.then, style="bold red" if made.exit_code is ExitCode.DIVERGED else ""))
    if owner:
        parts.append(Text(owner, style="yellow"))
    if made.from_journal_alone:
        parts.append(Text("From the journal alone: without an app that has this workflow, its code was not asked.", style="yellow"))
        unknown = dict.fromkeys(fact for step in made.steps for fact in step.unknown)
        parts += [Text(f"Unknown: {fact}.", style="dim") for fact in unknown]
    parts.append(Text(f"as of {words.instant(made.at_us)}, journal head {made.head} {made.head_digest}", style="dim"))
    return paper.panel(f"plan for run {words.bounded(made.run_id)}; nothing was sent or appended", Group(*parts), "yellow")


def _step(step: PlannedStep) -> Text:
    look = f"; next look at {words.instant(step.next_look_us)}" if step.next_look_us is not None else ""
    where = "/".join(words.bounded(part) for part in (step.environment, step.scope) if part)
    new = "new, " if step.new else ""
    asked = "".join(f"asked just now: {words.bounded(answer(told))}; " for told in step.asked)
    return (
        Text(f"{words.bounded(step.step)}: ", style="bold")
        + Text(_WOULD[step.action], style="bold yellow")
        + Text(
            f" ({words.because(step.row, step.reason)}); {asked}{new}{words.bounded(step.effect)} in {where}, key {words.bounded(step.key)}{look}"
        )
    )
