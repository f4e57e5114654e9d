"""By order of system calls: a request's first byte leaves only after its attempt was written to the journal's log and synced.

It is skipped where strace is not installed, or may not trace; beside it only what needs FUSE (`tests/power`) or faketime (`tests/judge`) may be.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.children import COMMAND, Child, spoilt, started
from tests.crash.stage import Stage, Story

STRACE = ("strace", "-f", "-y", "-s", "100000", "-e", "trace=write,pwrite64,writev,fsync,fdatasync,sendto,sendmsg")
CALL = re.compile(r"(?P<pid>\d+) +(?P<name>\w+)\(\d+<(?P<path>[^>]*)>(?P<rest>.*)")
RESUMED = re.compile(r"(?P<pid>\d+) +<\.\.\. (?P<name>\w+) resumed>")
UNFINISHED = "<unfinished ...>"


@dataclass(frozen=True)
class Event:
    """`what`: "written" (begun), "synced" (completed) or "sent" (begun). `text`: the bytes, as strace shows them."""

    what: str
    text: str


def events(trace: Sequence[str], log: str) -> Iterator[Event]:
    """What happened to the log and on sockets. A sync counts when it has returned, everything else when it begins."""
    syncing: set[str] = set()
    for line in trace:
        if (ended := RESUMED.match(line)) and ended["name"] in {"fsync", "fdatasync"} and ended["pid"] in syncing:
            syncing.discard(ended["pid"])
            yield Event("synced", "")
        call = CALL.match(line)
        if call is None:
            continue
        name, path, rest = call["name"], call["path"], call["rest"]
        if name in {"fsync", "fdatasync"}:
            if path != log:
                continue
            if UNFINISHED in rest:
                syncing.add(call["pid"])
            elif rest.rstrip().endswith("= 0"):
                yield Event("synced", "")
        elif path == log:
            yield Event("written", rest)
        elif path.startswith(("socket:", "TCP:")):
            yield Event("sent", rest)


def violations(trace: Sequence[str], log: str, keys: Sequence[str]) -> list[str]:
    """For each key's first request: its attempt was not written before, or not synced after that. Empty if all is in order."""
    found = []
    for key in keys:
        state = "not written"
        for event in events(trace, log):
            if event.what == "written" and key in event.text and "send_until_us" in event.text:
                state = "not synced"
            elif event.what == "synced" and state == "not synced":
                state = "durable"
            elif event.what == "sent" and key in event.text:
                break
        else:
            state = "not sent"
        if state != "durable":
            found.append(f"{key}: {state}")
    return found


@functools.cache
def why_not() -> str:
    """Why strace cannot be used here; "" if it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, text=True)
    return f"strace may not trace here: {tried.stderr.strip()}" if tried.returncode else ""


@pytest.fixture
def tracing() -> None:
    if reason := why_not():
        pytest.skip(reason)  # strace is no part of Python and make; .ci/run installs it where it may


def traced(story: Story, program: Sequence[str], directory: Path, *, ending: int = 0) -> tuple[list[str], str]:
    """Run a worker to its end under strace: its system calls, and the journal's log."""
    output = directory / "trace"
    log = story.stage.url.removeprefix("sqlite:///") + "-wal"
    with started(Child(story.arguments("run"), story.environment(), [*STRACE, "-o", str(output), *program])) as (worker,):
        ended = worker.wait()
    assert ended.returncode == ending, ended
    return output.read_text(errors="replace").splitlines(), log


@pytest.mark.usefixtures("tracing")
def test_an_attempt_is_synced_before_its_first_byte_leaves(sqlite_stage: Stage, tmp_path: Path, colour: str) -> None:
    story = sqlite_stage.new_run("plain", colour)
    trace, log = traced(story, COMMAND, tmp_path)
    assert violations(trace, log, [f"{story.run_id}:1", f"{story.run_id}:2"]) == []
    story.check_once()


@pytest.mark.usefixtures("tracing")
def test_a_journal_that_is_not_synced_is_found_out(sqlite_stage: Stage, tmp_path: Path) -> None:
    story = sqlite_stage.new_run("plain", "sync")
    trace, log = traced(story, spoilt("unsynced"), tmp_path)
    assert violations(trace, log, [f"{story.run_id}:1"]) == [f"{story.run_id}:1: not synced"]


@pytest.mark.usefixtures("tracing")
def test_an_attempt_that_is_not_written_is_found_out(sqlite_stage: Stage, tmp_path: Path) -> None:
    story = sqlite_stage.new_run("plain", "sync")
    trace, log = traced(story, spoilt("unwritten"), tmp_path, ending=7)  # its journal has a hole, and fences it out
    assert violations(trace, log, [f"{story.run_id}:1"]) == [f"{story.run_id}:1: not written"]
