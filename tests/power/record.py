"""The record: every change that reached the disk, in order, one line of JSON each.

Owns the vocabulary between whoever writes changes down (the file system, a recording disk) and the model that lays out what they leave.
Files and directories are numbers, so that a name that moves stays the same file. Invariant: what is recorded has happened; a refused call
is a `Refused`, and changed nothing but what `model` says of a refused sync.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = 1
"""The number of the topmost directory."""


@dataclass(frozen=True, slots=True)
class Made:
    """A new file or directory, and its name."""

    node: int
    directory: int
    name: str
    is_directory: bool


@dataclass(frozen=True, slots=True)
class Wrote:
    node: int
    at: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Resized:
    """Truncated, or extended with zeros."""

    node: int
    size: int


@dataclass(frozen=True, slots=True)
class Moved:
    """One rename; what bore the new name before is nameless."""

    node: int
    directory: int
    name: str
    to_directory: int
    to_name: str


@dataclass(frozen=True, slots=True)
class Unnamed:
    """An unlink, or the removal of an empty directory."""

    directory: int
    name: str


@dataclass(frozen=True, slots=True)
class Synced:
    """A sync of a file's content, or of the names in a directory, that has returned."""

    node: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that was given an error. node: what it was about, 0 if that has no number yet."""

    call: str
    node: int
    errno: int


@dataclass(frozen=True, slots=True)
class Said:
    """Nothing of the disk: what the program under test knew, or did outside, at this moment."""

    what: dict[str, Any]


Change = Made | Wrote | Resized | Moved | Unnamed | Synced | Refused | Said

_KINDS: Final[dict[str, type[Change]]] = {
    kind.__name__: kind for kind in (Made, Wrote, Resized, Moved, Unnamed, Synced, Refused, Said)
}


def line(change: Change) -> str:
    fields = asdict(change)
    if isinstance(change, Wrote):
        fields["data"] = base64.b64encode(change.data).decode()
    return json.dumps([type(change).__name__, fields])


def read(path: Path) -> list[Change]:
    return list(_changes(path.read_text().splitlines()))


def _changes(lines: Iterable[str]) -> Iterator[Change]:
    for text in lines:
        kind, fields = json.loads(text)
        if kind == "Wrote":
            fields["data"] = base64.b64decode(fields["data"])
        yield _KINDS[kind](**fields)
