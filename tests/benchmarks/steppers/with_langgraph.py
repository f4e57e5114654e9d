"""LangGraph: a graph that goes through one node again and again, with `durability="sync"`: a checkpoint is written before the next step.

What it keeps is the outcome of each step. Tasks of its functional interface would be faster, and are not taken: what they came to is written in the
background, and the next one begins before it is durable.
"""

import asyncio
import sqlite3
from itertools import count
from typing import TypedDict

import turns
from langgraph.graph import END, START, StateGraph

numbers = count(1)


class State(TypedDict):
    number: int
    steps: int


def step(state: State) -> dict[str, int]:
    return {"number": state["number"] + 1}


async def step_async(state: State) -> dict[str, int]:
    return {"number": state["number"] + 1}


def whither(state: State) -> str:
    return "step" if state["number"] < state["steps"] else END


def compiled(node, saver):
    graph = StateGraph(State)
    graph.add_node("step", node)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", whither, ["step", END])
    return graph.compile(checkpointer=saver)


def saver():
    if turns.URL:
        import psycopg
        from langgraph.checkpoint.postgres import PostgresSaver

        made = PostgresSaver(psycopg.connect(turns.URL, autocommit=True, prepare_threshold=0, row_factory=psycopg.rows.dict_row))
        made.setup()
        return made
    from langgraph.checkpoint.sqlite import SqliteSaver

    connection = sqlite3.connect(turns.sqlite("checkpoints.sqlite"), check_same_thread=False, timeout=30)
    connection.execute("PRAGMA synchronous=FULL")
    return SqliteSaver(connection)


def asynchronous_saver():
    if turns.URL:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

        return AsyncPostgresSaver.from_conn_string(turns.URL)
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    return AsyncSqliteSaver.from_conn_string(turns.sqlite("checkpoints.sqlite"))


def configured(steps):
    return {"configurable": {"thread_id": f"run-{next(numbers)}"}, "recursion_limit": steps + 10}


graph = compiled(step, saver())


def sequential(runs, steps):
    for _ in range(runs):
        graph.invoke({"number": 0, "steps": steps}, configured(steps), durability="sync")


def concurrent(runs, steps):
    async def together():
        async with asynchronous_saver() as kept:
            if not turns.URL:
                await kept.setup()
                await kept.conn.execute("PRAGMA synchronous=FULL")
            made = compiled(step_async, kept)

            async def all_of_them():
                given = {"number": 0, "steps": steps}
                await asyncio.gather(*(made.ainvoke(given, configured(steps), durability="sync") for _ in range(runs)))

            return await turns.ticking(all_of_them())

    return asyncio.run(together())


turns.serve(sequential=sequential, concurrent=concurrent)
