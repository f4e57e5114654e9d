"""What limits and schedules need: what was taken lately of each rate, the due runs that have begun already, and how far ticks are dealt with.

Frozen: it says what version 0005 added, whatever `recovery.storage.schema` says today.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

_RESUMED = "owner_token IS NULL AND (status = 'running' OR (status IN ('in_doubt', 'waiting') AND next_look_us IS NOT NULL))"


def _named(name: str) -> str:
    """What it is called at the place that is migrated."""
    return str(op.get_context().opts["place"].named(name))


def upgrade() -> None:
    op.create_table(
        _named("quota"),
        sa.Column("subject", _NAME, nullable=False),
        sa.Column("taken", sa.Text, nullable=False),
        sa.Column("promised_us", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("subject", name=op.f(_named("quota_pk"))),
        sa.CheckConstraint("subject <> ''", name=op.f(_named("quota_subject_check"))),
    )
    op.create_table(
        _named("schedule"),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("cron", sa.Text, nullable=False),
        sa.Column("timezone", sa.Text, nullable=False),
        sa.Column("through_us", sa.BigInteger, nullable=False),
        sa.Column("next_us", sa.BigInteger),
        sa.Column("last_run", sa.Text, nullable=False),
        sa.Column("last_tick_us", sa.BigInteger, nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f(_named("schedule_pk"))),
        sa.CheckConstraint("name <> ''", name=op.f(_named("schedule_name_check"))),
        sa.CheckConstraint("revision >= 1", name=op.f(_named("schedule_revision_check"))),
    )
    where = sa.text(_RESUMED)
    columns = ["queue", "priority", "next_look_us", "number"]
    op.create_index(_named("run_resumed"), _named("run"), columns, sqlite_where=where, postgresql_where=where)
