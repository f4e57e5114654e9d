"""A meeting: how the ranks of one job hand each other documents through the store's own directory, and how long they wait.

Owns the waiting. Must not know what is said. Invariant: nobody waits without an end, and whoever gives up names those who did not come. A rank that
fails says so, and everybody who waits for it hears that instead of its silence.

No collective is called: a process group whose member has died says that a connection was closed, and not by whom; with a member that has only
stopped, it waits for as long as the group was told to, which is half an hour unless somebody said otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from recovery.checkpoint import strict
from recovery.checkpoint.errors import CheckpointError, RankFailed, RanksMissing, SaveFailed, WritersMissing
from recovery.checkpoint.files import Disk, created, opened, remove_tree
from recovery.checkpoint.layout import listed
from recovery.checkpoint.limits import Limits
from recovery.clocks import read_boot_us
from recovery.crashpoints import around

CAME: Final = "came"
FAILED: Final = "failed"
FIRST_PAUSE_S: Final = 0.001
LAST_PAUSE_S: Final = 0.05
COORDINATOR: Final = 0


@dataclass
class Meeting:
    """One rank's seat at one save or load. `rank` 0 coordinates.

    deadline_s: how long the coordinator waits for the others, from the beginning. The others give it twice that before they hold it for lost.
    """

    disk: Disk
    directory: Path
    limits: Limits
    rank: int
    size: int
    deadline_s: float
    what: str  # "save" or "load"
    who: str = "rank"  # what its members are called
    now_us: Callable[[], int] = read_boot_us
    pause: Callable[[float], None] = time.sleep
    began_us: int = field(init=False)
    heard_of_failure: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.began_us = self.now_us()

    @property
    def coordinates(self) -> bool:
        return self.rank == COORDINATOR

    def tell(self, word: str, document: Any) -> None:
        """Leave a document for the others. They see it whole or not at all; durable on return. A word is said once. Raises OSError."""
        name = _name(word, self.rank)
        aside = self.directory / f".{name}"
        with around("checkpoint.meet"):
            with created(self.disk, aside) as file:
                self.disk.write(file, strict.canonical(document))
                self.disk.sync(file)
            self.disk.rename(aside, self.directory / name)

    def came(self) -> None:
        """Say that this rank has begun, for whoever looks for one that is missing. Raises FileExistsError if another process has said so for it."""
        with around("checkpoint.meet"), created(self.disk, self.directory / _name(CAME, self.rank)):
            pass

    def said(self, word: str, rank: int) -> Any:
        """A word that was said already. Raises FileNotFoundError, CheckpointInvalid."""
        return self._read(_name(word, rank))

    def hear(self, word: str) -> dict[int, Any]:
        """That word from every rank. Raises WritersMissing or RanksMissing at the deadline, and what another rank failed of."""
        return self._hear(word, range(self.size), self.deadline_s)

    def hear_coordinator(self, word: str) -> Any:
        """That word from the coordinator. Raises RanksMissing, and what another rank failed of."""
        return self._hear(word, [COORDINATOR], self.deadline_s * (1 if self.coordinates else 2))[COORDINATOR]

    def forget_earlier(self) -> None:
        """Remove the meetings before this one. For the coordinator, once every rank has spoken here: then all have left those."""
        session = self.directory.parent
        for name, _ in listed(self.disk, session):
            if name < self.directory.name:
                with around("checkpoint.remove"):
                    remove_tree(self.disk, session / name)

    @contextmanager
    def part(self) -> Iterator[None]:
        """What this rank does. If it fails, the others are told. If it fails because another one did, that one's error is raised."""
        try:
            yield
        except BaseException as error:  # an interrupt, too, is told to the other ranks; raised again
            if self.heard_of_failure:
                raise
            if isinstance(error, OSError | SaveFailed) and (earlier := self._failed(self._there())):
                raise earlier from error
            with suppress(OSError):  # the error itself is the one to raise
                self.tell(FAILED, _told(error))
            raise

    def _hear(self, word: str, ranks: Iterable[int], seconds: float) -> dict[int, Any]:
        waiting, heard = set(ranks), dict[int, Any]()
        end_us, pause_s = self.began_us + int(seconds * 1e6), FIRST_PAUSE_S
        while True:
            late = self.now_us() > end_us  # read before the directory: what came in time counts
            there = self._there()
            heard |= {rank: self._read(_name(word, rank)) for rank in waiting if _name(word, rank) in there}
            waiting -= heard.keys()
            if not waiting:
                return heard
            if failure := self._failed(there):
                raise failure
            if late:
                raise self._missing(waiting, seconds, there)
            self.pause(pause_s)
            pause_s = min(2 * pause_s, LAST_PAUSE_S)

    def _read(self, name: str) -> Any:
        with opened(self.disk, self.directory / name) as (file, size):
            buffer = bytearray(min(size, self.limits.state_bytes + 1))
            self.disk.read_into(file, buffer)
        return strict.read(bytes(buffer), bytes_max=self.limits.state_bytes, depth_max=2 * self.limits.depth, where=name)

    def _missing(self, ranks: set[int], seconds: float, there: set[str]) -> CheckpointError:
        began = {rank: " (it had begun)" if _name(CAME, rank) in there else "" for rank in ranks}
        store, missing = str(self.directory.parents[2]), ", ".join(f"{self.who} {rank}{began[rank]}" for rank in sorted(ranks))
        if self.coordinates and self.what == "save":
            return WritersMissing(store=store, seconds=seconds, missing=missing)
        fate = "Nothing was loaded or replaced." if self.what == "load" else "It may have been committed: `latest()` tells."
        return RanksMissing(store=store, what=self.what, seconds=seconds, missing=missing, fate=fate)

    def _there(self) -> set[str]:
        return {name for name, _ in listed(self.disk, self.directory)}

    def _failed(self, there: set[str]) -> CheckpointError | None:
        """What another rank failed of, as it was raised there where it is one of our errors; None if none did."""
        rank = next((rank for rank in range(self.size) if _name(FAILED, rank) in there), None)
        if rank is None:
            return None
        self.heard_of_failure = True
        said: Mapping[str, Any] = self._read(_name(FAILED, rank))
        store = str(self.directory.parents[2])
        kind = _ours().get(said["type"])
        if kind is not None:
            error = kind(**said["fields"])
            error.add_note(f"{self.who.capitalize()} {rank} said so.")
            return error
        return RankFailed(store=store, what=self.what, who=self.who, rank=rank, problem=said["problem"])


def _name(word: str, rank: int) -> str:
    return f"{word}-{rank:05d}.json"


def _told(error: BaseException) -> dict[str, Any]:
    fields = {name: value if type(value) is int else str(value) for name, value in getattr(error, "fields", {}).items()}
    return {"type": type(error).__name__, "fields": fields, "problem": f"{type(error).__name__}: {error}"[:500]}


def _ours() -> dict[str, type[CheckpointError]]:
    return {each.__name__: each for each in CheckpointError.__subclasses__()}
