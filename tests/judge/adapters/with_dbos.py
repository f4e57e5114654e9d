"""DBOS Transact: one workflow, one step, its system database in SQLite. Launching recovers what this executor has left pending.

Its documentation asks for idempotent steps: the workflow's id as the key where keys are honoured, and asking first where there is a look-up; such
steps are retried. Where there is neither, there is no idempotent step to write, and it is not retried. Two live processes are two executors.
"""

from typing import Any

import customer
from dbos import DBOS, DBOSConfig, SetWorkflowID

verb, workflow_id = customer.command()
executor = f"worker-{customer.PROCESS}" if verb == "run" else "worker-1"
config: DBOSConfig = {
    "name": "judge",
    "system_database_url": f"sqlite:///{customer.STATE}/dbos.sqlite",
    "executor_id": executor,
    "run_admin_server": False,
    "log_level": "ERROR",
}
DBOS(config=config)


@DBOS.step(retries_allowed=customer.OFFER != "neither", max_attempts=4, interval_seconds=0.3)
def reserve(units: int) -> dict[str, Any]:
    key = DBOS.workflow_id
    assert key is not None
    if customer.OFFER == "look-up" and (made := customer.look_up(key)):
        if made["units"] != units:
            raise customer.Conflict("reserved before, with other units")
        return made
    return customer.reserve(key, units=units)


@DBOS.workflow()
def book(units: int) -> dict[str, Any]:
    return reserve(units)


DBOS.launch()
try:
    if verb == "run":
        with SetWorkflowID(workflow_id):
            customer.outcome(book(customer.UNITS))
    else:
        customer.outcome(DBOS.retrieve_workflow(workflow_id).get_result())
except customer.Conflict as error:
    customer.refused(error)
except Exception as error:
    customer.error(error)
customer.leave()
