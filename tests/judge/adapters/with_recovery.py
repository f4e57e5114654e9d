"""recovery: one contract for each offer of the service, with its probe where there is a look-up."""

from datetime import timedelta

import customer

from recovery import (
    Absent,
    Answer,
    Budget,
    Call,
    Engine,
    Environment,
    Found,
    InFlight,
    Lease,
    Mismatch,
    NotSent,
    ReplyWas,
    Run,
    contracts,
    effect,
    workflow,
)
from recovery.contracts import Deletion, Lookup
from recovery.errors import EffectInDoubt, OwnershipError, RecoveryError, RunInDoubt, RunInputDiffers, Unresolved

SETTLE = timedelta(seconds=customer.SETTLE_SECONDS)
CONTRACT = {
    "keys": contracts.Keyed(window=timedelta(seconds=customer.WINDOW_SECONDS)),
    "look-up": contracts.Probeable(lookup=Lookup(deletion=Deletion.IMPOSSIBLE), settle_window=SETTLE),
    "neither": contracts.Opaque(),
}[customer.OFFER]


@effect(CONTRACT, environment=Environment("reservations", scope="judge"), timeout=timedelta(seconds=customer.TIMEOUT_SECONDS))
def reserve(call: Call, *, units: int) -> dict[str, str | int]:
    if (left := call.remaining_seconds()) <= 0:
        raise ReplyWas(NotSent())
    try:
        return customer.reserve(call.key, units=units, timeout=left)
    except customer.Conflict as error:
        raise ReplyWas(Mismatch()) from error
    except customer.InFlight as error:
        raise ReplyWas(InFlight(timedelta(milliseconds=200))) from error


if customer.OFFER == "look-up":

    @reserve.probe
    def find(call: Call, *, units: int) -> Answer[dict[str, str | int]]:
        made = customer.look_up(call.key)
        return Found(made) if made else Absent()


@workflow
def book(run: Run, units: int) -> dict[str, str | int]:
    return run.perform(reserve(units=units))


verb, run_id = customer.command()
lease = Lease(term=timedelta(seconds=customer.LEASE_SECONDS), renew_every=timedelta(seconds=customer.LEASE_SECONDS / 4))
budget = Budget(max_wait=timedelta(seconds=15))
with Engine(f"sqlite:///{customer.STATE}/journal.db", workflows=[book], lease=lease, budget=budget) as engine:
    try:
        if verb == "run":
            customer.outcome(engine.run(run_id, book, customer.UNITS))
        else:
            customer.outcome(engine.recover(run_id, wait_for_owner=timedelta(seconds=10)).result())
    except (EffectInDoubt, RunInDoubt) as error:
        customer.in_doubt(error)
    except RunInputDiffers as error:
        customer.refused(error)
    except (Unresolved, OwnershipError) as error:
        customer.later(error)
    except RecoveryError as error:
        customer.error(error)
