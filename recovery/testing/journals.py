"""A process's view of the shared journal and clock: what it may reach while it lives, with everything written down in the ledger.

Owns the wrapping of ports. Must not know what entries mean. Invariant: a dead process reaches nothing, and an append is in the ledger if
and only if the store committed it, whether or not anybody heard so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeVar

from recovery import codec
from recovery.clocks import Mark
from recovery.core.chain import Row
from recovery.core.entries import Attempt, Decision, Entry, Intent, Observation, Opened, Override, Settled, Verdict
from recovery.core.errors import StoreUnavailable
from recovery.core.ids import Epoch
from recovery.core.limits import Rate
from recovery.core.showing import shown
from recovery.ports import (
    Append,
    Appended,
    AppendResult,
    Delivered,
    Delivery,
    Due,
    Evidence,
    Fenced,
    Hold,
    Journal,
    Message,
    NewRun,
    NotOpen,
    Owner,
    RunRow,
    Scheduled,
    SlotTaken,
    Stored,
    Stub,
    Wanted,
)
from recovery.storage.one_by_one import OneByOne
from recovery.storage.opening import glanced
from recovery.testing.clock import ManualClock
from recovery.testing.footprints import row_text
from recovery.testing.ledger import Claimed, Durable, RefusedAppend
from recovery.testing.process import Process

T = TypeVar("T")

_DELIVERY: Final = {Delivered: "is in the inbox", SlotTaken: "comes second and is refused", NotOpen: "finds no open run"}


@dataclass(slots=True)
class Host:
    """What goes wrong on the host of all workers. skew_us: its wall clock against the true time. full: its disk. refuses: the next writes
    to the journal fail, and nothing of them is stored. unheard: the next writes are stored and nobody hears so; True: the store
    repeats the write as it stands, as ours do; False: it gives up, and its caller does not know."""

    skew_us: int = 0
    full: bool = False
    refuses: int = 0
    unheard: list[bool] = field(default_factory=list)


class ProcessClock:
    """`ports.Clock` of one process."""

    def __init__(self, clock: ManualClock, process: Process, host: Host) -> None:
        self._clock = clock
        self._process = process
        self._host = host
        self._mark = Mark()

    def wall_us(self) -> int:
        self._process.check()
        return self._read(self._mark.lift(self._clock.wall_us() + self._host.skew_us, self._clock.boot_us()))

    def boot_us(self) -> int:
        self._process.check()
        return self._read(self._clock.boot_us())

    def asks(self) -> bool:
        return self._clock.asks()

    def skip(self, seconds: float) -> bool:
        self._process.check()
        return self._clock.skip(seconds)

    def raise_mark(self, at_us: int) -> None:
        self._process.check()
        self._mark.lift(at_us, self._clock.boot_us())

    def _read(self, shown_us: int) -> int:
        self._process.footprint.timed = True
        self._process.footprint.feed(shown_us)
        return shown_us


class ProcessJournal(OneByOne):
    """`ports.Journal` of one process."""

    def __init__(self, journal: Journal, process: Process, host: Host) -> None:
        self._inner = journal
        self._process = process
        self._host = host
        self.url = journal.url
        self.vault = journal.vault

    def namespace(self) -> str:
        return self._read(lambda journal: journal.namespace())

    def incarnation(self) -> int:
        return self._read(lambda journal: journal.incarnation())

    def raise_incarnation(self, seen: int, to: int) -> int:
        return self._write(lambda journal: journal.raise_incarnation(seen, to))

    def open_run(self, new: NewRun) -> RunRow | None:
        def opened(journal: Journal) -> RunRow | None:
            known, row = journal.find(new.run_id), journal.open_run(new)
            if row is not None and known is None:
                self._claimed(row, "opens")
                self._durable(new.run_id, new.rows)
            return row

        return self._write(opened)

    def open_runs(self, batch: Sequence[NewRun]) -> list[RunRow | None]:
        return [self.open_run(new) for new in batch]

    def find(self, run_id: str) -> RunRow | None:
        return self._read(lambda journal: journal.find(run_id))

    def find_all(self, run_ids: Sequence[str]) -> dict[str, RunRow]:
        return self._read(lambda journal: journal.find_all(run_ids))

    def runs(self, **asked: Any) -> list[RunRow]:
        return self._read(lambda journal: journal.runs(**asked))

    def claim(self, seen: RunRow, owner: Owner, *, lease_term_us: int, at_us: int) -> RunRow | None:
        def claimed(journal: Journal) -> RunRow | None:
            row = journal.claim(seen, owner, lease_term_us=lease_term_us, at_us=at_us)
            if row is None:
                self._process.tell(f"loses the claim on {seen.run_id}")
            else:
                self._claimed(row, "claims")
            return row

        return self._write(claimed)

    def due(self, wanted: Wanted) -> Due:
        return self._read(lambda journal: journal.due(wanted))

    def claim_due(self, wanted: Wanted, owner: Owner, *, lease_term_us: int) -> Due:
        def claimed(journal: Journal) -> Due:
            found = journal.claim_due(wanted, owner, lease_term_us=lease_term_us)
            for row in found.runs:
                self._claimed(row, "claims")
            return found

        return self._write(claimed)

    def take(self, subject: str, rate: Rate, now_us: int) -> int | None:
        return self._write(lambda journal: journal.take(subject, rate, now_us))

    def schedules(self) -> list[Scheduled]:
        return self._read(lambda journal: journal.schedules())

    def keep_schedule(self, row: Scheduled) -> bool:
        return self._write(lambda journal: journal.keep_schedule(row))

    def owned(self, after: tuple[str, str] = ("", ""), limit: int = 1000) -> list[RunRow]:
        return self._read(lambda journal: journal.owned(after, limit))

    def renew(self, run_id: str, owner: str, epoch: Epoch) -> bool:
        return self._write(lambda journal: journal.renew(run_id, owner, epoch))

    def release(self, run_id: str, owner: str, epoch: Epoch, due_us: int | None = None) -> bool:
        return self._write(lambda journal: journal.release(run_id, owner, epoch, due_us))

    def stream(self, run_id: str, take: Callable[[Stored], T]) -> T | None:
        def noted(stored: Stored) -> T:
            """The last digest of a chain stands for all of its rows."""
            portions = [list(portion) for portion in stored.portions]
            last = portions[-1][-1][-1] if portions else ""
            self._process.footprint.feed((row_text(stored.run), sum(map(len, portions)), last, sorted(stored.contracts)))
            return take(stored._replace(portions=portions))

        return self._live().stream(run_id, noted)

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        if self._host.full:
            self._live()
            self._process.tell("append refused: the disk is full")
            raise self._unavailable("the disk is full")
        committed: list[AppendResult] = []

        def appended(journal: Journal) -> list[AppendResult]:
            results = journal.append(batch)
            for member, result in zip(batch, results, strict=True) if not committed else ():
                if isinstance(result, Appended):
                    self._durable(member.run_id, member.rows)
                else:
                    self._refused(member, "fenced" if isinstance(result, Fenced) else "its key belongs to another step")
            committed.extend(results)
            return results

        return self._write(appended)

    def first_rows(self, run_ids: Sequence[str]) -> dict[str, Row]:
        return self._read(lambda journal: journal.first_rows(run_ids))

    def payloads(self, digests: Sequence[str]) -> dict[str, bytes]:
        return self._read(lambda journal: journal.payloads(digests))

    def key_owner(self, environment: str, scope: str, key: str) -> tuple[str, str, str] | None:
        return self._read(lambda journal: journal.key_owner(environment, scope, key))

    def add_evidence(self, evidence: Evidence) -> None:
        def kept(journal: Journal) -> None:
            journal.add_evidence(evidence)
            self._process.tell(f"keeps late evidence about {evidence.step}")

        self._write(kept)

    def evidence(self, run_id: str) -> list[Evidence]:
        return self._read(lambda journal: journal.evidence(run_id))

    def deliver(self, message: Message) -> Delivery:
        def delivered(journal: Journal) -> Delivery:
            came = journal.deliver(message)
            told = _DELIVERY[type(came)]
            self._process.tell(f"{message.kind} {message.name} for {message.run_id} {told}")
            return came

        return self._write(delivered)

    def overheard(self, run_id: str) -> list[Message]:
        """What a renewal of the lease would have heard by now. An empty inbox leaves no mark on its reader."""
        return self.inbox(run_id) if self._inner.inbox(run_id) else []

    def inbox(self, run_id: str, after: int = 0) -> list[Message]:
        return self._read(lambda journal: journal.inbox(run_id, after))

    def add_hold(self, hold: Hold) -> None:
        def kept(journal: Journal) -> None:
            journal.add_hold(hold)
            self._process.tell(f"{'holds' if hold.held else 'releases'} a contract: {hold.reason}")

        self._write(kept)

    def holds(self) -> list[Hold]:
        return self._read(lambda journal: journal.holds())

    def forget(self, seen: RunRow, stub: Stub) -> bool:
        return self._write(lambda journal: journal.forget(seen, stub))

    def stub(self, run_id: str) -> Stub | None:
        return self._read(lambda journal: journal.stub(run_id))

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        return self._inner.listen(wake)

    def now_us(self) -> int:
        return self._read(lambda journal: journal.now_us())

    def close(self) -> None:
        """The journal is the world's, not this process's."""

    def _live(self) -> Journal:
        self._process.check()
        self._process.footprint.touched = True
        return self._inner

    def _read(self, ask: Callable[[Journal], T]) -> T:
        came = ask(self._live())
        self._process.footprint.feed(_gist(came))
        return came

    def _write(self, write: Callable[[Journal], T]) -> T:
        """Write, and hear so, unless the host has it otherwise. Raises StoreUnavailable."""
        journal, host, process = self._live(), self._host, self._process
        if host.refuses:
            host.refuses -= 1
            process.tell("a write fails, and nothing of it is stored")
            process.footprint.feed("unavailable")
            raise self._unavailable("the write failed")
        process.footprint.wrote = True
        came = write(journal)
        if host.unheard:
            if not host.unheard.pop(0):
                process.tell("hears nothing of that write")
                process.footprint.feed("unavailable")
                raise self._unavailable("its acknowledgement is lost")
            process.tell("hears nothing of that write, and repeats it as it stands")
            came = write(journal)
        process.footprint.feed(_gist(came))
        return came

    def _unavailable(self, problem: str) -> StoreUnavailable:
        return StoreUnavailable(url=self.url, problem=problem, fate="Whether the last write is stored is unknown")

    def _claimed(self, row: RunRow, verb: str) -> None:
        process = self._process
        event = Claimed(at_us=process.now_us(), process=process.name, run_id=row.run_id, epoch=str(row.epoch))
        process.ledger.add(event, process.name, f"{verb} {row.run_id} at epoch {row.epoch}")

    def _durable(self, run_id: str, rows: Sequence[Row]) -> None:
        process = self._process
        entries = decoded(rows)
        event = Durable(
            at_us=process.now_us(), process=process.name, run_id=run_id, epoch=str(rows[0].epoch), first_seq=rows[0].seq, entries=entries
        )  # fmt: skip
        process.ledger.add(
            event, process.name, "; ".join(f"[{row.seq}] {in_words(entry)}" for row, entry in zip(rows, entries, strict=True))
        )

    def _refused(self, member: Append, why: str) -> None:
        process, entries = self._process, decoded(member.rows)
        event = RefusedAppend(
            at_us=process.now_us(), process=process.name, run_id=member.run_id, epoch=str(member.epoch), entries=entries
        )
        process.ledger.add(event, process.name, f"append refused, {why}: {'; '.join(map(in_words, entries))}")


def _gist(came: object) -> object:
    """What tells two results apart."""
    match came:
        case RunRow():
            return row_text(came)
        case _:
            return came


def decoded(rows: Iterable[Row]) -> tuple[Entry, ...]:
    return tuple(_glanced(row.kind, row.body) for row in rows)


_glanced: Final = lru_cache(maxsize=4096)(glanced)
"""Whoever reads the ledger changes nothing in it, and the histories of a search append the same rows again and again."""


def in_words(entry: Entry) -> str:
    """One entry, for the transcript. Derived keys differ from database to database and are not shown."""
    match entry:
        case Opened():
            return f"opened {entry.workflow} {codec.dumps(shown(entry.input))}"
        case Decision():
            return f"{entry.form or 'decision'} {entry.step} = {codec.dumps(shown(entry.value))}"
        case Intent():
            first = f", attempt {entry.attempt.number} {entry.attempt.purpose}" if entry.attempt else ""
            return f"intent {entry.step} {entry.effect} {codec.dumps(shown(entry.arguments))}{first}"
        case Attempt():
            return f"attempt {entry.number} of {entry.step}: {entry.purpose}"
        case Observation():
            return f"observation of {entry.step}: {entry.source.value} says {entry.answer.kind.value}"
        case Verdict():
            return f"verdict on {entry.step}: {entry.row} ({entry.action})"
        case Override():
            return f"{entry.verb.value} of {entry.step or 'the run'} by {entry.by}"
        case Settled():
            row = f" by {entry.row}" if entry.row else ""
            said = f" {entry.error}" if entry.error else ""
            return f"settled {entry.step or 'the run'}: {entry.outcome.value}{said}{row} {codec.dumps(shown(entry.value))}"
