"""Standing: what stands in each queue, counted for people, in the same words on every dialect.

Owns those statements. Must not decide what is due: `schema` and `rules` say it. Invariant: what is touched are runs
that can go on, by the two indexes that hold them; neither what is settled nor what waits for a person is looked at.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import bindparam, func

from recovery.ports import Standing
from recovery.storage.schema import DUE_PREDICATE, OWNED_PREDICATE, run

_is_later: Final = run.c.next_look_us > bindparam("now_us")
_is_now: Final = sa.or_(run.c.next_look_us.is_(None), run.c.next_look_us <= bindparam("now_us"))

_FREE: Final = (
    sa.select(
        run.c.queue,
        func.count().filter(_is_now).label("due"),
        func.count().filter(_is_later).label("later"),
        func.min(func.coalesce(run.c.next_look_us, run.c.updated_at_us)).filter(_is_now).label("due_since_us"),
        func.min(run.c.next_look_us).filter(_is_later).label("next_due_us"),
    )
    .where(sa.text(DUE_PREDICATE))
    .group_by(run.c.queue)
)
_AT_WORK: Final = sa.select(run.c.queue, func.count().label("at_work")).where(sa.text(OWNED_PREDICATE)).group_by(run.c.queue)


def counted(connection: sa.Connection, now_us: int) -> list[Standing]:
    """`ports.Claiming.standing`, in a snapshot."""
    found: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for row in [*connection.execute(_FREE, {"now_us": now_us}).mappings(), *connection.execute(_AT_WORK).mappings()]:
        found[row["queue"]] |= row
    return [Standing(**{"queue": queue, **found[queue]}) for queue in sorted(found)]
