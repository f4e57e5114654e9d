"""What workers look for: runs that are due, in the order of their queues, and runs that somebody has.

Frozen: it says what version 0004 added, whatever `recovery.storage.schema` says today.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

_DUE = (
    "owner_token IS NULL AND (status IN ('queued', 'running') OR (status IN ('in_doubt', 'waiting') AND next_look_us IS NOT NULL))"
)
_OWNED = "owner_token IS NOT NULL AND status IN ('in_doubt', 'queued', 'running', 'waiting')"


def _named(name: str) -> str:
    """What it is called at the place that is migrated."""
    return str(op.get_context().opts["place"].named(name))


def upgrade() -> None:
    op.add_column(_named("run"), sa.Column("queue", _NAME, nullable=False, server_default=""))
    op.add_column(_named("run"), sa.Column("priority", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column(_named("run"), sa.Column("crashes", sa.BigInteger, nullable=False, server_default="0"))
    for name, columns, predicate in (
        ("run_due", ["queue", "priority", "next_look_us", "number"], _DUE),
        ("run_owned", ["queue", "run_id"], _OWNED),
    ):
        where = sa.text(predicate)
        op.create_index(_named(name), _named("run"), columns, sqlite_where=where, postgresql_where=where)
