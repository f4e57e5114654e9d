"""Reading a run: rows verified against their chain, decoded and folded, before anybody believes them.

Owns the order load, verify, decode, fold. Invariant: what it returns is whole; a run that does not verify is refused, never repaired. Who only
looks leaves values that lie out of line where they are: a `Withheld` then stands for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from recovery import codec
from recovery.core.chain import Row, broken_at
from recovery.core.contracts import Contract, contract_digest
from recovery.core.entries import ENTRY_FORMAT, JSON, Entry, Observation, Opened, OutcomeKind, Status, latest_us
from recovery.core.errors import IncompatibleVersion, JournalCorrupt, RunForgotten, RunNotFound
from recovery.core.history import History, fold
from recovery.core.instants import iso
from recovery.core.showing import Withheld
from recovery.ports import Evidence, Journal, RunRow, Stub
from recovery.storage.resting import Reference, is_intact, references, rest, wake

AT_ONCE: Final = 32 * 1024 * 1024
"""Bytes of payloads that are fetched by one query: what a load needs beside the values themselves."""

ENDS: Final = {
    OutcomeKind.APPLIED: Status.COMPLETED,
    OutcomeKind.FAILED: Status.FAILED,
    OutcomeKind.CANCELLED: Status.CANCELLED,
}
"""The status of a run that ended so."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """One run as a consistent snapshot: `rows` and `entries` run in parallel, `late` is what stands outside the chain, and `told` what that says.

    incarnation: the database's, which a run takes over only with its next claim.
    """

    run: RunRow
    rows: list[Row]
    entries: list[Entry]
    late: list[Evidence]
    told: list[Entry]
    history: History
    contracts: dict[str, Contract]
    incarnation: int

    @property
    def opened(self) -> Opened:
        assert self.history.opened is not None
        return self.history.opened

    @property
    def restored(self) -> bool:
        """Whether the database was declared restored since this run was opened: what was sent in the lost time is not known here."""
        return self.rows[0].epoch.incarnation < self.incarnation

    @property
    def highest_us(self) -> int:
        """The highest time in the chain: no clock may read less from here on. The run's own row has no digest: nobody's clock follows it."""
        return max(latest_us(entry) for entry in self.entries)


class Parts(NamedTuple):
    """A run as it is stored: nothing of it has been verified."""

    namespace: str
    incarnation: int
    run: RunRow
    rows: list[Row]
    contracts: dict[str, str]
    late: list[Evidence]


class Beside(Protocol):
    """What lies beside the rows; a journal is one."""

    def payloads(self, digests: Sequence[str]) -> dict[str, bytes]: ...
    def stub(self, run_id: str) -> Stub | None: ...


def read(journal: Journal, run_id: str, *, values: bool = True) -> Loaded:
    """The run, verified. values: with everything that lies out of line, each distinct payload once, which is what such a run takes in memory.

    Raises RunNotFound, RunForgotten, JournalCorrupt, IncompatibleVersion, IllegalHistory, and what the journal raises."""
    found = journal.load(run_id)
    if found is None:
        raise RunNotFound(run_id=run_id, database=journal.url)
    run, rows, contracts = found
    if not rows and (stub := journal.stub(run_id)) is not None:
        raise _forgotten(run, stub)
    parts = Parts(journal.namespace(), journal.incarnation(), run, rows, contracts, journal.evidence(run_id))
    return assembled(parts, journal, values=values)


def assembled(parts: Parts, beside: Beside, *, values: bool = True) -> Loaded:
    """A run from its parts, verified, wherever they were kept. Raises as `read`, but for what a journal raises."""
    namespace, incarnation, run, rows, contracts, late = parts
    run_id = run.run_id
    if broken := broken_at(namespace, run_id, rows, run.head, run.head_digest):
        raise JournalCorrupt(run_id=run_id, seq=broken[0], field=broken[1])
    bodies = [_body(run_id, f"entry {row.seq}", row.body) for row in rows]
    value_of = _fetched(beside, run, rows, bodies) if values else _withheld
    entries = [_woken(run_id, f"entry {row.seq}", row.kind, body, value_of) for row, body in zip(rows, bodies, strict=True)]
    told = [_told(item, values=values) for item in late]
    history = fold(run_id, entries, [entry for entry in told if isinstance(entry, Observation)])
    if misfit := _misfit(run, rows, history):
        raise JournalCorrupt(run_id=run_id, seq=run.head, field=f"the run's {misfit}")
    return Loaded(
        run=run,
        rows=rows,
        entries=entries,
        late=late,
        told=told,
        history=history,
        contracts=_contracts(run_id, history, contracts),
        incarnation=incarnation,
    )


def _told(item: Evidence, *, values: bool) -> Entry:
    """What an item of late evidence says. It lies in one piece, and is compared with entries whose values may have been left where they are."""
    entry = _woken(item.run_id, "late evidence", item.kind, _body(item.run_id, "late evidence", item.body), _withheld)
    return entry if values else glanced(item.kind, rest(entry).body)


def _fetched(beside: Beside, run: RunRow, rows: list[Row], bodies: list[dict[str, JSON]]) -> Callable[[Reference], JSON]:
    """Every value that the rows say lies elsewhere, verified. Raises JournalCorrupt naming the entry and the field of one that is not there."""
    wanted: dict[str, tuple[int, Reference]] = {}
    for row, body in zip(rows, bodies, strict=True):
        for each in _references(run, row, body):
            wanted.setdefault(each.digest, (row.seq, each))
    values: dict[str, JSON] = {}
    for group in _groups([each for _, each in wanted.values()]):
        bytes_of = beside.payloads([each.digest for each in group])
        for each in group:
            found = bytes_of.get(each.digest)
            if found is None or not is_intact(each, found):
                raise _missing(beside, run, wanted[each.digest][0], each)
            values[each.digest] = codec.loads(found.decode())
    return lambda reference: values[reference.digest]


def digests_of(loaded: Loaded) -> list[str]:
    """The digests of all that the rows of a run refer to."""
    bodies = [_body(loaded.run.run_id, f"entry {row.seq}", row.body) for row in loaded.rows]
    return sorted(
        {each.digest for row, body in zip(loaded.rows, bodies, strict=True) for each in _references(loaded.run, row, body)}
    )


def _references(run: RunRow, row: Row, body: dict[str, JSON]) -> list[Reference]:
    try:
        return references(body)
    except ValueError as error:
        raise IncompatibleVersion(run_id=run.run_id, what=f"entry {row.seq}", found=str(error), known=ENTRY_FORMAT) from error


def _groups(wanted: list[Reference]) -> list[list[Reference]]:
    """Such that each but for a single large one stays below AT_ONCE."""
    groups: list[list[Reference]] = []
    size = AT_ONCE
    for each in wanted:
        size += each.size
        if size > AT_ONCE:
            groups.append([])
            size = each.size
        groups[-1].append(each)
    return groups


def _missing(beside: Beside, run: RunRow, seq: int, reference: Reference) -> RunForgotten | JournalCorrupt:
    """Why a payload is not what its row names: the run may have been forgotten since its rows were read."""
    stub = beside.stub(run.run_id)
    if stub is not None:
        return _forgotten(run, stub)
    return JournalCorrupt(run_id=run.run_id, seq=seq, field=f"the payload of {reference.field}")


def _withheld(reference: Reference) -> Withheld:
    return Withheld("stored out of line", digest=reference.digest, bytes=reference.size)


def _forgotten(run: RunRow, stub: Stub) -> RunForgotten | JournalCorrupt:
    """That the run was forgotten, as its stub says. A stub has no digest."""
    try:
        at = iso(stub.at_us)
    except (OverflowError, TypeError):
        return JournalCorrupt(run_id=run.run_id, seq=run.head, field="the stub's time")
    return RunForgotten(
        run_id=run.run_id, status=run.status.value, by=stub.by, at=at, reason=stub.reason, outcome_digest=stub.outcome_digest
    )


def _misfit(run: RunRow, rows: list[Row], history: History) -> str | None:
    """What the run's own row says differently from its journal. It has no digest, and is what decides whether and by whom a run goes on."""
    opened, ended = history.opened, history.ended
    if opened is None or (run.workflow, run.input_digest) != (opened.workflow, opened.input_digest):
        return "workflow or input"
    if run.epoch < rows[-1].epoch:
        return "epoch"
    if run.status.settled != (ended is not None) or (ended is not None and run.status is not ENDS.get(ended.outcome)):
        return "status"
    return None


