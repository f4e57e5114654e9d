"""`python -m tests.model`: the whole bound, on all processors, with what it covered. Ends with 1 if a promise does not hold."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from recovery.core.verdicts import ROWS
from tests.model.search import Found, search
from tests.model.settings import CONTRACTS, LATER, settings

STATES_MAX = 2_000
"""For one setting. A setting with more is searched breadth first as far as that, and counted as cut."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--states-max", type=int, default=STATES_MAX, help="states of one setting (default %(default)s)")
    parser.add_argument("--only", default="", help="settings whose name contains this")
    parser.add_argument("--verbose", action="store_true", help="one line for each setting")
    given = parser.parse_args(arguments)
    chosen = [setting for setting in settings() if given.only in setting.name]
    began = time.monotonic()
    found: list[Found] = []
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        for one in pool.map(search, chosen, [given.states_max] * len(chosen), chunksize=4):
            found.append(one)
            if given.verbose or one.violation:
                print(
                    one.violation
                    or f"{one.setting}: {one.states} states, {one.transitions} transitions{'' if one.whole else ', cut'}"
                )
    print(summary(found, time.monotonic() - began))
    return 1 if any(one.violation for one in found) else 0


def summary(found: list[Found], seconds: float) -> str:
    rows: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    for one in found:
        rows += one.rows
        ends += one.ends
    never = [row.name for row in ROWS if row.name not in rows]
    lines = [
        f"contracts    {len(CONTRACTS) + len(LATER)}",
        f"settings     {len(found)}, of which {sum(one.whole for one in found)} whole",
        f"states       {sum(one.states for one in found):,}",
        f"transitions  {sum(one.transitions for one in found):,}",
        f"stretches    {sum(one.judgements for one in found):,} runs of the machine between two answers",
        f"calm ends    {sum(one.calms for one in found):,} recoveries followed to their end",
        f"rows         {len(ROWS) - len(never)} of {len(ROWS)} reached" + (f"; never {', '.join(never)}" if never else ""),
        f"ends         {', '.join(f'{name} {count:,}' for name, count in sorted(ends.items()))}",
        f"violations   {sum(bool(one.violation) for one in found)}",
        f"time         {seconds:.0f} s, {_processor():.0f} s of processor time",
    ]
    return "\n".join(lines)


def _processor() -> float:
    """Seconds of processor time, in all processes that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


if __name__ == "__main__":
    sys.exit(main())
