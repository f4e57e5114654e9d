"""Choosing: the newest checkpoint of a kind that is whole, from whatever holds them.

Owns the choice and what is said of those passed over. Must not know where checkpoints are. Invariant: what is passed over is told with its reason, and
nothing that fails its checks is ever chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeVar

from recovery.checkpoint.continuing import JournalLink, Restored, exposed, later
from recovery.checkpoint.errors import CheckpointError, NothingToRestore
from recovery.checkpoint.kinds import Kind
from recovery.checkpoint.layout import NAME, sequence_of
from recovery.checkpoint.scanning import Candidate, Rejected, rejected
from recovery.checkpoint.validating import Checkpoint

LOOKS: Final = 100
"""How often a reader begins anew because what it was about to read was retired meanwhile. Each time a save has ended."""

S = TypeVar("S")
T = TypeVar("T", contravariant=True)


class Slot(Protocol[T]):
    """Where a run keeps its current state. `swap` is one assignment: it cannot fail half-way."""

    def swap(self, new: T) -> None: ...


class Choosing(Protocol):
    """What stores have in common once they can be looked through and loaded from."""

    def looked(self) -> Iterator[Candidate | Rejected]:
        """Everything that is there, newest first."""
        ...

    def load(self, candidate: Candidate, *, kind: Kind | str | None = None, schema: str | None = None) -> Checkpoint: ...

    def mark_restored(self, candidate: Candidate) -> None:
        """Keep it while the run that was restored from it may need it again."""
        ...

    @property
    def where(self) -> str:
        """Its name, for errors."""
        ...

    def names(self) -> set[str]:
        """The names by which `looked` tells what is there."""
        ...

    def latest(self, kind: Kind | str = Kind.LEARNING) -> Candidate:
        """The newest candidate of a kind, with what was passed over. Raises NothingToRestore."""
        found, passed = self._newest(Kind(kind), lambda each: each)
        return Candidate(found.path, found.manifest, passed)

    def load_latest(
        self, kind: Kind | str = Kind.LEARNING, *, schema: str | None = None
    ) -> tuple[Checkpoint, tuple[Rejected, ...]]:
        """The newest checkpoint of a kind that is whole, and what was passed over. Raises NothingToRestore."""
        wanted = Kind(kind)
        return self._newest(wanted, lambda each: self.load(each, kind=wanted, schema=schema))

    def _newest(self, wanted: Kind, take: Callable[[Candidate], S]) -> tuple[S, tuple[Rejected, ...]]:
        """What `take` makes of the newest candidate that it does not refuse.

        A reader has no lease, so that retention may take away what it is about to read. There is a newer one then: it looks again.
        """
        passed: list[Rejected] = []
        for looks_left in reversed(range(LOOKS)):
            passed, before = [], self.names()
            for each in self.of_kind(wanted, passed):
                if looks_left and self._retired(before, above=sequence_of(each.name)):
                    break  # before an older one is read in its place
                try:
                    return take(each), tuple(passed)
                except (CheckpointError, OSError) as error:
                    passed.append(rejected(each.name, error))
            if not looks_left or not self._retired(before, above=0):
                break
        raise self.nothing(wanted, passed)

    def _retired(self, before: set[str], *, above: int) -> bool:
        """Whether a checkpoint of a later sequence than `above` was there before and is not any more."""
        return any(NAME.fullmatch(name) and sequence_of(name) > above for name in before - self.names())

    def restore(
        self,
        candidate: Candidate,
        *,
        build: Callable[[Checkpoint], T],
        into: Slot[T],
        kind: Kind | str | None = None,
        schema: str | None = None,
        journal: JournalLink | None = None,
    ) -> Restored:
        """Verify everything, build the new state aside, and swap it in once. If anything raises, the current state is as it was.

        journal: that of the run. It is asked which effects came after the state was captured, its looks at final test sets are merged into the
        state, and a commit that it has not heard of is recorded. Without it nothing may be sent that `Restored` was not asked about.

        The checkpoint is marked as the one that was restored before the swap. Raises what `load` raises, and PositionUnknown.
        """
        checkpoint = exposed(self.load(candidate, kind=kind, schema=schema), journal)
        effects = later(checkpoint, journal)
        built = build(checkpoint)
        self.mark_restored(candidate)
        into.swap(built)
        return Restored(checkpoint, effects)

    def of_kind(self, wanted: Kind, passed: list[Rejected]) -> Iterator[Candidate]:
        """The candidates of a kind, newest first; the others are added to `passed` as they are met."""
        for each in self.looked():
            if isinstance(each, Rejected):
                passed.append(each)
            elif each.kind is wanted:
                yield each
            else:
                passed.append(Rejected(each.name, "kind", f"it is of the kind {each.kind}", damaged=False))

    def nothing(self, wanted: Kind, passed: list[Rejected]) -> NothingToRestore:
        """The error that tells what was passed over."""
        told = "; ".join(f"{each.name}: {each.reason}" for each in passed[:5]) or "it is empty"
        return NothingToRestore(store=self.where, kind=wanted.value, rejected=told)
