"""Who is proven dead: real children, killed, stopped, unreaped and hidden behind awkward names."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from recovery import processes
from recovery.ports import Owner
from recovery.processes import identify, parse_stat, proven_dead

IDENTIFY = (
    "import sys, json, dataclasses; from recovery.processes import identify;"
    "print(json.dumps(dataclasses.asdict(identify('child'))), flush=True); sys.stdin.read()"
)


@contextmanager
def child(code: str = IDENTIFY) -> Iterator[tuple[subprocess.Popen[bytes], Owner]]:
    """A process that has printed its own identity and waits for its standard input to close."""
    import json

    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield process, Owner(**json.loads(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def unreaped_end(pid: int) -> None:
    """Block until `pid` has ended, and leave it a zombie."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def test_a_running_process_is_not_dead() -> None:
    with child() as (_, owner):
        assert not proven_dead(owner)


def test_this_process_is_not_dead() -> None:
    me = identify("t")
    assert me.token == "t"
    assert me.pid == os.getpid()
    assert me.boot_id
    assert me.pid_namespace.startswith("pid:[")
    assert me.process_start > 0
    assert not proven_dead(me)


def test_a_killed_and_reaped_process_is_dead() -> None:
    with child() as (process, owner):
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert proven_dead(owner)


def test_a_zombie_is_dead() -> None:
    with child() as (process, owner):
        process.send_signal(signal.SIGKILL)
        unreaped_end(process.pid)
        assert Path(f"/proc/{process.pid}").exists(), "it must still be unreaped"
        assert proven_dead(owner)


def test_a_stopped_process_is_not_dead() -> None:
    """SIGCONT would make it send."""
    with child() as (process, owner):
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        assert not proven_dead(owner)


def test_a_leader_that_exited_before_its_threads_is_not_dead() -> None:
    """Its state is Z, and yet a thread of it may send."""
    exit_thread = {"x86_64": 60, "aarch64": 93}[platform.machine()]
    code = (
        "import ctypes, threading, json, dataclasses, sys, os; from recovery.processes import identify\n"
        "print(json.dumps(dataclasses.asdict(identify('child'))), flush=True)\n"
        "leader = os.getpid()\n"
        "def stay():\n"
        "    while open(f'/proc/{leader}/stat').read().rpartition(')')[2].split()[0] != 'Z': pass\n"
        "    print('alone', flush=True); os.read(0, 1)\n"
        "threading.Thread(target=stay).start()\n"
        f"ctypes.CDLL(None).syscall({exit_thread}, 0)\n"
    )
    with child(code) as (process, owner):
        assert process.stdout is not None
        assert process.stdout.readline() == b"alone\n"
        assert not proven_dead(owner)


def test_a_reused_pid_is_another_process() -> None:
    """The pid lives, with another start time: the recorded process is gone."""
    with child() as (_, owner):
        assert proven_dead(replace(owner, process_start=owner.process_start - 1))


@pytest.mark.parametrize(
    "unlike",
    [
        {"boot_id": "another"},
        {"pid_namespace": "pid:[1]"},
        {"boot_id": ""},
        {"pid_namespace": ""},
        {"pid": 0},
        {"pid": -1},
        {"process_start": 0},
    ],
    ids=str,
)
def test_what_cannot_be_compared_is_not_proven(unlike: dict[str, object]) -> None:
    """Another boot, another container, a platform without /proc: the lease decides."""
    with child() as (process, owner):
        process.kill()
        process.wait()
        assert proven_dead(owner), "the control: proven without the difference"
        assert not proven_dead(replace(owner, **unlike))


def test_without_proc_nobody_is_ever_proven_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS: an identity is given, and proves nothing in either direction."""
    monkeypatch.setattr(processes, "_BOOT_ID", Path("/nonexistent/boot_id"))
    monkeypatch.setattr(processes, "_HERE", processes._Here())
    me = identify("t")
    assert me.pid == os.getpid()
    assert me.boot_id == ""
    assert not proven_dead(replace(me, pid=2**22 + 1, process_start=1))


def test_a_forked_child_is_itself_whatever_its_parent_was_asked() -> None:
    parent, (reading, writing) = identify("t"), os.pipe()
    with warnings.catch_warnings():  # newer Pythons warn of forks beside threads
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        me = identify("t")  # whose pid could be one that the parent's kept identity names
        os.write(writing, f"{me.pid} {me.process_start}".encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        child_pid, start = map(int, said.read().split())
    os.waitpid(pid, 0)
    assert child_pid == pid != parent.pid
    assert start >= parent.process_start


def test_an_absurd_pid_is_not_proven() -> None:
    assert not proven_dead(replace(identify("t"), pid=2**70))


@pytest.mark.parametrize("name", ["plain", "two words", "a) R 1 (b", ") Z (", "((("])
def test_a_name_cannot_hide_or_forge_fields(tmp_path: Path, name: str) -> None:
    """A real process with that name (the kernel takes it from the file), stopped so that its state is known."""
    program = tmp_path / name
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    program.chmod(0o755)
    process = subprocess.Popen([program, "1000"])
    try:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        text = Path(f"/proc/{process.pid}/stat").read_text()
        assert f"({name[:15]})" in text
        stat = parse_stat(text)
        assert (stat.state, stat.threads) == ("T", 1)
        assert abs(stat.start - identify("t").process_start) < 100 * 3600, "near our own start, so it is field 22"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("text", ["", "1 (x", "1 (x) R 1 2", "1 (x) R " + "a " * 40])
def test_a_malformed_line_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_stat(text)
