"""One run for people: a head that says where it stands, and its timeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from recovery.console import contradictions, words
from recovery.console.paper import Paper, facts
from recovery.console.runs import STYLES, status
from recovery.console.timeline import lines, timeline
from recovery.core.instants import iso
from recovery.core.wording import counted
from recovery.definitions.recovered import RunInfo
from recovery.definitions.undoing import contradictions as undone
from recovery.storage.kinship import Member
from recovery.storage.reading import Whole

_MARKS: Final = (("├ ", "│ "), ("└ ", "  "))


def _family(children: Sequence[Member], above: str) -> Iterator[Text]:
    """A line for each child, its own children below it."""
    for number, child in enumerate(children):
        mark, beside = _MARKS[number == len(children) - 1]
        about = Text("not stored", style="dim") if child.status is None else status(child.status)
        reason = f" ({words.bounded(child.reason)})" if child.reason else ""
        detached = ", detached" if child.detached else ""
        said = f"{above}{mark}{words.bounded(child.run_id)}  {words.bounded(child.workflow)}  "
        yield Text(said) + about + Text(f"{reason}{detached}  {words.bounded(child.step)}", style="dim")
        yield from _family(child.children, above + beside)


def show(paper: Paper, info: RunInfo, loaded: Whole, children: Sequence[Member] = (), *, limit: int) -> RenderableType:
    run = loaded.run
    reason = Text(f" ({words.bounded(info.reason)})", style="dim") if info.reason else Text()
    worker = "nobody" if info.owner is None else words.bounded(info.owner)
    if info.orphaned:
        worker += " (dead: the run is orphaned, recover it)" if info.owner else " (the run is orphaned, recover it)"
    rows: list[tuple[str, RenderableType]] = [
        ("workflow", words.bounded(info.workflow)),
        ("status", status(info.status) + reason),
        ("epoch", info.epoch if info.status.settled else f"{info.epoch}, held by {worker}"),
        ("journal", f"{counted(info.entries, 'entry', 'entries')}, verified, head {words.digest(run.head_digest)}"),
    ]
    if info.queue or info.priority:
        rows.append(("queue", f"{words.bounded(info.queue) or 'the one without a name'}, priority {info.priority}"))
    rows += _ancestry(loaded)
    if loaded.opened.parent:
        rows.append(("parent", f"run {words.bounded(loaded.opened.parent)}, step {words.bounded(loaded.opened.parent_step)}"))
    if children:
        rows.append(("children", Text("\n").join(_family(children, ""))))
    if info.next_look is not None:
        rows.append(("next look", info.next_look.strftime("%Y-%m-%d %H:%M:%S UTC")))
    for effect in loaded.history.unsettled:
        if (said := effect.heard.last) is not None:
            line = f"{effect.step}, attempt {said.attempt}: {words.value(said.progress)} at {iso(said.at_us)}"
            rows.append(("progress", line))
    entries = [(row.seq, str(row.epoch), entry) for row, entry in zip(loaded.rows, loaded.entries, strict=True)]
    told_late = zip(loaded.late, loaded.told, strict=True)
    late = [
        (str(item.epoch), entry) for item, entry in told_late if entry not in loaded.entries
    ]  # the others are in the chain by now
    told = lines(entries, loaded.contracts, late)
    head = paper.panel(f"run {words.bounded(info.run_id)}", facts(rows), STYLES[info.status].removeprefix("bold "))
    against = [contradictions.panel(paper, one) for one in undone(loaded.history, loaded.contracts, {}, loaded.highest_us)]
    return Group(head, *against, timeline(told, limit=limit))


def _ancestry(loaded: Whole) -> list[tuple[str, RenderableType]]:
    """Where the run comes from, which generation it is in, and who cancelled it."""
    opened, history = loaded.opened, loaded.history
    rows: list[tuple[str, RenderableType]] = []
    if opened.forked_from:
        where = f"in front of {words.bounded(opened.forked_at)}" if opened.forked_at else "behind its last step"
        rows.append(("forked from", f"run {words.bounded(opened.forked_from)} {where}, head {words.digest(opened.forked_head)}"))
    if history.generation > 1:
        left = ", ".join(words.bounded(step) for step in history.superseded)
        rows.append(("generation", f"{history.generation}; left behind: {left}"))
    if history.cancelled is not None and history.ended is None:
        rows.append(("cancelled by", f"{words.bounded(history.cancelled.by)}: {words.bounded(history.cancelled.reason)}"))
    return rows
