"""Sharing: the last and widest part of a search, and the repeating of its sample, by several processes.

Owns what is told to another interpreter and what comes back, as JSON. Must not know what a state is. Invariant: the parts, and so what each
process does, depend on the subject, the bounds, the seed and the number of processes alone.

Each process knows the states that were seen before the work was shared, and not those that the others see meanwhile. So some states are
visited twice; they are counted once.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from typing import IO, Any, Final

from recovery.testing.casting import Cast, coloured_cast
from recovery.testing.exploration.bounds import Bounds
from recovery.testing.exploration.repeating import Difference, Timeline, recoloured, repeated, sampled
from recovery.testing.exploration.search import Counts, Search, Violation
from recovery.testing.exploration.writing import moves_of, plain
from recovery.testing.scenario import Scenario
from recovery.testing.shelves import shelf

YOUNG_OBJECTS: Final = (100_000, 50, 100)
"""Thresholds of the garbage collector in a process that does nothing but search: what it keeps, it keeps until its end."""


@dataclass(slots=True)
class _Worker:
    """One process and what it has said."""

    process: subprocess.Popen[str]
    work: str
    so_far: tuple[int, int, int] = (0, 0, 0)
    done: dict[str, Any] = field(default_factory=dict)

    def attend(self) -> None:
        """Give it its work, and read what it says until it ends."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None, "it was opened with pipes"
        assert stdout is not None, "it was opened with pipes"
        with stdin:
            stdin.write(self.work)
        with stdout:
            for line in stdout:
                said = json.loads(line)
                if "so_far" in said:
                    self.so_far = tuple(said["so_far"])
                else:
                    self.done = said
        self.process.wait()

    def told(self) -> dict[str, Any]:
        """What it has found. Raises RuntimeError where it ended before it had told that."""
        if not self.done:
            raise RuntimeError(f"a process of the search ended with {self.process.returncode} before it had told what it found")
        return self.done


def shared(search: Search, subject: Scenario, jobs: int, seed: int, progress: Callable[[Counts], None] | None) -> None:
    """Finish a search with so many processes. What they found is added to it. Raises RuntimeError where one of them failed."""
    with _at_work(_parts(search, subject, jobs, seed)) as (workers, threads):
        try:
            _watched(threads, workers, search, progress)
        except KeyboardInterrupt:  # the workers have heard it, too, and tell what they have found
            search.counts.interrupted = True
            _watched(threads, workers, search, None)
    for worker in workers:
        _added(search, worker.told())


def differing(
    subject: Scenario, cast: Cast, is_async: bool, other: Cast | None, again: Sequence[Timeline], stores: Sequence[str], jobs: int
) -> list[Difference]:
    """What of a sample comes to something else on a store or in the other colour. other: the cast of that colour; None: there is none. Raises RuntimeError where
    one of the processes failed, StoreUrlError and StoreUnavailable."""
    if jobs == 1 or len(again) < jobs:
        return [*repeated(subject, cast, is_async, again, stores), *recoloured(subject, cast, other, is_async, again)]
    for store in stores:
        with shelf(store):  # what cannot be had is told here, in words, and not by a process that ends
            pass
    common = {"path": sys.path, "subject": plain(subject), "is_async": is_async, "stores": list(stores), "other": other is not None}
    parts = [common | {"again": [plain(timeline) for timeline in again[part::jobs]]} for part in range(jobs)]
    with _at_work(parts) as (workers, threads):
        for thread in threads:
            thread.join()
    told = [each for worker in workers for each in worker.told()["differences"]]
    return [Difference(store, moves_of(timeline), problem) for store, timeline, problem in told]


