"""The app of the command-line tests, copied as `shop.py` into a directory of its own.

Files in the current directory say how its world behaves: `ledger` counts what really happened (one line per effect), `unreachable`
makes the environment silent, and while `closed` exists an effect waits in front of it.
"""

from __future__ import annotations

import os
import sys
import threading
from datetime import timedelta
from pathlib import Path

from recovery import Call, Engine, Environment, NotSent, Rejection, ReplyWas, Run, contracts, effect, workflow

world = Environment("world", scope="tests")


class NoStock(Rejection):
    item: str


def happen(line: str) -> None:
    while Path("closed").exists():
        threading.Event().wait(0.02)
    if Path("unreachable").exists():
        raise ConnectionError("the line is dead")
    with Path("ledger").open("a") as ledger:
        ledger.write(f"{line}\n")


@effect(contracts.Opaque(), environment=world)
def mail(call: Call, *, to: str) -> str:
    happen(f"mail {call.key}")
    return f"sent to {to}"


@effect(contracts.Keyed(window=timedelta(hours=24)), environment=world, rejects=(NoStock,), timeout=timedelta(seconds=2))
def book(call: Call, *, item: str) -> str:
    if item == "nothing":
        raise NoStock(item=item)
    if item == "later":
        raise ReplyWas(NotSent())
    happen(f"book {call.key}")
    return f"booked {item}"


@workflow
def order(run: Run, item: str) -> str:
    colour = run.decide("colour", lambda: "blue")
    return run.perform(book(item=item), key=f"book-{run.run_id}") + f" in {colour}"


@workflow
def notify(run: Run, to: str) -> str:
    return run.perform(mail(to=to), key=f"mail-{run.run_id}")


@workflow
def unstorable(run: Run) -> str:
    return run.perform(book(item="x"), key=f"book-{run.run_id}") and object()  # type: ignore[return-value]


@workflow
def bundle(run: Run, first: str, second: str) -> list[str]:
    run.start(notify("the warehouse"), run_id=f"{run.run_id}.mail", detached=True)
    return [run.call_child(order(item), run_id=f"{run.run_id}.{item}") for item in (first, second)]


def make() -> Engine:
    return Engine(os.environ.get("SHOP_DB", "sqlite:///shop.db"), workflows=[order, notify, unstorable, bundle])


engine = make()
number = 7

if __name__ == "__main__":
    what, run_id, *given = sys.argv[1:]
    with engine:
        print(engine.run(run_id, {"order": order, "notify": notify, "unstorable": unstorable, "bundle": bundle}[what], *given))
