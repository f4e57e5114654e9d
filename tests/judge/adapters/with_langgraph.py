"""LangGraph's functional interface: the effect is a task, the checkpoint is written before going on, a crash is resumed with None as the input.

Its documentation asks to make effects idempotent, by idempotency keys or by verifying what is there already: the thread's id as the key, or
asking first; such tasks have a retry policy. Where the service has neither, there is no idempotent task to write, and it is not retried.
"""

import sqlite3
from typing import Any

import customer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task
from langgraph.types import RetryPolicy

verb, thread_id = customer.command()
saver = SqliteSaver(sqlite3.connect(f"{customer.STATE}/checkpoints.sqlite", check_same_thread=False, timeout=30))
again = RetryPolicy(initial_interval=0.3, max_attempts=4, retry_on=(OSError, customer.InFlight))


@task(retry_policy=None if customer.OFFER == "neither" else again)
def reserve(units: int) -> dict[str, Any]:
    if customer.OFFER == "look-up" and (made := customer.look_up(thread_id)):
        if made["units"] != units:
            raise customer.Conflict("reserved before, with other units")
        return made
    return customer.reserve(thread_id, units=units)


@entrypoint(checkpointer=saver)
def book(units: int) -> dict[str, Any]:
    return reserve(units).result()


try:
    given = customer.UNITS if verb == "run" else None
    made = book.invoke(given, {"configurable": {"thread_id": thread_id}}, durability="sync")
    if made is None:
        made = book.get_state({"configurable": {"thread_id": thread_id}}).values  # it had ended before
    customer.outcome(made)
except customer.Conflict as error:
    customer.refused(error)
except Exception as error:
    customer.error(error)
customer.leave()
