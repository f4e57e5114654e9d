"""Who looks after what rides: everybody is called back, and an engine that is left alone keeps no thread."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from datetime import timedelta
from functools import partial
from types import FrameType
from typing import Any

import pytest

from recovery.drivers import riding
from recovery.drivers.riding import Watchman

LONG_SECONDS = 60.0
"""Far beyond what anything here takes on a busy machine."""


def test_all_are_called_back_in_order_and_in_another_thread() -> None:
    watchman, done, called = Watchman(timedelta(milliseconds=2)), threading.Event(), []

    def back(number: int, early: bool) -> None:
        called.append((number, early, threading.current_thread().name))
        if number == 2:
            done.set()

    for number in range(3):
        watchman.call_later(partial(back, number))
    assert done.wait(LONG_SECONDS)
    watchman.close()
    assert called == [(number, False, "recovery-riding") for number in range(3)]


def test_what_is_asked_for_by_who_is_called_back_is_heard() -> None:
    watchman, done = Watchman(timedelta(milliseconds=2)), threading.Event()
    watchman.call_later(lambda _: watchman.call_later(lambda _: done.set()))
    assert done.wait(LONG_SECONDS)
    watchman.close()


def test_whoever_waits_when_it_is_closed_is_called_back_at_once_and_it_can_be_asked_again() -> None:
    watchman, called, done = Watchman(timedelta(hours=1)), list[tuple[int, bool]](), threading.Event()

    def back(number: int, early: bool) -> None:
        called.append((number, early))

    for number in range(2):
        watchman.call_later(partial(back, number))
    watchman.close()
    assert called == [(0, True), (1, True)]
    watchman.seconds = 0.001
    watchman.call_later(lambda _: done.set())
    assert done.wait(LONG_SECONDS)
    watchman.close()
    assert called == [(0, True), (1, True)]


def test_while_nothing_rides_there_is_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(riding, "IDLE_SECONDS_MAX", 0.001)
    watchman, threads, done = Watchman(timedelta(milliseconds=2)), [], threading.Event()

    def back(_: bool) -> None:
        threads.append(threading.current_thread())
        done.set()

    for _ in range(2):
        done.clear()
        watchman.call_later(back)
        assert done.wait(LONG_SECONDS)
        threads[-1].join(LONG_SECONDS)
        assert not threads[-1].is_alive()
    assert threads[0] is not threads[1]


def test_a_call_that_was_interrupted_keeps_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it enters or leaves its lock, and while it starts the thread: a condition, and the start of a thread, have lines of their own for that."""

    def strike(frame: FrameType, _event: str, _arg: object) -> Any:
        return leaving if frame.f_code in {threading.Condition.__enter__.__code__, threading.Condition.__exit__.__code__} else None

    def leaving(_frame: FrameType, event: str, _arg: object) -> Any:
        if event == "return":
            sys.settrace(before)
            raise KeyboardInterrupt
        return leaving

    watchman, done, before = Watchman(timedelta(milliseconds=2)), threading.Event(), sys.gettrace()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            watchman.call_later(lambda _: done.set())
    watchman.call_later(lambda _: None)  # another thread is there
    sys.settrace(strike)
    with suppress(KeyboardInterrupt):
        watchman.call_later(lambda _: None)
    sys.settrace(before)
    other = threading.Thread(target=watchman.call_later, args=(lambda _: done.set(),), daemon=True)
    other.start()
    assert done.wait(LONG_SECONDS)
    watchman.close()


def interrupted(_thread: threading.Thread) -> None:
    raise KeyboardInterrupt
