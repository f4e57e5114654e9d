"""A call of the journal that Ctrl-C breaks off, at lines all over it and the libraries below: the next call waits for nothing it took."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from recovery.ports import Hold, Journal
from recovery.storage import open_journal
from recovery.storage.retry import persistently

STRIDES = {"sqlite": 11, "postgresql": 17}  # of about a thousand lines
POOL = {"impl.py", "queue.py"}
BELOW = ("sqlalchemy", "recovery/storage", "contextlib", "threading", "queue")


class Interrupter:
    """Counts the lines of a call, and raises at one of them what Ctrl-C raises."""

    def __init__(self, at: int = -1) -> None:
        self.at = at
        self.lines: list[tuple[str, str]] = []

    def __call__(self, frame: FrameType, _event: str, _arg: object) -> Any:
        path = frame.f_code.co_filename
        ours = any(part in path for part in BELOW) and not path.endswith("interruption.py")
        return self._line if ours else None

    def _line(self, frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line":
            self.lines.append((Path(frame.f_code.co_filename).name, frame.f_code.co_name))
            if len(self.lines) == self.at:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._line


def kept(journal: Journal, token: str) -> None:
    journal.add_hold(Hold("contract", held=True, by="test", reason="test", at_us=1, token=token))


def traced(journal: Journal, token: str, interrupter: Interrupter) -> None:
    before = sys.gettrace()
    sys.settrace(interrupter)
    try:
        kept(journal, token)
    finally:
        sys.settrace(before)


@pytest.fixture(params=STRIDES)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    url = f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    journal = open_journal(url)
    kept(journal, "first")
    kept(journal, "second")
    gc.collect()
    gc.freeze()  # each interruption collects what it left: not all that pytest has as well
    yield journal
    gc.unfreeze()
    journal.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a connection whose own opening was broken off
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_wherever_an_interruption_strikes_it_stays_one_and_the_next_call_waits_for_nothing(
    journal: Journal, request: pytest.FixtureRequest
) -> None:
    counted = Interrupter()
    traced(journal, "counted", counted)
    places = set(range(1, len(counted.lines) + 1, STRIDES[request.node.callspec.params["journal"]]))
    places |= {at for at, line in enumerate(counted.lines, 1) if line == ("contextlib.py", "__exit__")}  # where it was first seen
    places |= {at for at, (file, _) in enumerate(counted.lines, 1) if file in POOL}  # where a pool loses count
    struck: list[int] = []
    with ThreadPoolExecutor(1) as another:
        for at in sorted(places):
            interrupter = Interrupter(at)
            try:
                traced(journal, f"broken off at {at}", interrupter)
            except KeyboardInterrupt:
                struck.append(at)
                # While its traceback is held, as on the way out of a command. A pool that lost its connection would wait for half a minute, and
                # the file's lock for ten seconds; both end in an error.
                kept(journal, f"after {at}")
                another.submit(kept, journal, f"elsewhere after {at}").result(timeout=60)
    assert struck == sorted(places)


def test_an_error_that_a_library_raises_in_its_place_is_not_what_comes_out() -> None:
    cleared: list[str] = []

    def broken() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise AttributeError("half made")

    with pytest.raises(KeyboardInterrupt):
        persistently(broken, "here", lambda: cleared.append("cleared"), writing=True)
    assert cleared == ["cleared"]


def test_an_error_on_the_way_out_of_an_interruption_is_its_own() -> None:
    def failed() -> None:
        raise ValueError("its own")

    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with pytest.raises(ValueError, match="its own"):
            persistently(failed, "here", lambda: pytest.fail("there was nothing to clear"), writing=True)
