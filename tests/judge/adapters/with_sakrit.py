"""sakrit: the leased ledger of several workers; a provider key with its lifetime (L2), a reconcile (L1), or neither (L0), as the service offers.

An absence found by `reconcile` is surfaced, which is its default for irreversible effects. In leased mode recovery is a call like any other.
"""

from typing import Any

import customer
from sakrit import ArgClass, EffectDecl, Sakrit, SqliteLedger, current_key
from sakrit.core.errors import AmbiguousOutcome, DivergentRetry, EffectInFlightError
from sakrit.core.reconcile import Reconciliation


def reconcile(key: str) -> Reconciliation:
    made = customer.look_up(key)
    return Reconciliation.settled(made) if made else Reconciliation.absent()


DECLARED: dict[str, dict[str, Any]] = {
    "keys": {"provider_key_param": "idempotency_key", "provider_ttl_s": customer.WINDOW_SECONDS},
    "look-up": {"reconcile": reconcile, "provider_read": "strong"},
    "neither": {},
}
ledger = SqliteLedger(f"{customer.STATE}/sakrit.db", multi_worker=True)
sakrit = Sakrit(ledger, secret=b"a secret of this deployment", lease_seconds=customer.LEASE_SECONDS, wait_timeout=20)
_, workflow_id = customer.command()


@sakrit.effect(EffectDecl("reserve", {"units": ArgClass.IDENTITY}, **DECLARED[customer.OFFER]), key=workflow_id)
def reserve(units: int, idempotency_key: str | None = None) -> dict[str, Any]:
    return customer.reserve(idempotency_key or current_key(), units=units)


try:
    customer.outcome(reserve(units=customer.UNITS))
except AmbiguousOutcome as error:
    customer.in_doubt(error)
except (DivergentRetry, customer.Conflict) as error:
    customer.refused(error)
except (EffectInFlightError, customer.InFlight) as error:
    customer.later(error)
except Exception as error:
    customer.error(error)
