"""Turns beside an SQLite file: one at a time, ended by whatever ends its process, and never waited for without a bound."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from recovery.storage.turns import IN_A_ROW, SUFFIX, Turns, _say_that_one_waits, _waits

WAIT_SECONDS = 60

HOLDER = """
import sys, time
from pathlib import Path
from recovery.storage.turns import Turns
with Turns(Path(sys.argv[1]), 60):
    print("mine", flush=True)
    sys.stdin.read()
"""


WAITER = """
import sys
from pathlib import Path
from recovery.storage.turns import Turns
with Turns(Path(sys.argv[1]), 60):
    print("mine", flush=True)
"""
FOR_AS_LONG_AS_IT_TAKES = 1_000_000


def until_somebody_waits(turns: Turns) -> int:
    assert turns._mine is not None
    while (byte := _waits(turns._mine, 0, 0)) is None:
        os.sched_yield()
    return byte


def is_free(database: Path) -> bool:
    with Path(f"{database}{SUFFIX}").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def test_a_second_writer_waits_for_the_first(database: Path) -> None:
    first, second = Turns(database, WAIT_SECONDS), Turns(database, WAIT_SECONDS)
    order: list[str] = []
    had = threading.Event()

    def follow() -> None:
        with second:
            order.append("second")
        had.set()

    with first:
        thread = threading.Thread(target=follow)
        thread.start()
        while not second._waiting:
            os.sched_yield()
        order.append("first")
    assert had.wait(WAIT_SECONDS)
    thread.join()
    assert order == ["first", "second"]
    assert is_free(database)
    with first:  # and again
        assert not is_free(database)
    first.drop()
    second.drop()


def test_a_turn_ends_with_a_process_that_is_killed(database: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, database], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "mine\n"
    assert not is_free(database)
    holder.send_signal(signal.SIGKILL)
    with Turns(database, WAIT_SECONDS):
        assert not is_free(database)
    holder.communicate()


def test_who_has_waited_long_enough_goes_on_and_keeps_nothing(database: Path) -> None:
    first, impatient = Turns(database, WAIT_SECONDS), Turns(database, 0.01)
    with first, impatient:
        assert impatient._waited is None
        assert impatient._waiting
    with Turns(database, WAIT_SECONDS):
        """What the thread got that nobody waited for any more was let go of."""
    first.drop()


def test_while_one_keeps_its_turn_for_too_long_nobody_waits_for_it_again_and_again(database: Path) -> None:
    first, other = Turns(database, WAIT_SECONDS), Turns(database, 0.01)
    with first:
        for _ in range(3):
            with other:
                pass
        assert len(other._waiting) == 1
    with Turns(database, WAIT_SECONDS):
        """What the thread got that nobody waited for any more was let go of."""
    first.drop()
    other.drop()


def test_where_no_thread_can_begin_one_goes_on_without(database: Path) -> None:
    first, other = Turns(database, WAIT_SECONDS), Turns(database, WAIT_SECONDS)
    with first:
        usual = threading.stack_size(2**47)  # of which no thread can be had
        try:
            with other:
                assert other._waiting == set()
        finally:
            threading.stack_size(usual)
    assert is_free(database)
    first.drop()
    other.drop()


def test_a_forked_child_neither_keeps_nor_ends_a_turn_of_its_parent(database: Path) -> None:
    turns = Turns(database, WAIT_SECONDS)
    told, telling = os.pipe()
    ending, end = os.pipe()
    with turns:
        child = os.fork()
        if child == 0:
            turns.forked()
            os.write(telling, b"1")
            os.close(end)
            os.read(ending, 1)
            os._exit(0)
        assert os.read(told, 1) == b"1"
        assert not is_free(database), "the child has ended it"
    assert is_free(database), "the child keeps it"
    os.close(end)
    os.waitpid(child, 0)
    for file in (told, telling, ending):
        os.close(file)
    turns.drop()


def test_where_there_can_be_no_file_nobody_waits(tmp_path: Path) -> None:
    turns = Turns(tmp_path / "absent" / "journal.db", WAIT_SECONDS)
    with turns, turns:
        assert not (tmp_path / "absent").exists()


def test_the_file_is_its_owners_and_an_error_ends_the_turn(database: Path) -> None:
    turns = Turns(database, WAIT_SECONDS)
    with pytest.raises(LookupError), turns:
        raise LookupError
    assert is_free(database)
    assert Path(f"{database}{SUFFIX}").stat().st_mode & 0o777 == 0o600
    turns.drop()


def test_who_has_had_many_turns_in_a_row_gives_way_to_one_that_waits(database: Path) -> None:
    """The lock alone is had by whoever asks first when it is free, and who slept for it has yet to wake up."""
    for _ in range(20):
        busy, other = Turns(database, WAIT_SECONDS, giving_way_times=FOR_AS_LONG_AS_IT_TAKES), Turns(database, WAIT_SECONDS)
        order: list[str] = []

        def take(turns: Turns = other, order: list[str] = order) -> None:
            with turns:
                order.append("other")

        for _ in range(IN_A_ROW - 1):
            with busy:
                pass
        thread = threading.Thread(target=take)
        with busy:
            thread.start()
            until_somebody_waits(busy)
        with busy:
            order.append("busy")
        thread.join()
        assert order == ["other", "busy"]
        busy.drop()
        other.drop()


def test_one_that_was_stopped_while_it_waited_is_given_way_to_once(database: Path) -> None:
    busy = Turns(database, WAIT_SECONDS, giving_way_times=3)
    with busy:
        waiter = subprocess.Popen([sys.executable, "-c", WAITER, database], stdout=subprocess.PIPE, text=True)
        byte = until_somebody_waits(busy)
        waiter.send_signal(signal.SIGSTOP)
        os.waitpid(waiter.pid, os.WUNTRACED)
    for _ in range(IN_A_ROW):
        with busy:
            pass
    assert busy._stopped == {byte}
    for _ in range(2 * IN_A_ROW):
        with busy:
            """Nobody is waited for."""
    waiter.send_signal(signal.SIGCONT)
    told, _ = waiter.communicate(timeout=WAIT_SECONDS)
    assert told == "mine\n"
    busy.drop()


def test_nobody_is_said_to_wait_who_has_had_a_turn(database: Path) -> None:
    first, second = Turns(database, WAIT_SECONDS), Turns(database, WAIT_SECONDS)
    thread = threading.Thread(target=lambda: second.__enter__())
    with first:
        thread.start()
        until_somebody_waits(first)
    thread.join()
    assert first._mine is not None
    assert _waits(first._mine, 0, 0) is None
    second.__exit__()
    first.drop()
    second.drop()


def test_one_that_was_stopped_hides_nobody_else_who_waits(database: Path) -> None:
    """The system names one of those who wait, and would name the stopped one for as long as it is stopped."""
    busy = Turns(database, WAIT_SECONDS, giving_way_times=3)
    files = []
    with busy:
        for _ in range(3):  # as who waits says it, and never comes
            file = os.open(f"{database}{SUFFIX}", os.O_RDWR)
            _say_that_one_waits(file)
            files.append(file)
    for _ in range(3 * IN_A_ROW + 1):
        with busy:
            pass
    assert len(busy._stopped) == 3, "each was given way to, once"
    for file in files[1:]:
        os.close(file)
    live = os.open(f"{database}{SUFFIX}", os.O_RDWR)
    _say_that_one_waits(live)
    for _ in range(IN_A_ROW):
        with busy:
            pass
    assert len(busy._stopped) == 2, "those who have gone are not kept in mind"
    for file in (files[0], live):
        os.close(file)
    busy.drop()
