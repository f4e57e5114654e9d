"""A file system that lives in memory, writes down every change, and refuses calls where it was told to.

Owns the answers to the kernel, in a process of its own: `python -m tests.power.filesystem MOUNTPOINT RECORD`. Must not know what programs do on
it, nor what a power cut leaves: see `model`. Invariant: a change stands in the record before the system call that made it returns.

It is told things through extended attributes of its root: `user.said` puts a word of the program under test into the record, in its place among
the changes; `user.refuse` arms one refusal; `user.passed` gives how many calls of the armed kinds have come by.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import mfusepy

from tests.power.record import ROOT, Change, Made, Moved, Refused, Resized, Said, Synced, Unnamed, Wrote, line

FREE_BLOCKS: Final = 1 << 24
BLOCK: Final = 4096


@dataclass
class Node:
    number: int
    mode: int
    data: bytearray = field(default_factory=bytearray)
    names: dict[str, Node] = field(default_factory=dict)
    changed: int = 0  # the kernel lists a directory from its cache while this stays

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.mode)


@dataclass
class Refusal:
    """The n-th call of one of these kinds, counted from 1, fails; if it is lasting, so do all that follow."""

    calls: frozenset[str] = frozenset()
    at: int = 0
    errno: int = 0
    lasting: bool = False
    passed: int = 0

    def asks(self, call: str) -> bool:
        if call not in self.calls:
            return False
        self.passed += 1
        return self.passed == self.at or (self.lasting and self.passed > self.at > 0)


class Recording(mfusepy.Operations):
    """Reads of what is open go by its handle: the name may be gone."""

    use_ns = True

    def __init__(self, record: Path) -> None:
        self._record = record.open("w", buffering=1)
        self._root = Node(ROOT, stat.S_IFDIR | 0o755)
        self._numbers = ROOT
        self._open: dict[int, Node] = {}
        self._handles = 0
        self._ticks = 0
        self._refusal = Refusal()

    def init_with_config(self, conn_info: Any, config_3: Any) -> None:
        config_3.use_ino = 1
        config_3.hard_remove = 1
        config_3.kernel_cache = 1  # nobody but the kernel changes what it has cached
        config_3.entry_timeout = config_3.attr_timeout = 3600.0

    def destroy(self, path: str) -> None:
        self._record.close()

    # -- bookkeeping ---------------------------------------------------------------------------------------------------

    def _note(self, change: Change) -> None:
        self._record.write(line(change) + "\n")

    def _ask(self, call: str, node: int = 0) -> None:
        if self._refusal.asks(call):
            self._note(Refused(call, node, self._refusal.errno))
            raise mfusepy.FuseOSError(self._refusal.errno)

    def _find(self, path: str | None, handle: int | None = None) -> Node:
        if handle and handle in self._open:
            return self._open[handle]
        if path is None:
            raise mfusepy.FuseOSError(errno.ESTALE)
        node = self._root
        for part in Path(path).parts[1:]:
            if part not in node.names:
                raise mfusepy.FuseOSError(errno.ENOENT)
            node = node.names[part]
        return node

    def _place(self, path: str) -> tuple[Node, str]:
        return self._find(str(Path(path).parent)), Path(path).name

    def _make(self, path: str, mode: int) -> Node:
        parent, name = self._place(path)
        self._numbers += 1
        node = parent.names[name] = Node(self._numbers, mode)
        self._touch(parent)
        self._note(Made(node.number, parent.number, name, node.is_directory))
        return node

    def _touch(self, *directories: Node) -> None:
        self._ticks += 1
        for directory in directories:
            directory.changed = self._ticks

    def _opened(self, node: Node) -> int:
        self._handles += 1
        self._open[self._handles] = node
        return self._handles

    def _resize(self, node: Node, size: int) -> None:
        del node.data[size:]
        node.data.extend(bytes(size - len(node.data)))
        self._note(Resized(node.number, size))

    # -- asking --------------------------------------------------------------------------------------------------------

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        node = self._find(path, fh)
        size = len(node.data)
        times = {"st_mtime": node.changed, "st_ctime": node.changed}
        return times | {"st_ino": node.number, "st_mode": node.mode, "st_nlink": 1, "st_size": size, "st_blocks": -(-size // 512)}

    def readdir(self, path: str, fh: int) -> Any:
        names = {".": self._root, "..": self._root} | self._find(path).names  # of a name without a number nobody hears
        return [(name, {"st_ino": node.number, "st_mode": node.mode}, 0) for name, node in names.items()]

    def open(self, path: str, flags: int) -> int:
        node = self._find(path)
        self._ask("open", node.number)
        if flags & os.O_TRUNC:
            self._resize(node, 0)
        return self._opened(node)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return bytes(self._open[fh].data[offset : offset + size])

    def release(self, path: str, fh: int) -> int:
        del self._open[fh]
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        room = {"f_blocks": FREE_BLOCKS, "f_bfree": FREE_BLOCKS, "f_bavail": FREE_BLOCKS}
        return room | {"f_bsize": BLOCK, "f_frsize": BLOCK, "f_namemax": 255}

    # -- changing ------------------------------------------------------------------------------------------------------

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        self._ask("create")
        return self._opened(self._make(path, mode))

    def mkdir(self, path: str, mode: int) -> int:
        self._ask("create")
        self._make(path, stat.S_IFDIR | mode)
        return 0

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        node = self._open[fh]
        self._ask("write", node.number)
        node.data.extend(bytes(max(0, offset - len(node.data))))
        node.data[offset : offset + len(data)] = data
        self._note(Wrote(node.number, offset, data))
        return len(data)

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        node = self._find(path, fh)
        self._ask("truncate", node.number)
        self._resize(node, length)
        return 0

    def fallocate(self, path: str, mode: int, offset: int, size: int, fh: int) -> int:
        node = self._open[fh]
        self._ask("write", node.number)
        if mode:
            raise mfusepy.FuseOSError(errno.EOPNOTSUPP)
        if offset + size > len(node.data):
            self._resize(node, offset + size)
        return 0

    def rename(self, old: str, new: str) -> int:
        (parent, name), (to_parent, to_name) = self._place(old), self._place(new)
        node, there = parent.names[name], to_parent.names.get(to_name)
        self._ask("rename", node.number)
        if there is not None and there.names:
            raise mfusepy.FuseOSError(errno.ENOTEMPTY)
        to_parent.names[to_name] = parent.names.pop(name)
        self._touch(parent, to_parent)
        self._note(Moved(node.number, parent.number, name, to_parent.number, to_name))
        return 0

    def unlink(self, path: str) -> int:
        parent, name = self._place(path)
        self._ask("unlink", parent.names[name].number)
        if parent.names[name].names:
            raise mfusepy.FuseOSError(errno.ENOTEMPTY)
        del parent.names[name]
        self._touch(parent)
        self._note(Unnamed(parent.number, name))
        return 0

    rmdir = unlink

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        node = self._open[fh]
        self._ask("sync", node.number)
        self._note(Synced(node.number))
        return 0

    def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
        node = self._find(path)
        self._ask("sync", node.number)
        self._note(Synced(node.number))
        return 0

    def chmod(self, path: str, mode: int) -> int:
        node = self._find(path)
        node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(mode)
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        return 0

    def utimens(self, path: str, times: Any = None) -> int:
        return 0

    # -- being told ----------------------------------------------------------------------------------------------------

    def setxattr(self, path: str, name: str, value: bytes, options: int, position: int = 0) -> int:
        told = json.loads(value)
        if name == "user.said":
            self._note(Said(told))
        elif name == "user.refuse":
            self._refusal = Refusal(**told | {"calls": frozenset(told["calls"])})
        else:
            raise mfusepy.FuseOSError(errno.ENOTSUP)
        return 0

    def getxattr(self, path: str, name: str, position: int = 0) -> bytes:
        if name != "user.passed":
            raise mfusepy.FuseOSError(errno.ENODATA)
        return str(self._refusal.passed).encode()


def main(mountpoint: str, record: str) -> None:
    options: dict[str, Any] = {"fsname": "recovery-power", "default_permissions": True}
    mfusepy.FUSE(Recording(Path(record)), mountpoint, foreground=True, nothreads=True, **options)


if __name__ == "__main__":
    main(*sys.argv[1:])
