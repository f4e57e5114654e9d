"""Reports of the operators' verbs: doubts, explanations, and what an order did.

Owns their wording and layout. Invariant: an order's report says what may still happen in spite of it, and the command that comes next.
"""

from __future__ import annotations

from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from recovery.console import contradictions, words
from recovery.console.paper import Paper, facts
from recovery.console.runs import damaged, status
from recovery.console.timeline import answer, personally, promise
from recovery.core.entries import Answered, OutcomeKind, Source, Verb
from recovery.core.judgement import Judgement
from recovery.core.rows import Row
from recovery.operators import parking
from recovery.operators.acknowledging import Acknowledged
from recovery.operators.asking import Probed
from recovery.operators.doubting import Doubt, Doubts
from recovery.operators.driving import Closed
from recovery.operators.explaining import Change, Explanation, Piece
from recovery.operators.forgetting import Forgotten
from recovery.operators.holding import Ordered
from recovery.operators.quarantining import Deaths
from recovery.operators.resolving import Resolved
from recovery.operators.whole_runs import WholeRun
from recovery.ports import Hold

ASSUMED: Final = {
    "A1": "what the contract declares is true",
    "A2": "no copy acts after the settle window",
    "A3": "clocks differ by no more than the contract's clock error",
    "A4": "an acknowledged commit of the journal survives",
    "A5": "the effect's body makes one keyed request and no hidden retry",
    "A6": "account, region, endpoint and credential are those of the intent",
}

# -- doubts ------------------------------------------------------------------------------------------------------------


def doubts(paper: Paper, found: Doubts) -> RenderableType:
    """One line for each doubt, oldest first; then each outcome that something speaks against, whole."""
    nothing = [] if found.contradicted or found.damaged else [Text("nothing needs a person")]
    parts: list[RenderableType] = [_table(found)] if found.doubts else [*nothing]
    for one in found.contradicted:
        age, what = words.duration(one.age_us), "duplicate" if one.contradiction.duplicate else "contradicted"
        parts.append(Text(f"run {words.bounded(one.run_id)} is {one.status.value} and {what}, heard {age} ago:", style="bold red"))
        parts.append(contradictions.panel(paper, one.contradiction))
    if found.more:
        parts.append(Text("… and more; raise --limit", style="dim"))
    if found.damaged:
        parts.append(damaged(found.damaged))
    parts += [
        Text(
            f"contract {words.bounded(hold.subject)} is held by {why(hold.by, hold.reason)}, since {words.instant(hold.at_us)}",
            style="yellow",
        )
        for hold in found.contracts
    ]
    if found.doubts:
        parts.append(Text("Ask why with `recover explain RUN [STEP]`; what a reason means: `recover parking REASON`.", style="dim"))
    return Group(*parts)


def _table(found: Doubts) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("age", "run", "step", "status", "effect", "key", "reason"):
        table.add_column(column, justify="right" if column == "age" else "left", overflow="fold")
    for one in found.doubts:
        table.add_row(
            words.duration(one.age_us),
            words.bounded(one.run_id),
            words.bounded(one.step),
            status(one.status),
            _effect(one),
            words.bounded(one.key),
            words.bounded(one.problem or one.reason),
        )
    return table


def _effect(one: Doubt) -> str:
    where = "/".join(words.bounded(part) for part in (one.environment, one.scope) if part)
    return f"{words.bounded(one.effect)} in {where}" if one.effect else ""


def why(by: str, reason: str) -> str:
    return words.bounded(by) + (f" ({words.bounded(reason)})" if reason else "")


# -- explanations ------------------------------------------------------------------------------------------------------


def explanation(paper: Paper, told: Explanation) -> RenderableType:
    """The row, what it rests on, and what would change it."""
    intent, row = told.effect.intent, told.row
    rows: list[tuple[str, RenderableType]] = [
        ("verdict", Text(f"{row.action.value}: {row.reason.value} (row {row.number}, {row.name})", style="bold")),
        ("condition", row.condition),
        ("why", row.paragraph),
        ("effect", f"{words.bounded(intent.effect)} in {words.bounded(intent.environment)}, {promise(told.contract)}"),
        ("contract", told.contract.digest),
        ("key", words.bounded(intent.key)),
        *_pieces("evidence", told.evidence),
        *_pieces("also known", told.also),
        *[("assumes" if index == 0 else "", text) for index, text in enumerate(_assumed(told.assumptions))],
        *_times(told),
        ("to settle it", Text(told.advice, style="bold")),
    ]
    if told.parking is not None:
        orders = parking.commands(told.parking, told.run_id, told.effect.step)
        rows += [("with" if index == 0 else "", words.safe(order)) for index, order in enumerate(orders)]
        rows.append(("page", f"recover parking {told.parking.value}"))
    if told.contradicted:
        rows.append(("contradicted", Text("something has spoken against this outcome since; it stands", style="bold red")))
    parts: list[RenderableType] = [facts(rows)]
    if told.changes:
        parts += [Text("what would change it:"), facts([(_when(change), _leads(change)) for change in told.changes])]
    if told.same:
        parts.append(Text(f"would change nothing: {'; '.join(told.same)}", style="dim"))
    if told.problem:
        parts.append(Text(words.safe(told.problem), style="yellow"))
    parts += [Text(f"Unknown: {fact}.", style="dim") for fact in told.unknown]
    return paper.panel(f"run {words.bounded(told.run_id)}, step {words.bounded(told.effect.step)}", Group(*parts), "yellow")


