"""What is said to runs, and what they tell, for people. Owns the wording; takes what the engine tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from recovery.console import words
from recovery.console.paper import Paper, facts
from recovery.operators.awaiting import Awaited
from recovery.operators.signalling import Signalled
from recovery.operators.telling import Event, Published


def signalled(paper: Paper, told: Signalled, waits: Sequence[Awaited]) -> RenderableType:
    """`waits`: what the run waits for, where it has not come to this wait yet."""
    lines = [Text(f"{words.bounded(told.step)} is answered by {words.bounded(told.by)}: {words.value(told.value)}")]
    if told.repeated:
        lines.append(Text(f"It was so since {words.instant(told.at_us)}: nothing has changed."))
    if not told.waited_for:
        named = ", ".join(words.bounded(one.step) for one in waits) or "nothing"
        lines.append(
            Text(f"The run has not come to that wait; the answer is kept for it. It now waits for: {named}.", style="bold yellow")
        )
    if told.waited_for:
        lines.append(Text(f"The run goes on with `recover --run-id {words.bounded(told.run_id)}`, or in a worker.", style="dim"))
    elif not waits:  # it has not begun, or is in doubt: an answer brings it no further then
        lines.append(Text(f"What it needs to go on: `recover show {words.bounded(told.run_id)}`.", style="dim"))
    return paper.panel(f"run {words.bounded(told.run_id)} was told", Group(*lines), "green")


def sent(paper: Paper, told: Signalled) -> RenderableType:
    again = " before; nothing has changed" if told.repeated else ""
    line = f"{words.bounded(told.name)}, message {told.number}, by {words.bounded(told.by)}: {words.value(told.value)}{again}"
    return paper.panel(f"run {words.bounded(told.run_id)} was sent", Text(line), "green")


def waits(paper: Paper, found: Sequence[Awaited]) -> RenderableType:
    if not found:
        return Text("nothing is waited for")
    return Group(*(_awaited(paper, one) for one in found))


def published(found: Mapping[str, Published], asked: str | None) -> RenderableType:
    """asked: the one name that was looked for, where the run has published others."""
    if not found:
        return Text("nothing is published" if asked is None else f"nothing is published as {words.bounded(asked)}")
    rows: list[tuple[str, RenderableType]] = [
        (words.bounded(name), Text(f"{words.value(one.value)}  since {words.instant(one.at_us)}")) for name, one in found.items()
    ]
    return facts(rows)


def event(told: Event) -> RenderableType:
    """One line."""
    about = "  ".join(words.bounded(part) for part in (told.step, told.name, told.error) if part)
    value = "" if told.value is None else f"  {words.value(told.value)}"
    return Text(f"{told.position:>4}  {words.time(told.at_us)}  {told.happened.value}  {about}{value}".rstrip())


def _awaited(paper: Paper, one: Awaited) -> RenderableType:
    rows: list[tuple[str, RenderableType]] = [
        (
            "waits for",
            Text("the next message of " + words.bounded(one.name) if one.queue else "the answer to " + words.bounded(one.name)),
        )
    ]
    rows.append(("step", Text(words.bounded(one.step))))
    rows.append(("answer", Text(f"{words.bounded(one.type)}, by {words.bounded(', '.join(one.by)) if one.by else 'anybody'}")))
    if one.about:
        rows.append(("approves", Text(f"{words.bounded(one.effect)} {words.value(one.arguments)}")))
        rows.append(("about", Text(one.about[: words.DIGEST_SHOWN])))
    until = "" if one.until_us is None else f", until {words.instant(one.until_us)}"
    rows.append(("since", Text(f"{words.instant(one.since_us)}{until}")))
    rows += [("unfit", Text(words.bounded(said), style="yellow")) for said in one.unfit]
    if one.said_by:
        rows.append(("said", Text(f"by {words.bounded(one.said_by)}; the run takes it in with its next recovery", style="green")))
    return paper.panel(f"run {words.bounded(one.run_id)}", facts(rows), "yellow")
