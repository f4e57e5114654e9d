"""Refused calls: a run is played once for each call that can be refused, and again when the cause has gone.

    python -m tests.power.refusing DISK

A line of standard input is a trial as JSON: `act` (see ACTS), `calls`, `at`, `errno`, `lasting`; or `nofile`, how many descriptors are left. The answer is one line: what the act
ended with, which effects landed, how many calls passed. Owns the forks and what is told; the tests judge. Invariant: an act and what follows it are processes of
their own, as after a restart, and what landed is known to the parent alone, outside the disk.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from recovery import Engine, cli
from recovery.checkpoint.retention import Keep
from recovery.checkpoint.store import CheckpointStore
from recovery.clocks import SystemClock
from recovery.core.errors import RecoveryError
from recovery.storage import open_journal
from recovery.storage.migrate import migrate
from tests.crash.worker import Hurried
from tests.power import judging, story
from tests.power.programs import JOURNAL
from tests.power.stores import Nothing
from tests.power.telling import TellingJournal
from tests.unit.checkpoint.making import same, small

RUN: Final = "run-1"
STORE: Final = "store"
Report = dict[str, Any]


def url(disk: Path) -> str:
    return f"sqlite:///{disk / JOURNAL}"


# -- acts: what is done while a call is refused ------------------------------------------------------------------------


def run(disk: Path) -> None:
    """One run, from its creation to its outcome."""
    with closing(open_journal(url(disk))) as inner:
        engine = Engine(TellingJournal(inner, _tell), workflows=[story.errand], clock=Hurried(SystemClock()), riding=None)
        _tell({"outcome": story.wrong_with(engine.run(RUN, story.errand, 2), RUN) or "right"})
        engine.close()


def save(disk: Path) -> None:
    """The save of step 3 over 1 and 2, the mark of a restore, a pin."""
    store = CheckpointStore(disk / STORE, keep=Keep(last=1, verified=0))
    name = store.save(small(3)).name
    _tell({"saved": 3})
    store.restore(store.latest("weights"), build=lambda checkpoint: checkpoint, into=Nothing())
    store.pin(name)
    _tell({"pinned": name})


def command(disk: Path, *arguments: str) -> int:
    """A person's command, as typed; what it prints is told."""
    os.environ["RECOVERY_DB"] = url(disk)  # for the app
    said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said[0]), contextlib.redirect_stderr(said[1]):
        try:
            cli.assembled()([each.format(disk=disk, db=url(disk)) for each in arguments])
        except SystemExit as ended:
            _tell({"exit": int(ended.code or 0), "stdout": said[0].getvalue(), "stderr": said[1].getvalue()})
            return int(ended.code or 0)
    raise AssertionError("a command ends with its exit code")


# -- after: the cause has gone -----------------------------------------------------------------------------------------


def recovered(disk: Path) -> None:
    """What the journal knows of what has landed, and the run called again."""
    if (disk / JOURNAL).exists():
        with closing(open_journal(url(disk), create=False)) as journal:
            rows = [row.run_id for row in journal.runs()]
            intents = {key for run_id in rows for key in judging.intents(journal, run_id)}
            _tell({"unknown": sorted(set(story.world.landed) - intents)})
    elif story.world.landed:
        _tell({"unknown": story.world.landed})
    run(disk)
    _tell({"damage": judging.integrity(disk / JOURNAL)})


def reloaded(disk: Path) -> None:
    """What is loaded now, and a save behind it."""
    store = CheckpointStore(disk / STORE)
    loaded, passed = store.load_latest("weights")
    step = loaded.manifest.step
    _tell({"step": step, "whole": same(loaded.arrays, small(step).arrays), "passed": [each.reason for each in passed]})
    again = store.save(small(7))
    _tell({"next": store.load_latest("weights")[0].manifest.id == again.id})
    _tell({"left": sorted(path.name for path in store.place.checkpoints.iterdir() if path.name.startswith(".tmp-"))})


