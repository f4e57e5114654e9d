"""DBOS Transact: a workflow of steps. What it keeps is the outcome of each step, not the intent."""

import asyncio
from itertools import count

import turns
from dbos import DBOS, DBOSConfig, SetWorkflowID

config: DBOSConfig = {
    "name": "bench",
    "system_database_url": turns.URL or f"sqlite:///{turns.sqlite('dbos.sqlite')}",
    "run_admin_server": False,
    "log_level": "ERROR",
}
DBOS(config=config)
numbers = count(1)


@DBOS.step()
def step(number: int) -> int:
    return number


@DBOS.step()
async def step_async(number: int) -> int:
    return number


@DBOS.workflow()
def one_by_one(steps: int) -> int:
    for number in range(steps):
        step(number)
    return steps


@DBOS.workflow()
async def one_by_one_async(steps: int) -> int:
    for number in range(steps):
        await step_async(number)
    return steps


DBOS.launch()


def sequential(runs, steps):
    for _ in range(runs):
        with SetWorkflowID(f"run-{next(numbers)}"):
            one_by_one(steps)


def concurrent(runs, steps):
    async def all_of_them():
        handles = []
        for _ in range(runs):
            with SetWorkflowID(f"run-{next(numbers)}"):
                handles.append(await DBOS.start_workflow_async(one_by_one_async, steps))
        await asyncio.gather(*(handle.get_result() for handle in handles))

    return asyncio.run(turns.ticking(all_of_them()))


turns.serve(sequential=sequential, concurrent=concurrent)
