"""The contenders: our store, the bare disk and the peers, each as what is made ready and what is timed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from recovery.checkpoint import CheckpointStore, Learning
from recovery.checkpoint.outline import balanced
from tests.benchmarks import peers, raw
from tests.benchmarks.rounds import Contender
from tests.benchmarks.states import small

OURS = "recovery"
BARE = "the bare disk, equal streams"
STEPS = "the bare disk, one file in two syncs"
DCP = ("torch DCP", "torch DCP, as it comes", "torch DCP, two threads")


def commits(state: Learning, streams: int) -> tuple[list[Contender], dict[str, str]]:
    """(those that are there, the others with the reason)."""
    there, absent = peers.present()
    parts = _parts(state, streams)
    return [
        Contender(OURS, lambda directory: _store(directory, state, "sample"), durable=True),
        Contender(f"{OURS}, everything read back", lambda directory: _store(directory, state, "full"), every=3, durable=True),
        Contender(BARE, lambda directory: lambda: raw.write(directory / "raw", parts)),
        *(
            [Contender(STEPS, lambda directory: lambda: raw.write_in_two_syncs(directory, parts[0]), durable=True)]
            if streams == 1
            else []
        ),
        *(Contender(name, _with(save, state.arrays), 3 if name in peers.SLOW else 1) for name, save in there.items()),
    ], absent


def _parts(state: Learning, streams: int) -> list[list[np.ndarray]]:
    """The arrays as the store divides them among its streams."""
    sizes = {name: array.nbytes for name, array in state.arrays.items()}
    return [[state.arrays[name] for name in part] for part in balanced(sizes, streams)]


def _store(directory: Path, state: Learning, policy: str) -> Callable[[], Path]:
    """A store that is in use: it holds small checkpoints already, as many as it keeps."""
    store = CheckpointStore(directory, read_back=policy)
    for _ in range(store.keep.last + 1):
        store.save(small())
    return lambda: store.save(state).path


def _with(save: peers.Save, arrays: peers.Arrays) -> Callable[[Path], Callable[[], Path]]:
    return lambda directory: lambda: save(directory, arrays)


def loads(place: Path, state: Learning) -> list[Contender]:
    """Of what is written below `place` first."""
    parts = _parts(state, 2)
    bare = raw.write(place, parts)
    store = CheckpointStore(place / "store")
    saved = store.save(state)
    shards = sorted(saved.path.glob("*.safetensors"))
    return [
        Contender(OURS, _loading(lambda: store.load(saved))),
        Contender(BARE, _loading(lambda: raw.read(bare, parts))),
        Contender("safetensors, unverified", _loading(lambda: [load_file(shard) for shard in shards])),
    ]


def _loading(load: Callable[[], object]) -> Callable[[Path], Callable[[], None]]:
    def ready(_: Path) -> Callable[[], None]:
        def run() -> None:
            load()

        return run

    return ready
