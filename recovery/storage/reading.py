"""Reading a run: rows verified against their chain, decoded and folded, before anybody believes them.

Owns the order load, verify, decode, fold. Invariant: what it returns is whole; a run that does not verify is refused, never repaired.
"""

from __future__ import annotations

from dataclasses import dataclass

from recovery import codec
from recovery.core.chain import Row, broken_at
from recovery.core.contracts import Contract, contract_digest
from recovery.core.entries import ENTRY_FORMAT, Entry, Intent, Observation, Opened, decode
from recovery.core.errors import IncompatibleVersion, JournalCorrupt, RunNotFound
from recovery.core.history import History, fold
from recovery.ports import Evidence, Journal, RunRow


@dataclass(frozen=True, slots=True)
class Loaded:
    """One run as a consistent snapshot: `rows` and `entries` run in parallel, `late` is what stands outside the chain."""

    run: RunRow
    rows: list[Row]
    entries: list[Entry]
    late: list[Evidence]
    history: History
    contracts: dict[str, Contract]

    @property
    def opened(self) -> Opened:
        assert self.history.opened is not None
        return self.history.opened

    @property
    def restored(self) -> bool:
        """Whether the database was declared restored since this run was opened: what was sent in the lost time is not known here."""
        return self.rows[0].epoch.incarnation < self.run.epoch.incarnation


def read(journal: Journal, run_id: str) -> Loaded:
    """The run, verified. Raises RunNotFound, JournalCorrupt, IncompatibleVersion, IllegalHistory, and what the journal raises."""
    found = journal.load(run_id)
    if found is None:
        raise RunNotFound(run_id=run_id, database=journal.url)
    run, rows, contracts = found
    if broken := broken_at(journal.namespace(), run_id, rows, run.head, run.head_digest):
        raise JournalCorrupt(run_id=run_id, seq=broken[0], field=broken[1])
    entries = [_decoded(run_id, row) for row in rows]
    _check_contracts(run_id, entries, contracts)
    late = journal.evidence(run_id)
    observations = [entry for item in late if isinstance(entry := _late(run_id, item), Observation)]
    return Loaded(
        run=run,
        rows=rows,
        entries=entries,
        late=late,
        history=fold(run_id, entries, observations),
        contracts={digest: _contract(run_id, text) for digest, text in contracts.items()},
    )


def _check_contracts(run_id: str, entries: list[Entry], contracts: dict[str, str]) -> None:
    """Contracts stand outside the chain, and each intent names its own by digest: one that is missing or was changed is no promise."""
    whole = {digest for digest, text in contracts.items() if contract_digest(codec.loads(text)) == digest}
    for seq, entry in enumerate(entries, start=1):
        if isinstance(entry, Intent) and entry.contract not in whole:
            raise JournalCorrupt(run_id=run_id, seq=seq, field="contract")


def _contract(run_id: str, text: str) -> Contract:
    """A stored contract, whole or not at all: what a newer version promises less, an older one must not believe more."""
    try:
        return Contract.from_json(codec.loads(text))
    except ValueError as error:
        raise IncompatibleVersion(run_id=run_id, what="a contract", found=str(error), known=ENTRY_FORMAT) from error


def _late(run_id: str, item: Evidence) -> Entry:
    try:
        return decode(item.kind, codec.loads(item.body))
    except ValueError as error:
        raise IncompatibleVersion(run_id=run_id, what="late evidence", found=str(error), known=ENTRY_FORMAT) from error


def _decoded(run_id: str, row: Row) -> Entry:
    """The row's entry. The chain is intact, so what cannot be read was written by a newer version."""
    body = codec.loads(row.body)
    newest = body.get("format", ENTRY_FORMAT)
    if newest > ENTRY_FORMAT:
        raise IncompatibleVersion(run_id=run_id, what=f"entry {row.seq}", found=f"format {newest}", known=ENTRY_FORMAT)
    try:
        return decode(row.kind, body)
    except ValueError as error:
        raise IncompatibleVersion(run_id=run_id, what=f"entry {row.seq}", found=str(error), known=ENTRY_FORMAT) from error
