"""Judging: what must hold after a play, by the service's own database and by the journal. No process is believed.

Owns the sentences for what does not hold. Invariant: how often an effect happened is counted in the service's tables only, which the effects'
own transactions write and no worker can reach.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recovery import Engine
from recovery.core.entries import Decision, Intent, OutcomeKind, Settled, Status
from recovery.core.errors import RecoveryError
from recovery.crashpoints import hooked
from recovery.storage.reading import Loaded, read
from recovery.testing.pieces import in_one_piece
from tests.crash.mixed import APART, KINDS, MIXED
from tests.crash.stage import SENDING
from tests.crash.workflows import SCARCE, SKU
from tests.soak.house import PLENTY, House, Place
from tests.soak.playing import IN_DOUBT, SETTLED, Played
from tests.soak.plays import Play

LEGAL = {0, 3, 4, 7, 8}
"""How a worker may end by itself: settled, in doubt, not yet, somebody else's, waiting for an answer. A run of these plays never fails by itself."""


@dataclass(frozen=True)
class Booked:
    """What the service did for one step: how often, and the reservation that it gave."""

    times: int
    outcome: str


def violations(play: Play, played: Played, house: House) -> list[str]:
    """Empty if everything holds."""
    place = house.place(play.database)
    try:
        loaded = read(place.journal, played.run_id)
    except RecoveryError as error:
        return [f"the journal cannot be read: {type(error).__name__}: {error}"]
    books = [booked(house.service.books, played.run_id, number) for number in range(1, len(play.steps) + 1)]
    return [
        *_endings(played),
        *_journal(played, loaded),
        *_books(play, books, house.service.books),
        *(_settled(play, played, loaded, books) if loaded.run.status.settled else _doubtful(play, loaded, books)),
        *(_again(played, place) if loaded.run.status.settled or played.once_more else ()),
    ]


def booked(books: sqlite3.Connection, run_id: str, number: int) -> Booked:
    keys = f"{run_id}:{number}"
    mine = "(key = ? OR key GLOB ? OR key GLOB ?)"
    which = [keys, f"{keys}:*", f"{keys}{APART}*"]
    [(times,)] = books.execute(f"SELECT count(*) FROM execution WHERE {mine}", which)
    outcomes = [
        json.loads(value)["id"] for (value,) in books.execute(f"SELECT value FROM receipt WHERE {mine} AND kind = 'applied'", which)
    ]
    return Booked(times, ",".join(outcomes))


def _endings(played: Played) -> Iterator[str]:
    for ended in played.ended:
        if not ended.killed and ended.returncode not in LEGAL:
            yield f"a process ended with {ended.returncode}: {ended.report} {ended.stderr[-2000:]}"
        if "Traceback" in ended.stderr:
            yield f"a process wrote a traceback: {ended.stderr[-2000:]}"
    if played.hung:
        yield "a process hung, and was killed"
    if played.calm[-1].returncode not in {*SETTLED, IN_DOUBT}:
        yield f"it is not at rest after {len(played.calm)} calm recoveries: {played.calm[-1]}"
    if played.calm[0].returncode == 7:
        yield f"a calm recovery was refused: {played.calm[0]}"


def _journal(played: Played, loaded: Loaded) -> Iterator[str]:
    if played.shrunk:
        yield "what was durable has changed"
    if loaded.run.owner is not None and not loaded.run.status.settled:
        yield f"a lease is left behind: {loaded.run.owner}"
    epochs = [row.epoch for row in loaded.rows]
    if epochs != sorted(epochs):
        yield f"a superseded worker wrote: {epochs}"
    if twice := [step for step, times in Counter(row.step for row in loaded.rows if row.kind == "settled").items() if times > 1]:
        yield f"settled twice: {twice}"


def _books(play: Play, books: Sequence[Booked], database: sqlite3.Connection) -> Iterator[str]:
    for number, (kind, step) in enumerate(zip(play.steps, books, strict=True), 1):
        if step.times > (kind != "refused"):
            yield f"the effect of step {number} ({kind}) happened {step.times} times"
    [(left,)] = database.execute("SELECT units FROM stock WHERE sku = ?", [SKU])
    [(gone,)] = database.execute("SELECT coalesce(sum(units), 0) FROM reservation WHERE NOT released")
    if left + gone != PLENTY:
        yield f"the stock does not add up: {left} left and {gone} reserved of {PLENTY}"


def _settled(play: Play, played: Played, loaded: Loaded, books: Sequence[Booked]) -> Iterator[str]:
    """The outcome is that of an uninterrupted run: made from the one durable decision, and from what the service has."""
    ended = loaded.history.ended
    assert ended is not None
    made_by = [entry.value["made_by"] for entry in loaded.entries if isinstance(entry, Decision) and entry.step == "plan#1"]
    outcomes = [SCARCE if kind == "refused" else step.outcome for kind, step in zip(play.steps, books, strict=True)]
    expected = {"made_by": made_by[0] if len(made_by) == 1 else made_by, "outcomes": outcomes}
    if ended.outcome is not OutcomeKind.APPLIED or ended.value != expected:
        yield f"the outcome is {ended.value} and should be {expected}"
    for one in played.ended:
        if one.returncode == 0 and one.report["value"] != expected:
            yield f"a process was given {one.report['value']} and the outcome is {expected}"


def _doubtful(play: Play, loaded: Loaded, books: Sequence[Booked]) -> Iterator[str]:
    """One effect is in doubt: the last, by a contract without proof, after a disturbance."""
    if loaded.run.status is not Status.IN_DOUBT:
        yield f"it is at rest as {loaded.run.status.value}"
        return
    settled = {entry.step for entry in loaded.entries if isinstance(entry, Settled)}
    intents = [entry for entry in loaded.entries if isinstance(entry, Intent)]
    open_steps = [entry for entry in intents if entry.step not in settled]
    if len(open_steps) != 1 or open_steps[0] is not intents[-1]:
        yield f"not one effect is in doubt, the last: {[entry.step for entry in open_steps]}"
        return
    number = int(open_steps[0].key.split(":")[1])
    if KINDS[play.steps[number - 1]].proof:
        yield f"step {number} ({play.steps[number - 1]}) is in doubt, and its contract has the proof"
    if not play.disturbed:
        yield f"step {number} is in doubt, and nobody was disturbed"
    wrong = [step for step, kind in zip(books[: number - 1], play.steps, strict=False) if step.times != (kind != "refused")]
    if wrong or any(step.times for step in books[number:]):
        yield f"the steps around number {number}, which is in doubt, are not as it says: {books}"


def _again(played: Played, place: Place) -> Iterator[str]:
    """I7: recovering once more appends and sends nothing. A settled run is asked for here; one in doubt was claimed by a process."""
    before = in_one_piece(place.journal, played.run_id)
    passed: list[str] = played.once_more.passages if played.once_more else []
    if played.once_more is None:
        with hooked(passed.append):
            Engine(place.journal, workflows=MIXED["sync"].values()).recover(played.run_id)
    after = in_one_piece(place.journal, played.run_id)
    assert before is not None
    assert after is not None
    wrote = [point for point in passed if point.startswith("append") or point in SENDING]
    if wrote or before[1] != after[1]:
        yield f"recovering once more did something: {wrote}"
