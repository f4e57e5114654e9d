"""Parting: who reads from a file while its process is to be forked."""

from __future__ import annotations

import threading

from recovery.storage.parting import Readers


def test_nobody_begins_to_read_while_it_is_shut_and_all_do_once_it_is_open() -> None:
    readers, began, done = Readers(), threading.Event(), threading.Event()

    def read() -> None:
        began.set()
        with readers.inside():
            done.set()

    assert readers.shut(0)
    thread = threading.Thread(target=read)
    thread.start()
    assert began.wait(30)
    assert not done.wait(0.05)
    readers.open()
    assert done.wait(30)
    thread.join()


def test_who_is_inside_may_begin_one_more_and_is_waited_for_until_its_last_has_ended() -> None:
    readers, inside, shut, ended = Readers(), threading.Event(), threading.Event(), threading.Event()

    def read() -> None:
        with readers.inside():
            inside.set()
            shut.wait(30)
            with readers.inside():
                pass
            assert not readers.shut(0), "its first read goes on"
            ended.set()

    thread = threading.Thread(target=read)
    thread.start()
    assert inside.wait(30)
    assert not readers.shut(0)
    shut.set()
    assert readers.shut(30)
    assert ended.is_set()
    thread.join()


def test_who_is_inside_does_not_wait_for_itself() -> None:
    readers = Readers()
    with readers.inside():
        assert not readers.shut(3600)
    assert readers.shut(0)


def test_what_was_broken_off_holds_nobody_up() -> None:
    readers = Readers()
    readers.inside().__enter__()
    readers.interrupted()
    assert readers.shut(0)
