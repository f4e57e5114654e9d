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
assert sys.argv[1].startswith("sqlite") or connections() == mine, "the parent lost its connections"
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
    told = "Run 'r' is" in str(error) and f"process {parent}" in str(error) and f"process {os.getpid()}" in str(error)
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
locks = [each._lock for each in (engine.clock, engine._leases, engine._committer)]
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

AT_THE_FILE = """
import os, sys, threading, time, warnings
from datetime import timedelta
from recovery import Call, Engine, Run, contracts, effect, workflow
from recovery.errors import StoreUrlError

warnings.simplefilter("ignore", DeprecationWarning)

@effect(contracts.Keyed(window=timedelta(hours=24)))
def echo(call: Call, *, number: int) -> int:
    return number

@workflow
def total(run: Run, first: int) -> int:
    return sum(run.perform(echo(number=first + step)) for step in range(2))

def made():
    return Engine(sys.argv[1], workflows=[total])

engine = made()
engine.run("before", total, 1)

def forked(work):
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(work())
        finally:
            os._exit(99)
    return pid

def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def runs_of(somebody):
    with somebody:
        return " ".join(info.run_id for info in somebody.list())
"""
"""What the programs below begin with."""

THE_PARENT_ENDS_FIRST = """
settled, closed = os.pipe(), os.pipe()

def child():
    engine.run("child-1", total, 1)
    os.write(settled[1], b".")
    os.read(closed[0], 1)
    return engine.run("child-2", total, 1)

pid = forked(child)
os.read(settled[0], 1)
engine.close()  # nobody else of this process has the file open: SQLite removes its log if it believes that nobody at all has
others = forked(lambda: 0 if runs_of(made()) == "before child-1" else 1)
sys.stdout.write(f"{ended(others)} ")
os.write(closed[1], b".")
sys.stdout.write(f"{ended(pid)} {runs_of(made())}")
"""

A_THREAD_IS_AT_THE_FILE = """
inside, forking = threading.Event(), threading.Event()

def at_it():
    with getattr(engine.journal._database, sys.argv[2])() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM run").all()
        inside.set()
        forking.wait()
        time.sleep(0.1)  # the fork comes first, if nothing holds it up

threading.Thread(target=at_it).start()
inside.wait()
forking.set()
pid = forked(lambda: engine.run("child", total, 1))
sys.stdout.write(f"{engine.run('parent', total, 2)} {ended(pid)} {runs_of(engine)}")
"""

SOMEBODY_ELSE_HAS_IT_OPEN = """
import sqlite3

def refused():
    told = []
    for each in (engine, made()):
        for call in (lambda: each.run("child", total, 1), lambda: each.recover("before"), each.list):
            try:
                call()
            except StoreUrlError as error:
                told.append("forked while its parent had the file open" in str(error) and "Nothing was changed" in str(error))
    return 0 if told == [True] * 6 else 1

own = sqlite3.connect(sys.argv[1].removeprefix("sqlite:///"))  # of the service itself
own.execute("SELECT count(*) FROM run").fetchall()
sys.stdout.write(f"{ended(forked(refused))} ")
own.close()
with engine.journal._database.reading():  # whoever forks there cannot wait for itself
    pid = forked(refused)
sys.stdout.write(f"{ended(pid)} {ended(forked(lambda: engine.run('child', total, 1)))} {engine.run('parent', total, 2)}")
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

STRUCK = """
import os, signal, sys, threading, warnings
from recovery import forks
from recovery.storage import open_journal, parting, sqlite
from tests.interrupts import Interrupting

warnings.simplefilter("ignore", DeprecationWarning)
OURS = {forks.__file__, sqlite.__file__, parting.__file__}
sys.unraisablehook = lambda told: None  # the interpreter prints what strikes whoever it tells of a fork, and goes on
signal.alarm(100)  # rather than for ever

def is_of_forks(code):
    return code.co_filename in OURS

def uses(database):
    with database.reading(), database.writing():
        pass

journals = [open_journal(f"{sys.argv[1]}{number}") for number in range(2)]
at, place, kept_out = 0, "somewhere", []
for journal in journals:
    journal._database.ready(writing=True)
while place and not kept_out:
    at += 1
    interrupting = Interrupting(at, is_of_forks)
    with interrupting.block():
        pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    place = interrupting.place
    for journal in journals:
        other = threading.Thread(target=uses, args=(journal._database,), daemon=True)
        other.start()
        other.join(30)
        kept_out += [place] if other.is_alive() else []
sys.stdout.write(f"{at > 20} {kept_out}")
sys.stdout.flush()
os._exit(0)  # whoever is kept out would hold up any other end
"""


INTERRUPTED = """
import ctypes, os, signal, sys, threading, warnings
from functools import partial

