"""Refused calls: a full disk, a read-only one, I/O errors at every call that can meet one, no descriptors left.

Each act is played once for each of its calls, with that call refused; then the cause has gone, and a process of its own looks and goes on.
"""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.power import judging, sweep
from tests.power.mount import ROOT, mounted
from tests.power.record import Refused, Said

pytestmark = [pytest.mark.power, pytest.mark.usefixtures("disk")]

Ask = Callable[[dict[str, Any]], dict[str, Any]]
Record = Callable[[str, object], None]

FULL = os.environ.get("RECOVERY_SWEEP") == "full"
"""Every call, and not a sample of those that are many."""

WRITES = ("write", "truncate")
NAMES = ("create", "open", "rename", "unlink")
CHANGES = (*WRITES, *NAMES, "sync")

FATE = re.compile(r"[Nn]othing was|No run was|is unknown until|The new checkpoint exists|stays, and repeating it is safe")
NEXT = re.compile(
    r"safe to run the same command again|Check the path|then save again|then run it again|Begin anew|Choose another one"
)


@dataclass(frozen=True)
class Case:
    """every: only each so-manieth call, where there are many. error: what the calls are given."""

    before: str
    act: str
    after: str
    calls: tuple[str, ...]
    error: int
    lasting: bool = False
    every: int = 1
    arguments: tuple[str, ...] = ()

    def trial(self, at: int) -> dict[str, Any]:
        asked = asdict(self)
        return asked | {"at": at, "errno": asked.pop("error")}


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Ask]:
    """Plays a trial on a disk of this test's own."""
    with mounted(tmp_path) as disk, playing(disk.path) as play:
        yield play