def whole_run(paper: Paper, told: WholeRun) -> RenderableType:
    """Why a run stands where it stands, and who acts next."""
    rows: list[tuple[str, RenderableType]] = [("status", status(told.status))]
    if told.reason:
        rows.append(("reason", words.bounded(told.reason)))
    rows.append(("since", words.exact(told.since_us)))
    if told.deaths is not None:
        rows += _deaths(told.deaths)
    elif told.crashes:
        rows.append(("workers", f"{told.crashes} in a row ended while they had it, and did not let it go"))
    if told.last is not None:
        step = f", step {words.bounded(told.last.step)}" if told.last.step else ""
        rows.append(("recorded last", f"entry {told.last.seq}, {told.last.kind}{step}"))
    rows.append(("not settled", ", ".join(words.bounded(step) for step in told.steps) or "no step"))
    rows += [("acts next", told.acts), ("what to do", Text(told.advice, style="bold"))]
    rows += [("" if index else "with", command) for index, command in enumerate(told.commands)]
    if told.parking is not None:
        rows.append(("page", f"recover parking {told.parking.value}"))
    return paper.panel(f"run {words.bounded(told.run_id)}", facts(rows), "yellow")


def _deaths(died: Deaths) -> list[tuple[str, RenderableType]]:
    number = "more than are allowed" if died.workers is None else f"{died.workers}"
    rows: list[tuple[str, RenderableType]] = [("workers", f"{number} in a row ended while they had it, and did not let it go")]
    if died.last_alone:
        rows.append(
            (
                "the last",
                "had nothing else at work, if it was a worker with the same --crashes: so it was no other run that ended it",
            )
        )
    else:
        rows.append(("the last", "is not known to have had nothing else at work: another run may have ended it"))
    return rows


def _pieces(name: str, pieces: tuple[Piece, ...]) -> list[tuple[str, RenderableType]]:
    told: list[tuple[str, RenderableType]] = []
    for piece in pieces:
        number = "outside the chain" if piece.seq is None else f"entry {piece.seq}"
        said = "" if piece.answer is None else f" {piece.source}: {_said(piece.source, piece.answer)}"
        told.append(("" if told else name, f"{number}, {words.exact(piece.at_us)}, {words.bounded(piece.kind)}{said}"))
    return told


def _said(source: str, given: Answered) -> str:
    """An answer in words: of a person, what was said; of anything else, what was answered."""
    return personally(given) if source == Source.OPERATOR.value else answer(given)


def _assumed(assumptions: tuple[str, ...]) -> list[str]:
    return [f"{name}: {ASSUMED[name]}" if name in ASSUMED else words.bounded(name) for name in assumptions]


def _times(told: Explanation) -> list[tuple[str, RenderableType]]:
    if told.settled is not None:
        return []
    timing = told.timing
    named = (("quiet at", timing.quiet_at_us), ("not after", timing.not_after_us), ("next look", told.next_look_us))
    return [(name, f"{words.exact(at_us)}, {_from(told.at_us, at_us)}") for name, at_us in named if at_us is not None]


def _from(now_us: int, at_us: int) -> str:
    if at_us - now_us > words.AGE_US:
        return "which is never"
    return f"in {words.duration(at_us - now_us)}" if at_us > now_us else f"{words.duration(now_us - at_us)} ago"


def _when(change: Change) -> str:
    return words.exact(change.at_us) if change.at_us is not None else "now"


def _leads(change: Change) -> str:
    return f"{change.what} -> {_verdict(change.row)}"


def _verdict(row: Row) -> str:
    return f"{row.action.value}: {row.reason.value} (row {row.number}, {row.name})"


# -- asking and ordering -----------------------------------------------------------------------------------------------


def probed(paper: Paper, asked: Probed) -> RenderableType:
    kept = (
        f"kept as evidence outside the journal, because {words.bounded(asked.outside)}" if asked.outside else "kept in the journal"
    )
    rows = [
        ("answer", Text(answer(asked.answer), style="bold")),
        ("kept", Text(kept)),
        *_now(asked.judgement),
        ("sent", Text("nothing")),
    ]
    return paper.panel(f"asked about {words.bounded(asked.step)} of run {words.bounded(asked.run_id)}", facts(rows), "blue")


