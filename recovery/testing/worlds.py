"""Worlds: everything that is known about a simulation at one moment, for those who judge it.

Owns the reading of the journal beside the ledger. Must not know what should have happened. Invariant: a world is a value; judging one changes
nothing, and a doctored copy can be judged like a real one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from recovery.core.entries import Attempt, Entry, Intent, Observation, Settled
from recovery.core.errors import JournalCorrupt
from recovery.core.policy import Budget
from recovery.ports import Journal, Message
from recovery.storage.reading import Whole, read
from recovery.testing.ledger import Event, Executed, Left

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True)
class Askable:
    """What an effect can be asked, beside being sent."""

    can_probe: bool
    can_close: bool
    timeout_us: int
    can_cancel: bool = False


@dataclass(frozen=True, slots=True)
class Again:
    """A recovery without any news, repeated: (entries of the run, requests that had left) before and after."""

    run_id: str
    before: tuple[int, int]
    after: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What stands in the journal, and what really happened. scopes: those that the program has worked in. proven: entries
    that were judged again before; who looks at many worlds hands the same set to each. inboxes: of the runs that rest."""

    runs: Mapping[str, Whole]
    events: tuple[Event, ...]
    effects: Mapping[str, Askable]
    budget: Budget
    stock: Mapping[str, int]
    asked: Mapping[str, int]
    again: tuple[Again, ...] = ()
    unreadable: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    proven: set[Any] | None = None
    inboxes: Mapping[str, Sequence[Message]] = field(default_factory=dict)
    _by_kind: dict[type[Event], list[Any]] = field(init=False, repr=False, compare=False)  # sorted once, for ten promises that ask

    def __post_init__(self) -> None:
        by_kind: dict[type[Event], list[Any]] = {}
        for event in self.events:
            by_kind.setdefault(type(event), []).append(event)
        object.__setattr__(self, "_by_kind", by_kind)

    def of(self, kind: type[E]) -> Sequence[E]:
        """The events of one kind, in order."""
        return self._by_kind.get(kind, ())

    def executions(self) -> dict[str, int]:
        counted: dict[str, int] = {}
        for event in self.of(Executed):
            counted[event.key] = counted.get(event.key, 0) + 1
        return counted

    def sends(self) -> list[Left]:
        return [event for event in self.of(Left) if event.purpose == "send"]

    def intents(self) -> Iterator[tuple[str, Intent]]:
        for run_id, loaded in self.runs.items():
            for entry in loaded.entries:
                if isinstance(entry, Intent):
                    yield run_id, entry


def loaded_runs(
    journal: Journal, spoiled: Collection[str] = (), reading: Callable[[Journal, str], Whole] = read
) -> tuple[dict[str, Whole], frozenset[str]]:
    """Every run, verified, and those of `spoiled` that are refused as corrupt. Raises what `read` raises for any other."""
    runs: dict[str, Whole] = {}
    unreadable: set[str] = set()
    for row in journal.runs():
        try:
            runs[row.run_id] = reading(journal, row.run_id)
        except JournalCorrupt:
            if row.run_id not in spoiled:
                raise
            unreadable.add(row.run_id)
    return runs, frozenset(unreadable)


def attempts_in(entry: Entry) -> list[Attempt]:
    """The attempts that an entry makes durable."""
    if isinstance(entry, Attempt):
        return [entry]
    return [entry.attempt] if isinstance(entry, Intent) and entry.attempt is not None else []


def observation_in(entry: Entry) -> Observation | None:
    """The observation that an entry makes durable."""
    return entry if isinstance(entry, Observation) else entry.observation if isinstance(entry, Settled) else None
