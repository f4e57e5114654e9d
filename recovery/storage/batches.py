"""Batches: what a PostgreSQL server is told of many runs in one statement, appends or new runs.

Owns the two statements and the values that are said with them. Knows no connection. Invariants: an append is nothing unless the UPDATE of its run's row
matched epoch, owner and head *in the same statement*, see `postgres`; of new runs all are stored or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from recovery.ports import Append, NewRun
from recovery.storage.arrays import Columns, Many, Rows
from recovery.storage.statements import new_run_columns

_MEMBERS: Final = Columns(
    "w",
    bigint="member incarnation n base head at_us next_look_us",
    text="run_id owner head_digest status reason rests_for token",
    boolean="keeps_look",
)
_KEYS: Final = Columns("k", bigint="member", text="environment scope key fingerprint step")
_CONTRACTS: Final = Columns("c", bigint="member", text="digest body")
_ENTRIES: Final = Columns("e", bigint="member seq", text="kind step body digest")

APPEND: Final = Many("""
WITH want AS MATERIALIZED (
    SELECT * FROM :members
), held AS MATERIALIZED (
    -- Row locks first, in one order for everybody: two batches can then wait for each other, but not in a circle.
    -- One look into the index per member: a join is planned as a scan while the table is small, and the plan is kept while it grows.
    SELECT w.*, locked.number
    FROM (SELECT * FROM want ORDER BY run_id) AS w CROSS JOIN LATERAL (
        SELECT run.number FROM {run} AS run
        WHERE run.run_id = w.run_id AND run.owner_token = w.owner
          AND run.epoch_incarnation = w.incarnation AND run.epoch_n = w.n AND run.head = w.base
        FOR NO KEY UPDATE) AS locked
), asked AS MATERIALIZED (
    SELECT k.*, held.run_id FROM :keys JOIN held USING (member)
), taken AS (
    INSERT INTO {key} (environment, scope, key, fingerprint, run_id, step)
    SELECT environment, scope, key, fingerprint, run_id, step FROM asked ORDER BY environment, scope, key, member
    ON CONFLICT DO NOTHING
    RETURNING environment, scope, key, fingerprint, run_id, step
), owned AS (
    SELECT * FROM taken
    UNION ALL
    SELECT there.* FROM asked CROSS JOIN LATERAL (
        SELECT key.environment, key.scope, key.key, key.fingerprint, key.run_id, key.step FROM {key} AS key
        WHERE key.environment = asked.environment AND key.scope = asked.scope AND key.key = asked.key LIMIT 1) AS there
), fit AS MATERIALIZED (
    -- Who loses a key is dropped before the fence. The fence may have to look at its row again (it moved while we waited for the lock),
    -- and must then find this list ready: an INSERT cannot run a second time.
    -- Where all were taken, which is nearly always, nobody has lost one, and none is looked up.
    SELECT * FROM held WHERE member NOT IN (
        SELECT member FROM asked
        WHERE (SELECT count(*) FROM taken) < (SELECT count(*) FROM asked) AND (environment, scope, key, fingerprint, run_id, step) NOT IN (
            SELECT environment, scope, key, fingerprint, run_id, step FROM owned))
), fence AS (
    UPDATE {run} AS run SET head = w.head, head_digest = w.head_digest, status = w.status, reason = w.reason, rests_for = w.rests_for,
                   updated_at_us = w.at_us,
                   next_look_us = CASE WHEN w.keeps_look THEN run.next_look_us ELSE w.next_look_us END
    FROM fit AS w
    WHERE run.number = w.number AND run.number = ANY (ARRAY (SELECT number FROM fit)) AND run.owner_token = w.owner
      AND run.epoch_incarnation = w.incarnation AND run.epoch_n = w.n AND run.head = w.base
    RETURNING run.number, w.member, w.incarnation, w.n, w.token
), agreed AS MATERIALIZED (
    SELECT fence.number, c.digest, c.body FROM :contracts JOIN fence USING (member)
), kept AS (
    INSERT INTO {contract} (digest, body) SELECT DISTINCT ON (digest) digest, body FROM agreed ORDER BY digest ON CONFLICT DO NOTHING
), linked AS (
    INSERT INTO {run_contract} (run, digest) SELECT DISTINCT number, digest FROM agreed ON CONFLICT DO NOTHING
), written AS (
    INSERT INTO {journal} (run, seq, kind, step, body, epoch_incarnation, epoch_n, token, digest)
    SELECT fence.number, e.seq, e.kind, e.step, e.body, fence.incarnation, fence.n, fence.token, e.digest
    FROM :entries JOIN fence USING (member)
)
SELECT member, number FROM fence
""", members=_MEMBERS, keys=_KEYS, contracts=_CONTRACTS, entries=_ENTRIES)  # fmt: skip

_RUNS: Final = Columns(
    "r",
    text="run_id workflow status reason input_digest owner_token owner_host owner_boot_id owner_pid_namespace head_digest queue",
    bigint="epoch_n owner_pid owner_process_start lease_counter lease_term_us head created_at_us updated_at_us next_look_us priority",
)
_FIRST: Final = Columns("f", text="run_id kind step body token digest", bigint="seq epoch_incarnation epoch_n")

OPEN: Final = Many("""
WITH want AS MATERIALIZED (
    SELECT r.*, meta.incarnation FROM :runs CROSS JOIN {meta} AS meta
), opened AS (
    INSERT INTO {run} (:columns, epoch_incarnation) SELECT :columns, incarnation
    FROM want ORDER BY run_id
    RETURNING number, run_id
), written AS (
    INSERT INTO {journal} (run, seq, kind, step, body, epoch_incarnation, epoch_n, token, digest)
    SELECT opened.number, f.seq, f.kind, f.step, f.body, f.epoch_incarnation, f.epoch_n, f.token, f.digest
    FROM :first JOIN opened USING (run_id)
)
SELECT incarnation FROM want LIMIT 1
""".replace(":columns", ", ".join(_RUNS.names)), runs=_RUNS, first=_FIRST)  # fmt: skip
"""Runs of different ids with their rows, all of them; it fails if the id of one is there."""


def appending(batch: Sequence[Append], group: Sequence[int]) -> dict[str, Rows]:
    """What is said with APPEND: the members of a batch that have these numbers, each of another run."""
    members, keys, contracts, entries = [], [], [], []
    for at in group:
        member = batch[at]
        epoch, last = member.epoch, member.rows[-1]
        numbers = (at, epoch.incarnation, epoch.n, member.head, last.seq, member.at_us, member.next_look_us)
        stands = (member.status.value, member.reason, member.rests_for.value)
        members.append((*numbers, member.run_id, member.owner, last.digest, *stands, last.token, member.keeps_look))
        keys += [(at, each.environment, each.scope, each.key, each.fingerprint, each.step) for each in member.keys]
        contracts += [(at, *contract) for contract in member.contracts]
        entries += [(at, row.seq, row.kind, row.step, row.body, row.digest) for row in member.rows]
    return {"members": members, "keys": keys, "contracts": contracts, "entries": entries}


def opening(batch: Sequence[NewRun]) -> dict[str, Rows]:
    """What is said with OPEN: runs of different ids."""
    runs = [new_run_columns(new) for new in batch]
    rows = [
        (new.run_id, row.kind, row.step, row.body, row.token, row.digest, row.seq, row.epoch.incarnation, row.epoch.n)
        for new in batch
        for row in new.rows
    ]
    return {"runs": [[columns[name] for name in _RUNS.names] for columns in runs], "first": rows}
