"""`python -m tests.fuzz`: spoilt checkpoints for as long as is asked, on all processors. Ends with 1 if a load did what it must not."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.fuzz.spoiling import outcome, packed, spoilt, whole


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first case (default %(default)s)")
    given = parser.parse_args(arguments)
    workers = os.cpu_count() or 1
    with ProcessPoolExecutor(workers) as pool:
        found: Counter[str] = Counter()
        for one in pool.map(run, [given.first + n for n in range(workers)], [workers] * workers, [given.seconds] * workers):
            found += one
    for told, count in sorted(found.items(), key=lambda each: (-each[1], each[0])):
        print(f"{count:9,}  {told}")
    wrong = sum(count for told, count in found.items() if told.startswith("WRONG"))
    print(f"{found.total():9,}  cases from {given.first} on, of which {wrong} wrong")
    return 1 if wrong else 0


def run(first: int, step: int, seconds: float) -> Counter[str]:
    """Cases first, first + step, ... until the time is over."""
    found: Counter[str] = Counter()
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        files = whole(base / "whole")
        number = first
        while time.monotonic() < end:
            case = spoilt(files, number)
            told = outcome(case, base / "case", content=packed(case, number) if number // step % 2 else None)
            found[f"{told} [case {number}]" if told.startswith("WRONG") else told] += 1
            shutil.rmtree(base / "case")
            number += step
    return found


if __name__ == "__main__":
    sys.exit(main())
