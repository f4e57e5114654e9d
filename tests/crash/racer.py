"""A recoverer that waits for its rival: it stops in front of its claim and, having claimed, in front of its load.

    python tests/crash/racer.py --db URL

Reads run ids and "go" from standard input, a line each. Prints "ready" in front of a claim, "claimed" behind it, then one JSON report.
"""

from __future__ import annotations

import json
import os
import sys

from recovery import Engine, crashpoints
from recovery.core.errors import RecoveryError
from recovery.core.policy import Lease
from tests.crash.workflows import WORKFLOWS

SAYS = {"claim.before": "ready", "load.before": "claimed"}


def wait_at(point: str) -> None:
    if point in SAYS:
        print(SAYS[point], flush=True)
        assert sys.stdin.readline() == "go\n"


def race(engine: Engine, run_id: str) -> dict[str, object]:
    with crashpoints.hooked(wait_at):
        try:
            recovered = engine.recover(run_id)
        except RecoveryError as error:
            return {"error": type(error).__name__, "exit": int(error.exit_code), "message": str(error)}
    return {"error": "", "exit": int(recovered.exit_code), "pid": os.getpid()}


def main(database: str) -> None:
    with Engine(database, workflows=WORKFLOWS["sync"].values(), lease=Lease()) as engine:
        for line in sys.stdin:
            print(json.dumps(race(engine, line.strip())), flush=True)


if __name__ == "__main__":
    main(sys.argv[sys.argv.index("--db") + 1])
