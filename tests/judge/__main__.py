"""`python -m tests.judge`: every program in every case against every offer of the service, with real processes.

Ends with 1 if recovery has a second effect, a wrong outcome or no end in any cell, or could not be judged in one. Peers are judged, not tested:
what they do changes nothing here. A peer that is not installed is named and left out.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.judge import page
from tests.judge.cases import CASES, OFFERS, Case, played
from tests.judge.programs import OURS, Program, peers
from tests.judge.verdicts import Cell, Shown

JOBS = 4
"""Plays at once: nearly all of their time is waiting."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.judge", description=__doc__)
    parser.add_argument("--peers", default="", help="the Python that the peers are installed in")
    parser.add_argument("--only", default="", help="programs, by name, with commas between")
    parser.add_argument("--case", default="", help="cases whose name contains this")
    parser.add_argument("--jobs", type=int, default=JOBS, help="plays at once (default %(default)s)")
    parser.add_argument("--json", type=Path, help="write the results there")
    parser.add_argument("--page", action="store_true", help="rewrite the tables of docs/explanation/comparison.md")
    given = parser.parse_args(arguments)
    programs = _present(given.peers, given.only)
    if given.page and (given.only or given.case or not given.peers):
        parser.error("--page wants everything: no --only, no --case, and --peers")
    plays = [(program, case, offer) for program in programs for case in CASES for offer in OFFERS if given.case in case.name]
    results = _all(programs, plays, given.jobs)
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if given.page:
        page.rewrite(results)
    ours = [shown for shown in results["shown"] if shown["program"] == OURS.name]
    wrong = [shown for shown in ours if shown["kept"] is not True and shown["cell"] not in {Cell.NOT_OFFERED, Cell.SKIPPED}]
    print(page.tables(results), _summary(results, ours), sep="\n\n")
    return 1 if wrong else 0


def _present(python: str, only: str) -> dict[Program, str]:
    """The programs that are installed, with their versions."""
    wanted = set(filter(None, only.split(",")))
    known = [
        program
        for program in [OURS, *(peers(str(Path(python).absolute())) if python else [])]
        if not wanted or program.name in wanted
    ]
    found = {program: program.version() for program in known}
    for program, version in found.items():
        if not version:
            print(f"{program.name} is not installed and left out", flush=True)
    return {program: version for program, version in found.items() if version}


def _all(programs: dict[Program, str], plays: list[tuple[Program, Case, str]], jobs: int) -> dict[str, Any]:
    def one(play: tuple[Program, Case, str]) -> dict[str, Any]:
        program, case, offer = play
        began = time.monotonic()
        shown: Shown = played(program, case, offer)
        if shown.cell is not Cell.NOT_OFFERED:
            line = f"{program.name:14} {case.name:45} {offer:8} {shown.cell:12} {time.monotonic() - began:5.1f} s  {shown.why[:90]}"
            print(line, flush=True)
        about = {"program": program.name, "case": case.name, "offer": offer}
        return about | {"cell": str(shown.cell), "kept": shown.kept, "effects": shown.effects, "why": shown.why}

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        shown = list(pool.map(one, plays))
    return {"programs": {program.name: version for program, version in programs.items()}, "shown": shown}


def _summary(results: dict[str, Any], ours: list[dict[str, Any]]) -> str:
    seen = [shown for shown in results["shown"] if shown["cell"] not in {Cell.NOT_OFFERED, Cell.SKIPPED}]
    broken = sum(shown["kept"] is False for shown in ours)
    return f"{len(seen)} plays; recovery: {sum(shown['kept'] is True for shown in ours)} kept, {broken} broken"


if __name__ == "__main__":
    sys.exit(main())