def _contracts(run_id: str, history: History, texts: dict[str, str]) -> dict[str, Contract]:
    """The contracts that the run's intents were written under. Without the pinned one, a later one would be believed alone."""
    found: dict[str, Contract] = {}
    for effect in history.effects:
        digest = effect.intent.contract
        if digest not in texts:
            raise JournalCorrupt(run_id=run_id, seq=effect.seq, field="contract")
        if digest not in found:
            found[digest] = _contract(run_id, effect.seq, digest, texts[digest])
    return found


def _contract(run_id: str, seq: int, digest: str, text: str) -> Contract:
    """A stored contract, whole or not at all: what a newer version promises less, an older one must not believe more."""
    try:
        body = codec.loads(text)
        if contract_digest(body) != digest:
            raise ValueError
    except (ValueError, TypeError) as error:
        raise JournalCorrupt(run_id=run_id, seq=seq, field="contract") from error
    try:
        return Contract.from_json(body)
    except ValueError as error:
        raise IncompatibleVersion(run_id=run_id, what="a contract", found=str(error), known=ENTRY_FORMAT) from error


def _body(run_id: str, what: str, text: str) -> dict[str, JSON]:
    """The fields of a row. Its digest was right, so what cannot be read was written by a newer version."""
    body: dict[str, JSON] = codec.loads(text)
    newest = body.get("format", ENTRY_FORMAT)
    if newest > ENTRY_FORMAT:
        raise IncompatibleVersion(run_id=run_id, what=what, found=f"format {newest}", known=ENTRY_FORMAT)
    return body


def _woken(run_id: str, what: str, kind: str, body: dict[str, JSON], value_of: Callable[[Reference], Any]) -> Entry:
    try:
        return wake(kind, body, value_of)
    except ValueError as error:
        raise IncompatibleVersion(run_id=run_id, what=what, found=str(error), known=ENTRY_FORMAT) from error


def glanced(kind: str, text: str) -> Entry:
    """The entry in one row's body, without what lies elsewhere. Raises ValueError on what this version does not know."""
    return wake(kind, codec.loads(text), _withheld)
