"""Happenings: what a scenario says about the environment, done to it.

Owns the meaning of each field of `moves.Happens`. Knows no journal and no engine. Invariant: what is not said does not happen.
"""

from __future__ import annotations

from collections.abc import Callable

from recovery.core.contracts import microseconds
from recovery.testing.environment import SimulatedEnvironment
from recovery.testing.moves import Happens


def happen(what: Happens, outside: SimulatedEnvironment, key_of: Callable[[str], str]) -> None:
    """Do it. `key_of`: the key of a step, or of a key itself. Raises LookupError, ValueError for what cannot happen now."""
    _on_the_way(what, outside)
    _inside(what, outside)
    for name in (what.remove, what.occupy):
        if name is not None:
            (outside.warehouse.remove if name is what.remove else outside.warehouse.occupy)(key_of(name))
    for name, changed in (what.alter or {}).items():
        outside.warehouse.alter(key_of(name), changed)
    if what.back_up:
        outside.back_up()
    if what.restore:
        outside.restore()


def _on_the_way(what: Happens, outside: SimulatedEnvironment) -> None:
    """Between a sender and the environment."""
    faults = outside.faults
    if what.hold is not None:
        faults.hold.append(None if isinstance(what.hold, str) else microseconds(what.hold))
    if what.duplicate is not None:
        faults.duplicate.append(None if isinstance(what.duplicate, str) else microseconds(what.duplicate))
    if what.deliver and not outside.deliver():
        raise LookupError("no request is held")
    if what.takes is not None:
        faults.takes_us.append(microseconds(what.takes))
    if what.drop_replies is not None:
        faults.drop_replies += what.drop_replies
    if what.down is not None:
        faults.down, faults.refuses = bool(what.down), what.down == "refused"


def _inside(what: Happens, outside: SimulatedEnvironment) -> None:
    inside = outside.warehouse
    if what.fail is not None:
        inside.failures.append(what.fail == "after")
    if what.break_after is not None:
        inside.breaks.append(what.break_after)
    if what.turn_away is not None:
        inside.turns_away += what.turn_away
    if what.key_store_down is not None:
        inside.key_store_down = what.key_store_down
    if what.scope is not None:
        inside.scope = what.scope
    if what.hidden is not None:
        inside.hidden = what.hidden
    if what.restock is not None:
        inside.restock(what.restock)
    if what.prune is not None:
        inside.prune(keys=what.prune != "receipts", receipts=what.prune != "keys")
