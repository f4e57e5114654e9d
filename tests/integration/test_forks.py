"""After a fork: an engine that was used before it works on in parent and children at once, each on connections of its own; a run goes on where it began."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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


IN_A_WORKFLOW = """
import os, sys, warnings
from datetime import timedelta
from recovery import Call, Engine, Run, contracts, effect, workflow
from recovery.errors import RunLeftBehind

sent = []

@effect(contracts.Keyed(window=timedelta(hours=24)))
def echo(call: Call, *, number: int) -> int:
    sent.append(number)
    if number == 2:
        fork()
    return number

def decide() -> int:
    if WHERE == "decision":
        fork()
    return 1

@workflow
def total(run: Run) -> int:
    first = run.decide("first", decide)
    if WHERE == "workflow":
        fork()
    try:
        return sum(run.perform(echo(number=first + step)) for step in range(3))
    except Exception:
        if os.getpid() == parent:
            raise
    return run.perform(echo(number=99))  # a child that swallows the refusal sends nothing all the same

def fork():
    global pid
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork() if pid is None and WHERE != "nowhere" else pid

WHERE, parent, pid = sys.argv[2], os.getpid(), None
engine = Engine(sys.argv[1], workflows=[total])
try:
    outcome = engine.run("r", total)
except RunLeftBehind as error:
    told = f"process {parent}" in str(error) and f"process {os.getpid()}" in str(error)
    os._exit(0 if told and os.getpid() != parent and 99 not in sent and sent in ([], [1, 2]) else 3)
if os.getpid() != parent:
    os._exit(4)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "the child went on"
sys.stdout.write(f"{outcome} {sent} {len(engine.history('r'))} {engine.get('r').result()}")
engine.close()
"""

WITH_LOCKS_TAKEN = """
import os, sys, threading, warnings
from datetime import timedelta
from recovery import Call, Engine, Run, contracts, effect, workflow

@effect(contracts.Keyed(window=timedelta(hours=24)))
def echo(call: Call, *, number: int) -> int:
    return number

@workflow
def total(run: Run, first: int) -> int:
    return sum(run.perform(echo(number=first + step)) for step in range(2))

engine = Engine(sys.argv[1], workflows=[total])
engine.run("before", total, 1)
database = getattr(engine.journal, "_database", engine.journal)
locks = [each._lock for each in (engine.clock, engine._leases, engine._committer, database) if hasattr(each, "_lock")]
assert len(locks) >= 3
taken, done = threading.Event(), threading.Event()

def take():
    for lock in locks:
        lock.acquire()
    taken.set()
    done.wait()
    for lock in locks:
        lock.release()

holder = threading.Thread(target=take)
holder.start()
taken.wait()
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    pid = os.fork()
if pid == 0:
    os._exit(0 if engine.run("child", total, 1) == 3 else 1)
ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
done.set()
holder.join()
sys.stdout.write(f"{ended} {engine.run('parent', total, 2)}")
engine.close()
"""

WHILE_IT_RIDES = """
import os, signal, sys, threading, warnings
from datetime import timedelta
from recovery import Call, Engine, Riding, Run, contracts, effect, workflow
from recovery.errors import RunLeftBehind
from recovery.storage import open_journal

parent, inside, goes_on, ended = os.getpid(), threading.Event(), threading.Event(), []

class Slow:
    def __init__(self, journal):
        self._journal = journal

    def __getattr__(self, name):
        return getattr(self._journal, name)

    def append(self, batch):
        if threading.current_thread().name == "recovery-riding":
            inside.set()
            goes_on.wait()
        return self._journal.append(batch)

@effect(contracts.Keyed(window=timedelta(hours=24)))
def echo(call: Call, *, number: int) -> int:
    return number

@workflow
def total(run: Run) -> int:
    first = run.perform(echo(number=1))
    inside.wait()  # what rides is being stored, in another thread
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # rather than for ever
    else:
        ended.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        goes_on.set()
    return first + run.perform(echo(number=2))

engine = Engine(Slow(open_journal(sys.argv[1])), workflows=[total], riding=Riding(limit=timedelta(milliseconds=20)))
try:
    outcome = engine.run("r", total)
except RunLeftBehind:
    os._exit(0 if os.getpid() != parent else 3)
sys.stdout.write(f"{outcome} {ended}")
engine.close()
"""

POOLED = """
import asyncio, multiprocessing, sys, warnings
from datetime import timedelta
from recovery import AsyncEngine, AsyncRun, Call, Engine, Run, contracts, effect, workflow

@effect(contracts.Keyed(window=timedelta(hours=24)))
async def echo(call: Call, *, number: int) -> int:
    return number

