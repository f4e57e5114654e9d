"""The commit protocol: from arrays in memory to a checkpoint that a crash at any moment leaves whole or absent.

Owns the order of what becomes durable: every file is written (the manifest last), then all are synced and the directory that names them, then comes one
rename to a fresh name and the sync of the parent directory. Must not know retention. Invariant: before the rename nothing that was there has changed and
everything it names is durable; after the parent is synced the checkpoint exists for good.

Files are synced together because the first sync of several takes most of the others with it, and because the device works while the next file is made ready.

An `Attempt` lives in a directory of its own, `.tmp-SEQUENCE-NONCE`, a `PackedAttempt` in a file of that name. What a crash leaves of it is swept by the next holder of the store's lease.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recovery.checkpoint.admitting import require_sound
from recovery.checkpoint.files import Disk, shut_and_remove
from recovery.checkpoint.header import PREFIX
from recovery.checkpoint.layout import TEMPORARY
from recovery.checkpoint.limits import Limits
from recovery.checkpoint.manifest import FILE, STATE, FileEntry, Manifest, digest
from recovery.checkpoint.packing import packed_header
from recovery.checkpoint.reading import in_streams
from recovery.checkpoint.shards import Array, Read, Written, begin_shard, gather_shard
from recovery.checkpoint.state import Sealed
from recovery.checkpoint.validating import CheckShard
from recovery.crashpoints import around


def shard_name(index: int, of: int) -> str:
    return f"shard-{index:03d}-of-{of:03d}.safetensors"


class Attempt:
    """One save under way. committed: whether its checkpoint exists. durable: whether it would survive a power cut."""

    def __init__(self, disk: Disk, parent: Path, sequence: int, nonce: str) -> None:
        self._disk = disk
        self._parent = parent
        self.path = parent / f"{TEMPORARY}{sequence:012d}-{nonce}"
        self.committed = False
        self.durable = False
        self._unsynced: list[int] = []  # open, since an error that the device met is told to who held the file

    def begin(self) -> None:
        """Make its directory; FileExistsError if somebody has the same nonce."""
        with around("checkpoint.begin"):
            self._disk.make_directory(self.path)

    def write_shards(self, parts: Sequence[Mapping[str, Array]], limits: Limits, *, streams: int) -> list[Written]:
        """One file for each part, written at once in up to `streams` threads. Durable after `write_manifest`."""

        def write(item: tuple[int, Mapping[str, Array]]) -> Written:
            return begin_shard(self._disk, self.path / shard_name(item[0], len(parts)), item[1], limits, self._unsynced)

        return in_streams(streams, write, enumerate(parts))

    def write_state(self, data: bytes) -> FileEntry:
        """Durable after `write_manifest`."""
        with around("checkpoint.state"):
            self._put(STATE, data)
        return FileEntry(STATE, len(data), digest(data))

    def write_ahead(self, manifest: Manifest, limits: Limits) -> None:
        """What is written of a manifest that is not judged yet: nothing."""

    def write_manifest(self, manifest: Manifest) -> None:
        """Last of the files. Then they are synced, and the directory that names them all."""
        with around("checkpoint.manifest"):
            self._put(FILE, manifest.to_bytes())
            for file in self._unsynced:
                self._disk.sync(file)
            while self._unsynced:
                self._disk.close(self._unsynced.pop(0))
            self._disk.sync_directory(self.path)

    def commit(self, manifest: Manifest, *, name: str = "") -> Path:
        """Give it its name, the manifest's own or another one. After this it exists, whatever happens."""
        target = self._parent / (name or manifest.name)
        with around("checkpoint.commit"):
            self._disk.rename(self.path, target)
            self.committed = True
            self._disk.sync_directory(self._parent)
            self.durable = True
        return target

    def abandon(self) -> None:
        """Remove what was written, unless it was committed."""
        while self._unsynced:
            with suppress(OSError):  # what led here is the error to tell
                self._disk.close(self._unsynced.pop(0))
        if not self.committed:
            with around("checkpoint.abandon"):
                self._discard()

    def _discard(self) -> None:
        shut_and_remove(self._disk, self.path)

    def _put(self, name: str, data: bytes) -> None:
        self._unsynced.append(file := self._disk.create(self.path / name))
        self._disk.write(file, data)
        self._disk.start_sync(file, 0, len(data))


class PackedAttempt(Attempt):
    """A save under way whose files become one: it is put together in memory, written and synced, and renamed as a directory would be."""

    def __init__(self, disk: Disk, parent: Path, sequence: int, nonce: str) -> None:
        super().__init__(disk, parent, sequence, nonce)
        self._parts: dict[str, bytes] = {}
        self.content = b""

    def begin(self) -> None:
        """Make its file; FileExistsError if somebody has the same nonce."""
        with around("checkpoint.begin"):
            self._unsynced.append(self._disk.create(self.path))

    def write_shards(self, parts: Sequence[Mapping[str, Array]], limits: Limits, *, streams: int) -> list[Written]:  # noqa: ARG002
        """In memory."""
        found = [gather_shard(shard_name(index, len(parts)), part, limits) for index, part in enumerate(parts)]
        self._parts |= {each.written.entry.name: each.content for each in found}
        return [each.written for each in found]

    def write_state(self, data: bytes) -> FileEntry:
        """In memory."""
        self._parts[STATE] = data
        return FileEntry(STATE, len(data), digest(data))

    def write_ahead(self, manifest: Manifest, limits: Limits) -> None:
        """Write everything, and let the device begin with it while the manifest is judged."""
        require_sound(manifest, limits, where=self.path.name)  # or it might have no bytes
        self._parts[FILE] = manifest.to_bytes()
        header, order = packed_header({name: len(data) for name, data in self._parts.items()})
        self.content = b"".join([header, *(self._parts[name] for name in order)])
        with around("checkpoint.shard"):
            (file,) = self._unsynced
            self._disk.write(file, self.content)
            self._disk.start_sync(file, 0, len(self.content))

    def write_manifest(self, manifest: Manifest) -> None:  # noqa: ARG002
        """It is written; sync it."""
        with around("checkpoint.manifest"):
            self._disk.sync(self._unsynced[0])
            self._disk.close(self._unsynced.pop())

    def _discard(self) -> None:
        with suppress(FileNotFoundError):
            self._disk.unlink(self.path)


@dataclass(frozen=True)
class Export:
    """`Evidence` of what was just written: the validator judges a checkpoint before it is committed as it will judge it when it is loaded."""

    where: str
    made: Manifest
    written: Mapping[str, Written]
    held: Mapping[str, Array]
    sealed: Sealed

    def manifest(self, limits: Limits) -> Manifest:
        require_sound(self.made, limits, where=self.where)
        return self.made

    def names(self) -> set[str]:
        return {FILE, STATE, *self.written}

    def size(self, name: str) -> int:
        return len(self.sealed.data) if name == STATE else self.written[name].entry.size

    def arrays(self, shapes: object) -> Mapping[str, Array]:  # noqa: ARG002
        return self.held

    def shards(self, work: Mapping[FileEntry, tuple[CheckShard, object]]) -> Mapping[str, Read]:
        found = {}
        for entry, (check, _) in work.items():
            written = self.written[entry.name]
            check(written.header[PREFIX:], written.entry.size - len(written.header))
            found[entry.name] = Read(written.entry.blake3, "")
        return found

    def state(self, entry: FileEntry) -> bytes:  # noqa: ARG002
        return self.sealed.data

    def value(self, state: bytes, limits: Limits) -> Any:  # noqa: ARG002
        return self.sealed.value
