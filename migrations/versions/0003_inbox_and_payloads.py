"""What runs are told from outside, and values that are too large for a row.

Frozen: it says what version 0003 added, whatever `recovery.storage.schema` says today.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def _named(name: str) -> str:
    """What it is called at the place that is migrated."""
    return str(op.get_context().opts["place"].named(name))


def upgrade() -> None:
    op.create_table(
        _named("inbox"),
        sa.Column("run", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("slot", sa.Text),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("token", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("run", "number", name=_named("inbox_pk")),
        sa.ForeignKeyConstraint(["run"], [_named("run.number")], name=_named("inbox_run_fk")),
        sa.UniqueConstraint("run", "token", name=_named("inbox_run_token_unique")),
        sa.UniqueConstraint("run", "slot", name=_named("inbox_run_slot_unique")),
        sa.CheckConstraint("kind <> ''", name=op.f(_named("inbox_kind_check"))),
        sa.CheckConstraint("slot <> ''", name=op.f(_named("inbox_slot_check"))),
        sa.CheckConstraint("token <> ''", name=op.f(_named("inbox_token_check"))),
        sa.CheckConstraint("number >= 1", name=op.f(_named("inbox_number_check"))),
    )
    op.create_table(
        _named("payload"),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("digest", name=_named("payload_pk")),
    )
    op.create_table(
        _named("run_payload"),
        sa.Column("run", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("run", "digest", name=_named("run_payload_pk")),
        sa.ForeignKeyConstraint(["run"], [_named("run.number")], name=_named("run_payload_run_fk")),
        sa.ForeignKeyConstraint(["digest"], [_named("payload.digest")], name=_named("run_payload_digest_fk")),
    )
    op.create_index(_named("run_payload_digest"), _named("run_payload"), ["digest"])
