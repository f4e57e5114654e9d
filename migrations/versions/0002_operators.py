"""What operators need: holds of contracts, and stubs of forgotten runs.

Frozen: it says what version 0002 added, whatever `recovery.storage.schema` says today.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _named(name: str) -> str:
    """What it is called at the place that is migrated."""
    return str(op.get_context().opts["place"].named(name))


def upgrade() -> None:
    op.create_table(
        _named("hold"),
        sa.Column("number", _NUMBER, sa.Identity(), nullable=False),
        sa.Column("token", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("held", sa.Boolean, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("number", name=_named("hold_pk")),
        sa.UniqueConstraint("token", name=_named("hold_token_unique")),
        sa.CheckConstraint("subject <> ''", name=op.f(_named("hold_subject_check"))),
    )
    op.create_index(_named("hold_subject"), _named("hold"), ["subject"])
    op.create_table(
        _named("stub"),
        sa.Column("run", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("outcome_digest", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("run", name=_named("stub_pk")),
        sa.ForeignKeyConstraint(["run"], [_named("run.number")], name=_named("stub_run_fk")),
    )
