"""Temporal: an activity for each step, on its development server, which keeps its records in a SQLite file. What it promises about lost power is not said."""

import asyncio
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count
from pathlib import Path

import turns
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

QUEUE, WAIT = "bench", timedelta(seconds=60)
numbers = count(1)
if turns.URL:
    raise SystemExit("its development server keeps its records in SQLite only")


@activity.defn
def step(number: int) -> int:
    return number


@workflow.defn
class OneByOne:
    @workflow.run
    async def run(self, steps: int) -> int:
        for number in range(steps):
            await workflow.execute_activity(step, number, start_to_close_timeout=WAIT)
        return steps


def a_free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def served():
    port = a_free_port()
    program = Path(sys.executable).with_name("temporal")
    command = [str(program), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port)]
    command += ["--db-filename", turns.sqlite("temporal.db"), "--log-level", "error"]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return server, f"127.0.0.1:{port}"


async def working(address, runs, steps):
    client = await connected(address)
    worker = Worker(
        client,
        task_queue=QUEUE,
        workflows=[OneByOne],
        activities=[step],
        activity_executor=ThreadPoolExecutor(16),
        workflow_runner=UnsandboxedWorkflowRunner(),  # the faster one
    )
    async with worker:
        names = [f"run-{next(numbers)}" for _ in range(runs)]
        await asyncio.gather(*(client.execute_workflow(OneByOne.run, steps, id=name, task_queue=QUEUE) for name in names))


async def connected(address):
    for _ in range(100):  # it is bounded, and says so by its error
        try:
            return await Client.connect(address)
        except RuntimeError:
            await asyncio.sleep(0.1)
    return await Client.connect(address)


server, address = served()
asyncio.run(connected(address))


def taken(runs, steps):
    asyncio.run(working(address, runs, steps))


turns.serve(sequential=taken, concurrent=taken)