def _now(judgement: Judgement) -> list[tuple[str, RenderableType]]:
    look = judgement.next_look_us
    then = f"; next look at {words.exact(look)}" if look is not None else ""
    return [("verdict now", f"{_verdict(judgement.row)}{then}")]


def resolved(paper: Paper, done: Resolved) -> RenderableType:
    settled = done.settled
    told = settled.outcome.value.replace("_", " ") + (f" {words.bounded(settled.error)}" if settled.error else "")
    valued = settled.value is not None and settled.outcome in {OutcomeKind.APPLIED, OutcomeKind.MIXED, OutcomeKind.REJECTED}
    rows: list[tuple[str, RenderableType]] = [("outcome", Text(f"{told}, heuristic", style="bold"))]
    if valued:
        rows.append(("value", words.value(settled.value)))
    if not done.checked:
        rows.append(("unchecked", Text("without its app, the value was not compared with the effect's types", style="yellow")))
    if done.raises:
        rows.append(("workflow", Text(f"gets {done.raises}; one that does not catch it ends as failed", style="yellow")))
    rows.append(("next", f"recover --run-id {words.bounded(done.run_id)}"))
    return paper.panel(
        f"{words.bounded(done.step)} of run {words.bounded(done.run_id)} is settled by your word", facts(rows), "green"
    )


def acknowledged(done: Acknowledged) -> RenderableType:
    order, run = done.order, words.bounded(done.run_id)
    left = "; something else in the run still needs a person" if done.left else ""
    return Text(f"{words.bounded(order.step)} of run {run} is seen to by {why(order.by, order.reason)}; its outcome stands{left}")


def closed(paper: Paper, done: Closed) -> RenderableType:
    rows: list[tuple[str, RenderableType]] = [("answer", Text(answer(done.answer), style="bold"))]
    if done.settled is not None:
        rows.append(("settled", f"{done.settled.outcome.value.replace('_', ' ')}: {done.settled.reason}"))
        rows.append(("next", f"recover --run-id {words.bounded(done.run_id)}"))
    else:
        rows += _now(done.judgement)
    return paper.panel(f"closed {words.bounded(done.step)} of run {words.bounded(done.run_id)}", facts(rows), "blue")


def ordered(paper: Paper, done: Ordered) -> RenderableType:
    what = {Verb.HOLD: "held", Verb.RELEASE: "released", Verb.FENCE: "fenced"}[done.order.verb]
    rows: list[tuple[str, RenderableType]] = [
        ("by", why(done.order.by, done.order.reason)),
        ("status", status(done.status)),
        ("epoch", done.epoch),
    ]
    if done.order.verb is not Verb.RELEASE:
        rows += _zombie(done)
    if done.order.verb is Verb.HOLD:
        rows.append(("next", f"recover release {words.bounded(done.run_id)}"))
    else:
        rows.append(("next", f"recover --run-id {words.bounded(done.run_id)}"))
    return paper.panel(f"run {words.bounded(done.run_id)}: {what}", facts(rows), "yellow")


def _zombie(done: Ordered) -> list[tuple[str, RenderableType]]:
    rows: list[tuple[str, RenderableType]] = []
    if done.was_owned_by:
        text = f"{words.bounded(done.was_owned_by)} had the run. It can append nothing more; it may not know yet, and may still be sending"
        rows.append(("warning", Text(text, style="bold yellow")))
    if done.acts_until_us is None:
        rows.append(("copies", "no attempt of an unsettled step may have left"))
    elif done.acts_until_us < done.order.at_us:
        rows.append(("copies", f"none can act any more, since {words.exact(done.acts_until_us)}"))
    else:
        text = f"what was sent may still act until {words.exact(done.acts_until_us)}: fencing the journal does not fence the world"
        rows.append(("copies", Text(text, style="bold yellow")))
    return rows


def contract(said: Hold) -> RenderableType:
    subject, whose = words.bounded(said.subject), why(said.by, said.reason)
    if not said.held:
        return Text(f"contract {subject} was released by {whose}; recover the runs that it stopped")
    return Text(
        f"contract {subject} is held by {whose}: nothing is sent under it by whoever loads a run from now on, nor by a worker "
        "that has a run, from its next renewal of the lease on (10 seconds unless it says otherwise). To stop a run at once: `recover hold RUN`"
    )


def forgotten(paper: Paper, done: Forgotten) -> RenderableType:
    stub = done.stub
    keys = [
        f"{words.bounded(key)} in {words.bounded('/'.join(part for part in (where, scope) if part))}"
        for where, scope, key in done.keys
    ]
    rows: list[tuple[str, RenderableType]] = [
        ("status", done.status),
        ("outcome", f"digest {stub.outcome_digest}"),
        *[("keys kept" if index == 0 else "", key) for index, key in enumerate(keys or ["none"])],
        ("by", why(stub.by, stub.reason)),
    ]
    return paper.panel(f"run {words.bounded(stub.run_id)} is forgotten; its id stays taken", facts(rows), "yellow")
