"""Repeating: a sample of the histories once more, on stores that keep what they are given, and in the other colour.

Owns the choice of the sample and the comparison. Must not know how a history was found. Invariant: a history that comes to another journal
or another verdict elsewhere is a violation, whoever is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random
from typing import Final

from recovery.ports import Journal
from recovery.storage.memory import MemoryJournal
from recovery.testing.casting import Cast
from recovery.testing.moves import Move
from recovery.testing.pieces import in_one_piece
from recovery.testing.scenario import Scenario
from recovery.testing.shelves import shelf
from recovery.testing.stage import Failed, Stage

SHARE: Final = 50  # one history in so many
SAMPLE_MIN: Final = 20
SAMPLE_MAX: Final = 200

Timeline = tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """A history that came to something else on a store."""

    store: str
    timeline: Timeline
    problem: str


def sampled(timelines: Sequence[Timeline], seed: int, histories: int | None = None) -> list[Timeline]:
    """Two of a hundred, twenty at least and two hundred at most. histories: how many there were, where `timelines` is a sample itself."""
    share = (len(timelines) if histories is None else histories) // SHARE
    many = min(len(timelines), max(SAMPLE_MIN, min(SAMPLE_MAX, share)))
    return Random(seed).sample(list(timelines), many)  # noqa: S311  # a choice, not a secret


def repeated(
    scenario: Scenario, cast: Cast, is_async: bool, timelines: Sequence[Timeline], stores: Sequence[str]
) -> Iterator[Difference]:
    """Play each on every store. Raises StoreUrlError, StoreUnavailable."""
    with ExitStack() as stack:
        shelves = {store: stack.enter_context(shelf(store)) for store in stores}
        for timeline in timelines:
            for store, journals in shelves.items():
                with journals() as journal:
                    there = _came(scenario, cast, is_async, timeline, journal)
                    here = _came(scenario, cast, is_async, timeline, MemoryJournal(journal.namespace()))
                if there != here:
                    yield Difference(store, timeline, f"in memory it came to {here}, on {store.partition(':')[0]} to {there}")


def recoloured(
    scenario: Scenario, cast: Cast, other: Cast | None, is_async: bool, timelines: Sequence[Timeline]
) -> Iterator[Difference]:
    """Play each in the other colour, too: both must come to the same journal. other: the cast of that colour; None: there is none."""
    if other is None:
        return
    for timeline in timelines:
        namespace = MemoryJournal().namespace()
        here = _came(scenario, cast, is_async, timeline, MemoryJournal(namespace))
        there = _came(scenario, other, not is_async, timeline, MemoryJournal(namespace))
        if there != here:
            ours, theirs = ("async def", "def") if is_async else ("def", "async def")
            yield Difference("the other colour", timeline, f"as `{ours}` it came to {here}, as `{theirs}` to {there}")


def _came(scenario: Scenario, cast: Cast, is_async: bool, timeline: Timeline, journal: Journal) -> object:
    """The journal and the verdicts that a timeline came to, digests and all."""
    stage = Stage(scenario, journal, is_async=is_async, cast=cast)
    try:
        try:
            for move in timeline:
                stage.make(move)
        except Failed as failed:
            return failed.problems
        runs = [row.run_id for row in journal.runs()]
        loaded = [there for run_id in runs if (there := in_one_piece(journal, run_id)) is not None]
        return [
            (row.run_id, row.status.value, str(row.epoch), [(each.seq, each.kind, each.token, each.digest) for each in rows], late)
            for row, rows, _ in loaded
            for late in [[(item.step, item.kind, item.body) for item in journal.evidence(row.run_id)]]
        ]
    finally:
        stage.end()
