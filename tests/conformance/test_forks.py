"""After a fork: parent and child go on, each on connections of its own."""

from __future__ import annotations

import subprocess
import sys

CHILD = """
import os, sys
from recovery import Engine, Run, workflow

@workflow
def order(run: Run) -> int:
    return run.decide("number", lambda: 1)

engine = Engine(sys.argv[1], workflows=[order])
engine.run("before", order)
with engine.journal._database.reading() as connection:
    inherited = connection.connection.driver_connection
with engine.journal._database.writing() as connection:
    inherited_writer = connection.connection.driver_connection
pid = os.fork()
engine.run("child" if pid == 0 else "parent", order)
with engine.journal._database.reading() as connection:
    same = connection.connection.driver_connection is inherited
with engine.journal._database.writing() as connection:
    same = same or connection.connection.driver_connection is inherited_writer
if pid == 0:
    os._exit(1 if same else 0)
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 0, "the child spoke on its parent's connection"
assert same, "the parent lost its connection"
engine.run("after", order)
sys.stdout.write(" ".join(info.run_id for info in engine.list()))
engine.close()
"""


def test_a_child_opens_connections_of_its_own(store_url: str) -> None:
    ended = subprocess.run([sys.executable, "-c", CHILD, store_url], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "after before child parent", "")
