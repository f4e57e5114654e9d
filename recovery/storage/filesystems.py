"""File systems: whether a journal's file would lie on another machine's disk.

Owns the kinds of file system that are refused, and how the kind of a path is found. Must not know databases. Invariant: what cannot be
found out is not refused: a network file system that hides its name is the person's to know.

Why they are refused: SQLite's write-ahead log keeps its index in memory that all its users map, and its users must be on one machine
(https://www.sqlite.org/wal.html, "Overview"); locks of such file systems are known to be granted twice
(https://www.sqlite.org/howtocorrupt.html, section 2.1); and a sync may be acknowledged by a machine that has not stored it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from recovery.core.errors import StoreUrlError
from recovery.storage.urls import ACCEPTED, NETWORK_OPTION

NETWORK: Final = frozenset({
    "9p", "afpfs", "afs", "beegfs", "ceph", "ceph-fuse", "cifs", "coda", "davfs", "davfs2", "fhgfs", "gcsfuse", "gfs", "gfs2", "glusterfs", "goofys",
    "gpfs", "juicefs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "rclone", "s3fs", "seaweedfs", "smb2", "smb3", "smbfs", "sshfs",
    "webdav",
})  # fmt: skip
"""As the kernel names them, Linux's and macOS's; those in user space without their `fuse.`."""

_MOUNTS: Final = Path("/proc/self/mounts")  # proc(5): device, mount point, kind, options; with spaces as \040
_OCTAL: Final = re.compile(r"\\([0-7]{3})")
_DARWIN_LINE: Final = re.compile(r"^.+? on (?P<point>/.*) \((?P<kind>[^,()]+)(?:,[^()]*)?\)$", re.MULTILINE)


def refuse_network(path: Path, shown_url: str) -> None:
    """Raises StoreUrlError if the file at `path`, which need not exist, is or would be on a network file system."""
    kind = kind_of(path, mounted())
    if kind.removeprefix("fuse.") in NETWORK:
        raise StoreUrlError(
            url=shown_url,
            problem=f"it is on a network file system ({kind}), where SQLite's locks, shared memory and syncs are not what they promise",
            advice=f"Use a local disk, or PostgreSQL. To run the risk (two workers with one run, a damaged file), add ?{NETWORK_OPTION}={ACCEPTED} to the URL.",
        )


def kind_of(path: Path, mounts: list[tuple[str, str]]) -> str:
    """The kind of file system that an absolute path is on; "" where that is not known. Of two at one place the later one covers the other."""
    found, longest = "", -1
    for point, kind in mounts:
        if len(point) >= longest and path.is_relative_to(point):
            found, longest = kind, len(point)
    return found


def mounted() -> list[tuple[str, str]]:
    """Each mount point with the kind of what is mounted there, in the order of mounting."""
    if sys.platform == "darwin":
        said = subprocess.run(["/sbin/mount"], capture_output=True, text=True, errors="replace", check=False)
        return mounts_of_darwin(said.stdout)
    try:
        return mounts_of_linux(_MOUNTS.read_text(encoding="utf-8", errors="surrogateescape"))
    except OSError:
        return []


def mounts_of_linux(text: str) -> list[tuple[str, str]]:
    lines = [fields for line in text.splitlines() if len(fields := line.split(" ")) >= 3]
    return [(_OCTAL.sub(lambda found: chr(int(found[1], 8)), fields[1]), fields[2]) for fields in lines]


def mounts_of_darwin(text: str) -> list[tuple[str, str]]:
    """Of mount(8): `//me@host/share on /Volumes/share (smbfs, nodev, nosuid)`."""
    return [(found["point"], found["kind"].strip()) for found in _DARWIN_LINE.finditer(text)]
