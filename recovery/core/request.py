"""Requests: one effect as the workflow asks for it now.

Owns what would be written into a new intent, and which contracts a person may hold. Invariant: plain data; the core never looks into the bound call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recovery.core.contracts import Contract
from recovery.core.entries import JSON, Attempt, Intent
from recovery.core.limits import Rate
from recovery.core.policy import Policy
from recovery.core.values import value


@value(frozen=True, slots=True, kw_only=True)
class Request:
    """One effect as the workflow asks for it now: what would be written into a new intent, and what can be asked."""

    effect: str
    environment: str
    scope: str
    key: str
    fingerprint: str
    arguments: JSON
    contract: Contract
    timeout_us: int
    can_probe: bool
    can_close: bool
    subject: Any
    valid_until_us: int | None = None  # of this call; the contract may say sooner
    can_cancel: bool = False
    undoes: str = ""  # the step whose effect this undoes
    by_hand: Mapping[str, str] | None = None  # a person is asked to do it: what CompensationStuck says
    deadline_us: int | None = None  # of the scope that it is begun in
    retry: Policy | None = None
    rate: Rate | None = None  # of its environment: how often an attempt may be made
    rides: bool = True  # its outcome may become durable with the run's next entries, where its contract allows that
    definition: Any = None  # what the call is one of, by which it can be bound again from recorded arguments; None: it cannot
    same_bytes: bool = True  # its arguments are as recorded, not the same in another version of their models

    def intent(self, step: str, at_us: int, attempt: Attempt | None = None) -> Intent:
        """As it is asked for now; attempt: the first one, durable with it."""
        retry = self.retry
        return Intent(
            step, self.effect, self.environment, self.scope, self.key, self.fingerprint, self.arguments, self.contract.digest, self.timeout_us, at_us,
            attempt, self._valid_until(at_us), self.undoes, self.deadline_us,
            None if retry is None else retry.attempts_max,
            None if retry is None or retry.within_us is None else at_us + retry.within_us,
        )  # fmt: skip

    def _valid_until(self, at_us: int) -> int | None:
        """The soonest of what this call, its contract and its scope say."""
        for_us = self.contract.valid_for_us
        if for_us is None and self.valid_until_us is None and self.deadline_us is None:
            return None
        said = (self.valid_until_us, None if for_us is None else at_us + for_us, self.deadline_us)
        return min((until for until in said if until is not None), default=None)


def holding(contracts: tuple[Contract, ...], holds: frozenset[str]) -> bool:
    """Whether one of `contracts` is held, by its digest or by its name."""
    return bool(holds) and any(contract.digest in holds or contract.name in holds for contract in contracts)
