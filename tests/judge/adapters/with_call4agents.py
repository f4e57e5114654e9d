"""call4agents: `idempotent_for` where keys are honoured, `reconcile` where there is a look-up, nothing where there is neither.

A resume is the same call in the same run. A named key, so that other arguments under it are a conflict.
"""

from typing import Any

import call4agents
import customer

call4agents.init(f"{customer.STATE}/ledger.sqlite")
_, workflow_id = customer.command()


def asked(units: int) -> dict[str, Any] | None:
    return customer.look_up(workflow_id)


STATED: dict[str, dict[str, Any]] = {
    "keys": {"idempotent_for": customer.WINDOW_SECONDS},
    "look-up": {"reconcile": asked},
    "neither": {},
}


@call4agents.effect(name="reserve", key=lambda units: workflow_id, **STATED[customer.OFFER])
def reserve(units: int) -> dict[str, Any]:
    key = workflow_id if customer.OFFER == "look-up" else call4agents.idempotency_key()
    return customer.reserve(key, units=units)


try:
    with call4agents.run(workflow_id):
        customer.outcome(reserve(customer.UNITS))
except call4agents.EffectInDoubt as error:
    customer.in_doubt(error)
except (call4agents.KeyConflict, customer.Conflict) as error:
    customer.refused(error)
except Exception as error:
    customer.error(error)
