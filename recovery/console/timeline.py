"""The timeline of a run: its entries as lines that can be read from top to bottom.

Owns how each kind of entry is told. Knows nothing of where the entries came from. Invariant: one entry gives its lines, in its place, and
an entry that holds two facts (an intent with its first attempt, a settlement with its observation) tells both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from recovery.console import mail, words
from recovery.console.line import Line
from recovery.core import entries
from recovery.core.children import settlement
from recovery.core.compensation import HAPPENED
from recovery.core.contracts import Contract
from recovery.core.entries import (
    Answered,
    AnswerKind,
    Attempt,
    Decision,
    Entry,
    Intent,
    Observation,
    Opened,
    OutcomeKind,
    Override,
    Settled,
    Source,
    Verdict,
)
from recovery.core.ids import ROOT, branch_of
from recovery.core.inheritance import Term
from recovery.core.instants import iso
from recovery.core.wording import counted

_LINES_MAX: Final = 200

_STYLES: Final = {
    "opened": "bold", "claimed": "yellow", "decided": "magenta", "intended": "cyan", "undoing": "bold yellow", "attempt": "bold cyan", "observed": "blue",
    "adopted": "bold green", "completed": "bold green", "rejected": "bold yellow", "not executed": "bold yellow", "verdict": "yellow",
    "diverged": "bold red", "failed": "bold red", "cancelled": "bold yellow", "late evidence": "bold yellow", "operator": "bold magenta",
    "started": "cyan",
    "waits": "yellow", "answered": "bold magenta", "lapsed": "bold yellow", "unfit": "bold yellow", "published": "blue",
}  # fmt: skip
_SAID: Final = {
    AnswerKind.REFUSED: "it was refused",
    AnswerKind.ABSENT: "it was not executed",
    AnswerKind.ITEMS: "its items came to different ends",
}


def lines(
    entries: Iterable[tuple[int, str, Entry]], contracts: dict[str, Contract], late: Iterable[tuple[str, Entry]] = ()
) -> list[Line]:
    """The lines of (sequence number, epoch, entry), then of late evidence (epoch, entry), which stands outside the chain."""
    told: list[Line] = []
    before = ""
    for seq, epoch, entry in entries:
        for line in _told(entry, contracts):
            if before and epoch != before:
                told.append(Line("claimed", line.at_us, "", f"epoch {epoch} took the run over from epoch {before}", epoch=epoch))
            before = epoch
            told.append(replace(line, seq=seq, epoch=epoch))
    for epoch, entry in late:
        for line in _told(entry, contracts):
            text = f"{line.what}: {line.text}"
            told.append(replace(line, what="late evidence", text=text, epoch=epoch))
    return told


def timeline(told: list[Line], *, limit: int = _LINES_MAX) -> RenderableType:
    """At most `limit` lines, the last ones (0: all of them)."""
    shown = told[-limit:] if limit else told
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("#", justify="right", style="dim", no_wrap=True)
    table.add_column("time (UTC)", no_wrap=True)
    table.add_column("after", justify="right", style="dim", no_wrap=True)
    table.add_column("epoch", style="dim", no_wrap=True)
    table.add_column("what", no_wrap=True)
    table.add_column("", overflow="fold")
    date, before = "", None
    for line in shown:
        if words.date(line.at_us) != date:
            date = words.date(line.at_us)
            table.add_row("", Text(date, style="bold"))
        after = words.since(None if before is None else line.at_us - before)
        before = line.at_us
        number = "" if line.seq is None else str(line.seq)
        table.add_row(number, words.time(line.at_us), after, line.epoch, Text(line.what, style=_STYLES[line.what]), _body(line))
    if len(shown) == len(told):
        return table
    return Group(Text(f"… {len(told) - len(shown):,} earlier lines; --limit 0 shows all", style="dim"), table)


def _body(line: Line) -> Text:
    text = Text()
    if line.step:
        text.append(words.bounded(line.step), style="bold").append("  ")
    text.append(line.text)
    for detail in line.details:
        text.append(f"\n{detail}", style="dim")
    return text


# -- one entry ---------------------------------------------------------------------------------------------------------


def _told(entry: Entry, contracts: dict[str, Contract]) -> Iterator[Line]:
    match entry:
        case Opened():
            text = f"workflow {words.bounded(entry.workflow)}, version {words.bounded(entry.version)}"
            if entry.forked_from:
                where = f"in front of {words.bounded(entry.forked_at)}" if entry.forked_at else "behind its last step"
                text += f", forked from run {words.bounded(entry.forked_from)} {where}, head {words.digest(entry.forked_head)}"
            whose = (f"child of run {entry.parent}, step {entry.parent_step}",) if entry.parent else ()
            yield Line("opened", entry.at_us, "", text, (f"input {words.value(entry.input)}", *whose))
        case Decision():
            yield _decision(entry)
        case Intent():
            yield _intent(entry, contracts.get(entry.contract))
            if entry.attempt is not None:
                yield _attempt(entry.attempt)
        case Attempt():
            yield _attempt(entry)
        case Observation():
            yield _observation(entry)
        case Verdict():
            yield _verdict(entry)
        case Override():
            yield _override(entry)
        case Settled():
            if entry.observation is not None:
                yield _observation(entry.observation)
            yield _settled(entry)


def _decision(entry: Decision) -> Line:
    match entry.form:
        case entries.BRANCHES:
            return Line("decided", entry.at_us, entry.step, f"{entry.value} branches" if entry.value != 1 else "a branch")
        case entries.NOW:
            return Line("decided", entry.at_us, entry.step, f"the time is {iso(entry.value)}")
        case entries.INHERITED | entries.FORBIDDEN | entries.ANEW:
            return _inherited(entry)
        case entries.TIMER:
            return Line("decided", entry.at_us, entry.step, f"to sleep until {iso(entry.value)}")
        case entries.WAIT | entries.ANSWER | entries.LAPSED | entries.UNFIT | entries.PUBLISHED:
            return mail.line(entry)
        case entries.PATCHED:
            return Line("decided", entry.at_us, "", f"to go by patch {entry.step.partition('/')[2].rpartition('#')[0]}")
        case entries.UNDOING:
            return _undoing(entry)
        case entries.CHILD | entries.AWAITED | entries.ADOPTED | entries.OVERDUE:
            return _about_child(entry)
        case entries.FIRED:
            return Line("decided", entry.at_us, branch_of(entry.step), "the time has come")
        case _:
            failed = f"failed with {words.bounded(entry.error)}: " if entry.error else ""
            return Line("decided", entry.at_us, entry.step, f"{failed}{words.value(entry.value)}")


def _undoing(entry: Decision) -> Line:
    """What a run has set out to undo, in that order."""
    steps, quiet_at_us = entry.value["undoes"], entry.value["quiet_at_us"]
    waits = (
        () if quiet_at_us is None else (f"from {words.exact(quiet_at_us)} on: until then a copy of what is undone could still act",)
    )
    return Line("undoing", entry.at_us, entry.step, ", then ".join(words.bounded(step) for step in steps) or "nothing", waits)


def _about_child(entry: Decision) -> Line:
    run_id = words.bounded(entry.value["run_id"])
    if entry.form == entries.CHILD:
        detached = ", detached" if entry.value["detached"] else ""
        return Line(
            "started", entry.at_us, entry.step, f"child {run_id} of workflow {words.bounded(entry.value['workflow'])}{detached}"
        )
    if entry.form == entries.AWAITED:
        return Line("waits", entry.at_us, entry.step, f"for child {run_id}")
    if entry.form == entries.OVERDUE:
        return Line("waits", entry.at_us, entry.step, f"for child {run_id} no longer: its deadline has passed")
    settled = settlement(entry)
    if settled.outcome is OutcomeKind.APPLIED:
        return Line("adopted", entry.at_us, entry.step, f"{words.value(settled.value)} from child {run_id}")
    return Line("adopted", entry.at_us, entry.step, f"the failure of child {run_id}: {words.bounded(settled.error)}")


def _inherited(entry: Decision) -> Line:
    """An effect that was done before a fork, or before a restart."""
    term = Term.from_json(entry.value)
    whose = f"{words.bounded(term.effect)} of run {words.bounded(term.run_id)}, {words.bounded(term.of_step)}"
    if entry.form == entries.ANEW:
        return Line("decided", entry.at_us, entry.step, f"to do {whose}, anew: {words.bounded(term.reason)}")
    if entry.form == entries.FORBIDDEN or term.settled is None:
        return Line("rejected", entry.at_us, entry.step, f"{whose}, is not to be done again")
    value = "" if term.settled.value is None else f" {words.value(term.settled.value)}"
    outcome = term.settled.outcome.value.replace("_", " ")
    return Line(
        "adopted", entry.at_us, entry.step, f"{outcome}{value}: the receipt of {whose}", (f"key {words.bounded(term.key)}",)
    )


def _intent(entry: Intent, contract: Contract | None) -> Line:
    where = "/".join(words.bounded(part) for part in (entry.environment, entry.scope) if part)
    arrow = f"← {words.bounded(entry.undoes)}: " if entry.undoes else ""
    return Line(
        "undoing" if entry.undoes else "intended",
        entry.at_us,
        entry.step,
        f"{arrow}{words.bounded(entry.effect)} in {where}",
        (
            f"key {words.bounded(entry.key)}, fingerprint {words.digest(entry.fingerprint)}, {promise(contract)}",
            f"arguments {words.value(entry.arguments)}",
        ),
    )


def promise(contract: Contract | None) -> str:
    """A contract in a few words."""
    if contract is None:
        return "contract unknown"
    window = f", window {words.window(contract.window_us)}" if contract.window_us is not None else ""
    return f"contract {contract.kind.value}{window}"


def _attempt(entry: Attempt) -> Line:
    given = words.duration(entry.send_until_us - entry.sent_at_us)
    return Line("attempt", entry.sent_at_us, entry.step, f"{entry.number}: {entry.purpose}, gives up after {given}")


def _observation(entry: Observation) -> Line:
    if entry.source is Source.OPERATOR:
        return Line("observed", entry.observed_at_us, entry.step, personally(entry.answer))
    source = entry.source.value
    whose = f"{source} to attempt {entry.attempt}" if entry.attempt is not None else source
    took = words.duration(entry.observed_at_us - entry.asked_at_us)
    return Line("observed", entry.observed_at_us, entry.step, f"{whose} after {took}: {answer(entry.answer)}")


def personally(said: Answered) -> str:
    """A person's word in a few words."""
    return f"a person says that {_SAID.get(said.kind, 'it happened')}"


