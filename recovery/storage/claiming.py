"""Claiming: the statements by which a run gets an owner, keeps it and loses it.

Owns what a claim changes in a run's row. Knows no transaction. Invariant: a claim raises the epoch, whoever had the run.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import bindparam

from recovery.ports import Owner, RunRow
from recovery.storage import statements as say
from recovery.storage.schema import run, stub

_claiming: Final = {
    # A raised incarnation starts again at 1: (1, 1) is above every epoch of the timeline that was lost.
    "epoch_incarnation": say.THE_INCARNATION,
    "epoch_n": sa.case((run.c.epoch_incarnation == say.THE_INCARNATION, run.c.epoch_n + 1), else_=1),
    "lease_counter": 0,
    "crashes": sa.case((run.c.owner_token.is_(None), run.c.crashes), else_=run.c.crashes + 1),
    "updated_at_us": sa.case(
        (run.c.updated_at_us > bindparam("new_updated_at_us"), run.c.updated_at_us), else_=bindparam("new_updated_at_us")
    ),
    **{name: bindparam(f"new_{name}") for name in (*say.OWNER, "lease_term_us")},
}
_not_forgotten: Final = ~sa.exists().where(stub.c.run == run.c.number)
CLAIM: Final = (
    sa.update(run)
    .where(
        run.c.run_id == bindparam("of_run"),
        run.c.epoch_incarnation == bindparam("seen_incarnation"),
        run.c.epoch_n == bindparam("seen_n"),
        run.c.lease_counter == bindparam("seen_counter"),
        sa.func.coalesce(run.c.owner_token, "") == bindparam("seen_token"),
        _not_forgotten,
    )
    .values(_claiming)
    .returning(run)
)
CLAIM_LOCKED: Final = (
    sa.update(run).where(run.c.number.in_(bindparam("numbers", expanding=True)), _not_forgotten).values(_claiming).returning(run)
)
"""For runs whose rows are locked, and were seen to be nobody's behind that lock."""
RENEW: Final = sa.update(run).where(*say.HELD_BY).values(lease_counter=run.c.lease_counter + 1).returning(run.c.number)
_due: Final = bindparam("due_us", type_=sa.BigInteger)
RELEASE: Final = (
    sa.update(run)
    .where(*say.HELD_BY)
    .values(
        owner_token=None,
        crashes=0,
        next_look_us=sa.case(
            (sa.and_(say.RESTS, sa.or_(run.c.next_look_us.is_(None), run.c.next_look_us > _due)), _due), else_=run.c.next_look_us
        ),
    )
    .returning(run.c.status, run.c.next_look_us)
)
"""Where nothing broke off `due_us` is NULL, than which nothing is greater: the next look stays."""


def claim_of(seen: RunRow, owner: Owner, lease_term_us: int, at_us: int) -> dict[str, Any]:
    return claim_by(owner, lease_term_us, at_us) | {
        "of_run": seen.run_id,
        "seen_incarnation": seen.epoch.incarnation,
        "seen_n": seen.epoch.n,
        "seen_counter": seen.lease_counter,
        "seen_token": "" if seen.owner is None else seen.owner.token,
    }


def claim_by(owner: Owner, lease_term_us: int, at_us: int) -> dict[str, Any]:
    columns = say.owner_columns(owner) | {"lease_term_us": lease_term_us, "updated_at_us": at_us}
    return {f"new_{name}": value for name, value in columns.items()}
