"""Schema: the tables of a journal database, as SQLAlchemy Core sees them today.

Owns the tables and which schema version and format this code reads. Knows nothing of connections. Invariant: a database that all
migrations were applied to equals this module (a test compares them on both dialects). Times are whole microseconds (``_us``).
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from recovery.core.entries import Status
from recovery.core.resting import RestsFor

VERSION: Final = "0006"
"""The newest migration. Version names are compared as text, so that a newer database is recognised without alembic."""

FORMAT: Final = 1
"""Raised when an older reader could misunderstand the rows of a newer writer, whatever the tables look like."""

VERSION_TABLE: Final = "recovery_version"
"""Not alembic's default name: a service may keep its own tables, under its own migrations, in the same database."""

SETTLED: Final = tuple(sorted(status.value for status in Status if status.settled))

OPEN_PREDICATE: Final = f"status NOT IN ({', '.join(repr(status) for status in SETTLED)})"
"""Literal, in the partial index and in every query that should use it: a bound parameter would hide it from the planner."""

DUE_PREDICATE: Final = (
    "owner_token IS NULL AND (status IN ('queued', 'running') OR (status IN ('in_doubt', 'waiting') AND next_look_us IS NOT NULL))"
)
"""Nobody has the run, and a worker can bring it on: now, or from its next look on. Literal, as above."""

RESUMED_PREDICATE: Final = DUE_PREDICATE.replace("status IN ('queued', 'running')", "status = 'running'")
"""The same, of runs that have begun: they go on where a queue lets none begin."""

OWNED_PREDICATE: Final = "owner_token IS NOT NULL AND status IN ('in_doubt', 'queued', 'running', 'waiting')"
"""Somebody has the run, or died with it."""

_STATUS_PREDICATE: Final = f"status IN ({', '.join(repr(status.value) for status in sorted(Status))})"
_RESTS_FOR_PREDICATE: Final = f"rests_for IN ({', '.join(repr(each.value) for each in RestsFor)})"

_Number = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # only INTEGER PRIMARY KEY is SQLite's own row number

_RunId = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""Ordered by bytes everywhere: a page of runs must not depend on a server's language."""

metadata = sa.MetaData(
    naming_convention={
        "pk": "%(table_name)s_pk",
        "uq": "%(table_name)s_%(column_0_N_name)s_unique",
        "fk": "%(table_name)s_%(column_0_N_name)s_fk",
        "ck": "%(table_name)s_%(constraint_name)s_check",
        "ix": "%(table_name)s_%(column_0_N_name)s",
    }
)

version = sa.Table(VERSION_TABLE, sa.MetaData(), sa.Column("version_num", sa.String(32), primary_key=True))
"""Alembic's own table, only read here; outside `metadata`, because no migration of ours makes it."""

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("incarnation", sa.BigInteger, nullable=False),
    sa.Column("format", sa.Integer, nullable=False),
    sa.CheckConstraint("id = 1", name="one_row"),
    sa.CheckConstraint("namespace <> ''", name="namespace"),
    sa.CheckConstraint("incarnation >= 0", name="incarnation"),
)

