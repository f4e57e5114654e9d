"""`python -m tests.benchmarks.memory WAY DIRECTORY`: one save of a large state in a process of its own, and the most memory that it took.

Owns the child and the question to it. Invariant: counted from where the process stands once everything is imported and a first, small save is over, so that
what is counted is the state and what the save adds.
"""

from __future__ import annotations

import importlib
import json
import resource
import subprocess
import sys
from pathlib import Path

BYTES_OF_RSS = 1 if sys.platform == "darwin" else 1024  # unit of ru_maxrss


def peak(way: str, directory: Path) -> dict[str, int]:
    """{"state": bytes, "peak": bytes above the start}, of a save "in the foreground" or "in the background".

    Call it while this process is small: Linux hands its peak down to its children.
    """
    command = [sys.executable, "-m", "tests.benchmarks.memory", way, str(directory)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _now() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * BYTES_OF_RSS


def main(way: str, directory: str) -> None:
    from recovery.checkpoint import CheckpointStore
    from tests.benchmarks.states import large, small

    store = CheckpointStore(directory)
    store.save(small())
    before = _now()
    state = large()
    if way == "in the background":
        background = importlib.import_module("recovery.checkpoint.background")
        with background.BackgroundSaver(store) as saver:
            saver.save(state)
    else:
        store.save(state)
    print(json.dumps({"state": sum(array.nbytes for array in state.arrays.values()), "peak": _now() - before}))


if __name__ == "__main__":
    main(*sys.argv[1:])
