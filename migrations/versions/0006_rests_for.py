"""What kind of thing a run that waits rests for, as a value of its own. It could be told from the beginning of its reason only.

Frozen: it says what version 0006 added, whatever `recovery.storage.schema` says today.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_KINDS = "rests_for IN ('', 'time', 'environment', 'answer', 'message', 'child', 'child_answer')"

_BEGINS = (
    ("the answer to ", "answer"),
    ("the next message of ", "message"),
    ("an answer to child ", "child_answer"),
    ("child ", "child"),
)
_IS = {"sleeping": "time", "retrying": "time", "rate-limited": "time", "": ""}
"""How reasons began, or what they were, until 0005; any other one of a run that waits named why an effect is looked at again."""


def _named(name: str) -> str:
    """What it is called at the place that is migrated."""
    return str(op.get_context().opts["place"].named(name))


def upgrade() -> None:
    check = sa.CheckConstraint(_KINDS, name=op.f(_named("run_rests_for_check")))
    op.add_column(_named("run"), sa.Column("rests_for", sa.Text, check, nullable=False, server_default=""))
    run = sa.table(_named("run"), sa.column("status"), sa.column("reason"), sa.column("rests_for"))
    told = sa.case(
        *((sa.func.substr(run.c.reason, 1, len(begins)) == begins, kind) for begins, kind in _BEGINS),
        *((run.c.reason == reason, kind) for reason, kind in _IS.items()),
        else_="environment",
    )
    op.execute(sa.update(run).where(run.c.status == "waiting").values(rests_for=told))