run = sa.Table(
    "run",
    metadata,
    sa.Column("number", _Number, sa.Identity(), primary_key=True),
    sa.Column("run_id", _RunId, nullable=False, unique=True),
    sa.Column("workflow", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("input_digest", sa.Text, nullable=False),
    sa.Column("epoch_incarnation", sa.BigInteger, nullable=False),
    sa.Column("epoch_n", sa.BigInteger, nullable=False),
    sa.Column("owner_token", sa.Text),  # NULL: released, and the other owner columns are then of no meaning
    sa.Column("owner_host", sa.Text, nullable=False),
    sa.Column("owner_boot_id", sa.Text, nullable=False),
    sa.Column("owner_pid_namespace", sa.Text, nullable=False),
    sa.Column("owner_pid", sa.BigInteger, nullable=False),
    sa.Column("owner_process_start", sa.BigInteger, nullable=False),
    sa.Column("lease_counter", sa.BigInteger, nullable=False),
    sa.Column("lease_term_us", sa.BigInteger, nullable=False),
    sa.Column("head", sa.BigInteger, nullable=False),
    sa.Column("head_digest", sa.Text, nullable=False),
    sa.Column("created_at_us", sa.BigInteger, nullable=False),
    sa.Column("updated_at_us", sa.BigInteger, nullable=False),
    sa.Column("next_look_us", sa.BigInteger),
    sa.Column("queue", _RunId, nullable=False, server_default=""),
    sa.Column("priority", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column(
        "crashes", sa.BigInteger, nullable=False, server_default="0"
    ),  # claims in a row that took it from an owner who had not let it go
    sa.Column("rests_for", sa.Text, sa.CheckConstraint(_RESTS_FOR_PREDICATE, name="rests_for"), nullable=False, server_default=""),
    sa.CheckConstraint("run_id <> ''", name="run_id"),
    sa.CheckConstraint(_STATUS_PREDICATE, name="status"),
    sa.CheckConstraint("epoch_incarnation >= 0 AND epoch_n >= 1", name="epoch"),
    sa.CheckConstraint("owner_token <> ''", name="owner"),
    sa.CheckConstraint("lease_counter >= 0 AND lease_term_us >= 0", name="lease"),
    sa.CheckConstraint("head >= 1", name="head"),  # a run is stored together with its first entry
)

run_open = sa.Index("run_open", run.c.run_id, sqlite_where=sa.text(OPEN_PREDICATE))
"""Recovery costs what is open, not what was ever stored. PostgreSQL's own half is in `recovery.storage.postgres`: to name it here would load its
dialect, a tenth of the start of every command, where only SQLite is used."""

run_due = sa.Index(
    "run_due", run.c.queue, run.c.priority, run.c.next_look_us, run.c.number, sqlite_where=sa.text(DUE_PREDICATE)
)  # fmt: skip
run_resumed = sa.Index(
    "run_resumed", run.c.queue, run.c.priority, run.c.next_look_us, run.c.number, sqlite_where=sa.text(RESUMED_PREDICATE)
)  # fmt: skip
run_owned = sa.Index("run_owned", run.c.queue, run.c.run_id, sqlite_where=sa.text(OWNED_PREDICATE))
"""What there is for workers, and what they have: neither grows with what waits for a person, nor with what is settled."""

journal = sa.Table(
    "journal",
    metadata,
    # The primary key of a rowid table: rows are stored in the order of arrival, and a batch touches few pages.
    sa.Column("run", sa.BigInteger, sa.ForeignKey("run.number"), primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("step", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("epoch_incarnation", sa.BigInteger, nullable=False),
    sa.Column("epoch_n", sa.BigInteger, nullable=False),
    sa.Column("token", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.CheckConstraint("seq >= 1", name="seq"),
    sa.CheckConstraint("epoch_incarnation >= 0 AND epoch_n >= 1", name="epoch"),
    sa.CheckConstraint("token <> ''", name="token"),
)

key = sa.Table(
    "key",
    metadata,
    sa.Column("environment", sa.Text, primary_key=True),
    sa.Column("scope", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text, nullable=False),  # not a reference: the key outlives a pruned run
    sa.Column("step", sa.Text, nullable=False),
    sa.CheckConstraint("key <> ''", name="key"),
)

contract = sa.Table(
    "contract",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)

run_contract = sa.Table(
    "run_contract",
    metadata,
    sa.Column("run", sa.BigInteger, sa.ForeignKey("run.number"), primary_key=True, autoincrement=False),
    sa.Column("digest", sa.Text, sa.ForeignKey("contract.digest"), primary_key=True),
)
"""Which contracts a run's intents were written with: a load costs its own run and not all contracts ever used."""

evidence = sa.Table(
    "evidence",
    metadata,
    sa.Column("number", _Number, sa.Identity(), primary_key=True),
    sa.Column("digest", sa.Text, nullable=False, unique=True),  # over all fields but the time: an identical item is kept once
    sa.Column("run_id", sa.Text, nullable=False, index=True),
    sa.Column("step", sa.Text, nullable=False),
    sa.Column("epoch_incarnation", sa.BigInteger, nullable=False),
    sa.Column("epoch_n", sa.BigInteger, nullable=False),
    sa.Column("at_us", sa.BigInteger, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
)
"""Outside the fence: whoever lost the run may still say what came back."""

hold = sa.Table(
    "hold",
    metadata,
    sa.Column("number", _Number, sa.Identity(), primary_key=True),
    sa.Column("token", sa.Text, nullable=False, unique=True),
    sa.Column("subject", sa.Text, nullable=False, index=True),
    sa.Column("held", sa.Boolean, nullable=False),
    sa.Column("by", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("at_us", sa.BigInteger, nullable=False),
    sa.CheckConstraint("subject <> ''", name="subject"),
)
"""What people (and broken promises) said about contracts, in order; the last word about a subject counts."""

stub = sa.Table(
    "stub",
    metadata,
    sa.Column("run", sa.BigInteger, sa.ForeignKey("run.number"), primary_key=True, autoincrement=False),
    sa.Column("outcome_digest", sa.Text, nullable=False),
    sa.Column("by", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("at_us", sa.BigInteger, nullable=False),
)
"""A run whose entries were forgotten: its row and its keys stay."""

inbox = sa.Table(
    "inbox",
    metadata,
    sa.Column("run", sa.BigInteger, sa.ForeignKey("run.number"), primary_key=True, autoincrement=False),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("slot", sa.Text),  # NULL: as many as come
    sa.Column("by", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("at_us", sa.BigInteger, nullable=False),
    sa.Column("token", sa.Text, nullable=False),
    sa.UniqueConstraint("run", "token"),
    sa.UniqueConstraint("run", "slot"),
    sa.CheckConstraint("kind <> ''", name="kind"),
    sa.CheckConstraint("slot <> ''", name="slot"),
    sa.CheckConstraint("token <> ''", name="token"),
    sa.CheckConstraint("number >= 1", name="number"),
)
"""What is said to runs from outside. Nothing here is ever changed: what a run has taken in is said by its journal."""

quota = sa.Table(
    "quota",
    metadata,
    sa.Column("subject", _RunId, primary_key=True),
    sa.Column("taken", sa.Text, nullable=False),
    sa.Column("promised_us", sa.BigInteger, nullable=False),  # when the last one that was put off is to ask again
    sa.CheckConstraint("subject <> ''", name="subject"),
)
"""What was taken lately of each rate, and the lock behind which claimants of a limited queue count what is at work."""

schedule = sa.Table(
    "schedule",
    metadata,
    sa.Column("name", _RunId, primary_key=True),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("cron", sa.Text, nullable=False),
    sa.Column("timezone", sa.Text, nullable=False),
    sa.Column("through_us", sa.BigInteger, nullable=False),
    sa.Column("next_us", sa.BigInteger),  # NULL: there is no next tick
    sa.Column("last_run", sa.Text, nullable=False),
    sa.Column("last_tick_us", sa.BigInteger, nullable=False),
    sa.Column("paused", sa.Boolean, nullable=False),
    sa.Column("by", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.CheckConstraint("name <> ''", name="name"),
    sa.CheckConstraint("revision >= 1", name="revision"),
)
"""How far the ticks of each schedule are dealt with. Its definition is in code; what stands here of it is for people."""

payload = sa.Table(
    "payload",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
"""Values that are too large for a journal row, by the digest of what is stored."""

run_payload = sa.Table(
    "run_payload",
    metadata,
    sa.Column("run", sa.BigInteger, sa.ForeignKey("run.number"), primary_key=True, autoincrement=False),
    sa.Column("digest", sa.Text, sa.ForeignKey("payload.digest"), primary_key=True, index=True),
)
"""Which payloads the entries of a run refer to: the others go when the last run is forgotten that does."""
