"""Orders about what is to become of a run, for people. Owns their wording; takes what the operators' procedures came to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from recovery.console import words
from recovery.console.operating import why
from recovery.console.paper import Paper, facts
from recovery.console.runs import status
from recovery.core.entries import Status, Verb
from recovery.core.inheritance import FORBID, REUSE, Term
from recovery.definitions.recovered import RunInfo
from recovery.operators.cancelling import Told
from recovery.operators.forking import Forked, Restarted

_STEPS_MAX: Final = 20
_DONE: Final = {Verb.PAUSE: "paused", Verb.RESUME: "resumed"}


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


# -- forks and generations ---------------------------------------------------------------------------------------------


def forked(paper: Paper, made: Forked, *, plan: bool) -> RenderableType:
    rows: list[tuple[str, RenderableType]] = [
        ("from", _place(made.of_run, made.at, made.head, made.head_digest)),
        ("takes over", _steps(made.prefix)),
        *_terms(made.terms),
    ]
    if made.both_go_on:
        rows.append(("twice", Text(_both(made), style="bold yellow")))
    if not plan:
        rows.append(("next", f"recover --run-id {words.bounded(made.run_id)}"))
    would = "would be forked; nothing was stored" if plan else "is forked"
    return paper.panel(f"run {words.bounded(made.run_id)} {would}", facts(rows), "yellow")


def _both(made: Forked) -> str:
    parent = words.bounded(made.of_run)
    standing = made.of_run_status.value.replace("_", " ")
    return (
        f"run {parent} is open ({standing}): what it has not come to yet happens in both, unless `recover cancel {parent}` ends it"
    )


def restarted(paper: Paper, made: Restarted, *, plan: bool) -> RenderableType:
    rows: list[tuple[str, RenderableType]] = [
        ("from", _place(made.run_id, made.from_step, made.head, made.head_digest)),
        ("keeps", _steps(made.prefix)),
        ("leaves behind", _steps(made.superseded)),
        *_terms(made.terms),
    ]
    if not plan:
        rows += [("status", status(made.status)), ("next", f"recover --run-id {words.bounded(made.run_id)}")]
    would = "would begin; nothing was ordered" if plan else "begins"
    return paper.panel(f"run {words.bounded(made.run_id)}: generation {made.generation} {would}", facts(rows), "yellow")


def _place(run_id: str, step: str, head: int, digest: str) -> str:
    where = f"in front of {words.bounded(step)}" if step else "behind its last step"
    return f"run {words.bounded(run_id)} {where}, journal head {head} {words.digest(digest)}"


def _steps(steps: Sequence[str]) -> str:
    shown = ", ".join(words.bounded(step) for step in steps[:_STEPS_MAX]) or "nothing"
    return shown + (f" and {len(steps) - _STEPS_MAX:,} more" if len(steps) > _STEPS_MAX else "")


def _terms(terms: Sequence[Term]) -> list[tuple[str, RenderableType]]:
    told = [f"{words.bounded(term.step)}: {_term(term)}" for term in terms]
    return [("effects" if number == 0 else "", line) for number, line in enumerate(told)]


def _term(term: Term) -> str:
    outcome = "not settled" if term.settled is None else term.settled.outcome.value.replace("_", " ")
    match term.policy:
        case policy if policy == REUSE:
            what = f"its outcome is reused ({outcome})"
        case policy if policy == FORBID:
            what = f"not to be done again ({outcome})"
        case _:
            what = f"done anew under a new key: {words.bounded(term.reason)}"
    return what + ("" if term.said else ", by default")
