"""Disks for tests: one that writes down what is asked of it and refuses where told, and what a crash leaves of what it wrote down."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recovery.checkpoint.files import LocalDisk


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


@dataclass
class _Node:
    """A file or directory as the kernel sees it (`now`) and as the device would hold it after a power cut (`durable`)."""

    is_directory: bool
    now: bytes = b""
    durable: bytes = b""
    names: dict[str, _Node] = field(default_factory=dict)
    durable_names: dict[str, _Node] = field(default_factory=dict)


class PowerCut:
    """Replays a log, and lays out what a power cut may leave of it: what was synced, and more or less of what was not."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._root = _Node(is_directory=True)

    def play(self, call: Call) -> None:
        node_of, parent_of = self._node, self._parent
        if call.what in {"make_directory", "create"}:
            parent_of(call.path).names[call.path.name] = _Node(is_directory=call.what == "make_directory")
        elif call.what == "write":
            node_of(call.path).now += call.data
        elif call.what == "sync":
            node_of(call.path).durable = node_of(call.path).now
        elif call.what == "sync_directory" and self._is_inside(call.path):
            node_of(call.path).durable_names = dict(node_of(call.path).names)
        elif call.what in {"rename", "replace"}:
            assert call.target is not None
            parent_of(call.target).names[call.target.name] = parent_of(call.path).names.pop(call.path.name)
        elif call.what in {"unlink", "remove_directory"}:
            del parent_of(call.path).names[call.path.name]

    def lay_out(self, into: Path, *, names_kept: bool, content: Callable[[bytes, bytes], bytes]) -> None:
        """names_kept: whether names that were not synced are there. content: of (durable, written), what a file holds."""
        into.mkdir()
        self._lay_out(self._root, into, names_kept, content)

    def _lay_out(self, node: _Node, into: Path, names_kept: bool, content: Callable[[bytes, bytes], bytes]) -> None:
        for name, inner in (node.names if names_kept else node.durable_names).items():
            if inner.is_directory:
                (into / name).mkdir()
                self._lay_out(inner, into / name, names_kept, content)
            else:
                (into / name).write_bytes(content(inner.durable, inner.now))

    def _is_inside(self, path: Path) -> bool:
        return path == self._base or self._base in path.parents

    def _parent(self, path: Path) -> _Node:
        return self._node(path.parent)

    def _node(self, path: Path) -> _Node:
        node = self._root
        for part in path.relative_to(self._base).parts:
            node = node.names[part]
        return node