@workflow
async def total(run: AsyncRun, first: int) -> int:
    return sum([await run.perform(echo(number=first + step)) for step in range(2)])

engine = AsyncEngine(sys.argv[1], workflows=[total])  # as a service does that is loaded before it is forked

def work(number):
    return asyncio.run(engine.run(f"r-{number}", total, number))

work(0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        sums = pool.map(work, range(6), chunksize=1)
        pool.close()
        pool.join()
sys.stdout.write(f"{sums} {work(6)}")
asyncio.run(engine.close())
"""

AT_ONCE = """
import asyncio, os, sys, warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from recovery import AsyncEngine, AsyncRun, Call, Engine, Run, contracts, effect, workflow

place = Path(sys.argv[2])

def executed(call: Call, number: int) -> int:
    try:
        (place / call.key).touch(exist_ok=False)
    except FileExistsError:
        (place / "twice").touch()
    return number

@effect(contracts.Keyed(window=timedelta(hours=24)))
def echo(call: Call, *, number: int) -> int:
    return executed(call, number)

@effect(contracts.Keyed(window=timedelta(hours=24)), name="echo")
async def aecho(call: Call, *, number: int) -> int:
    return executed(call, number)

@workflow(name="total")
def total(run: Run, first: int) -> int:
    return sum(run.perform(echo(number=first + step)) for step in range(3))

@workflow(name="total")
async def atotal(run: AsyncRun, first: int) -> int:
    return sum([await run.perform(aecho(number=first + step)) for step in range(3)])

WAIT = timedelta(seconds=100)
engine = Engine(sys.argv[1], workflows=[total], wait_for_owner=WAIT)
loops = AsyncEngine(sys.argv[1], workflows=[atotal], wait_for_owner=WAIT)
engine.run("before", total, 1)  # as a service that is loaded, and used, before it is forked

def thread(who):
    return [engine.run(f"{who}-{number}", total, number) for number in range(3)] + [engine.run("shared", total, 5)]

def loop(who):
    async def all_at_once():
        own = [loops.run(f"{who}-{number}", atotal, number) for number in range(3)]
        return await asyncio.gather(*own, loops.run("shared", atotal, 5))
    return asyncio.run(all_at_once())

def work(process):
    with ThreadPoolExecutor(4) as pool:
        came = [pool.submit(each, f"{process}-{each.__name__}-{number}") for each in (thread, loop) for number in range(2)]
        return all(each.result() == [3, 6, 9, 18] for each in came)

children = []
for number in range(2):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os._exit(0 if work(f"child-{number}") else 1)
    children.append(pid)
right = work("parent")
ended = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
statuses = sorted({str(info.status) for info in engine.list()})
sys.stdout.write(f"{right} {ended} {statuses} {len(engine.list())} {len(list(place.iterdir()))} {(place / 'twice').exists()}")
engine.close()
asyncio.run(loops.close())
"""


def told(story: str, *arguments: str) -> str:
    """What a program prints that succeeds and says nothing else."""
    ended = subprocess.run([sys.executable, "-c", story, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    return ended.stdout


@pytest.mark.parametrize("where", ["decision", "workflow", "effect"])
def test_a_run_goes_on_in_the_parent_alone_and_its_child_sends_nothing(sqlite_url: str, where: str) -> None:
    assert told(IN_A_WORKFLOW, sqlite_url, where) == "6 [1, 2, 3] 9 6"


def test_a_run_goes_on_in_the_parent_alone_on_a_server_too(postgres_url: str) -> None:
    assert told(IN_A_WORKFLOW, postgres_url, "effect") == "6 [1, 2, 3] 9 6"


def test_a_child_waits_for_no_lock_that_a_thread_of_its_parent_held(store_url: str) -> None:
    assert told(WITH_LOCKS_TAKEN, store_url) == "0 5"


def test_a_child_waits_for_no_thread_that_stored_what_rode_in_its_parent(sqlite_url: str) -> None:
    assert told(WHILE_IT_RIDES, sqlite_url) == "3 [0]"


def test_an_async_engine_that_was_made_before_a_pool_of_processes_works_in_each(store_url: str) -> None:
    assert told(POOLED, store_url) == "[1, 3, 5, 7, 9, 11] 13"


def test_threads_and_loops_of_a_parent_and_its_children_work_at_once(store_url: str, tmp_path: Path) -> None:
    """Twelve places in three processes, each with three runs of its own, and one run that all of them want."""
    (done := tmp_path / "done").mkdir()
    assert told(AT_ONCE, store_url, str(done)) == "True [0, 0] ['completed'] 38 114 False"