def answer(said: Answered) -> str:
    """An answer in a few words, with its value."""
    parts = [said.kind.value.replace("_", " ")]
    if said.error:
        parts.append(words.bounded(said.error))
    if said.value is not None:
        parts.append(words.value(said.value))
    if said.receipt:
        parts.append(f"receipt {words.bounded(said.receipt)}")
    if said.as_of_us is not None:
        parts.append(f"as of {words.instant(said.as_of_us)}")
    if said.detail:
        parts.append(f"({words.bounded(said.detail)})")
    return " ".join(parts)


def _verdict(entry: Verdict) -> Line:
    what = "diverged" if entry.action == "diverge" else "verdict"
    row = "" if entry.row == entry.action else f" ({entry.row})"
    details = [_resting(entry.assumptions)] if entry.assumptions else []
    if entry.evidence:
        about = "the first entry that does not fit" if entry.action == "diverge" else "against the outcome: entry"
        details.append(f"{about} {', '.join(str(seq) for seq in entry.evidence)}")
    if entry.next_look_us is not None:
        details.append(f"next look at {words.exact(entry.next_look_us)}")
    return Line(what, entry.at_us, entry.step, f"{entry.action}: {words.bounded(entry.reason)}{row}", tuple(details))


def _override(entry: Override) -> Line:
    why = f": {words.bounded(entry.reason)}" if entry.reason else ""
    details = [f"grounds {words.bounded(entry.grounds)}, digest {words.digest(entry.grounds_digest)}"] if entry.grounds else []
    if entry.from_step:
        details.append(f"a new generation begins at {words.bounded(entry.from_step)}")
    for body in entry.terms or ():
        term = Term.from_json(body)
        details.append(
            f"{words.bounded(term.step)}: {term.policy.replace('_', ' ')}"
            + (f", {words.bounded(term.reason)}" if term.reason else "")
        )
    if entry.version:
        details.append(f"to version {words.bounded(entry.version)}")
        details += [
            f"{words.bounded(new)}: {'room for a step to come' if old is None else f'recorded as {words.bounded(old)}'}"
            for new, old in entry.steps or ()
            if new != old
        ]
        details += [f"{words.bounded(old)}: dropped" for old in entry.dropped]
    if entry.attempts is not None:
        details.append(f"{counted(entry.attempts, 'attempt')} may have left in all")
    return Line("operator", entry.at_us, entry.step, f"{entry.verb.value} by {words.bounded(entry.by)}{why}", tuple(details))


