"""After a fork: an engine that was used before it works on in parent and children at once, each on connections of its own."""

from __future__ import annotations

import subprocess
import sys

STORY = """
import os, sys, warnings
from datetime import timedelta
from recovery import Call, Engine, Run, contracts, effect, workflow

@effect(contracts.Keyed(window=timedelta(hours=24)))
def echo(call: Call, *, number: int) -> int:
    return number

@workflow
def total(run: Run, first: int) -> int:
    return sum(run.perform(echo(number=first + step)) for step in range(4))

def connections():
    found = []
    for using in (engine.journal._database.reading, engine.journal._database.writing):
        with using() as connection:
            found.append(connection.connection.driver_connection)
    return found

def work(who):
    right = [engine.run(f"{who}-{number}", total, number) == 4 * number + 6 for number in range(8)]
    return right == [True] * 8

engine = Engine(sys.argv[1], workflows=[total])
engine.run("before", total, 1)
mine, children = connections(), []
for number in range(2):
    with warnings.catch_warnings():  # newer Pythons warn of forks beside threads, which is the point here
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        own = not any(one is another for one in connections() for another in mine)
        os._exit(0 if work(f"child-{number}") and own else 1)
    children.append(pid)
assert work("parent"), "the parent got wrong answers"
assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0, 0], "a child spoke on its parent's connections"
assert connections() == mine, "the parent lost its connections"
sys.stdout.write(" ".join(sorted({str(info.status) for info in engine.list()})) + f" {len(engine.list())}")
engine.close()
"""


def test_parent_and_children_work_on_at_once_each_on_its_own_connections(store_url: str) -> None:
    ended = subprocess.run([sys.executable, "-c", STORY, store_url], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "completed 25", "")
