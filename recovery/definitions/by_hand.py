"""By hand: an undoing that a person is asked for, as an effect.

Owns its definition. It sends nothing to anybody: the report of the run's doubt is the request, and a person's word its outcome. Invariant:
nothing but a person's word settles it, since nobody answers and there is nobody to ask.
"""

from __future__ import annotations

from typing import Any

from recovery.core import contracts
from recovery.core.compensating import BY_HAND
from recovery.definitions.answer import ReplyWas, Unreachable
from recovery.definitions.call import Call
from recovery.definitions.effect import effect


@effect(contracts.Opaque(), name=BY_HAND)
def by_hand(call: Call, *, step: str, effect: str, key: str, outcome: Any) -> None:  # noqa: ARG001  # what a person needs to know
    """Undo an effect that its run cannot undo."""
    raise ReplyWas(Unreachable(detail="a person is asked"))
