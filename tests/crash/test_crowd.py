"""W13: eight processes recover the same two hundred runs at once, on either database."""

from __future__ import annotations

import json
import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess

from recovery.core.entries import Status
from recovery.core.ids import Epoch
from recovery.storage import open_journal
from tests.crash import crowd
from tests.crash.crowd import GATE, URL
from tests.crash.sampling import EVERY
from tests.integration.cli_place import until
from tests.warm import WarmParent

RUNS = 200 if EVERY else 24
"""All of them in `make kills`."""
PROCESSES = 8
SETTLED, OWNED_BY_OTHERS = 0, 7


def test_w13_each_of_the_same_runs_is_recovered_once(warm_parent: WarmParent, store_url: str, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RECOVERY_")}
    environment |= {URL: store_url}
    shutil.copy(crowd.__file__, tmp_path / "crowd.py")

    def program(*arguments: str) -> CompletedProcess[str]:
        return warm_parent.run(["-W", "error", *arguments], directory=tmp_path, environment=environment)

    died = program("crowd.py", str(RUNS))
    assert died.returncode == -signal.SIGKILL, died.stderr
    (tmp_path / GATE).touch()
    with ThreadPoolExecutor(PROCESSES) as pool:
        ending = [pool.submit(program, "-m", "recovery", "--all", "--app", "crowd:engine", "--json") for _ in range(PROCESSES)]
        until("eight processes at the gate", lambda: len(list(tmp_path.glob("ready-*"))) == PROCESSES)
        (tmp_path / GATE).unlink()
        ended = [each.result() for each in ending]
    assert [each.stderr for each in ended] == [""] * PROCESSES
    assert {each.returncode for each in ended} <= {SETTLED, OWNED_BY_OTHERS}, ended
    brought = [run for each in ended for run in json.loads(each.stdout)["runs"] if run["exit_code"] == SETTLED]
    assert {run["run_id"] for run in brought} == {f"order-{number}" for number in range(RUNS)}

    journal = open_journal(store_url, create=False)
    rows = journal.runs(limit=RUNS + 1)
    journal.close()
    assert [(row.status, row.epoch) for row in rows] == [(Status.COMPLETED, Epoch(0, 2))] * RUNS, "each has been claimed once"
    done, sent = ((tmp_path / name).read_text().split() for name in ("done", "sent"))
    assert len(done) == len(set(done)) == RUNS
    assert sorted(sent) == sorted(done * 2), "once by the first worker, once by whoever recovered it"
