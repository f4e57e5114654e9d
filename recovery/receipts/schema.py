"""The receipt table: its columns, for the service's own metadata and the service's own migrations.

Owns the stored form. Knows nothing of transactions. Invariant: (scope, key) is unique, because that index, and no lock of our own
making, is what two transactions with one key meet at.

Rows are inserted, decided once, and never deleted. Deleting one by hand makes its key executable again.
"""

from __future__ import annotations

import sqlalchemy as sa

from recovery.core.ids import KEY_LENGTH_MAX
from recovery.receipts.records import Kind


def table(metadata: sa.MetaData, name: str = "receipt", schema: str | None = None) -> sa.Table:
    """Define the receipt table in ``metadata``. Create and migrate it with the tables whose effects it vouches for:
    it must live in the same database, or receipt and effect are two transactions and prove nothing about each other."""
    return sa.Table(
        name,
        metadata,
        sa.Column("scope", sa.String(255), primary_key=True),
        sa.Column("key", sa.String(KEY_LENGTH_MAX), primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("fingerprint", sa.String(128), nullable=False, server_default=""),  # "" if closed or fenced before any request
        sa.Column("error", sa.String(128), nullable=False, server_default=""),  # the name of a rejection
        sa.Column("value", sa.Text),  # JSON; NULL: undecided, closed, or pruned
        sa.Column("epoch", sa.String(41), nullable=False, server_default=""),  # the highest one seen, "incarnation.n"
        sa.Column("who", sa.String(255), nullable=False, server_default=""),  # who asked for it, as the service names its callers
        sa.Column("at_us", sa.BigInteger, nullable=False),  # when it was decided, on the environment's clock
        sa.CheckConstraint(sa.column("kind").in_([str(kind) for kind in Kind]), name=f"ck_{name}_kind"),
        # Only what can be pruned is in it, so that pruning costs what it prunes and not what is stored.
        sa.Index(
            f"ix_{name}_prunable",
            "at_us",
            postgresql_where=sa.column("value").is_not(None),
            sqlite_where=sa.column("value").is_not(None),
        ),
        schema=schema,
    )
