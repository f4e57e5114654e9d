"""What a killed test process had started is ended: no PostgreSQL server and no directory of one outlives its owner."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.postgres_guard import DATA, OWNER, PREFIX, owned, sweep

ROOT = Path(__file__).parents[2]
OWNING = """
import sys
from tests.postgres import serving
with serving() as server:
    print(server.url("postgres").partition("host=")[2], server._server.get_pid(), flush=True)
    sys.stdin.read()
"""
PATIENCE_SECONDS = 120


def ended(process: int) -> bool:
    """Whether the process that a descriptor stands for ends, however busy the machine is."""
    return bool(select.select([process], [], [], PATIENCE_SECONDS)[0])


def test_a_server_dies_with_the_process_that_started_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNING],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        data, number = owner.stdout.readline().split()
        [guard] = psutil.Process(owner.pid).children()
        watched = [os.pidfd_open(int(number)), os.pidfd_open(guard.pid)]
        owner.kill()
    try:
        assert [ended(process) for process in watched] == [True, True]
    finally:
        for process in watched:
            os.close(process)
    assert not Path(data).parent.exists()


@contextmanager
def left_behind(place: Path, name: str) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A directory with the sign of an owner, and a process that looks like the server in it."""
    (data := place / f"{PREFIX}{name}" / DATA).mkdir(parents=True)
    (data.parent / OWNER).touch()
    program = [sys.executable, "-ISc", "print(flush=True); input()", str(data)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()  # before that it may stand in the middle of its `exec`, where the system knows no arguments of it
        (data / "postmaster.pid").write_text(f"{server.pid}\n{data}\n")
        yield data.parent, server
        server.kill()


def test_a_sweep_ends_what_dead_owners_left_and_nothing_else(tmp_path: Path) -> None:
    """The guard may have been killed too."""
    with (
        left_behind(tmp_path, "dead") as (dead, its_server),
        left_behind(tmp_path, "alive") as (alive, living_server),
        owned(alive),
        left_behind(tmp_path, "unsigned") as (unsigned, _),
    ):
        (unsigned / OWNER).unlink()
        sweep(tmp_path)
        assert its_server.wait(PATIENCE_SECONDS) != 0
        assert living_server.poll() is None
        assert sorted(tmp_path.iterdir()) == sorted([alive, unsigned])
        assert not dead.exists()


@pytest.mark.parametrize("said", ["", "{other}\n"], ids=["no server", "another's process"])
def test_a_sweep_takes_no_number_for_a_server(tmp_path: Path, said: str) -> None:
    """The system gives the number of a process that has ended to another one."""
    with (
        left_behind(tmp_path, "dead") as (dead, _),
        subprocess.Popen([sys.executable, "-ISc", "input()"], stdin=subprocess.PIPE) as other,
    ):
        (dead / DATA / "postmaster.pid").write_text(said.format(other=other.pid))
        sweep(tmp_path)
        assert not dead.exists()
        assert other.poll() is None
        other.kill()
