"""Ranks: real processes that are one torch job, over gloo on this machine.

Each is forked from a server that has imported torch once. What a rank returns or raises comes back by a file of its own, so that one that is killed says
nothing; nobody waits for it longer than `SECONDS`.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

SECONDS = 90
KILLED = -signal.SIGKILL

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.torch.jobs"])


@dataclass(frozen=True)
class Came:
    """What came of a rank: its exit status, and what it returned or raised (None if it was killed)."""

    status: int | None
    value: Any = None
    error: BaseException | None = None


def run(work: Callable[..., Any], size: int, *args: Any, kill: Mapping[int, str] | None = None, timeout: float = 60) -> list[Came]:
    """`work(rank, size, *args)` on so many ranks. kill: crash point at which a rank dies, by rank. timeout: of the process group, in seconds."""
    with tempfile.TemporaryDirectory(prefix="ranks-") as scratch:
        ranks = [
            _context.Process(target=_rank, args=(work, rank, size, scratch, (kill or {}).get(rank), timeout, args), daemon=True)
            for rank in range(size)
        ]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join(SECONDS)
            if rank.is_alive():
                os.kill(rank.pid or 0, signal.SIGKILL)
                rank.join()
        return [_came(Path(scratch) / str(number), rank.exitcode) for number, rank in enumerate(ranks)]


def values(came: list[Came]) -> list[Any]:
    """What all ranks returned. Fails with the first error otherwise."""
    for rank, each in enumerate(came):
        if each.error is not None:
            raise AssertionError(f"rank {rank} failed") from each.error
        assert each.status == 0, f"rank {rank} ended with {each.status}"
    return [each.value for each in came]


def _rank(work: Any, rank: int, size: int, scratch: str, kill: str | None, timeout: float, args: tuple[Any, ...]) -> None:
    import torch
    import torch.distributed as dist

    from recovery import crashpoints

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{scratch}/meet", rank=rank, world_size=size, timeout=timedelta(seconds=timeout)
    )
    dist.barrier()  # every rank is connected before one of them may die

    def hook(point: str) -> None:
        if point == kill:
            os.kill(os.getpid(), signal.SIGKILL)

    came = Came(0)
    try:
        with crashpoints.hooked(hook) if kill else nullcontext():
            came = Came(0, work(rank, size, *args))
    except BaseException as error:  # a rank tells its parent, whatever it was
        came = Came(1, error=error)
    aside = Path(scratch) / f".{rank}"
    aside.write_bytes(pickle.dumps(came))
    aside.rename(Path(scratch) / str(rank))
    os._exit(0)  # no rank waits for another one's end


def _came(path: Path, status: int | None) -> Came:
    # written by our own child in a directory of ours, as multiprocessing itself does with its arguments
    return pickle.loads(path.read_bytes()) if path.exists() else Came(status)
