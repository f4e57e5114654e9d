"""Statements: what is said to a journal database in the same words on every dialect.

Owns the Core statements and how rows become the values of `ports`. Knows nothing of connections, retries or dialects. Invariant: each
statement is built once at import; only parameters change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import bindparam

from recovery.core.chain import Row, row_of
from recovery.core.entries import Status
from recovery.core.errors import JournalCorrupt
from recovery.core.ids import Epoch, digest_bytes
from recovery.core.instants import LATEST_US
from recovery.core.resting import GRAVEST_FIRST, RestsFor
from recovery.ports import (
    Append,
    Appended,
    AppendResult,
    Evidence,
    Fenced,
    Hold,
    KeyTaken,
    NewRun,
    Owner,
    RunRow,
    Stub,
)
from recovery.storage.rules import first_taken
from recovery.storage.schema import (
    OPEN_PREDICATE,
    SETTLED,
    contract,
    evidence,
    hold,
    inbox,
    journal,
    key,
    meta,
    run,
    run_contract,
    stub,
)

META: Final = sa.select(meta.c.namespace, meta.c.incarnation)
RAISE_INCARNATION: Final = sa.update(meta).where(meta.c.incarnation == bindparam("seen")).values(incarnation=bindparam("to"))
THE_INCARNATION: Final = sa.select(meta.c.incarnation).scalar_subquery()

FIND: Final = sa.select(run).where(run.c.run_id == bindparam("run_id"))
FIND_ALL: Final = sa.select(run).where(run.c.run_id.in_(bindparam("run_ids", expanding=True)))
OF_ROW: Final = ("seq", "kind", "step", "body", "epoch_incarnation", "epoch_n", "token", "digest")
ROWS: Final = sa.select(*(journal.c[name] for name in OF_ROW)).where(journal.c.run == bindparam("run")).order_by(journal.c.seq)
FIRST_ROWS: Final = (
    sa.select(run.c.run_id, journal)
    .join(journal, journal.c.run == run.c.number)
    .where(run.c.run_id.in_(bindparam("run_ids", expanding=True)), journal.c.seq == 1)
)
CONTRACTS: Final = (
    sa.select(contract.c.digest, contract.c.body)
    .join(run_contract, run_contract.c.digest == contract.c.digest)
    .where(run_contract.c.run == bindparam("run"))
)
ROW_AT: Final = sa.select(journal.c.token, journal.c.digest).where(
    journal.c.run == bindparam("run"), journal.c.seq == bindparam("at_seq")
)
KEY_OWNER: Final = sa.select(key.c.run_id, key.c.step, key.c.fingerprint).where(
    key.c.environment == bindparam("environment"), key.c.scope == bindparam("scope"), key.c.key == bindparam("key")
)
EVIDENCE: Final = sa.select(evidence).where(evidence.c.run_id == bindparam("run_id")).order_by(evidence.c.number)

OWNER: Final = ("owner_token", "owner_host", "owner_boot_id", "owner_pid_namespace", "owner_pid", "owner_process_start")
_STATUSES: Final = frozenset(status.value for status in Status)
_RESTS_FOR: Final = frozenset(each.value for each in RestsFor)
_MOVED: Final = ("head", "head_digest", "status", "reason", "rests_for", "updated_at_us")

HELD_BY: Final = (
    run.c.run_id == bindparam("of_run"),
    run.c.owner_token == bindparam("of_owner"),
    run.c.epoch_incarnation == bindparam("of_incarnation"),
    run.c.epoch_n == bindparam("of_n"),
)

RESTS: Final = run.c.status.in_([sa.literal_column(repr(status.value)) for status in GRAVEST_FIRST])
"""Whether a run rests: literal, as `schema.DUE_PREDICATE`."""
RESTING: Final = sa.select(run.c.number).where(run.c.run_id == bindparam("run_id"), RESTS)

FENCE: Final = (
    sa.update(run)
    .where(*HELD_BY, run.c.head == bindparam("of_head"))
    .values(
        next_look_us=sa.case((bindparam("keeps_look", type_=sa.Boolean), run.c.next_look_us), else_=bindparam("new_next_look_us")),
        **{name: bindparam(f"new_{name}") for name in _MOVED},
    )
    .returning(run.c.number)
)
"""The compare-and-set that an append stands on. No row: nothing of the member may be written."""

_last = sa.select(sa.func.max(hold.c.number)).group_by(hold.c.subject)
HOLDS: Final = sa.select(hold).where(hold.c.number.in_(_last), hold.c.held).order_by(hold.c.number)

STUB: Final = sa.select(stub).join(run, run.c.number == stub.c.run).where(run.c.run_id == bindparam("run_id"))
INSERT_STUB: Final = sa.insert(stub)
GIVE_UP: Final = (
    sa.update(run)
    .where(
        run.c.run_id == bindparam("of_run"),
        run.c.epoch_incarnation == bindparam("seen_incarnation"),
        run.c.epoch_n == bindparam("seen_n"),
        run.c.head == bindparam("seen_head"),
        run.c.status.in_(SETTLED),
    )
    .values(owner_token=None, epoch_n=run.c.epoch_n + 1)
    .returning(run.c.number)
)
"""The compare-and-set that forgetting stands on: whoever owned the run last is fenced by it."""
FORGET: Final = (
    sa.delete(journal).where(journal.c.run == bindparam("of_number")),
    sa.delete(run_contract).where(run_contract.c.run == bindparam("of_number")),
    sa.delete(evidence).where(evidence.c.run_id == bindparam("of_run")),
    sa.delete(inbox).where(inbox.c.run == bindparam("of_number")),
)


def runs(statuses: Sequence[Status] | None, limit: int, after: str, reason: str | None = None) -> sa.Select[Any]:
    """Run rows behind `after`, in order. Open statuses repeat the literal predicate of the partial index."""
    found = sa.select(run).where(run.c.run_id > after).order_by(run.c.run_id).limit(limit)
    if reason is not None:
        found = found.where(run.c.reason == reason)
    if statuses is None:
        return found
    if not any(status.settled for status in statuses):
        found = found.where(sa.text(OPEN_PREDICATE))
    return found.where(run.c.status.in_([status.value for status in statuses]))


# -- values to parameters ----------------------------------------------------------------------------------------------


def owner_columns(owner: Owner) -> dict[str, Any]:
    return {
        "owner_token": owner.token,
        "owner_host": owner.host,
        "owner_boot_id": owner.boot_id,
        "owner_pid_namespace": owner.pid_namespace,
        "owner_pid": owner.pid,
        "owner_process_start": owner.process_start,
    }


def held_by(run_id: str, owner: str, epoch: Epoch) -> dict[str, Any]:
    return {"of_run": run_id, "of_owner": owner, "of_incarnation": epoch.incarnation, "of_n": epoch.n}


def fence_of(member: Append) -> dict[str, Any]:
    last = member.rows[-1]
    return held_by(member.run_id, member.owner, member.epoch) | {
        "of_head": member.head,
        "new_head": last.seq,
        "new_head_digest": last.digest,
        "new_status": member.status.value,
        "new_reason": member.reason,
        "new_rests_for": member.rests_for.value,
        "new_updated_at_us": member.at_us,
        "new_next_look_us": member.next_look_us,
        "keeps_look": member.keeps_look,
    }


def new_run_columns(new: NewRun) -> dict[str, Any]:
    last = new.rows[-1]
    owner = owner_columns(new.owner)
    if new.let_go:
        owner["owner_token"] = None
    return owner | {
        "run_id": new.run_id,
        "workflow": new.workflow,
        "status": new.status.value,
        "reason": "",
        "input_digest": new.input_digest,
        "epoch_n": 1,
        "lease_counter": 0,
        "lease_term_us": new.lease_term_us,
        "head": last.seq,
        "head_digest": last.digest,
        "created_at_us": new.at_us,
        "updated_at_us": new.at_us,
        "queue": new.queue,
        "priority": new.priority,
        "next_look_us": new.next_look_us,
    }


def row_columns(row: Row) -> dict[str, Any]:
    return {
        "seq": row.seq,
        "kind": row.kind,
        "step": row.step,
        "body": row.body,
        "epoch_incarnation": row.epoch.incarnation,
        "epoch_n": row.epoch.n,
        "token": row.token,
        "digest": row.digest,
    }


def evidence_columns(item: Evidence) -> dict[str, Any]:
    parts = (item.run_id, item.step, str(item.epoch), item.kind, item.body)
    return {
        "digest": digest_bytes(*(part.encode() for part in parts)),
        "run_id": item.run_id,
        "step": item.step,
        "epoch_incarnation": item.epoch.incarnation,
        "epoch_n": item.epoch.n,
        "at_us": item.at_us,
        "kind": item.kind,
        "body": item.body,
    }


def hold_columns(word: Hold) -> dict[str, Any]:
    return {name: getattr(word, name) for name in ("token", "subject", "held", "by", "reason", "at_us")}


def give_up_of(seen: RunRow) -> dict[str, Any]:
    return {
        "of_run": seen.run_id,
        "seen_incarnation": seen.epoch.incarnation,
        "seen_n": seen.epoch.n,
        "seen_head": seen.head,
    }


def stub_columns(number: int, kept: Stub) -> dict[str, Any]:
    return {"run": number} | {name: getattr(kept, name) for name in ("outcome_digest", "by", "reason", "at_us")}


# -- rows to values ----------------------------------------------------------------------------------------------------


def to_run(row: sa.RowMapping) -> RunRow:
    """Raises JournalCorrupt for what nobody here wrote: SQLite stores any type in any column, and an instant may have no name."""
    if (spoilt := _spoilt(row)) is not None:
        raise JournalCorrupt(run_id=row["run_id"], seq=row["head"], field=f"the run's {spoilt}")
    owner = None
    if row["owner_token"] is not None:
        owner = Owner(
            row["owner_token"],
            row["owner_host"],
            row["owner_boot_id"],
            row["owner_pid_namespace"],
            row["owner_pid"],
            row["owner_process_start"],
        )
    return RunRow(
        run_id=row["run_id"],
        workflow=row["workflow"],
        status=Status(row["status"]),
        reason=row["reason"],
        input_digest=row["input_digest"],
        epoch=Epoch(row["epoch_incarnation"], row["epoch_n"]),
        owner=owner,
        lease_counter=row["lease_counter"],
        lease_term_us=row["lease_term_us"],
        head=row["head"],
        head_digest=row["head_digest"],
        created_at_us=row["created_at_us"],
        updated_at_us=row["updated_at_us"],
        next_look_us=row["next_look_us"],
        queue=row["queue"],
        priority=row["priority"],
        crashes=row["crashes"],
        rests_for=RestsFor(row["rests_for"]),
    )


_STORED: Final = [
    (column.name, column.type.python_type) for column in run.c if column is not run.c.number
]  # the number is ours, and of no meaning outside
_INSTANTS: Final = [name for name, _ in _STORED if name.endswith("_at_us") or name == "next_look_us"]


def _spoilt(row: sa.RowMapping) -> str | None:
    """The first column that holds what was not stored. NULL stands where it may; the table refuses it elsewhere."""
    for name, kind in _STORED:
        if type(value := row[name]) is not kind and value is not None:
            return name
    for name in _INSTANTS:
        if (at_us := row[name]) is not None and not 0 <= at_us <= LATEST_US:
            return name
    if row["status"] not in _STATUSES:
        return "status"
    return None if row["rests_for"] in _RESTS_FOR else "rests_for"


def to_row(row: sa.Row[Any], run_id: str) -> Row:
    """Raises JournalCorrupt for what no digest could be made of."""
    if not type(row.kind) is type(row.step) is type(row.body) is type(row.token) is type(row.digest) is str:
        raise JournalCorrupt(run_id=run_id, seq=row.seq, field="a text")
    return row_of([getattr(row, name) for name in OF_ROW])


def to_evidence(row: sa.Row[Any]) -> Evidence:
    epoch = Epoch(row.epoch_incarnation, row.epoch_n)
    return Evidence(run_id=row.run_id, step=row.step, epoch=epoch, at_us=row.at_us, kind=row.kind, body=row.body)


def is_whole(row: sa.Row[Any]) -> bool:
    """Whether an item of late evidence is the one that was stored."""
    texts = type(row.step) is type(row.kind) is type(row.body) is str
    return texts and evidence_columns(to_evidence(row))["digest"] == row.digest


def to_hold(row: sa.Row[Any]) -> Hold:
    return Hold(row.subject, bool(row.held), row.by, row.reason, row.at_us, row.token)


def to_stub(run_id: str, row: sa.Row[Any]) -> Stub:
    return Stub(run_id, row.outcome_digest, row.by, row.reason, row.at_us)


# -- looking ----------------------------------------------------------------------------------------------------------


def found(connection: sa.Connection, run_id: str) -> RunRow | None:
    row = connection.execute(FIND, {"run_id": run_id}).mappings().first()
    return None if row is None else to_run(row)


def key_owner(connection: sa.Connection, environment: str, scope: str, key: str) -> tuple[str, str, str] | None:
    row = connection.execute(KEY_OWNER, {"environment": environment, "scope": scope, "key": key}).first()
    return None if row is None else (row.run_id, row.step, row.fingerprint)


def key_taken(connection: sa.Connection, member: Append) -> KeyTaken | None:
    """The first key of the member that belongs to somebody else."""
    return first_taken(member, lambda claim: key_owner(connection, claim.environment, claim.scope, claim.key))


def explained(connection: sa.Connection, member: Append) -> AppendResult | None:
    """Why the fence refused a member; only asked after it did, so that no commit of ours can still be on its way.

    The row where the member's last one belongs decides a lost acknowledgement: with our token and digest there, all of it is durable.
    None: nothing stands in the way any more, ask the fence again.
    """
    row = connection.execute(FIND, {"run_id": member.run_id}).mappings().first()
    if row is None:
        return Fenced(None)
    last = member.rows[-1]
    there = connection.execute(ROW_AT, {"run": row["number"], "at_seq": last.seq}).first()
    if there is not None and (there.token, there.digest) == (last.token, last.digest):
        return Appended()
    now = to_run(row)
    if (now.owner and now.owner.token, now.epoch, now.head) != (member.owner, member.epoch, member.head):
        return Fenced(now)
    return key_taken(connection, member)
