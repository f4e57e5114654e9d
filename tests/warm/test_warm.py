"""A program forked from the warm parent is told apart from one in a fresh interpreter by nothing that a test may rest on."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.runner import compared
from tests.integration.cli_place import Place
from tests.warm import NeedsFresh, WarmParent, ended_after, parent

PROBE = """
import asyncio, gc, json, os, random, resource, signal, sys, threading, warnings
streams = (sys.stdin, sys.stdout, sys.stderr)
print(json.dumps({
    "arguments": sys.argv, "path": sys.path, "directory": os.getcwd(), "environment": dict(os.environ), "name": __name__, "file": globals().get("__file__"),
    "main": sys.modules["__main__"].__dict__ is globals(), "flags": str(sys.flags), "warnings": [str(each) for each in warnings.filters], "options": sys.warnoptions, "collects": gc.isenabled(),
    "streams": [[s.fileno(), s.mode, s.encoding, s.errors, s.isatty(), s.line_buffering, s.write_through] for s in streams],
    "originals": [sys.__stdin__ is sys.stdin, sys.__stdout__ is sys.stdout, sys.__stderr__ is sys.stderr],
    "open": sorted(os.listdir("/proc/self/fd")), "threads": threading.active_count(), "umask": os.umask(0o22),
    "signals": [str(signal.getsignal(s)) for s in signal.valid_signals() if s not in (9, 19)], "masked": sorted(signal.pthread_sigmask(0, [])),
    "limits": [resource.getrlimit(r) for r in range(16)], "group": os.getpgid(0), "session": os.getsid(0), "nice": os.nice(0),
    "crash points": sys.modules["recovery.crashpoints"]._armed is None if "recovery.crashpoints" in sys.modules else True,
    "hook": str(sys.excepthook), "loop": str(asyncio.get_event_loop_policy().__class__),
}))
"""

ENDS = {
    "at its end": "print('said')",
    "with a number": "raise SystemExit(7)",
    "with a sentence": "raise SystemExit('told to the person')",
    "with a flag": "raise SystemExit(True)",
    "by its own hand": "import os; print('lost'); os._exit(3)",
    "after its threads": "import threading; threading.Timer(0.05, print, ['late']).start(); print('first')",
    "after what it registered": "import atexit; atexit.register(print, 'last'); print('first')",
    "with what its finalizers say": "class A:\n    def __del__(self): print('gone')\na = A()",
    "killed": "import os, signal; print('lost'); os.kill(os.getpid(), signal.SIGKILL)",
    "with a traceback": "def f():\n    raise KeyError('gone')\nf()",
    "with a warning": "import warnings; warnings.warn('told', stacklevel=1)",
    "terminated": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "without its output": "import os; os.close(1); print('nobody hears')",
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def both(
    warm_parent: WarmParent, directory: Path, source: str, *arguments: str
) -> tuple[subprocess.CompletedProcess[str], subprocess.CompletedProcess[str]]:
    """The program forked, and the same program in a fresh interpreter. Arguments before "program.py" are Python's."""
    (directory / "program.py").write_text(source)
    environment = {**os.environ, "OF_ITS_OWN": "yes"}
    warm = warm_parent.run(arguments or ["program.py"], directory=directory, environment=environment)
    command = [sys.executable, *(arguments or ["program.py"])]
    fresh = subprocess.run(
        command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=240
    )
    return warm, fresh


def below_the_parent(traceback: str) -> str:
    """A traceback without the parent's frames, which are all that tells the two apart."""
    return re.sub(rf'  File "{parent.__file__}", .*\n    .*\n', "", traceback)


@pytest.mark.parametrize("options", [[], ["-W", "error"]], ids=" ".join)
def test_it_sees_what_a_fresh_process_sees(warm_parent: WarmParent, directory: Path, options: list[str]) -> None:
    warm, fresh = both(warm_parent, directory, PROBE, *options, "program.py", "one", "--two", "ü")
    assert (warm.returncode, warm.stderr) == (0, "")
    assert warm.stdout == fresh.stdout


def test_code_of_a_command_line_sees_what_it_sees_in_a_fresh_process(warm_parent: WarmParent, directory: Path) -> None:
    warm, fresh = both(warm_parent, directory, "", "-c", PROBE, "one", "--two")
    assert (warm.returncode, warm.stderr) == (0, "")
    assert warm.stdout == fresh.stdout


