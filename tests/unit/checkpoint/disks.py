"""Disks for tests: one that writes down what is asked of it and refuses where told, and its log as a record of changes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recovery.checkpoint.files import LocalDisk
from tests.power.record import ROOT, Change, Made, Moved, Synced, Unnamed, Wrote


@dataclass(frozen=True)
class Call:
    """One call that changes something. `path` is the file that a descriptor belongs to."""

    what: str
    path: Path
    target: Path | None = None
    data: bytes = b""


class RecordingDisk(LocalDisk):
    """The real disk, with a log of what changes it. `refuse(call)` gives the error number that a call fails with, or None."""

    def __init__(self, refuse: Callable[[Call], int | None] = lambda _: None) -> None:
        self.log: list[Call] = []
        self.refuse = refuse
        self._files: dict[int, Path] = {}

    def _note(self, call: Call) -> None:
        number = self.refuse(call)
        self.log.append(call)
        if number is not None:
            raise OSError(number, os.strerror(number), str(call.path))

    def make_directory(self, path: Path) -> None:
        self._note(Call("make_directory", path))
        super().make_directory(path)

    def create(self, path: Path) -> int:
        self._note(Call("create", path))
        file = super().create(path)
        self._files[file] = path
        return file

    def reopen(self, path: Path) -> tuple[int, int]:
        self._note(Call("reopen", path))
        file, size = super().reopen(path)
        self._files[file] = path
        return file, size

    def reserve(self, file: int, size: int) -> None:
        self._note(Call("reserve", self._files[file]))
        super().reserve(file, size)

    def write(self, file: int, data: Any) -> None:
        self._note(Call("write", self._files[file], data=bytes(data)))
        super().write(file, data)

    def sync(self, file: int) -> None:
        self._note(Call("sync", self._files[file]))

    def close(self, file: int) -> None:
        path = self._files.pop(file, None)
        super().close(file)
        if path is not None:
            self._note(Call("close", path))

    def rename(self, source: Path, target: Path) -> None:
        self._note(Call("rename", source, target))
        super().rename(source, target)

    def replace(self, source: Path, target: Path) -> None:
        self._note(Call("replace", source, target))
        super().replace(source, target)

    def sync_directory(self, path: Path) -> None:
        self._note(Call("sync_directory", path))

    def unlink(self, path: Path) -> None:
        self._note(Call("unlink", path))
        super().unlink(path)

    def remove_directory(self, path: Path) -> None:
        self._note(Call("remove_directory", path))
        super().remove_directory(path)


def refusing_at(number: int, error: int = errno.ENOSPC) -> Callable[[Call], int | None]:
    """The n-th call from now on fails, counted from 0; later ones work again."""
    left = [number]

    def refuse(_: Call) -> int | None:
        left[0] -= 1
        return error if left[0] == -1 else None

    return refuse


def changes(log: Iterable[Call], base: Path) -> Iterator[Change]:
    """The log as what lost power is tried on. `base`: the directory that is all of the disk; what lies outside is left out."""
    nodes, sizes = {base: ROOT}, dict[Path, int]()
    for call in log:
        path, above = call.path, nodes.get(call.path.parent, 0)
        if call.what in {"make_directory", "create"}:
            nodes[path], sizes[path] = max(nodes.values()) + 1, 0
            yield Made(nodes[path], above, path.name, call.what == "make_directory")
        elif call.what == "reopen" and path in nodes:
            sizes[path] = 0
        elif call.what == "write":
            yield Wrote(nodes[path], sizes[path], call.data)
            sizes[path] += len(call.data)
        elif call.what in {"sync", "sync_directory"} and path in nodes:
            yield Synced(nodes[path])
        elif call.what in {"rename", "replace"}:
            assert call.target is not None
            yield Moved(nodes[path], above, path.name, nodes[call.target.parent], call.target.name)
            for inside in [each for each in nodes if each == path or path in each.parents]:
                nodes[call.target / inside.relative_to(path)] = nodes.pop(inside)
        elif call.what in {"unlink", "remove_directory"}:
            yield Unnamed(above, path.name)
            nodes.pop(path, None)