@contextmanager
def _at_work(parts: Sequence[dict[str, Any]]) -> Iterator[tuple[list[_Worker], list[threading.Thread]]]:
    """A process for each part, until the end of the block, and a thread that hears it."""
    workers = [_Worker(_started(), json.dumps(part)) for part in parts]
    threads = [threading.Thread(target=worker.attend, daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        yield workers, threads
    finally:
        for worker in workers:
            if worker.process.poll() is None:
                worker.process.kill()


def _watched(
    threads: Sequence[threading.Thread], workers: Sequence[_Worker], search: Search, progress: Callable[[Counts], None] | None
) -> None:
    before = search.counts
    while any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(0.1)
        if progress is not None:
            histories, states, waiting = (sum(numbers) for numbers in zip(*(worker.so_far for worker in workers), strict=True))
            progress(Counts(before.histories + histories, states=before.states + states, waiting=waiting, seconds=search.elapsed()))


def _started() -> subprocess.Popen[str]:
    command = [sys.executable, "-c", f"from {__name__} import work; work()"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603  # this interpreter, our module


def _parts(search: Search, subject: Scenario, jobs: int, seed: int) -> list[dict[str, Any]]:
    """The branches that are left, dealt like cards."""
    branches, limit = search.taken(), search.histories_left()
    common = {"path": sys.path, "subject": plain(subject), "is_async": search.is_async, "seed": seed, "seen": search.seen.told()}
    common |= {"bounds": [search.bounds.faults, search.bounds.recoverers], "violations_max": search.violations_max}
    return [
        common
        | {"branches": [branch.told() for branch in branches[part::jobs]]}
        | {"histories_max": None if limit is None else limit // jobs + (part < limit % jobs)}
        for part in range(jobs)
    ]


def _added(search: Search, done: dict[str, Any]) -> None:
    counts = search.counts
    counts.histories += done["histories"]
    counts.merged += done["merged"]
    counts.waiting += done["waiting"]
    counts.interrupted = counts.interrupted or done["interrupted"]
    search.seen.hear(done["seen"])
    search.ends.update(bytes.fromhex(end) for end in done["ends"])
    search.waits.answered.update(done["waits"][0])
    search.waits.left.update(done["waits"][1])
    search.timelines += [moves_of(timeline) for timeline in done["timelines"]]
    counts.violations += [Violation(one[0], one[1], moves_of(one[2])) for one in done["violations"]]


def work(stdin: IO[str] | None = None, stdout: IO[str] | None = None) -> None:
    """What a worker does: its part of the search, from what it is told. What explored code prints is no answer: it goes to stderr."""
    gc.set_threshold(*YOUNG_OBJECTS)
    told, answers = json.load(stdin or sys.stdin), stdout or sys.stdout
    with redirect_stdout(sys.stderr):
        _repeat(told, answers) if "again" in told else _search(told, answers)


def _repeat(told: dict[str, Any], stdout: IO[str]) -> None:
    sys.path[:] = told["path"]
    subject, is_async = Scenario.model_validate(told["subject"]), told["is_async"]
    cast, other = coloured_cast(subject, is_async), coloured_cast(subject, not is_async) if told["other"] else None
    again = [moves_of(timeline) for timeline in told["again"]]
    found = differing(subject, cast, is_async, other, again, told["stores"], 1)
    print(
        json.dumps({"differences": [[each.store, plain(each.timeline), each.problem] for each in found]}), file=stdout, flush=True
    )


def _search(told: dict[str, Any], stdout: IO[str]) -> None:
    sys.path[:] = told["path"]
    subject, is_async = Scenario.model_validate(told["subject"]), told["is_async"]
    cast = coloured_cast(subject, is_async)
    last = 0.0

    def progress(counts: Counts) -> None:
        nonlocal last
        if counts.seconds - last > 0.2:
            last = counts.seconds
            print(json.dumps({"so_far": [counts.histories, counts.states - known, counts.waiting]}), file=stdout, flush=True)

    search = Search(
        subject, cast, Bounds(*told["bounds"]), seed=told["seed"], is_async=is_async,
        histories_max=told["histories_max"], violations_max=told["violations_max"], progress=progress,
    )  # fmt: skip
    search.seen.hear(told["seen"])
    known = len(search.seen)
    counts = search.go_on(told["branches"])
    done = {
        "histories": counts.histories,
        "merged": counts.merged,
        "waiting": counts.waiting,
        "interrupted": counts.interrupted,
        "seen": search.seen.told(beside=told["seen"]),
        "ends": [end.hex() for end in search.ends],
        "timelines": [plain(timeline) for timeline in sampled(search.timelines, told["seed"])],
        "waits": [sorted(search.waits.answered), sorted(search.waits.left)],
        "violations": [[one.promise, one.problem, plain(one.timeline)] for one in counts.violations],
    }
    print(json.dumps(done), file=stdout, flush=True)
