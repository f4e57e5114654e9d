"""What the claim protocol promises, asked of every move.

Owns each promise as one question about the state before and after. Knows nothing of how the store keeps it: who owns the run, what was
acknowledged and when a sign of life was given is counted by the moves themselves. Invariant: a promise that does not hold raises Violated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from recovery.core.chain import Chain, Row, raw
from recovery.ports import Appended
from tests.model.claims.moves import TERM, Left, Protocol, Standing, State, passed
from tests.model.claims.store import NAMESPACE, Done
from tests.model.claims.workers import NAMES, RUN, Point
from tests.model.workers import Violated

ENDS: Final = frozenset({"", "done", "settled", "FencedOut", "LeaseUnavailable", "StoreUnavailable", "OverrideRefused"})
"""How a worker may end. Anything else would be a journal that cannot be read, or a use of a writer that has nothing to write."""

PROMISES: Final = (
    "an entry that is there stays there",
    "the chain verifies",
    "only the last claimant appends, and none after it has given the run up",
    "no entry of an older epoch follows a claim",
    "a repeat writes nothing twice",
    "appended: it is there; refused: nothing of it is",
    "what was acknowledged is where it was acknowledged",
    "an epoch rises with each change of hands, and names one claimant",
    "a claim that was answered with nothing holds nothing",
    "a living owner that renews is never taken over",
    "only its owner gives a run up, and only its owner renews",
    "a claimant works from everything that was durable when its claim took effect",
    "late evidence is never lost, and kept once",
    "a worker ends in one of the ways it knows",
    "an orphan is taken over by whoever comes, within a term",
)


def require(holds: bool, promise: int) -> None:
    if not holds:
        raise Violated(PROMISES[promise])


def check_move(protocol: Protocol, before: State, after: State, done: Done | None) -> None:
    """Everything but the last promise, after any move."""
    if done is not None:
        _store(before, after, done.worker)
        _answers(after, done)
        _claims(before, after, done, by_force=NAMES[done.worker] == protocol.setting.operator)
    for worker, standing in enumerate(after.workers):
        if standing.place != before.workers[worker].place:
            _worker(after, worker, protocol.point(before, worker), protocol.point(after, worker))


def _verifies(rows: Sequence[Row], head: int, head_digest: str) -> bool:
    chain = Chain(NAMESPACE, RUN)
    chain.follow([raw(row) for row in rows])
    return chain.end(head, head_digest) is None


def _store(before: State, after: State, worker: int) -> None:
    old, new = before.stored, after.stored
    if new.rows != old.rows and old.run is None:
        require(new.run is not None and len(new.rows) == new.run.head == 1, 1)
    elif new.rows != old.rows:
        assert old.run is not None
        assert new.run is not None
        require(new.rows[: len(old.rows)] == old.rows, 0)
        require(_verifies(new.rows, new.run.head, new.run.head_digest), 1)
        written = new.rows[len(old.rows) :]
        require(worker == before.owner and old.run.owner is not None, 2)
        require(all(row.epoch == old.run.epoch for row in written), 3)
        require(not {row.token for row in written} & {row.token for row in old.rows}, 4)
        require(len({row.body for row in new.rows}) == len(new.rows), 4)
    require(new.evidence[: len(old.evidence)] == old.evidence, 12)
    require(len({(item.step, item.epoch, item.body) for item in new.evidence}) == len(new.evidence), 12)


def _answers(after: State, done: Done) -> None:
    rows = after.stored.rows
    for append, result in done.asked:
        there = [row in rows for row in append.rows]
        require(all(there) if isinstance(result, Appended) else not any(there), 5)


def _claims(before: State, after: State, done: Done, *, by_force: bool) -> None:
    old, new, worker = before.stored.run, after.stored.run, done.worker
    for owner, row in done.claimed:
        token = new.owner.token if new and new.owner else None
        require(token != owner.token if row is None else token == owner.token, 8)
    if old is None or new is None:
        return
    if new.owner != old.owner and new.owner is not None:
        require(new.epoch > old.epoch, 7)
        require(new.epoch > after.stored.rows[-1].epoch, 7)
        alive = before.workers[before.owner].condition != "dead" if before.owner < len(before.workers) else True
        if old.owner is not None and alive and not by_force:
            require(before.silent >= TERM, 9)
    elif new.owner != old.owner:
        require(worker == before.owner, 10)
    elif new.lease_counter != old.lease_counter:
        require(worker == before.owner and old.owner is not None, 10)


def _worker(after: State, worker: int, was: Point, now: Point) -> None:
    stored, standing = after.stored, after.workers[worker]
    for seq, digest in now.durable[len(was.durable) :]:
        require(seq <= len(stored.rows) and stored.rows[seq - 1].digest == digest, 6)
    if now.loaded is not None and was.loaded is None:
        require(standing.claimed_at is not None and now.loaded >= standing.claimed_at, 11)
    if now.outcome == "FencedOut" and now.unheard:
        require(any(f'"value":"{now.unheard}"' in item.body for item in stored.evidence), 12)
    require(now.outcome in ENDS, 13)


CALM_MAX: Final = 40
"""Moves that a lone claimant needs at most."""


def check_calm(protocol: Protocol, state: State) -> None:
    """Nobody else moves any more: D comes, and brings the run to where it belongs."""
    place = protocol.workers.begin("D")
    missing = (Standing(place, "gone"),) * (len(NAMES) - 1 - len(state.workers))
    alone = state._replace(workers=(*state.workers, *missing, Standing(place)), strays=(), left=Left())
    newcomer, came = len(NAMES) - 1, state.tick
    for _ in range(CALM_MAX):
        if outcome := protocol.point(alone, newcomer).outcome:
            require(outcome in {"done", "settled"}, 14)
            require(alone.tick - came <= TERM + 1, 14)
            return
        steps = list(protocol.steps(alone, newcomer))
        if not steps:
            alone = passed(alone)
            continue
        _, after, done = steps[0]
        check_move(protocol, alone, after, done)
        alone = after
    require(False, 14)
