"""What runs on the disk, each in a process of its own: `python -m tests.power.programs DISK NAME [SPOILT]`.

Owns the programs and the ways to spoil them. Each uses the shipped code; a spoilt one has one line of it changed, to show that it is noticed.
What a program prepares before it says "begin" is not looked at.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from recovery import Engine
from recovery.clocks import SystemClock
from recovery.core.errors import RecoveryError
from recovery.storage import open_journal, sqlite
from recovery.storage.migrate import migrate
from tests.crash.worker import Hurried
from tests.power import story
from tests.power.mount import said
from tests.power.releases import older
from tests.power.telling import TellingJournal

JOURNAL: Final = "j.db"
LANDED: Final = "POWER_LANDED"
"""The environment variable that tells a program what landed before it."""

LONG: Final = "run-long"
NOTE: Final = "n" * 5000
"""The input of the run `LONG`: several pages, which its append spreads over overflow pages."""


class Desk:
    """One program's view of the disk."""

    def __init__(self, disk: Path) -> None:
        self.disk = disk
        self.url = f"sqlite:///{disk / JOURNAL}"
        story.world.landing = lambda key: self.say({"landed": key})

    def say(self, what: dict[str, Any]) -> None:
        said(self.disk, what)

    def heard(self) -> list[str]:
        """What has landed before this program, as the world outside knows it."""
        return list(filter(None, os.environ.get(LANDED, "").split(",")))

    def engine(self) -> Engine:
        clock = Hurried(SystemClock())
        return Engine(TellingJournal(open_journal(self.url), self.say), workflows=[story.errand], clock=clock, riding=None)

    def begin(self) -> None:
        self.say({"begin": True})

    def run(self, engine: Engine, run_id: str, note: str = "") -> None:
        assert not story.wrong_with(engine.run(run_id, story.errand, 2, note), run_id)
        self.say({"returned": run_id})

    def recover(self, engine: Engine, run_id: str) -> None:
        assert not story.wrong_with(engine.recover(run_id).result(), run_id)
        self.say({"returned": run_id})


def created(desk: Desk) -> None:
    """A journal's first creation, and one run in it."""
    desk.begin()
    with desk.engine() as engine:
        engine.journal.namespace()
        desk.run(engine, "run-1")


def continued(desk: Desk) -> None:
    """A run with an input of several pages in a journal that is there, and the log's end when the journal is closed."""
    migrate(desk.url)
    desk.begin()
    with desk.engine() as engine, closing(engine.journal):
        desk.run(engine, LONG, NOTE)


def checkpointed(desk: Desk) -> None:
    """The log is copied into the file again and again while runs go on: at 12 pages instead of 4,000."""
    sqlite._WRITER_SETTINGS = tuple(
        "wal_autocheckpoint = 12" if "autocheckpoint" in each else each for each in sqlite._WRITER_SETTINGS
    )
    migrate(desk.url)
    desk.begin()
    with desk.engine() as engine:
        desk.run(engine, "run-1")
        desk.run(engine, "run-2")


def _often_checkpointed() -> None:
    sqlite._WRITER_SETTINGS = tuple(
        "wal_autocheckpoint = 12" if "autocheckpoint" in each else each for each in sqlite._WRITER_SETTINGS
    )


def abandoned(desk: Desk) -> None:
    """Killed when its second effect has landed; `claimed` goes on from there on the same disk."""
    migrate(desk.url)
    desk.begin()

    def landing(key: str) -> None:
        desk.say({"landed": key})
        if ":2:" in key:
            os.kill(os.getpid(), signal.SIGKILL)

    story.world.landing = landing
    with desk.engine() as engine:
        desk.run(engine, "run-1")


def claimed(desk: Desk) -> None:
    story.world.landed += desk.heard()
    with desk.engine() as engine:
        desk.recover(engine, "run-1")


def refused(desk: Desk, number: str) -> None:
    """The n-th sync of a run is refused, once; whatever comes of it, `retried` calls the run again."""
    migrate(desk.url)
    _often_checkpointed()
    desk.begin()
    os.setxattr(desk.disk, "user.refuse", json.dumps({"calls": ["sync"], "at": int(number), "errno": errno.EIO}).encode())
    with suppress(RecoveryError), desk.engine() as engine:
        desk.run(engine, "run-1")
    desk.say({"syncs": int(os.getxattr(desk.disk, "user.passed"))})


def retried(desk: Desk) -> None:
    _often_checkpointed()
    story.world.landed += desk.heard()
    with desk.engine() as engine:
        desk.run(engine, "run-1")
        desk.run(engine, "run-2")


def migrated(desk: Desk, version: str) -> None:
    """A journal of an older release with a whole run in it is opened, migrated, and goes on."""
    beside = desk.disk.parent / f"{version}.db"
    older(beside, version)
    place = desk.disk / JOURNAL
    shutil.copyfile(beside, place)
    for path in (place, desk.disk):
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.close(file)
    desk.begin()
    with desk.engine() as engine:
        engine.journal.namespace()
        desk.run(engine, "run-1")


PROGRAMS: Final[dict[str, Callable[..., None]]] = {
    each.__name__: each for each in (created, continued, checkpointed, abandoned, claimed, refused, retried, migrated)
}


# -- spoiling ----------------------------------------------------------------------------------------------------------


def synchronous(level: str, number: int) -> None:
    """`synchronous` is turned down for whoever writes, and what reads it back is told to expect it."""
    sqlite._WRITER_SETTINGS = tuple(f"synchronous = {level}" if "synchronous" in each else each for each in sqlite._WRITER_SETTINGS)
    sqlite._REQUIRED["synchronous"] = number


def no_directory_sync() -> None:
    """A new journal's name is not synced, nor is any other name."""
    real = os.fsync

    def fsync(file: int) -> None:
        if not os.path.isdir(f"/proc/self/fd/{file}"):  # noqa: PTH112
            real(file)

    os.fsync = fsync  # type: ignore[assignment]


def no_file_sync() -> None:
    """Names are synced, and what they name is not."""
    real = os.fsync

    def fsync(file: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{file}"):  # noqa: PTH112
            real(file)

    os.fsync = fsync  # type: ignore[assignment]


def log_not_named() -> None:
    """What SQLite says of the log's name is believed."""
    sqlite.sync_names = lambda directory: None  # type: ignore[attr-defined]


SPOILT: Final[dict[str, Callable[[], None]]] = {
    "normal": lambda: synchronous("NORMAL", 1),
    "off": lambda: synchronous("OFF", 0),
    "no-directory-sync": no_directory_sync,
    "no-file-sync": no_file_sync,
    "log-not-named": log_not_named,
}


def main(disk: str, name: str, spoilt: str = "") -> None:
    if spoilt:
        SPOILT[spoilt]()
    desk = Desk(Path(disk))
    program, _, argument = name.partition(":")
    if program in PROGRAMS:
        PROGRAMS[program](desk, *([argument] if argument else []))
        return
    from tests.power import stores  # and numpy, which no journal needs

    stores.PROGRAMS[program](desk.disk, desk.say)


if __name__ == "__main__":
    main(*sys.argv[1:])