def _settled(entry: Settled) -> Line:
    if entry.step == ROOT:
        if entry.outcome is OutcomeKind.CANCELLED:
            return Line(
                "cancelled",
                entry.at_us,
                "",
                f"everything that was begun is settled; {words.bounded(entry.value['by'])} cancelled the run",
            )
        done = entry.outcome is OutcomeKind.APPLIED
        text = words.value(entry.value) if done else f"{words.bounded(entry.error)}: {words.value(entry.value)}"
        return Line("completed" if done else "failed", entry.at_us, "", text)
    what = "adopted" if entry.outcome in HAPPENED else entry.outcome.value.replace("_", " ")
    marks = [name for name in ("reconstructed", "heuristic") if getattr(entry, name)]
    parts = [entry.outcome.value.replace("_", " "), *marks]
    if entry.error:
        parts.append(words.bounded(entry.error))
    if entry.value is not None:
        parts.append(words.value(entry.value))
    return Line(
        what,
        entry.at_us,
        entry.step,
        f"{' '.join(parts)}",
        (_because(entry),),
    )


def _because(entry: Settled) -> str:
    row = "" if entry.row == entry.reason else f" ({entry.row})"
    return f"because {entry.reason}{row}" + (f"; {_resting(entry.assumptions)}" if entry.assumptions else "")


def _resting(assumptions: tuple[str, ...]) -> str:
    """The assumptions by name, and how many defaults of the contract stand beside them."""
    named = [name for name in assumptions if not name.startswith("default ")]
    defaults = len(assumptions) - len(named)
    rest = f" and {words.counted(defaults, 'default')} of the contract" if defaults else ""
    return f"assumes {', '.join(named) or 'none by name'}{rest}"
