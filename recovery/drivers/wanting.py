"""Wanting: what a workflow wants again after a rejection, as a further logical effect.

Owns the names of the further keys. Does no I/O. Invariant: each further effect has a key of its own, which is the same in every replay and never one
that the environment has already refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from recovery.core.entries import Settled
from recovery.core.request import Request
from recovery.definitions.bound import Bound
from recovery.definitions.retry import Retry


@dataclass(frozen=True, slots=True)
class Wanting:
    """One call with a policy for its rejections. `key`: the business key of the first effect; None: each is derived from its step."""

    bound: Bound[Any]
    retry: Retry
    key: str | None
    requested: Callable[[str, Bound[Any], str | None], Request]
    keys: dict[str, str] = field(default_factory=dict)  # by step

    def request(self, step: str, generation: int) -> Request:
        """What would be written into a new intent: the first one under the key itself, the second under `KEY~2`, and so on."""
        key = self.key if self.key is None or generation == 1 else f"{self.key}~{generation}"
        request = self.requested(step, self.bound, key)
        self.keys[step] = request.key
        return request

    def cause_of(self, settled: Settled) -> str:
        """The class of a rejection after which it is wanted again; "" where the policy names none."""
        return self.retry.again(self.bound.effect.decode_rejection(settled.error, settled.value))
