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


def upgrade() -> None:
    op.create_table(
        "inbox",
        sa.Column("run", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("slot", sa.Text),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("token", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("run", "number", name="inbox_pk"),
        sa.ForeignKeyConstraint(["run"], ["run.number"], name="inbox_run_fk"),
        sa.UniqueConstraint("run", "token", name="inbox_run_token_unique"),
        sa.UniqueConstraint("run", "slot", name="inbox_run_slot_unique"),
        sa.CheckConstraint("kind <> ''", name=op.f("inbox_kind_check")),
        sa.CheckConstraint("slot <> ''", name=op.f("inbox_slot_check")),
        sa.CheckConstraint("token <> ''", name=op.f("inbox_token_check")),
        sa.CheckConstraint("number >= 1", name=op.f("inbox_number_check")),
    )
    op.create_table(
        "payload",
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="payload_pk"),
    )
    op.create_table(
        "run_payload",
        sa.Column("run", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("run", "digest", name="run_payload_pk"),
        sa.ForeignKeyConstraint(["run"], ["run.number"], name="run_payload_run_fk"),
        sa.ForeignKeyConstraint(["digest"], ["payload.digest"], name="run_payload_digest_fk"),
    )
    op.create_index("run_payload_digest", "run_payload", ["digest"])
