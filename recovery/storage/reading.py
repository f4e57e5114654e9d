"""Reading: a run as it is handed on: whole, verified, and as much of it as is wanted.

Owns what a reading of a run gives, and what its row must not say otherwise than its journal does. Invariant: what it returns is whole; a run that does not
verify is refused, never repaired. Who goes on with a run lets its rows go as they come, who looks at it keeps them; who only looks may leave values that lie
out of line where they are: a `Withheld` then stands for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

from recovery import texts
from recovery.core.chain import Row
from recovery.core.contracts import Contract, contract_digest
from recovery.core.entries import ENTRY_FORMAT, Entry, Observation, Opened, OutcomeKind, Status
from recovery.core.errors import IncompatibleVersion, JournalCorrupt, RunForgotten, RunNotFound
from recovery.core.heartbeats import HEARTBEAT
from recovery.core.history import History, hear
from recovery.core.ids import Epoch
from recovery.core.instants import iso
from recovery.core.key_errors import EncryptionKeyMissing
from recovery.ports import Evidence, Journal, RunRow, Stored, Stub
from recovery.storage.alike import Form
from recovery.storage.beating import hear as hear_beats
from recovery.storage.folding import Folding
from recovery.storage.resting import Sealing
from recovery.vaults import Vault

L = TypeVar("L", bound="Loaded")

ENDS: Final = {
    OutcomeKind.APPLIED: Status.COMPLETED,
    OutcomeKind.FAILED: Status.FAILED,
    OutcomeKind.CANCELLED: Status.CANCELLED,
}
"""The status of a run that ended so."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """One run as a consistent snapshot, for who goes on with it: `late` is what stands outside the chain, and `told` what that says.

    restored: the database was declared restored since this run was opened: what was sent in the lost time is not known here.
    highest_us: the highest time in the chain: no clock may read less from here on. The run's own row has no digest: nobody's clock follows it.
    epoch: of the last entry. incarnation: the database's, which a run takes over only with its next claim. sealing: how what is appended to it is
    encrypted; None: not at all. unopened: the ids of the keys that were not here, and under which some of it is encrypted.
    """

    run: RunRow
    highest_us: int
    late: list[Evidence]
    told: list[Entry]
    history: History
    contracts: dict[str, Contract]
    epoch: Epoch
    incarnation: int
    restored: bool
    sealing: Sealing | None
    unopened: frozenset[str]

    @property
    def opened(self) -> Opened:
        assert self.history.opened is not None
        return self.history.opened


@dataclass(frozen=True, slots=True)
class Whole(Loaded):
    """The same for who looks at it: `rows` and `entries` run in parallel. found: the entries; in the place of one that
    nobody has asked for yet stands what reads it, and from what."""

    rows: list[Row]
    found: list[Entry | tuple[Form, str]]

    @property
    def entries(self) -> list[Entry]:
        """What its rows say, each read once."""
        for place, each in enumerate(self.found):
            if isinstance(each, tuple):
                form, kept = each
                self.found[place] = form.read(self.rows[place].step, kept)
        return self.found  # type: ignore[return-value]  # by now each is an entry


def read(journal: Journal, run_id: str, *, values: bool = True) -> Whole:
    """The run with all its rows, verified. values: with everything that is encrypted or lies out of line, each distinct payload once, which is what such a
    run takes in memory; without, `Withheld` stands for what lies out of line, and for what is encrypted under a key that is not here.

    Raises RunNotFound, RunForgotten, JournalCorrupt, IncompatibleVersion, IllegalHistory, EncryptionKeyMissing, EncryptionKeyWrong, and what the
    journal raises."""
    return whole(_folded(journal, run_id, values=values, keeps=True))


def recalled(journal: Journal, run_id: str) -> Loaded:
    """The run as who goes on with it needs it, verified; in memory is what its history keeps, and no more than a portion of its rows. Raises as `read`."""
    return _made(Loaded, _folded(journal, run_id, values=True, keeps=False))


def legible(journal: Journal, run_id: str) -> Whole:
    """The run with its values, or as far as it can be read without the keys that are not here. For looking only. Raises as `read`."""
    try:
        return read(journal, run_id)
    except EncryptionKeyMissing:
        return read(journal, run_id, values=False)


def assembled(stored: Stored, vault: Vault | None) -> Loaded:
    """A run as it comes, wherever it was kept, as `recalled`. Raises as that, but for what a journal raises."""
    return _made(Loaded, Folding(stored, vault))


def _folded(journal: Journal, run_id: str, *, values: bool, keeps: bool) -> Folding:
    vault = journal.vault
    found = journal.stream(run_id, lambda stored: Folding(stored, vault, values=values, keeps=keeps))
    if found is None:
        raise RunNotFound(run_id=run_id, database=journal.url)
    if not found.chain.length and (stub := journal.stub(run_id)) is not None:
        raise _forgotten(found.stored.run, stub)
    return found


def whole(found: Folding) -> Whole:
    """What all rows of a run came to. Raises as `read`, but for what a journal raises."""
    return _made(Whole, found, rows=found.rows, found=found.found)


def _made(kind: Callable[..., L], found: Folding, /, **more: object) -> L:
    found.check()
    stored, history, opening, chain = found.stored, found.history, found.opening, found.chain
    run, late = stored.run, [item for item in stored.late if item.kind != HEARTBEAT]
    told = [opening.told(item) for item in late]
    # Two values that were not read cannot be compared, nor one that was with one that was not.
    heard = told if opening.comparable else []
    hear(history, [entry for entry in heard if isinstance(entry, Observation)])
    hear_beats(history, [item for item in stored.late if item.kind == HEARTBEAT], found.sealing)
    if misfit := _misfit(found):
        raise JournalCorrupt(run_id=run.run_id, seq=run.head, field=f"the run's {misfit}")
    return kind(
        run=run,
        highest_us=found.highest_us,
        late=late,
        told=told,
        history=history,
        contracts=_contracts(found),
        epoch=chain.last,
        incarnation=stored.incarnation,
        restored=chain.first.incarnation < stored.incarnation,
        sealing=found.sealing,
        unopened=frozenset(opening.unopened),
        **more,
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


def _misfit(found: Folding) -> str | None:
    """What the run's own row says differently from its journal. It has no digest, and is what decides whether and by whom a run goes on."""
    run, opened, ended = found.stored.run, found.history.opened, found.history.ended
    if opened is None or run.workflow != opened.workflow or not found.opening.is_digest(run.input_digest, opened.input_digest):
        return "workflow or input"
    if run.epoch < found.chain.last:
        return "epoch"
    if run.status.settled != (ended is not None) or (ended is not None and run.status is not ENDS.get(ended.outcome)):
        return "status"
    return None