# -- before ------------------------------------------------------------------------------------------------------------


def nothing(disk: Path) -> None: ...


def journal(disk: Path) -> None:
    migrate(url(disk))


def settled(disk: Path) -> None:
    run(disk)


def half(disk: Path) -> None:
    """A run whose worker is gone when its second effect has landed."""

    def landing(key: str) -> None:
        _tell({"landed": key})
        if ":2:" in key:
            os._exit(0)

    story.world.landing = landing
    run(disk)


def store(disk: Path) -> None:
    made = CheckpointStore(disk / STORE, keep=Keep(last=1, verified=0))
    made.save(small(1))
    made.save(small(2))


Act = Callable[..., Any]
BEFORE: Final[dict[str, Act]] = {each.__name__: each for each in (nothing, journal, half, settled, store)}
ACTS: Final[dict[str, Act]] = {each.__name__: each for each in (run, save, command)}
AFTER: Final[dict[str, Act]] = {each.__name__: each for each in (nothing, recovered, reloaded)}


# -- processes ---------------------------------------------------------------------------------------------------------

_pipe = -1


def _tell(what: Report) -> None:
    os.write(_pipe, json.dumps(what).encode() + b"\n")


def forked(act: Act, disk: Path, arguments: list[str], landed: list[str], nofile: int | None = None) -> list[Report]:
    """What a child told while it did its act, and how it ended."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _child(act, disk, arguments, landed, nofile, writing)
    os.close(writing)
    with os.fdopen(reading) as told:
        reports = [json.loads(line) for line in told]
    _, status = os.waitpid(pid, 0)
    return [*reports, {"ended": os.waitstatus_to_exitcode(status)}]


def _child(act: Act, disk: Path, arguments: list[str], landed: list[str], nofile: int | None, writing: int) -> None:
    global _pipe
    _pipe = writing
    code = 0
    try:
        story.world = story.World(landed=list(landed), landing=lambda key: _tell({"landed": key}))
        if nofile is not None:
            _leave(nofile)
        act(disk, *arguments)
    except RecoveryError as error:
        _tell({"error": type(error).__name__, "says": str(error)})
    except BaseException:  # whatever it is, it is told: nothing but our errors may come out
        _tell({"raw": traceback.format_exc()})
        code = 1
    finally:
        os._exit(code)


def _leave(nofile: int) -> None:
    """Only so many descriptors more can be opened."""
    taken = {int(name) for name in os.listdir("/proc/self/fd")}  # noqa: PTH208
    free = (number for number in range(10_000) if number not in taken)
    limit = 0
    for _ in range(nofile + 1):
        limit = next(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def tried(root: Path, number: int, trial: Report) -> Report:
    disk = root / f"trial-{number}"
    disk.mkdir()
    prepared = forked(BEFORE[trial["before"]], disk, [], [])
    landed = [each["landed"] for each in prepared if "landed" in each]
    _arm(root, trial["calls"], trial["at"], trial["errno"], trial["lasting"])
    acted = forked(ACTS[trial["act"]], disk, trial.get("arguments", []), landed, trial.get("nofile"))
    passed = int(os.getxattr(root, "user.passed")) if trial["calls"] else 0
    _arm(root, [], 0, 0, False)
    landed += [each["landed"] for each in acted if "landed" in each]
    after = forked(AFTER[trial["after"]], disk, [], landed)
    return {"prepared": prepared, "acted": acted, "after": after, "passed": passed}


def _arm(root: Path, calls: list[str], at: int, error: int, lasting: bool) -> None:
    if os.path.ismount(root):
        told = {"calls": calls, "at": at, "errno": error, "lasting": lasting}
        os.setxattr(root, "user.refuse", json.dumps(told).encode())


def main(disk: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # a collection touches every object, and so copies every page that a child shares
    for number, line in enumerate(sys.stdin):
        print(json.dumps(tried(Path(disk), number, json.loads(line))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
