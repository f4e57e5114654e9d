"""Reading a run: rows verified against their chain, decoded and folded, before anybody believes them.

Owns the order load, verify, decode, fold. Invariant: what it returns is whole; a run that does not verify is refused, never repaired. Who only
looks leaves values that lie out of line where they are: a `Withheld` then stands for each.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from recovery import texts
from recovery.core.chain import Row, broken_at
from recovery.core.contracts import Contract, contract_digest
from recovery.core.entries import ENTRY_FORMAT, JSON, Entry, Observation, Opened, OutcomeKind, Status, latest_us
from recovery.core.errors import IncompatibleVersion, JournalCorrupt, RunForgotten, RunNotFound
from recovery.core.heartbeats import HEARTBEAT
from recovery.core.history import EffectStep, History, hear
from recovery.core.instants import iso
from recovery.core.key_errors import EncryptionKeyMissing
from recovery.core.recorded import Unread
from recovery.ports import Evidence, Journal, RunRow, Stub
from recovery.storage.alike import Alike, Intents, Settlements
from recovery.storage.beating import hear as hear_beats
from recovery.storage.opening import Opening, fetched, withheld
from recovery.storage.resting import Reference, Sealing
from recovery.vaults import Vault

MANY: Final = 1000
"""Rows of a run that is long to read."""

ENDS: Final = {
    OutcomeKind.APPLIED: Status.COMPLETED,
    OutcomeKind.FAILED: Status.FAILED,
    OutcomeKind.CANCELLED: Status.CANCELLED,
}
"""The status of a run that ended so."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """One run as a consistent snapshot: `rows` and `entries` run in parallel, `late` is what stands outside the chain, and `told` what that says.

    restored: the database was declared restored since this run was opened: what was sent in the lost time is not known here.
    found: its entries, where one that nobody has asked for yet is what reads it. highest_us: the highest time in the chain: no clock may read less from here
    on. The run's own row has no digest: nobody's clock follows it.
    incarnation: the database's, which a run takes over only with its next claim. sealing: how what is appended to it is encrypted; None: not at all.
    unopened: the ids of the keys that were not here, and under which some of it is encrypted.
    """

    run: RunRow
    rows: list[Row]
    found: list[Entry | Intents | Settlements]
    highest_us: int
    late: list[Evidence]
    told: list[Entry]
    history: History
    contracts: dict[str, Contract]
    incarnation: int
    restored: bool
    sealing: Sealing | None = None
    unopened: frozenset[str] = frozenset()

    @property
    def opened(self) -> Opened:
        assert self.history.opened is not None
        return self.history.opened

    @property
    def entries(self) -> list[Entry]:
        """What its rows say, each read once."""
        for place, each in enumerate(self.found):
            if isinstance(each, Intents | Settlements):
                self.found[place] = each.read(self.rows[place].step, self.rows[place].body)
        return self.found  # type: ignore[return-value]  # by now none of them is what reads one

    def let_go(self) -> None:
        """Forget the rows and the entries: who goes on with the run asks its history, which forgets what it has behind it."""
        self.rows.clear()
        self.found.clear()


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

    @property
    def vault(self) -> Vault | None: ...
    def payloads(self, digests: Sequence[str]) -> dict[str, bytes]: ...
    def stub(self, run_id: str) -> Stub | None: ...


def read(journal: Journal, run_id: str, *, values: bool = True) -> Loaded:
    """The run, verified. values: with everything that is encrypted or lies out of line, each distinct payload once, which is what such a run takes
    in memory; without, `Withheld` stands for what lies out of line, and for what is encrypted under a key that is not here.

    Raises RunNotFound, RunForgotten, JournalCorrupt, IncompatibleVersion, IllegalHistory, EncryptionKeyMissing, EncryptionKeyWrong, and what the
    journal raises."""
    found = journal.load(run_id)
    if found is None:
        raise RunNotFound(run_id=run_id, database=journal.url)
    run, rows, contracts = found
    if not rows and (stub := journal.stub(run_id)) is not None:
        raise _forgotten(run, stub)
    parts = Parts(journal.namespace(), journal.incarnation(), run, rows, contracts, journal.evidence(run_id))
    return assembled(parts, journal, values=values)


def legible(journal: Journal, run_id: str) -> Loaded:
    """The run with its values, or as far as it can be read without the keys that are not here. For looking only. Raises as `read`."""
    try:
        return read(journal, run_id)
    except EncryptionKeyMissing:
        return read(journal, run_id, values=False)


def assembled(parts: Parts, beside: Beside, *, values: bool = True) -> Loaded:
    """A run from its parts, verified, wherever they were kept. Raises as `read`, but for what a journal raises."""
    namespace, incarnation, run, rows, contracts, late = parts
    run_id = run.run_id
    if broken := broken_at(namespace, run_id, rows, run.head, run.head_digest):
        raise JournalCorrupt(run_id=run_id, seq=broken[0], field=broken[1])
    sealing = None if beside.vault is None else Sealing(beside.vault, namespace, run_id)
    opening = Opening(run_id, sealing, strict=values, encrypted=":" in run.input_digest)
    alike = Alike()
    found = _read_all(parts, beside, alike, opening, values=values)
    late, beats = [item for item in late if item.kind != HEARTBEAT], [item for item in late if item.kind == HEARTBEAT]
    told = [opening.told(item) for item in late]
    # Two values that were not read cannot be compared, nor one that was with one that was not.
    heard = told if opening.comparable else []
    with _undisturbed(rows):
        history = _folded(run_id, rows, found)
    hear(history, [entry for entry in heard if isinstance(entry, Observation)])
    hear_beats(history, beats, sealing)
    if misfit := _misfit(run, rows, history, opening):
        raise JournalCorrupt(run_id=run_id, seq=run.head, field=f"the run's {misfit}")
    return Loaded(
        run=run,
        rows=rows,
        found=found,
        highest_us=_highest_us(run, alike, found),
        late=late,
        told=told,
        history=history,
        contracts=_contracts(run_id, history, contracts),
        incarnation=incarnation,
        restored=rows[0].epoch.incarnation < incarnation,
        sealing=sealing,
        unopened=frozenset(opening.unopened),
    )


def _read_all(parts: Parts, beside: Beside, alike: Alike, opening: Opening, *, values: bool) -> list[Entry | Intents | Settlements]:
    """What the rows of a run say. Raises JournalCorrupt, and RunForgotten for one that was forgotten since its rows were read."""
    rows = parts.rows
    value_of = fetched(beside, opening, rows) if values else withheld
    try:
        with _undisturbed(rows):
            return _read_or_forms(alike, opening, rows, value_of)
    except JournalCorrupt:
        if (stub := beside.stub(parts.run.run_id)) is not None:
            raise _forgotten(parts.run, stub) from None
        raise


def _read_or_forms(
    alike: Alike, opening: Opening, rows: list[Row], value_of: Callable[[Reference], JSON]
) -> list[Entry | Intents | Settlements]:
    """What each row says, or what will read it. Where a run is encrypted, each is opened, which is what shows that nobody put one in the clear behind others."""
    found: list[Entry | Intents | Settlements] = []
    form_of, add = alike.form_of, found.append
    for row in rows:
        form = None if opening.encrypted else form_of(row.kind, row.step, row.body)
        if form is None:
            add(entry := opening.entry(row, value_of))
            alike.learn(row.step, row.body, entry)
        else:
            add(form)
    return found


def _folded(run_id: str, rows: list[Row], found: list[Entry | Intents | Settlements]) -> History:
    """The history of what was found. Raises IllegalHistory."""
    history = History(run_id)
    for row, each in zip(rows, found, strict=True):
        if isinstance(each, Intents):
            history.add_unread(Unread(row.step, each, row.body))
        elif not isinstance(each, Settlements):
            history.add(each)
        elif not history.settle_unread(row.step, each, row.body):
            history.add(each.read(row.step, row.body))
    return history


def _highest_us(run: RunRow, alike: Alike, found: list[Entry | Intents | Settlements]) -> int:
    """The highest time in the chain. Raises JournalCorrupt where somebody put something else in the place of one."""
    try:
        return max(alike.latest_us, *(latest_us(each) for each in found if not isinstance(each, Intents | Settlements)))
    except TypeError:
        raise JournalCorrupt(run_id=run.run_id, seq=run.head, field="time of an entry") from None


@contextmanager
def _undisturbed(rows: list[Row]) -> Iterator[None]:
    """No search for cyclic garbage while a long run is read: all that is made stays, so it would go through all of it again and again and find nothing."""
    pauses = len(rows) >= MANY and gc.isenabled()
    if pauses:
        gc.disable()
    try:
        yield
    finally:
        if pauses:
            gc.enable()


def _forgotten(run: RunRow, stub: Stub) -> RunForgotten | JournalCorrupt:
    """That the run was forgotten, as its stub says. A stub has no digest."""
    try:
        at = iso(stub.at_us)
    except (OverflowError, TypeError):
        return JournalCorrupt(run_id=run.run_id, seq=run.head, field="the stub's time")
    return RunForgotten(
        run_id=run.run_id, status=run.status.value, by=stub.by, at=at, reason=stub.reason, outcome_digest=stub.outcome_digest
    )


def _misfit(run: RunRow, rows: list[Row], history: History, opening: Opening) -> str | None:
    """What the run's own row says differently from its journal. It has no digest, and is what decides whether and by whom a run goes on."""
    opened, ended = history.opened, history.ended
    if opened is None or run.workflow != opened.workflow or not opening.is_digest(run.input_digest, opened.input_digest):
        return "workflow or input"
    if run.epoch < rows[-1].epoch:
        return "epoch"
    if run.status.settled != (ended is not None) or (ended is not None and run.status is not ENDS.get(ended.outcome)):
        return "status"
    return None


def _contracts(run_id: str, history: History, texts: dict[str, str]) -> dict[str, Contract]:
    """The contracts that the run's intents were written under, in every generation: what an earlier one did and the run reuses is still undone.
    Without the pinned one, a later one would be believed alone."""
    found: dict[str, Contract] = {}
    for effect in (*history.superseded.values(), *history.steps.values()):
        if not isinstance(effect, EffectStep):
            continue
        digest = effect.contract
        if digest not in texts:
            raise JournalCorrupt(run_id=run_id, seq=effect.seq, field="contract")
        if digest not in found:
            found[digest] = _contract(run_id, effect.seq, digest, texts[digest])
    return found


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
