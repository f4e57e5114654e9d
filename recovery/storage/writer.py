"""The writer's end of one run: turns entries into one compare-and-set, and reads what came of it.

Owns the writer's view of the head, what rides (entries that become durable with the next ones), and that a parent is told of its child's end by the
append that makes it durable. Does no I/O of its own: it awaits operations. Invariants: entries become durable in the order in which they came, and none
before all that came earlier; sequence and digest advance only with an append that is known to be durable; after one whose fate is unknown or that
was refused, the writer is finished and every later use raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Final

from recovery import texts
from recovery.core.chain import Row, chained, signature
from recovery.core.contracts import Contract
from recovery.core.effect_errors import KeyReused
from recovery.core.entries import Entry, Intent, Observation, Settled, Source, Status, kind_of, step_of
from recovery.core.errors import FencedOut, InvariantViolated
from recovery.core.ids import Epoch, digest_bytes
from recovery.core.mail import SETTLED
from recovery.core.operations import Append as Wanted
from recovery.core.operations import Commit, Now, Use, bracket_of
from recovery.crashpoints import around
from recovery.ports import Append, Appended, AppendResult, Evidence, Fenced, Journal, KeyClaim, Message, Payload, RunRow
from recovery.storage.bodies import body_of
from recovery.storage.reading import Loaded
from recovery.storage.resting import Sealing, blinded, fits, late_item, rest

OUTSIDE: Final = frozenset({Source.LATE, Source.PUSH})
"""Sources whose observations reach a run outside the fence."""


@dataclass(slots=True)
class Writer:
    """Where a claimed run's journal ends. `contracts`: what intents may refer to, by digest; stored with the first that does. parent: the run that
    started it, "" for none."""

    run_id: str
    owner: str
    epoch: Epoch
    head: int
    digest: str
    token: Callable[[], str]
    contracts: dict[str, Contract]
    known: set[str] = field(init=False)  # contracts that are stored with this run already
    ended: bool = False  # the run is settled: entries may follow that, and its status stays
    finished: bool = False
    failed: Exception | None = None  # why it is finished: whoever rides hears of it late
    aboard: list[Entry] = field(default_factory=list)  # what rides, in order
    lines: list[Callable[[], None]] = field(default_factory=list)  # what is said once that is durable
    parent: str = ""
    sealing: Sealing | None = None  # how what it writes is encrypted

    def __post_init__(self) -> None:
        self.known = set(self.contracts)  # what a load gave; what is added later becomes known with its first intent

    def row(self, seen: RunRow) -> RunRow:
        """The run's row as this writer has left it, where it now waits; `seen`: an earlier state of it."""
        return replace(seen, head=self.head, head_digest=self.digest, status=Status.WAITING)

    async def commit(self, wanted: Wanted) -> None:
        """Make durable what rides and, behind it, `wanted`; or let that ride, too. Raises FencedOut (its observations are kept as late
        evidence), KeyReused or StoreUnavailable."""
        if self.failed is not None:
            raise self.failed
        if wanted.rides:
            self.aboard += wanted.entries
            return
        whole = wanted
        if self.aboard:
            entries = (*self.aboard, *wanted.entries)
            whole = Wanted(entries, wanted.status, wanted.next_look_us, wanted.reason, wanted.rests_for, wanted.keeps_look)
        try:
            await self._commit(whole)
        except Exception as error:
            if self.finished:
                self.failed = error
            raise
        lines, self.lines = self.lines, []
        for line in lines:
            with suppress(Exception):  # a log's own failure: what it was about is durable, and must not look as if it were not
                line()

    async def flush(self) -> None:
        """Make durable what rides, if anything does. Raises as `commit` does, or did where nobody waited for it. After an append whose fate is unknown
        there is nothing to be done."""
        if self.failed is not None:
            raise self.failed
        if self.aboard and not self.finished:
            await self.commit(Wanted((), Status.RUNNING))

    async def _commit(self, wanted: Wanted) -> None:
        at_us = await Now()
        append = self.prepare(wanted, at_us)
        with around(bracket_of(wanted)):
            result = await Commit(append)
        if result is None:
            return  # whoever is closed waits for nothing
        if isinstance(result, Fenced):
            await self._keep_evidence(wanted, at_us)
        self.settle(append, result)

    async def _keep_evidence(self, wanted: Wanted, at_us: int) -> None:
        """A superseded writer's answers are facts about the world: they go where no fence stands."""
        for entry in wanted.entries:
            observation = entry.observation if isinstance(entry, Settled) else entry
            if isinstance(observation, Observation) and observation.source not in OUTSIDE:  # those are kept already
                late = late_item(self.run_id, self.epoch, at_us, replace(observation, source=Source.LATE), self.sealing)
                with around("evidence"):
                    await Use(partial(_add, late))

    def prepare(self, wanted: Wanted, at_us: int) -> Append:
        """The compare-and-set that makes `wanted` durable. Nothing has happened yet."""
        if self.finished:
            raise InvariantViolated(f"run {self.run_id}: an append after a refused or unknown one")
        if self.ended and not wanted.status.settled:  # nobody could read the run any more
            raise InvariantViolated(f"run {self.run_id}: {wanted.status.value} behind its end")
        self.finished = True  # until `settle` hears that it is durable
        rows, payloads = self._rows(wanted.entries, self.token())
        intents = [entry for entry in wanted.entries if type(entry) is Intent]
        return Append(
            run_id=self.run_id,
            owner=self.owner,
            epoch=self.epoch,
            head=self.head,
            rows=rows,
            status=wanted.status,
            at_us=at_us,
            next_look_us=wanted.next_look_us,
            reason=wanted.reason,
            rests_for=wanted.rests_for,
            keys=tuple([self._claim(intent) for intent in intents if intent.key]),
            contracts=self._new_contracts(intents) if intents else (),
            payloads=payloads,
            words=(self._ending(wanted.status, at_us),) if self.parent and wanted.status.settled and not self.ended else (),
            keeps_look=wanted.keeps_look,
        )

    def _rows(self, entries: Sequence[Entry], token: str) -> tuple[tuple[Row, ...], tuple[Payload, ...]]:
        """Entries as the rows that follow the head, and the payloads that those refer to."""
        epoch, sealing, signed = self.epoch, self.sealing, signature(self.epoch, token)
        rows: list[Row] = []
        payloads: dict[str, Payload] = {}
        previous, seq = self.digest, self.head
        for entry in entries:
            seq += 1
            body = body_of(entry)
            if sealing is not None or not fits(body):
                body, away = rest(entry, seq, sealing, body)
                payloads |= {payload.digest: payload for payload in away}
            row = chained(previous, seq, kind_of(entry), step_of(entry), body, epoch, token, signed)
            previous = row.digest
            rows.append(row)
        return tuple(rows), tuple(payloads.values())

    def _new_contracts(self, intents: Sequence[Intent]) -> tuple[tuple[str, str], ...]:
        new = {intent.contract: None for intent in intents if intent.contract not in self.known}
        return tuple([(digest, _text(digest, self.contracts[digest])) for digest in new]) if new else ()

    def _claim(self, intent: Intent) -> KeyClaim:
        return KeyClaim(intent.environment, intent.scope, intent.key, blinded(intent.fingerprint, self.sealing), intent.step)

    def _ending(self, status: Status, at_us: int) -> Message:
        """That this run has settled, for its parent, if that rests: one that does not will ask by itself before it does."""
        return Message(
            run_id=self.parent,
            kind=SETTLED,
            name=self.run_id,
            slot=f"child:{self.run_id}",
            body=texts.dumps({"run_id": self.run_id, "status": status.value}),
            at_us=at_us,
            token=digest_bytes(b"recovery-settled-1", self.parent.encode(), self.run_id.encode()),
            by="recovery",
        )

    def settle(self, append: Append, result: AppendResult) -> None:
        """Take the result of `append`. Raises FencedOut or KeyReused; in both cases nothing was written."""
        match result:
            case Appended():
                if append.contracts:
                    self.known.update(digest for digest, _text in append.contracts)
                self.aboard, self.ended = [], append.status.settled
                self.head, self.digest = append.rows[-1].seq, append.rows[-1].digest
                self.finished = (
                    False  # last: whoever is interrupted in front of it writes nothing twice, and nothing behind the end
                )
            case Fenced(run):
                owner, epoch = (run.owner, run.epoch) if run else (None, "none")
                by = owner or "a worker that has released it since"
                raise FencedOut(run_id=self.run_id, owner=str(by), epoch=str(epoch), ours=str(self.epoch))
            case _:
                self.finished = False  # the run goes on: the head has not moved
                key = result.key
                raise KeyReused(
                    key=key.key,
                    environment=key.environment,
                    scope=key.scope,
                    owner_run=result.owner_run,
                    owner_step=result.owner_step,
                )


@lru_cache(maxsize=256)
def _text(digest: str, contract: Contract) -> str:  # noqa: ARG001  # contracts that are equal may differ in what was left unstated
    """Kept, since all runs of an app share a few contracts."""
    return texts.dumps(contract.to_json())


def writer_of(loaded: Loaded, token: Callable[[], str]) -> Writer:
    """The writer of a run that was loaded under our claim."""
    run = loaded.run
    assert run.owner is not None, "a run is loaded for writing after it was claimed"
    return Writer(
        run.run_id,
        run.owner.token,
        run.epoch,
        run.head,
        run.head_digest,
        token,
        dict(loaded.contracts),
        run.status.settled,
        parent=loaded.opened.parent,
        sealing=loaded.sealing,
    )


def _add(item: Evidence, journal: Journal) -> None:
    journal.add_evidence(item)
