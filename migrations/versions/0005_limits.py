"""What limits of queues and environments look for: what was taken lately of each rate, and the due runs that have begun already.

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
        sa.PrimaryKeyConstraint("subject", name=op.f(_named("quota_pk"))),
        sa.CheckConstraint("subject <> ''", name=op.f(_named("quota_subject_check"))),
    )
    where = sa.text(_RESUMED)
    columns = ["queue", "priority", "next_look_us", "number"]
    op.create_index(_named("run_resumed"), _named("run"), columns, sqlite_where=where, postgresql_where=where)
