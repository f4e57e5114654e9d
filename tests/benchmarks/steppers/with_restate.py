"""Restate: a workflow whose steps are `ctx.run`, on its server on this machine. It keeps the outcome of each step; whether its log is synced is its default."""

import asyncio
import os
import socket
import subprocess
import threading
import time
from itertools import count
from pathlib import Path

import httpx
import hypercorn.asyncio
import hypercorn.config
import restate
import turns

if turns.URL:
    raise SystemExit("it keeps its records in files of its own")
numbers = count(1)
one_by_one = restate.Workflow("OneByOne")


@one_by_one.main()
async def run(context: restate.WorkflowContext, steps: int) -> int:
    for number in range(steps):
        await context.run_typed("step", lambda number=number: number)
    return steps


def a_free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


INGRESS, ADMIN, NODE, SERVICE = (a_free_port() for _ in range(4))


def served():
    program = Path(os.environ["VIRTUAL_ENV_OF_PEER"]) / "node_modules" / ".bin" / "restate-server"
    settings = {
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{INGRESS}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{ADMIN}",
        "RESTATE_BIND_ADDRESS": f"127.0.0.1:{NODE}",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_LISTEN_MODE": "tcp",
    }
    command = [str(program), "--base-dir", turns.sqlite("restate"), "--node-name", "bench"]
    with Path(turns.sqlite("restate.log")).open("w") as said:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=os.environ | settings)


def listening():
    config = hypercorn.config.Config()
    config.bind = [f"127.0.0.1:{SERVICE}"]
    asyncio.run(hypercorn.asyncio.serve(restate.app([one_by_one]), config, shutdown_trigger=asyncio.Event().wait))


def registered():
    """It is bounded, and says so by its error."""
    for attempt in range(300):
        try:
            told = httpx.post(f"http://127.0.0.1:{ADMIN}/deployments", json={"uri": f"http://127.0.0.1:{SERVICE}"}, timeout=30)
            told.raise_for_status()
            return
        except httpx.HTTPError:
            if attempt == 299:
                raise
            time.sleep(0.1)


server = served()
threading.Thread(target=listening, daemon=True).start()
registered()


async def wanted(client, steps):
    told = await client.post(f"http://127.0.0.1:{INGRESS}/OneByOne/run-{next(numbers)}/run", json=steps)
    told.raise_for_status()


def taken(runs, steps):
    async def all_of_them():
        async with httpx.AsyncClient(timeout=300, limits=httpx.Limits(max_connections=None)) as client:
            await asyncio.gather(*(wanted(client, steps) for _ in range(runs)))

    asyncio.run(all_of_them())


turns.serve(sequential=taken, concurrent=taken)