warnings.simplefilter("ignore", DeprecationWarning)
where, register = sys.argv[2], os.register_at_fork
interrupt = partial(getattr(ctypes.CDLL(None), "raise"), signal.SIGINT)  # left pending: behind it comes no line of Python
told = []

def registered(**hooks):
    if getattr(hooks.get(where), "__module__", "") == "recovery.forks" and not told:
        told.append(where)
        register(**{where: interrupt})
    register(**hooks)

os.register_at_fork = registered
from recovery import Engine, Run, workflow

@workflow
def plan(run: Run, number: int) -> int:
    return run.decide("number", lambda: number)

engine = Engine(sys.argv[1], workflows=[plan])
engine.run("before", plan, 1)
written = []
sys.unraisablehook = lambda found: written.append(found.exc_type.__name__)
signal.signal(signal.SIGINT, signal.default_int_handler)
pid = os.fork()
if pid == 0:
    signal.alarm(60)
    right = written == ["KeyboardInterrupt"] * (where == "after_in_child")
    os._exit(0 if right and engine.run("child", plan, 2) == 2 else 1)
sums = []
thread = threading.Thread(target=lambda: sums.append(engine.run("thread", plan, 3)), daemon=True)
thread.start()
thread.join(60)
sys.stdout.write(f"{sums} {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])} {written}")
sys.stdout.flush()
os._exit(0)
"""

LEFT_BEHIND_BY_ITS_POOL = """
import os, sys, threading, warnings
from recovery import Engine, Run, workflow

warnings.simplefilter("ignore", DeprecationWarning)

@workflow
def plan(run: Run, number: int) -> int:
    return run.decide("number", lambda: number)

engine = Engine(sys.argv[1], workflows=[plan])
engine.run("before", plan, 1)
database, reads, go_on = engine.journal._database, threading.Event(), threading.Event()

def read():
    with database.reading():
        reads.set()
        go_on.wait()

thread = threading.Thread(target=read)
thread.start()
reads.wait()
getattr(database, sys.argv[2])()
go_on.set()
thread.join()
pid = os.fork()
if pid == 0:
    os._exit(0 if engine.run("child", plan, 2) == 2 else 1)
sys.stdout.write(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
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


def test_what_a_child_has_settled_is_there_for_all_though_its_parent_closed_the_file_first(store_url: str) -> None:
    assert told(AT_THE_FILE + THE_PARENT_ENDS_FIRST, store_url) == "0 3 before child-1 child-2"


@pytest.mark.parametrize("using", ["reading", "writing"])
def test_a_fork_waits_for_a_thread_that_is_at_the_file(migrated_sqlite_url: str, using: str) -> None:
    """What that thread had locked, the child would take for locked for ever, or for its own."""
    assert told(AT_THE_FILE + A_THREAD_IS_AT_THE_FILE, migrated_sqlite_url, using) == "5 3 before child parent"


def test_a_child_leaves_a_file_alone_that_was_open_at_the_fork(migrated_sqlite_url: str) -> None:
    assert told(AT_THE_FILE + SOMEBODY_ELSE_HAS_IT_OPEN, migrated_sqlite_url) == "0 0 3 5"


def test_an_async_engine_that_was_made_before_a_pool_of_processes_works_in_each(store_url: str) -> None:
    assert told(POOLED, store_url) == "[1, 3, 5, 7, 9, 11] 13"


def test_threads_and_loops_of_a_parent_and_its_children_work_at_once(store_url: str, tmp_path: Path) -> None:
    """Twelve places in three processes, each with three runs of its own, and one run that all of them want."""
    (done := tmp_path / "done").mkdir()
    assert told(AT_ONCE, store_url, str(done)) == "True [0, 0] ['completed'] 38 114 False"


def test_an_interrupt_of_a_fork_keeps_nobody_from_a_file_wherever_it_strikes(sqlite_url: str) -> None:
    """In the parent, which the interpreter does not tell of it."""
    assert told(STRUCK, sqlite_url) == "True []"


@pytest.mark.parametrize(("where", "written"), [("after_in_parent", "['KeyboardInterrupt']"), ("after_in_child", "[]")])
def test_an_interrupt_that_comes_with_a_fork_keeps_nobody_from_the_store(store_url: str, where: str, written: str) -> None:
    assert told(INTERRUPTED, store_url, where) == f"[3] 0 {written}"


@pytest.mark.parametrize("struck", ["interrupted", "close"])
def test_what_a_thread_had_open_when_its_pool_was_disposed_of_is_closed_at_a_fork(sqlite_url: str, struck: str) -> None:
    assert told(LEFT_BEHIND_BY_ITS_POOL, sqlite_url, struck) == "0"
