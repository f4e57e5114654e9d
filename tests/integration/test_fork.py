"""Forked children: an engine that was used before a fork works on in parent and child, each on connections of its own."""

from __future__ import annotations

import os
import warnings
from datetime import timedelta

from recovery import Call, Engine, Run, contracts, effect, workflow
from recovery.core.entries import Status


@effect(contracts.Keyed(window=timedelta(hours=24)))
def echo(call: Call, *, number: int) -> int:
    return number


@workflow
def total(run: Run, first: int) -> int:
    return sum(run.perform(echo(number=first + step)) for step in range(4))


def _work(engine: Engine, who: str) -> int:
    """How many of its runs came out wrong."""
    wrong = 0
    for number in range(12):
        try:
            wrong += engine.run(f"{who}-{number}", total, number) != 4 * number + 6
        except Exception:
            wrong += 1
    return wrong


def _forked() -> int:
    with warnings.catch_warnings():  # newer Pythons warn of forks beside threads, which is the point here
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def test_an_engine_used_before_a_fork_works_on_in_parent_and_children(store_url: str) -> None:
    engine = Engine(store_url, workflows=[total])
    engine.run("before", total, 1)
    children = []
    for number in range(2):
        child = _forked()
        if child == 0:
            os._exit(_work(engine, f"child-{number}"))
        children.append(child)
    wrong = _work(engine, "parent")
    ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    runs = engine.list()
    engine.close()
    assert (wrong, ended) == (0, [0, 0])
    assert len(runs) == 1 + 3 * 12
    assert {run.status for run in runs} == {Status.COMPLETED}