def test_what_needs_a_fresh_interpreter_is_not_given_one_unasked(warm_parent: WarmParent, directory: Path) -> None:
    """Else a variable that a test does without would cost a second for each of its programs, and nobody would see it."""
    (directory / "other.py").write_text("print('found')")
    asked = {"directory": directory, "environment": {**os.environ, "PYTHONPATH": str(directory)}}
    for arguments in (["-c", "import other"], ["-X", "dev", "-c", "import other"]):
        with pytest.raises(NeedsFresh, match="import other"):
            warm_parent.run(arguments, **asked)
        assert warm_parent.run(arguments, **asked, fresh=True).stdout == "found\n"


def test_one_that_is_at_work_is_spoken_to_and_heard(warm_parent: WarmParent, directory: Path) -> None:
    source = (
        "import os, signal\ndef told(*_):\n    print('told')\n    raise SystemExit(5)\n"
        "signal.signal(signal.SIGTERM, told)\nprint(os.getpid(), flush=True)\nsignal.pause()"
    )
    with ended_after(warm_parent.start(["-c", source], directory=directory, environment=os.environ)) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == f"{program.pid}\n"
        assert program.poll() is None
        program.send_signal(signal.SIGTERM)
        assert program.communicate(timeout=240) == ("told\n", "")
        assert program.poll() == 5
    with ended_after(warm_parent.start(["-c", source], directory=directory, environment=os.environ)) as program:
        pass
    assert program.returncode == -signal.SIGKILL


@pytest.mark.parametrize("way", ENDS)
def test_it_ends_as_a_fresh_process_ends(warm_parent: WarmParent, directory: Path, way: str) -> None:
    warm, fresh = both(warm_parent, directory, ENDS[way])
    assert (warm.returncode, warm.stdout, below_the_parent(warm.stderr)) == (fresh.returncode, fresh.stdout, fresh.stderr)
    assert warm.stdout == "lost\n" or "lost" not in warm.stdout


def test_it_is_no_child_of_an_earlier_one(warm_parent: WarmParent, directory: Path) -> None:
    """What one program imports and sets is gone with its process."""
    source = "import os, sys\nprint('spoilt' in sys.modules, 'SPOILT' in os.environ)\nsys.modules['spoilt'] = sys\nos.environ['SPOILT'] = '1'"
    for _ in range(2):
        assert both(warm_parent, directory, source)[0].stdout == "False False\n"


def test_it_waits_no_longer_than_it_was_told_to(warm_parent: WarmParent, directory: Path) -> None:
    """The program is killed then, and what it held is free."""
    source = "import fcntl, signal\nheld = open('held', 'w')\nfcntl.flock(held, fcntl.LOCK_EX)\nsignal.pause()"
    (directory / "program.py").write_text(source)
    with pytest.raises(subprocess.TimeoutExpired):
        warm_parent.run(["program.py"], directory=directory, environment=os.environ, timeout=0.1)
    with (directory / "held").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)


@pytest.mark.parametrize("value", ["send.after", "send.nowhere"])
def test_crash_points_are_armed_by_its_own_environment(warm_parent: WarmParent, directory: Path, value: str) -> None:
    (directory / "program.py").write_text(
        "from recovery.crashpoints import around\nwith around('send'): print('sent', flush=True)\n"
    )
    ended = warm_parent.run(["program.py"], directory=directory, environment={**os.environ, "RECOVERY_CRASH_AT": value})
    assert (ended.returncode, ended.stdout) == ((-signal.SIGKILL, "sent\n") if value == "send.after" else (2, ""))


COMMANDS = [
    "--plan --run-id open --app shop:engine",
    "--run-id open --app shop:engine",
    "--run-id open --json",
    "--run-id nobody",
    "show open",
    "explain doubtful mail#1 --app shop:engine",
    "hold world --by ann --why tests",
]
"""One of each kind. Reading, writing and refusing; with an app and without."""


def test_the_installed_command_in_a_fresh_interpreter_says_the_same(tmp_path: Path, warm_parent: WarmParent) -> None:
    told = {}
    for name in ("installed", "forked"):
        (directory := tmp_path / name).mkdir()
        place = Place(directory, "sqlite:///recovery.db", warm_parent)
        place.worker("order", "open", "screw", crash_at="send.after")
        place.worker("notify", "doubtful", "ann", crash_at="send.after")
        told[name] = [_said(place, command.split(), installed=name == "installed") for command in COMMANDS]
    for command, installed, forked in zip(COMMANDS, told["installed"], told["forked"], strict=True):
        assert (command, *installed) == (command, *forked)


def _said(place: Place, arguments: list[str], *, installed: bool) -> tuple[int, list[str], list[str]]:
    ended = place.recover_installed(*arguments) if installed else place.recover(*arguments)
    return ended.code, compared(ended.out), compared(ended.err)
