"""Rules: what every backend checks before and while it appends.

Owns the checks that need no database. Knows nothing of storage. Invariant: a member that passes `check_rows` can only be refused by
the fence or by a key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from recovery.core.chain import Row
from recovery.core.entries import Status
from recovery.core.errors import InvariantViolated
from recovery.core.ids import Epoch
from recovery.ports import Append, KeyClaim, KeyTaken, NewRun, RunRow, Wanted

KeyOwner = tuple[str, str, str]
"""(run id, step, fingerprint)"""


def check_rows(run_id: str, head: int, rows: Sequence[Row]) -> None:
    """The fence compares heads; it is worth something only if the rows continue the head and carry one token."""
    seq, token = head, rows[0].token if rows else ""
    for row in rows:  # no generators: asked of each append
        seq += 1
        if row.seq != seq:
            break
        if not token or row.token != token:
            raise InvariantViolated(f"Run {run_id!r}: the rows of one append must carry one token. Nothing was written.")
    else:
        if rows:
            return
    raise InvariantViolated(f"Run {run_id!r}: an append must continue entry {head} without a hole. Nothing was written.")


def stays_at_work(member: Append) -> bool:
    """Whether its run says behind it that it is at work, without a next look, which is nearly every append. Where the run says so already, its row keeps
    these columns: SQLite writes each index anew whose columns or predicate a statement sets, whether or not their values change, and each is a page
    more to sync."""
    return member.status is Status.RUNNING and member.next_look_us is None and not member.reason and not member.rests_for


def row_of(new: NewRun, incarnation: int) -> RunRow:
    """The row of a run that was just stored."""
    return RunRow(
        run_id=new.run_id,
        workflow=new.workflow,
        status=new.status,
        reason="",
        input_digest=new.input_digest,
        epoch=Epoch(incarnation, 1),
        owner=None if new.let_go else new.owner,
        lease_counter=0,
        lease_term_us=new.lease_term_us,
        head=new.rows[-1].seq,
        head_digest=new.rows[-1].digest,
        created_at_us=new.at_us,
        updated_at_us=new.at_us,
        next_look_us=new.next_look_us,
        queue=new.queue,
        priority=new.priority,
    )


def check_rises(seen: int, to: int) -> None:
    """An incarnation that fell would hand out epochs of a lost timeline again."""
    if to <= seen:
        raise ValueError(f"an incarnation rises: {to} is not above {seen}")


def key_place(claim: KeyClaim) -> tuple[str, str, str]:
    """Where a key belongs to one step only."""
    return claim.environment, claim.scope, claim.key


def first_taken(member: Append, owner_of: Callable[[KeyClaim], KeyOwner | None]) -> KeyTaken | None:
    """The first key of the member that belongs to another step or request, one of the same member included."""
    wanted: dict[tuple[str, str, str], KeyOwner] = {}
    for claim in member.keys:
        ours = (member.run_id, claim.step, claim.fingerprint)
        owner = owner_of(claim) or wanted.setdefault(key_place(claim), ours)
        if owner != ours:
            return KeyTaken(claim, *owner)
    return None


GOES_ON: Final = frozenset({Status.QUEUED, Status.RUNNING, Status.WAITING, Status.IN_DOUBT})
"""What a worker brings on. Of a run in doubt another branch may: it is due if something came for it, and an owner may have died with it."""


_AT_ONCE: Final = frozenset({Status.QUEUED, Status.RUNNING})
_LOOKED_AT: Final = frozenset({Status.WAITING, Status.IN_DOUBT})


def is_due(row: RunRow) -> bool:
    """Whether a run that nobody has goes on by itself, now or from its next look on: `schema.DUE_PREDICATE` in Python."""
    return row.owner is None and goes_on(row.status, row.next_look_us)


def goes_on(status: str, next_look_us: int | None) -> bool:
    """The same of a run that was just let go."""
    return status in _AT_ONCE or (status in _LOOKED_AT and next_look_us is not None)


def wants(wanted: Wanted, row: RunRow) -> bool:
    """Whether a claimant asks for runs like this one, whenever they are due."""
    return (
        (wanted.queues is None or row.queue in wanted.queues)
        and (wanted.workflows is None or row.workflow in wanted.workflows)
        and row.run_id not in wanted.passed_over
    )


def urgency(row: RunRow) -> tuple[int, int, str]:
    """What goes first: the higher priority, then what has been due for longest."""
    return -row.priority, row.created_at_us if row.next_look_us is None else row.next_look_us, row.run_id
