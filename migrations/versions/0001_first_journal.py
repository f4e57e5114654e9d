"""The first journal: meta, run, journal, key, contract, evidence.

Frozen: it says what version 0001 was, whatever `recovery.storage.schema` says today.
"""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_OPEN = "status NOT IN ('cancelled', 'completed', 'failed')"
_STATUS = "status IN ('cancelled', 'completed', 'diverged', 'failed', 'held', 'in_doubt', 'queued', 'running', 'waiting')"
_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_RUN_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def _named(name: str) -> str:
    """What it is called at the place that is migrated."""
    return str(op.get_context().opts["place"].named(name))


def upgrade() -> None:
    _meta()
    _run()
    _journal()
    _key_and_contract()
    _evidence()


def _meta() -> None:
    meta = op.create_table(
        _named("meta"),
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("incarnation", sa.BigInteger, nullable=False),
        sa.Column("format", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name=_named("meta_pk")),
        sa.CheckConstraint("id = 1", name=op.f(_named("meta_one_row_check"))),
        sa.CheckConstraint("namespace <> ''", name=op.f(_named("meta_namespace_check"))),
        sa.CheckConstraint("incarnation >= 0", name=op.f(_named("meta_incarnation_check"))),
    )
    # Goes into every derived key: two databases never share one, and a restored backup keeps its own.
    op.bulk_insert(meta, [{"id": 1, "namespace": secrets.token_hex(16), "incarnation": 0, "format": 1}])


def _run() -> None:
    op.create_table(
        _named("run"),
        sa.Column("number", _NUMBER, sa.Identity(), nullable=False),
        sa.Column("run_id", _RUN_ID, nullable=False),
        sa.Column("workflow", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("input_digest", sa.Text, nullable=False),
        sa.Column("epoch_incarnation", sa.BigInteger, nullable=False),
        sa.Column("epoch_n", sa.BigInteger, nullable=False),
        sa.Column("owner_token", sa.Text),
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
        sa.PrimaryKeyConstraint("number", name=_named("run_pk")),
        sa.UniqueConstraint("run_id", name=_named("run_run_id_unique")),
        sa.CheckConstraint("run_id <> ''", name=op.f(_named("run_run_id_check"))),
        sa.CheckConstraint(_STATUS, name=op.f(_named("run_status_check"))),
        sa.CheckConstraint("epoch_incarnation >= 0 AND epoch_n >= 1", name=op.f(_named("run_epoch_check"))),
        sa.CheckConstraint("owner_token <> ''", name=op.f(_named("run_owner_check"))),
        sa.CheckConstraint("lease_counter >= 0 AND lease_term_us >= 0", name=op.f(_named("run_lease_check"))),
        sa.CheckConstraint("head >= 1", name=op.f(_named("run_head_check"))),
    )
    op.create_index(_named("run_open"), _named("run"), ["run_id"], sqlite_where=sa.text(_OPEN), postgresql_where=sa.text(_OPEN))


def _journal() -> None:
    op.create_table(
        _named("journal"),
        sa.Column("run", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("step", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("epoch_incarnation", sa.BigInteger, nullable=False),
        sa.Column("epoch_n", sa.BigInteger, nullable=False),
        sa.Column("token", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("run", "seq", name=_named("journal_pk")),
        sa.ForeignKeyConstraint(["run"], [_named("run.number")], name=_named("journal_run_fk")),
        sa.CheckConstraint("seq >= 1", name=op.f(_named("journal_seq_check"))),
        sa.CheckConstraint("epoch_incarnation >= 0 AND epoch_n >= 1", name=op.f(_named("journal_epoch_check"))),
        sa.CheckConstraint("token <> ''", name=op.f(_named("journal_token_check"))),
    )


def _key_and_contract() -> None:
    op.create_table(
        _named("key"),
        sa.Column("environment", sa.Text, nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("step", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("environment", "scope", "key", name=_named("key_pk")),
        sa.CheckConstraint("key <> ''", name=op.f(_named("key_key_check"))),
    )
    op.create_table(
        _named("contract"),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("digest", name=_named("contract_pk")),
    )
    op.create_table(
        _named("run_contract"),
        sa.Column("run", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("run", "digest", name=_named("run_contract_pk")),
        sa.ForeignKeyConstraint(["run"], [_named("run.number")], name=_named("run_contract_run_fk")),
        sa.ForeignKeyConstraint(["digest"], [_named("contract.digest")], name=_named("run_contract_digest_fk")),
    )


def _evidence() -> None:
    op.create_table(
        _named("evidence"),
        sa.Column("number", _NUMBER, sa.Identity(), nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("step", sa.Text, nullable=False),
        sa.Column("epoch_incarnation", sa.BigInteger, nullable=False),
        sa.Column("epoch_n", sa.BigInteger, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("number", name=_named("evidence_pk")),
        sa.UniqueConstraint("digest", name=_named("evidence_digest_unique")),
    )
    op.create_index(_named("evidence_run_id"), _named("evidence"), ["run_id"])
