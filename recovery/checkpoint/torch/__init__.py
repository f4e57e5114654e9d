"""Checkpoints of torch jobs: DCP plans, dedups and reshards; the store writes, verifies and commits. See docs/how-to/checkpoint-a-torch-job.md.

Needs the extra `torch`; importing this package does not. Names are looked up where they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from recovery.core.errors import ExtraMissing

if TYPE_CHECKING:
    from recovery.checkpoint.torch.job import Job as Job
    from recovery.checkpoint.torch.loading import Loaded as Loaded
    from recovery.checkpoint.torch.planning import ExactLoadPlanner as ExactLoadPlanner
    from recovery.checkpoint.torch.planning import PlainSavePlanner as PlainSavePlanner
    from recovery.checkpoint.torch.reading import StoreReader as StoreReader
    from recovery.checkpoint.torch.store import TorchStore as TorchStore
    from recovery.checkpoint.torch.writing import About as About
    from recovery.checkpoint.torch.writing import StoreWriter as StoreWriter

_PLACES: Final = {
    "About": "writing",
    "ExactLoadPlanner": "planning",
    "Job": "job",
    "Loaded": "loading",
    "PlainSavePlanner": "planning",
    "StoreReader": "reading",
    "StoreWriter": "writing",
    "TorchStore": "store",
}

_EXTRA: Final = frozenset({"blake3", "numpy", "safetensors", "torch"})

__all__ = ["About", "ExactLoadPlanner", "Job", "Loaded", "PlainSavePlanner", "StoreReader", "StoreWriter", "TorchStore"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        raise ExtraMissing(what="A checkpoint of a torch job", missing=error.name, extra="torch") from error
