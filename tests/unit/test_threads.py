"""Who begins, waits for and joins a thread may be interrupted anywhere, and hears just that."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import CodeType

import pytest

from recovery import threads
from recovery.errors import ThreadUnavailable
from tests.interrupts import SIGNAL, Interrupting

WAIT_SECONDS = 30
SEEN_SECONDS = 0.2
"""How long somebody is at work who would be left alone at once."""


def is_of_threads(code: CodeType) -> bool:
    return code.co_filename in {threading.__file__, threads.__file__}


def begun_and_joined() -> None:
    ready = threads.Signal()
    thread = threads.Thread(ready.set)
    thread.start()
    ready.wait()
    thread.join()


def test_an_interrupt_of_whoever_begins_waits_for_and_joins_a_thread_comes_out_as_one() -> None:
    """And keeps nobody out: the next thread begins and ends."""
    at, place = 0, "somewhere"
    while place:
        at += 1
        interrupting = Interrupting(at, is_of_threads)
        try:
            with interrupting.block():
                begun_and_joined()
        except KeyboardInterrupt:
            begun_and_joined()
        except BaseException as error:
            raise AssertionError(interrupting.place) from error
        else:
            assert not interrupting.place, "it was swallowed"
        place = interrupting.place
    assert at > 30


def test_whoever_was_interrupted_while_joining_can_still_join() -> None:
    """Until it has ended, and not until somebody believes so."""
    left, joined = threading.Event(), list[bool]()
    main = threading.get_ident()

    def work() -> None:
        while not (top := sys._current_frames()[main]).f_back or top.f_back.f_code.co_name != "join":
            """It joins soon, and then waits in something that does only that."""
        signal.pthread_kill(main, SIGNAL)
        joined.append(left.wait(SEEN_SECONDS))

    handled = signal.signal(SIGNAL, signal.default_int_handler)
    thread = threads.Thread(work)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            thread.join()
        thread.join()
        left.set()
    finally:
        signal.signal(SIGNAL, handled)
    assert joined == [False]
    assert not thread.is_alive()


def test_a_thread_that_cannot_be_had_is_said_to_be_that(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(ThreadUnavailable, match="can't start new thread"):
        threads.Thread(lambda: None).start()


def test_a_signal_is_waited_for_until_it_is_set_and_for_no_longer_than_asked() -> None:
    ready = threads.Signal()
    assert not ready.wait(0)
    assert not ready.wait(0.001)
    threads.Thread(ready.set).start()
    assert ready.wait(WAIT_SECONDS)
    assert ready.wait()
    ready.set()
    assert ready.wait()


def test_a_thread_is_joined_for_no_longer_than_asked() -> None:
    ended = threads.Signal()
    thread = threads.Thread(ended.wait, -1, name="waits")
    thread.start()
    thread.join(0.001)
    assert thread.is_alive()
    assert (thread.name, thread.daemon) == ("waits", True)
    ended.set()
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive()


def test_several_may_join_one_thread_and_each_comes_back() -> None:
    ended = threads.Signal()
    thread = threads.Thread(ended.wait, -1)
    thread.start()
    joining = [threading.Thread(target=thread.join, daemon=True) for _ in range(3)]
    for each in joining:
        each.start()
    while not all(_stands_in(each, "wait") for each in joining):
        """They stand still behind each other soon."""
    ended.set()
    for each in joining:
        each.join(WAIT_SECONDS)
    assert not any(each.is_alive() for each in joining)


def test_a_forked_child_waits_for_no_thread_of_its_parent() -> None:
    ended = threads.Signal()
    thread = threads.Thread(ended.wait, -1)
    thread.start()
    child = os.fork()
    if child == 0:
        signal.alarm(int(WAIT_SECONDS))
        thread.join()
        own = threads.Thread(signal.pause)
        own.start()
        own.join(0.001)
        os._exit(0 if own.is_alive() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ended.set()
    thread.join()


def _stands_in(thread: threading.Thread, name: str) -> bool:
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code.co_name == name