def _contracts(found: Folding) -> dict[str, Contract]:
    """The contracts that the run's intents were written under, in every generation: what an earlier one did and the run reuses is still undone.
    Without the pinned one, a later one would be believed alone."""
    run_id, stated = found.history.run_id, found.stored.contracts
    for digest, seq in found.contracts.items():
        if digest not in stated:
            raise JournalCorrupt(run_id=run_id, seq=seq, field="contract")
    return {digest: _contract(run_id, seq, digest, stated[digest]) for digest, seq in found.contracts.items()}


def _contract(run_id: str, seq: int, digest: str, text: str) -> Contract:
    """A stored contract, whole or not at all: what a newer version promises less, an older one must not believe more."""
    try:
        return _stated(digest, text)
    except _Damaged as error:
        raise JournalCorrupt(run_id=run_id, seq=seq, field="contract") from error
    except ValueError as error:
        raise IncompatibleVersion(run_id=run_id, what="a contract", found=str(error), known=ENTRY_FORMAT) from error


class _Damaged(Exception):
    """A contract's text is not what its digest was made from."""


@lru_cache(maxsize=256)
def _stated(digest: str, text: str) -> Contract:
    """Kept, since all runs of an app share a few contracts, and verifying one costs as much as reading an effect. Raises _Damaged, ValueError."""
    try:
        body = texts.loads(text)
        whole = contract_digest(body) == digest
    except (ValueError, TypeError) as error:
        raise _Damaged from error
    if not whole:
        raise _Damaged
    return Contract.from_json(body)
