"""The agent of the examples as a process: runs or recovers one run, and prints which named places it passed.

`agent_worker.py COLOUR RUN_ID GOAL`; the environment says where everything is, and where to die.
"""

from __future__ import annotations

import asyncio
import json
import sys

from recovery import errors
from recovery.crashpoints import hooked


def main(colour: str, run_id: str, goal: str) -> int:
    from recovery.examples import agent

    passages: list[str] = []
    with hooked(passages.append):
        try:
            if colour == "sync":
                with agent.engine:
                    said = agent.engine.run(run_id, agent.agent, goal)
            else:
                said = asyncio.run(awaited(run_id, goal))
            code = 0
        except errors.AnswerPending as waits:
            said, code = str(waits), int(waits.exit_code)
    print(json.dumps({"said": said, "passages": passages}))
    return code


async def awaited(run_id: str, goal: str) -> str:
    from recovery.examples import agent

    async with agent.async_engine as engine:
        return await engine.run(run_id, agent.agent_async, goal)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
