"""`python -m tests.soak`: random plays for as long as is asked. Ends with 1 if something did not hold, and says how to play it again.

Each play is made from its seed: --seed N plays that one, or with --plays or --minutes those from N on.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Lock, Thread

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.crash.children import COMMAND, Nursery, spoilt
from tests.soak.counting import Judged, Soaked
from tests.soak.house import House
from tests.soak.judging import violations
from tests.soak.playing import carried_out
from tests.soak.plays import DATABASES, Play, play

IN_MEMORY = Path("/dev/shm")
INTERRUPTED = 130
ENDING = (signal.SIGINT, signal.SIGTERM)
"""Either is ignored, or deadly at once, where a soak was started in the background."""
SPOILT_WAYS = ("unwritten", "minted", "keeping")
"""Of the saboteur's, those that a play ends with."""


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _asked(arguments)
    for number in ENDING:
        signal.signal(number, _end_in_order)
    began = time.monotonic()
    soaked = Soaked()
    console = Console(file=sys.stderr)
    columns = (TextColumn("plays"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with (
        closing(Lanes(asked)) as lanes,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar,
    ):
        task = bar.add_task("", total=asked.plays)
        try:
            for judged in lanes.judged():
                soaked.add(judged)
                if asked.verbose or judged.wrong:
                    print(judged, flush=True)
                if judged.wrong and asked.spoilt:
                    lanes.end()
                bar.update(task, advance=1, description=f"seed {judged.play.seed}, {len(soaked.wrong)} violations")
        except KeyboardInterrupt:
            soaked.interrupted = True  # what was played until then counts
    spent = os.times()
    took = time.monotonic() - began, spent.user + spent.system + spent.children_user + spent.children_system
    print(json.dumps(soaked.document(*took)), flush=True) if asked.json else soaked.show(*took)
    return 1 if soaked.wrong or lanes.broken else INTERRUPTED if soaked.interrupted else 0


def _end_in_order(*_: object) -> None:
    """Once: who asks again does not hurry those that clear away what they have started."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


class Lanes:
    """Plays side by side, each lane in a house of its own, until there are enough of them or the time is over."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self._seeds = count(asked.seed)
        self._left = asked.plays
        self._until = None if asked.minutes is None else time.monotonic() + asked.minutes * 60
        self._program = spoilt(asked.spoilt) if asked.spoilt else COMMAND
        self._options = f" --database {asked.database}" if asked.database else ""
        self._databases = (asked.database,) if asked.database else DATABASES
        self.broken = 0
        self._lock, self._over = Lock(), Event()
        self._said: SimpleQueue[Judged | None] = SimpleQueue()
        self._threads = [Thread(target=self._lane, name=f"lane {number}") for number in range(asked.jobs)]

    def judged(self) -> Iterator[Judged]:
        for thread in self._threads:
            thread.start()
        ended = 0
        while ended < len(self._threads):
            one = self._said.get()
            if one is None:
                ended += 1
            else:
                yield one

    def end(self) -> None:
        """Each lane ends with the play that it is at."""
        self._over.set()

    def close(self) -> None:
        """Return when the houses are closed, too."""
        self.end()
        for thread in self._threads:
            thread.join()

    def _next(self) -> Play | None:
        with self._lock:
            late = self._until is not None and time.monotonic() > self._until
            if self._over.is_set() or late or self._left == 0:
                return None
            self._left = None if self._left is None else self._left - 1
            return play(next(self._seeds), self._databases)

    def _lane(self) -> None:
        try:
            while (next_one := self._next()) is not None:
                self._in_house(next_one)
        except BaseException:  # told by the thread itself; a lane that has broken off counts as a violation
            self.broken += 1
            raise
        finally:
            self._said.put(None)

    def _in_house(self, first: Play) -> None:
        """Play until the end, or until a play breaks off: what it has left behind is then cleared away with its house."""
        one: Play | None = first
        where = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
        with (
            tempfile.TemporaryDirectory(prefix="recovery-soak-", dir=where) as directory,
            Nursery(Path(directory), self._program) as nursery,
            House(Path(directory), nursery, warm=self._program is COMMAND) as house,
        ):
            while one is not None:
                judged = judged_play(one, house, self._options)
                self._said.put(judged)
                if judged.played is None:
                    return
                one = self._next()


def judged_play(play: Play, house: House, options: str = "") -> Judged:
    try:
        played = carried_out(play, house)
    except Exception:  # a harness that cannot go on has shown nothing: that counts as a violation
        return Judged(play, None, (f"it broke off: {traceback.format_exc()}",), options)
    return Judged(play, played, tuple(violations(play, played, house)), options)


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, help="how long")
    parser.add_argument("--plays", type=int, help="how many (default 1, unless --minutes says how long)")
    parser.add_argument("--seed", type=int, default=0, help="of the first play (default %(default)s)")
    parser.add_argument("--database", choices=DATABASES, help="only on this one; other plays are then made from the seeds")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="plays side by side (default: one for each processor)"
    )
    parser.add_argument("--spoilt", choices=SPOILT_WAYS, help="spoil the workers in this way, and end when that is found out")
    parser.add_argument("--verbose", action="store_true", help="one line for each play")
    parser.add_argument("--json", action="store_true", help="end with one JSON object instead of a table")
    asked = parser.parse_args(arguments)
    if asked.plays is None and asked.minutes is None:
        asked.plays = 1
    asked.jobs = max(1, asked.jobs if asked.plays is None else min(asked.jobs, asked.plays))
    return asked


if __name__ == "__main__":
    sys.exit(main())
