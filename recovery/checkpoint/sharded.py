"""Sharded saves: several processes of one machine write one checkpoint, and one of them commits it.

Owns what the coordinator and the writers do. What they tell each other is a meeting's and the receipts' business, the commit is `saving`'s. Invariants: a
checkpoint is committed once every writer has made its shard durable, and never otherwise; an attempt that was given up has no way in, so that nothing a
late writer does can reach a checkpoint.

Documents lie in the attempt's own directory and leave it before the manifest is written. Whatever ends the attempt moves that directory, which
is what a late writer is refused by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from recovery.checkpoint import state as states
from recovery.checkpoint.draft import step_of
from recovery.checkpoint.files import remove_tree
from recovery.checkpoint.kinds import Kind, require_stored
from recovery.checkpoint.layout import Place
from recovery.checkpoint.manifest import JournalPosition, Manifest
from recovery.checkpoint.meeting import COORDINATOR, Meeting
from recovery.checkpoint.parts import Handed, require_no_reference
from recovery.checkpoint.readback import ReadBack
from recovery.checkpoint.receipts import receipt_of, tensors_of
from recovery.checkpoint.retention import Keep
from recovery.checkpoint.saving import Known, Record, Session, begun, finish
from recovery.checkpoint.scanning import Candidate
from recovery.checkpoint.shards import Written
from recovery.checkpoint.writer import MEETING, ORDER, RECEIPT, ShardWriter
from recovery.crashpoints import around


@dataclass(frozen=True)
class Terms:
    """What a sharded save is to be. `deadline` counts from its beginning; `now_us` and `pause` are the clock that it is measured by."""

    kind: Kind
    writers: int
    deadline: timedelta
    state: Any = field(default_factory=dict)
    step: int | None = None
    journal: JournalPosition | None = None
    fingerprint: str = ""
    record: Record | None = None
    needed_bytes: int = 0
    clock: Mapping[str, Callable[..., Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Shop:
    """What a store lends to its saves."""

    place: Place
    known: Known
    keep: Keep
    read_back: ReadBack
    wait_seconds: float


class Sharded:
    """A sharded save under way, for the process that coordinates it. `attempt`: what writers are told, by argument or environment.

    `candidate` is the checkpoint once the block that it was begun with has been left.
    """

    def __init__(self, shop: Shop, session: Session, terms: Terms, state: bytes) -> None:
        self.candidate: Candidate | None = None
        self.attempt = session.attempt.path
        self._shop, self._session, self._terms, self._state = shop, session, terms, state
        self._meeting = Meeting(
            shop.place.disk,
            self.attempt / MEETING,
            shop.place.limits,
            COORDINATOR,
            terms.writers,
            terms.deadline.total_seconds(),
            "save",
            "writer",
            **terms.clock,
        )

    def writer(self, index: int) -> ShardWriter:
        """A writer in this process."""
        return ShardWriter(self._shop.place, self.attempt, index, read_back=self._shop.read_back)

    def open(self) -> None:
        """Let writers in."""
        with around("checkpoint.begin"):
            self._shop.place.disk.make_directory(self.attempt / MEETING)
        self._meeting.tell(ORDER, {"writers": self._terms.writers, "kind": self._terms.kind.value})

    def commit(self) -> Candidate:
        """Wait for every receipt, then validate and commit. Raises WritersMissing, RankFailed, CheckpointInvalid, SaveFailed."""
        place, terms, attempt = self._shop.place, self._terms, self._session.attempt
        heard = self._meeting.hear(RECEIPT)
        receipts = [receipt_of(heard[n], place.limits, attempt=self.attempt.name, writer=n) for n in sorted(heard)]
        with around("checkpoint.remove"):
            remove_tree(place.disk, self.attempt / MEETING)
        tensors = tensors_of(receipts)
        require_no_reference(terms.kind, terms.state, tensors)
        entries = [receipt.shard for receipt in receipts if receipt.shard is not None]
        manifest = Manifest(
            kind=terms.kind,
            sequence=self._session.sequence,
            step=step_of(terms.state) if terms.step is None else terms.step,
            parent=self._session.parent,
            writers=terms.writers,
            files=(*entries, attempt.write_state(self._state)),
            tensors=tensors,
            journal=terms.journal,
            fingerprint=terms.fingerprint,
        )
        evidence = Handed(place.disk, attempt.path, place.limits, manifest)
        written = [Written(entry, evidence.header(entry)) for entry in entries]
        shop = self._shop
        return finish(
            place,
            shop.known,
            self._session,
            manifest,
            evidence,
            written,
            keep=shop.keep,
            policy=shop.read_back,
            record=terms.record,
        )


class _Left(Exception):  # it is not raised to anybody
    """The block of a save was left by an error of its own, which is not one of the disk."""

    def __init__(self, error: OSError) -> None:
        self.error = error


@contextmanager
def sharded(shop: Shop, terms: Terms) -> Iterator[Sharded]:
    """Begin an attempt; commit it when the block ends, or abandon it when the block raises."""
    require_stored(terms.kind)
    state = states.to_bytes(terms.state, shop.place.limits)
    needed = terms.needed_bytes + len(state)
    try:
        with begun(shop.place, shop.known, needed_bytes=needed, wait_seconds=shop.wait_seconds) as session:
            save = Sharded(shop, session, terms, state)
            save.open()
            try:
                yield save
            except OSError as error:
                raise _Left(error) from error
            save.candidate = save.commit()
    except _Left as left:
        raise left.error from left.error.__cause__
