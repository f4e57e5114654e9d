"""The reports about a restored database: the declaration, orphans, and what a verification found.

Owns their wording. Invariant: what is missing is told whole, what is in order is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from recovery.console import words
from recovery.console.paper import Paper, facts
from recovery.console.timeline import answer
from recovery.core.comparison import Compared
from recovery.engine.restoring import Declared, Orphan
from recovery.engine.verifying import Broken, ComparedEffect, Verified

_SHOWN_MAX: Final = 20  # run ids in one line

_TITLES: Final = {
    Compared.LOST: ("lost effect", "applied here, and the environment has no trace of it. It is not done again: a person decides."),
    Compared.MISMATCH: ("mismatch", "the environment shows something else under this key than was applied here."),
    Compared.UNTOLD: ("not told", "the environment did not answer. Verify again later."),
    Compared.TOO_EARLY: ("too early", "the environment shows nothing yet, within its lag. Verify again later."),
    Compared.UNPROVEN: ("not proven", "the environment shows nothing, and its look-up proves no absence. Look in its records."),
}
"""What is told about each effect; the other verdicts are counted."""

_COUNTED: Final = {
    Compared.SAME: "as recorded",
    Compared.GONE: "happened, and were removed since",
    Compared.FORGOTTEN: "no longer remembered by their environment",
    Compared.NOT_ASKED: "not asked",
}


def declared(paper: Paper, made: Declared, url: str) -> RenderableType:
    restoration, ids = made.restoration, made.unsettled
    shown = ", ".join(words.bounded(run_id) for run_id in ids[:_SHOWN_MAX])
    more = f" and {len(ids) - _SHOWN_MAX:,} more" if len(ids) > _SHOWN_MAX else ""
    rows: list[tuple[str, RenderableType]] = [
        ("database", words.bounded(url)),
        ("by", words.bounded(restoration.by)),
        ("reason", words.bounded(restoration.reason)),
        ("epochs", f"from {restoration.before}.n to {restoration.incarnation}.n: no worker of the lost time can have one of them"),
        ("not settled", f"{words.counted(len(ids), 'run')}{f': {shown}{more}' if ids else ''}"),
    ]
    if ids:
        rows.append(("from now on", "each asks before it sends, and is left in doubt where it cannot ask: recover them one by one"))
    return paper.panel("declared restored", facts(rows), "yellow")


def orphans(paper: Paper, able: Sequence[str], found: Sequence[Orphan]) -> RenderableType:
    asked = ", ".join(words.bounded(name) for name in able)
    if not found:
        return Text(f"no orphans: every receipt that {asked} listed has an intent here")
    parts = [_orphan(paper, one) for one in found]
    told = f"{words.counted(len(found), 'receipt')} without an intent here (asked: {asked})."
    return Group(*parts, Text(f"{told} A lost run of this journal made them, or somebody else who uses the environment."))


def _orphan(paper: Paper, one: Orphan) -> RenderableType:
    where = "/".join(words.bounded(part) for part in (one.environment, one.scope) if part)
    rows: list[tuple[str, RenderableType]] = [
        ("environment", where),
        ("key", Text(words.bounded(one.key), style="bold")),
        ("at", _time(one.at)),
        ("outcome", words.value(one.outcome)),
    ]
    if one.fingerprint:
        rows.append(("fingerprint", words.bounded(one.fingerprint)))
    return paper.panel("orphan", facts(rows), "yellow")


def verified(paper: Paper, found: Verified) -> RenderableType:
    parts = [_broken(paper, one) for one in found.broken]
    for verdict in _TITLES:
        parts += [_effect(paper, one) for one in found.of(verdict)]
    whole = found.runs - len(found.broken)
    parts.append(
        Text(
            f"{words.counted(whole, 'run')} verified, {words.counted(found.entries, 'entry', 'entries')}; {len(found.broken)} broken"
        )
    )
    if found.unopened:
        told = f"{words.counted(found.unopened, 'run')} encrypted under keys that are not here: digests verified, values not"
        parts.append(Text(told, style="yellow"))
    if found.asked:
        parts.append(Text(_counts(found)))
    return Group(*parts)


def _counts(found: Verified) -> str:
    told = [f"{len(found.of(verdict)):,} {text}" for verdict, text in _COUNTED.items() if found.of(verdict)]
    told += [f"{len(found.of(verdict)):,} {title}" for verdict, (title, _text) in _TITLES.items() if found.of(verdict)]
    return f"{words.counted(len(found.compared), 'applied effect')}{': ' if told else ''}{', '.join(told)}"


def _broken(paper: Paper, one: Broken) -> RenderableType:
    rows: list[tuple[str, RenderableType]] = [("run", Text(words.bounded(one.run_id), style="bold"))]
    if one.seq:
        rows += [("entry", str(one.seq)), ("field", one.field)]
    rows.append(("problem", words.bounded(one.problem, 500)))
    return paper.panel("broken", facts(rows), "red")


def _effect(paper: Paper, one: ComparedEffect) -> RenderableType:
    title, text = _TITLES[one.verdict]
    where = "/".join(words.bounded(part) for part in (one.environment, one.scope) if part)
    rows: list[tuple[str, RenderableType]] = [
        ("run", Text(f"{words.bounded(one.run_id)} {words.bounded(one.step)}", style="bold")),
        ("effect", f"{words.bounded(one.effect)} in {where}"),
        ("key", Text(words.bounded(one.key), style="bold")),
        ("recorded", words.value(one.recorded)),
    ]
    if one.answered is not None:
        rows.append(("there now", answer(one.answered)))
    rows.append(("verdict", text))
    return paper.panel(title, facts(rows), "red" if one.verdict in {Compared.LOST, Compared.MISMATCH} else "yellow")


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC") if at.utcoffset() is not None else at.isoformat()
