"""The peers: how each of them saves a mapping of arrays, in the fastest way that its documentation shows for one process.

Invariant: a peer that is not there is named with the reason; it is never left out in silence.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]
Save = Callable[[Path, Arrays], Path]
"""Writes below a directory that exists; what it wrote."""


def _tensors(torch: Any, arrays: Arrays) -> dict[str, Any]:
    """The arrays where they are, as tensors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that they are read-only
        return {name: torch.from_numpy(array) for name, array in arrays.items()}


def torch_save() -> Save:
    torch = importlib.import_module("torch")

    def save(directory: Path, arrays: Arrays) -> Path:
        torch.save(_tensors(torch, arrays), directory / "state.pt")
        return directory / "state.pt"

    return save


def dcp(**options: Any) -> Save:
    """Without options as it comes: one thread, one file, and one of metadata. It syncs both by itself (`sync_files`), and no directory."""
    torch = importlib.import_module("torch")
    checkpoint = importlib.import_module("torch.distributed.checkpoint")

    def save(directory: Path, arrays: Arrays) -> Path:
        writer = checkpoint.FileSystemWriter(directory / "dcp", sync_files=True, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there is one process
            checkpoint.save(_tensors(torch, arrays), storage_writer=writer, no_dist=True)
        return directory / "dcp"

    return save


def safetensors() -> Save:
    library = importlib.import_module("safetensors.numpy")

    def save(directory: Path, arrays: Arrays) -> Path:
        library.save_file(dict(arrays), directory / "state.safetensors")
        return directory / "state.safetensors"

    return save


def orbax() -> Save:
    library = importlib.import_module("orbax.checkpoint")
    checkpointer: Any = library.StandardCheckpointer()

    def save(directory: Path, arrays: Arrays) -> Path:
        checkpointer.save(directory.resolve() / "orbax", dict(arrays))
        checkpointer.wait_until_finished()
        return directory / "orbax"

    return save


def tensorstore() -> Save:
    library = importlib.import_module("tensorstore")

    def save(directory: Path, arrays: Arrays) -> Path:
        root = directory / "zarr"
        opening = [
            library.open(
                {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(root / name)}},
                create=True,
                dtype=array.dtype.name,
                shape=array.shape,
            )
            for name, array in arrays.items()
        ]
        writing = [opened.result().write(array) for opened, array in zip(opening, arrays.values(), strict=True)]
        for each in writing:
            each.result()
        return root

    return save


SLOW = {"tensorstore zarr3", "Orbax", "torch.save"}
"""No target depends on these: they take part in every third round."""

PEERS: dict[str, Callable[[], Save]] = {
    "torch DCP": lambda: dcp(thread_count=2, single_file_per_rank=False),
    "torch DCP, as it comes": dcp,
    "torch DCP, two threads": lambda: dcp(thread_count=2),
    "torch.save": torch_save,
    "safetensors": safetensors,
    "tensorstore zarr3": tensorstore,
    "Orbax": orbax,
}


def present() -> tuple[dict[str, Save], dict[str, str]]:
    """(the peers that are there, the others with the reason)."""
    found: dict[str, Save] = {}
    absent: dict[str, str] = {}
    for name, make in PEERS.items():
        try:
            found[name] = make()
        except Exception as error:  # a peer may fail in any way: told as absent, with its words
            absent[name] = f"{type(error).__name__}: {error}"
    return found, absent
