"""effect-ledger: `execute`, and after a crash `recover` with a policy that asks the service or, within the key's window, allows one more attempt.

`recover` wants to be told that the workers are stopped. The judge says whether the operator knows that; without it, nothing is recovered.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import customer
from effect_ledger import EffectExecutor, Operation, OperationConflict, RecoveryDecision

verb, workflow_id = customer.command()


def policy(operation: Operation) -> RecoveryDecision | None:
    """Abstains where the service gives no evidence."""
    decision = f"{workflow_id}-{operation.version}"
    if customer.OFFER == "look-up" and (made := customer.look_up(operation.provider_key)):
        return RecoveryDecision("complete", decision, "the service lists it", made)
    if (
        customer.OFFER == "keys"
        and operation.created_at
        and _age(operation.created_at) < timedelta(seconds=customer.WINDOW_SECONDS)
    ):
        return RecoveryDecision("retry", decision, "the service still knows the key")
    return None


def _age(created_at: str) -> timedelta:
    created = datetime.fromisoformat(created_at)
    return datetime.now(UTC) - (created if created.tzinfo else created.replace(tzinfo=UTC))


def reserve(operation: Operation) -> dict[str, Any]:
    return customer.reserve(operation.provider_key, units=operation.request["units"])


executor = EffectExecutor(f"{customer.STATE}/effects.sqlite", scope="judge", recovery=policy)
try:
    if verb == "recover" and customer.WORKERS_STOPPED:
        executor.recover(workflow_id, workers_stopped=True)
    operation = executor.execute(workflow_id, "reserve:v1", {"units": customer.UNITS}, reserve)
    if operation.state == "completed":
        customer.outcome(operation.result)
    else:
        customer.in_doubt(f"{operation.state} {operation.error or ''}")
except OperationConflict as error:
    customer.refused(error)
except Exception as error:
    customer.error(error)