class playing:  # noqa: N801  # it is used like a function
    def __init__(self, place: Path) -> None:
        command = [sys.executable, "-W", "error", "-m", "tests.power.refusing", str(place)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Ask:
        return self._play

    def _play(self, trial: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(trial) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)


def told(reports: list[dict[str, Any]], name: str) -> list[Any]:
    return [each[name] for each in reports if name in each]


def clear(report: dict[str, Any]) -> list[str]:
    """What was raised: errors of ours alone, each with a path, a fate and a next step."""
    assert told(report["acted"], "raw") + told(report["after"], "raw") + told(report["prepared"], "raw") == []
    said = told(report["acted"], "says")
    for text in said:
        assert "trial-" in text, text
        assert FATE.search(text), text
        assert NEXT.search(text), text
    return said


def went_on(report: dict[str, Any]) -> None:
    """Once the cause has gone: what landed was intended before, nothing is damaged, and the run ends with each effect once."""
    after = report["after"]
    assert told(after, "error") == []
    assert not any(told(after, "unknown"))
    assert told(after, "outcome") == ["right"]
    assert told(after, "damage") == [""]


def loads(report: dict[str, Any]) -> None:
    """Once the cause has gone: the old or the new, the new if it was acknowledged; the next save works and sweeps."""
    after = report["after"]
    assert told(after, "error") == []
    [step] = told(after, "step")
    assert step == 3 if told(report["acted"], "saved") else step in {2, 3}
    assert (told(after, "whole"), told(after, "next"), told(after, "left")) == ([True], [True], [[]])


def each_call(ask: Ask, case: Case, judged: Callable[[dict[str, Any]], None], record: Record) -> list[dict[str, Any]]:
    unrefused = ask(case.trial(0))
    assert clear(unrefused) == []
    judged(unrefused)
    calls = range(1, unrefused["passed"] + 1, 1 if FULL else case.every)
    reports = []
    for at in calls:
        report = ask(case.trial(at))
        clear(report)
        judged(report)
        reports.append(report)
    failed = sum(1 for each in reports if told(each["acted"], "says") or any(told(each["acted"], "exit")))
    record("swept", f"{len(reports)} of {unrefused['passed']} calls refused one by one, {failed} of them told")
    assert failed > 0
    return reports


RUNS = {
    "full": Case("journal", "run", "recovered", WRITES, errno.ENOSPC, every=9),
    "full for good": Case("journal", "run", "recovered", WRITES, errno.ENOSPC, lasting=True, every=17),
    "failing writes": Case("journal", "run", "recovered", WRITES, errno.EIO, every=13),
    "failing syncs": Case("journal", "run", "recovered", ("sync",), errno.EIO),
    "read-only": Case("journal", "run", "recovered", CHANGES, errno.EROFS, lasting=True, every=23),
    "failing names": Case("journal", "run", "recovered", NAMES, errno.EIO),
    "created, failing names": Case("nothing", "run", "recovered", NAMES, errno.EIO, every=2),
    "created, failing syncs": Case("nothing", "run", "recovered", ("sync",), errno.EIO, every=3),
    "created, full": Case("nothing", "run", "recovered", WRITES, errno.ENOSPC, every=23),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_whose_disk_refuses_a_call_is_told_so_and_goes_on_once_it_does_not(
    ask: Ask, record_property: Record, name: str
) -> None:
    each_call(ask, RUNS[name], went_on, record_property)


SAVES = {
    "failing": Case("store", "save", "reloaded", CHANGES, errno.EIO),
    "full": Case("store", "save", "reloaded", (*WRITES, "create"), errno.ENOSPC, lasting=True),
    "read-only": Case("store", "save", "reloaded", CHANGES, errno.EROFS, lasting=True, every=3),
}


@pytest.mark.parametrize("name", SAVES)
def test_a_save_whose_disk_refuses_a_call_leaves_the_old_or_the_new(ask: Ask, record_property: Record, name: str) -> None:
    each_call(ask, SAVES[name], loads, record_property)


RECOVER = ("--run-id", "run-1", "--app", "tests.power.app:engine", "--no-wait")

COMMANDS = {
    "recover, full": Case("half", "command", "recovered", WRITES, errno.ENOSPC, every=19, arguments=RECOVER),
    "recover, failing syncs": Case("half", "command", "recovered", ("sync",), errno.EIO, every=2, arguments=RECOVER),
    "recover, read-only": Case("half", "command", "recovered", CHANGES, errno.EROFS, lasting=True, every=37, arguments=RECOVER),
    "runs": Case("half", "command", "recovered", CHANGES, errno.EIO, every=5, arguments=("runs", "--db", "{db}")),
    "show": Case("half", "command", "recovered", CHANGES, errno.EIO, every=7, arguments=("show", "run-1", "--db", "{db}")),
    "migrate": Case("nothing", "command", "recovered", WRITES, errno.ENOSPC, every=19, arguments=("migrate", "--db", "{db}")),
    "pin": Case("store", "command", "reloaded", CHANGES, errno.ENOSPC, arguments=("checkpoint", "pin", "{disk}/store", "2")),
    "verify": Case(
        "store", "command", "reloaded", CHANGES, errno.EROFS, arguments=("checkpoint", "verify", "--mark", "{disk}/store")
    ),
    "gc": Case(
        "store", "command", "reloaded", CHANGES, errno.EIO, arguments=("checkpoint", "gc", "{disk}/store", "--keep-last", "1")
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_what_was_refused_and_shows_no_traceback(ask: Ask, record_property: Record, name: str) -> None:
    case = COMMANDS[name]

    def judged(report: dict[str, Any]) -> None:
        (loads if case.after == "reloaded" else went_on)(report)
        [code] = told(report["acted"], "exit")
        [said] = told(report["acted"], "stderr")
        assert "Traceback" not in said
        assert code != 70
        if code not in {0, 6}:
            assert re.search(
                "trial-|00000000000", said + "".join(told(report["acted"], "stdout"))
            )  # the database, the store or a checkpoint

    each_call(ask, case, judged, record_property)


@pytest.mark.parametrize(
    ("before", "act", "after"), [("journal", "run", "recovered"), ("nothing", "run", "recovered"), ("store", "save", "reloaded")]
)
def test_a_process_without_descriptors_says_so_and_loses_nothing(tmp_path: Path, before: str, act: str, after: str) -> None:
    """Each number of descriptors that are left, until there are enough."""
    case = Case(before, act, after, (), 0)
    with playing(tmp_path) as ask:
        for left in range(40):
            report = ask(case.trial(0) | {"nofile": left})
            said = clear(report)
            (went_on if after == "recovered" else loads)(report)
            if not said:
                break
            assert any("Too many open files" in text for text in said)
        assert 0 < left < 39


@pytest.mark.parametrize("number", [1, 3, 4, 8, 13, 19])
def test_a_refused_sync_is_not_believed_by_a_later_one(tmp_path: Path, record_property: Record, number: int) -> None:
    """Lost power after a sync was refused and the run called again: what was written when it was refused may be gone, and what was acknowledged may not."""
    changes = sweep.recorded(tmp_path, (f"refused:{number}", 0), ("retried", 0))
    assert [each.errno for each in changes if isinstance(each, Refused)] == [errno.EIO]
    reader = judging.Reader()
    ask = sweep.Questions(reader.read, judging.wrong_with, judging.recovered_wrongly)
    found = sweep.swept(changes, judging.Facts(), ask, sparse=True)
    record_property("swept", str(found))
    assert found.failures == []
    assert found.recoveries > 20


def test_a_log_whose_name_was_not_synced_is_found_out(tmp_path: Path) -> None:
    """SQLite goes on when the sync of the directory that names its log is refused. Without the one of our own, what was acknowledged would be gone."""
    changes = sweep.recorded(tmp_path, ("refused:2", 0), ("retried", 0), spoilt="log-not-named")
    assert [each.what["returned"] for each in changes if isinstance(each, Said) and "returned" in each.what][:1] == ["run-1"]
    reader = judging.Reader()
    ask = sweep.Questions(reader.read, judging.wrong_with, judging.recovered_wrongly)
    [failure] = sweep.swept(changes, judging.Facts(), ask, stop_at_first=True, sparse=True).failures
    assert "an acknowledged append is gone" in failure
