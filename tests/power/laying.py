"""Laying out what is left of a disk as files, for as long as they are looked at.

Owns the place, which is in memory where there is one. Must not know what the files are.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from tests.power.model import Tree

MEMORY: Final = Path("/dev/shm")


@contextmanager
def laid_out(tree: Tree) -> Iterator[Path]:
    """A directory that holds what is left of the disk, in memory where there is such a place."""
    place = Path(mkdtemp(prefix="recovery-power-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        for name, content in tree.items():
            if content is None:
                (place / name).mkdir()
            else:
                (place / name).write_bytes(content)
        yield place
    finally:
        shutil.rmtree(place)
