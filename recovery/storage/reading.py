"""Reading a run: rows verified against their chain, decoded and folded, before anybody believes them.

Owns the order load, verify, decode, fold. Invariant: what it returns is whole; a run that does not verify is refused, never repaired.
"""

from __future__ import annotations

from dataclasses import dataclass

from recovery import codec
from recovery.core.chain import Row, broken_at
from recovery.core.contracts import Contract, contract_digest
from recovery.core.entries import ENTRY_FORMAT, Entry, Observation, Opened, OutcomeKind, Status, decode, latest_us
from recovery.core.errors import IncompatibleVersion, JournalCorrupt, RunForgotten, RunNotFound
from recovery.core.history import History, fold
from recovery.core.instants import iso
from recovery.ports import Evidence, Journal, RunRow, Stub


@dataclass(frozen=True, slots=True)
class Loaded:
    """One run as a consistent snapshot: `rows` and `entries` run in parallel, `late` is what stands outside the chain.

    incarnation: the database's, which a run takes over only with its next claim.
    """

    run: RunRow
    rows: list[Row]
    entries: list[Entry]
    late: list[Evidence]
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


def read(journal: Journal, run_id: str) -> Loaded:
    """The run, verified. Raises RunNotFound, RunForgotten, JournalCorrupt, IncompatibleVersion, IllegalHistory, and what the journal raises."""
    found = journal.load(run_id)
    if found is None:
        raise RunNotFound(run_id=run_id, database=journal.url)
    run, rows, contracts = found
    if not rows and (stub := journal.stub(run_id)) is not None:
        raise _forgotten(run, stub)
    return assembled(journal.namespace(), journal.incarnation(), run, rows, contracts, journal.evidence(run_id))


def assembled(
    namespace: str, incarnation: int, run: RunRow, rows: list[Row], contracts: dict[str, str], late: list[Evidence]
) -> Loaded:
    """A run from its parts, verified, wherever they were kept. Raises as `read`, but for what a journal raises."""
    run_id = run.run_id
    if broken := broken_at(namespace, run_id, rows, run.head, run.head_digest):
        raise JournalCorrupt(run_id=run_id, seq=broken[0], field=broken[1])
    entries = [_decoded(run_id, f"entry {row.seq}", row.kind, row.body) for row in rows]
    told = [_decoded(run_id, "late evidence", item.kind, item.body) for item in late]
    history = fold(run_id, entries, [entry for entry in told if isinstance(entry, Observation)])
    if misfit := _misfit(run, rows, history):
        raise JournalCorrupt(run_id=run_id, seq=run.head, field=f"the run's {misfit}")
    return Loaded(
        run=run,
        rows=rows,
        entries=entries,
        late=late,
        history=history,
        contracts=_contracts(run_id, history, contracts),
        incarnation=incarnation,
    )


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
    completed = ended is not None and ended.outcome is OutcomeKind.APPLIED
    if run.status.settled != (ended is not None) or (run.status is Status.COMPLETED) != completed:
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


def _decoded(run_id: str, what: str, kind: str, text: str) -> Entry:
    """An entry. Its digest was right, so what cannot be read was written by a newer version."""
    body = codec.loads(text)
    newest = body.get("format", ENTRY_FORMAT)
    if newest > ENTRY_FORMAT:
        raise IncompatibleVersion(run_id=run_id, what=what, found=f"format {newest}", known=ENTRY_FORMAT)
    try:
        return decode(kind, body)
    except ValueError as error:
        raise IncompatibleVersion(run_id=run_id, what=what, found=str(error), known=ENTRY_FORMAT) from error
