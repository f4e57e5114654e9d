"""What a workflow asks for, and how it is made to stop asking.

Owns the request for one effect, as the workflow makes it now, and the Unwind that leaves a workflow. Knows nothing of what was recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recovery.core.contracts import Contract
from recovery.core.entries import JSON, Intent
from recovery.core.errors import RecoveryError


class Unwind(BaseException):
    """Leaves a workflow that must not go on. Not an Exception, so that `except Exception` cannot swallow doubt; the machine
    remembers it too, so that whoever swallows it all the same raises it again with the next step."""

    def __init__(self, error: RecoveryError) -> None:
        self.error = error
        super().__init__(str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
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

    def intent(self, step: str, at_us: int) -> Intent:
        return Intent(
            step=step,
            effect=self.effect,
            environment=self.environment,
            scope=self.scope,
            key=self.key,
            fingerprint=self.fingerprint,
            arguments=self.arguments,
            contract=self.contract.digest,
            timeout_us=self.timeout_us,
            at_us=at_us,
        )
