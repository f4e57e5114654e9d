"""Checkpoints: complete, exact, and honest about effects. See docs/explanation/checkpoints.md.

Needs the extra `checkpoint`; importing this package does not, and neither does planning. Names are looked up where they are used, so that a
program without the extra is told what to install.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from recovery.core.errors import ExtraMissing

if TYPE_CHECKING:
    from recovery.checkpoint.kinds import Kind as Kind
    from recovery.checkpoint.limits import Limits as Limits
    from recovery.checkpoint.manifest import JournalPosition as JournalPosition
    from recovery.checkpoint.manifest import Manifest as Manifest
    from recovery.checkpoint.scanning import Candidate as Candidate
    from recovery.checkpoint.scanning import Rejected as Rejected
    from recovery.checkpoint.store import CheckpointStore as CheckpointStore
    from recovery.checkpoint.validating import Capture as Capture
    from recovery.checkpoint.validating import Checkpoint as Checkpoint

_PLACES: Final = {
    "Candidate": "scanning",
    "Capture": "validating",
    "Checkpoint": "validating",
    "CheckpointStore": "store",
    "JournalPosition": "manifest",
    "Kind": "kinds",
    "Limits": "limits",
    "Manifest": "manifest",
    "Rejected": "scanning",
}

_EXTRA: Final = frozenset({"blake3", "numpy", "safetensors"})

__all__ = [
    "Candidate",
    "Capture",
    "Checkpoint",
    "CheckpointStore",
    "JournalPosition",
    "Kind",
    "Limits",
    "Manifest",
    "Rejected",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        raise ExtraMissing(what="A checkpoint", missing=error.name, extra="checkpoint") from error
