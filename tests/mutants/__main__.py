"""`python -m tests.mutants`: break `weigh` and `judge` in every small way and see whether a test notices.

Prints the score and every survivor. Ends with 1 if a survivor has no reason in `accepted.txt`, or if one that has is noticed by now.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests.mutants.accepted import ACCEPTED, reasons
from tests.mutants.mutation import TARGETS, Mutant, mutants
from tests.mutants.running import Fate, fate, warm


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=0, help="only so many, the same ones every time")
    parser.add_argument("--only", default="", help="only mutants whose name begins so, of: " + ", ".join(TARGETS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(arguments)
    chosen = [mutant for module in TARGETS for mutant in mutants(module) if mutant.name.startswith(given.only)]
    if given.sample:
        chosen = random.Random(1).sample(chosen, min(given.sample, len(chosen)))  # not a secret
    warm()
    if fate(Mutant("timing", "nothing changed")) is not Fate.SURVIVED:
        print("The tests fail without any change; mutants would say nothing. Run: python -m pytest tests/unit/core tests/model")
        return 1
    began = time.monotonic()
    with ThreadPoolExecutor(max_workers=given.jobs) as pool:
        fates = list(pool.map(_judged, chosen))
    return report(chosen, fates, time.monotonic() - began, whole=not given.sample and not given.only)


def _judged(mutant: Mutant) -> Fate:
    judged = fate(mutant)
    if judged is Fate.SURVIVED:
        print(f"survived  {mutant.name}", flush=True)
    return judged


def report(chosen: list[Mutant], fates: list[Fate], seconds: float, *, whole: bool) -> int:
    accepted = reasons()
    survivors = [mutant.name for mutant, judged in zip(chosen, fates, strict=True) if judged is Fate.SURVIVED]
    unlisted = [name for name in survivors if name not in accepted]
    names = {mutant.name for mutant in chosen}
    stale = [name for name in accepted if name not in survivors and (whole or name in names)]
    killed = len(chosen) - len(survivors)
    print(
        f"\n{len(chosen)} mutants, {killed} noticed ({fates.count(Fate.ENDLESS)} of them by never ending), {len(survivors)} survived"
    )
    spent = os.times()
    processor = spent.user + spent.system + spent.children_user + spent.children_system
    print(f"score {100 * killed / max(1, len(chosen)):.1f} %, in {seconds:.0f} s, {processor:.0f} s of processor time")
    for name in survivors:
        if name in accepted:
            print(f"  accepted  {name}\n            {accepted[name]}")
    for name in unlisted:
        print(f"  NO REASON {name}")
    for name in stale:
        print(f"  STALE     {name}\n            is noticed or gone: take it out of {ACCEPTED.name}")
    return 1 if unlisted or stale else 0


if __name__ == "__main__":
    sys.exit(main())
