"""`python -m tests.fleet`: eight workers drain some thousands of runs while they, and the server, are killed. Ends with 1 if something did not hold.

`make fleet`. --seed N draws other disturbances. What it prints is one JSON object for each database.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from recovery import Engine
from recovery.core.entries import Status
from recovery.storage import open_journal
from recovery.storage.migrate import migrate
from tests.fleet import judging
from tests.fleet.fleet import Fleet, Outside, cpu_seconds
from tests.fleet.shop import DATABASE, SERVICE, SPOILT, has_child, order, pack
from tests.postgres import PostgresServer, serving

DATABASES = ("sqlite", "postgresql")
LOOK_SECONDS = 0.25
SHOWN = 20
OPEN = tuple(status for status in Status if not status.settled)


@dataclass
class Place:
    """A database to be drained. server: the one that is killed now and then."""

    url: str
    server: PostgresServer | None = None

    def counts(self) -> dict[str, int]:
        """How many runs stand how, by one question of our own."""
        asked = sa.create_engine(self.url.replace("postgresql://", "postgresql+psycopg://"), poolclass=sa.NullPool)
        with asked.connect() as connection:
            rows = connection.execute(sa.text("SELECT status, count(*) FROM run GROUP BY status")).all()
        return {str(status): int(number) for status, number in rows}

    def left(self) -> list[str]:
        """The rows of runs that are not settled."""
        with closing(open_journal(self.url, create=False)) as journal:
            return [str(row) for row in journal.runs(statuses=OPEN, limit=SHOWN)]


@contextmanager
def placed(database: str, directory: Path) -> Iterator[Place]:
    if database == "sqlite":
        place = Place(f"sqlite:///{directory / 'fleet.db'}")
        migrate(place.url)
        yield place
        return
    with serving() as server:
        place = Place(server.url(server.take("fleet", lambda _url: None)), server)
        migrate(place.url)
        yield place


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _asked(arguments)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # else its workers would go on without it
    wrong = 0
    for database in asked.database or DATABASES:
        with (
            tempfile.TemporaryDirectory(prefix="recovery-fleet-", dir=asked.directory) as directory,
            placed(database, Path(directory)) as place,
        ):
            came, problems = drained(database, place, Path(directory), asked)
        print(json.dumps(came), flush=True)
        for problem in problems[:SHOWN]:
            print(f"{database}: {problem}", file=sys.stderr, flush=True)
        wrong += len(problems)
    return 1 if wrong else 0


def drained(database: str, place: Place, directory: Path, asked: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """Enqueue, let the fleet drain under fire, and judge."""
    with ExitStack() as stack:
        outside = stack.enter_context(closing(Outside(asked.seed)))
        began = time.monotonic()
        with Engine(place.url, workflows=[order, pack]) as engine:
            for number in range(asked.runs):
                engine.enqueue(order(number), run_id=f"order-{number}")
        enqueued = time.monotonic() - began
        environment = {DATABASE: place.url, SERVICE: str(outside.port), SPOILT: asked.spoilt}
        fleet = stack.enter_context(Fleet(directory, asked.workers, asked.seed, environment, asked.concurrency, asked.pause))
        began, cpu = time.monotonic(), cpu_seconds()
        late = under_fire(place, fleet, asked)
        took = time.monotonic() - began
        fleet.end()
        spent = cpu_seconds() - cpu
        told = outside.counted(directory / "outside.json")
        with closing(open_journal(place.url, create=False)) as journal:
            problems = [*late, *judging.everything(journal, asked.runs, told, fleet.past)]
    events = Counter(event["event"] for member in fleet.past for event in member.events())
    shares = sorted(sum(event["event"] == "brought on" for event in member.events()) for member in fleet.past)
    return {
        "database": database, "runs": asked.runs, "workers": asked.workers, "seed": asked.seed, "holds": not problems,
        "seconds": round(took, 1), "runs_per_second": round(asked.runs / took, 1), "effects_per_second": round(sum(told["done"].values()) / took, 1),
        "processor_seconds": round(spent, 1), "enqueued_per_second": round(asked.runs / enqueued, 1),
        "disturbances": dict(fleet.counts), "requests": told["requests"], "replays": told["replays"],
        "events": dict(events), "brought_on_by_worker": shares,
    }, problems  # fmt: skip


def under_fire(place: Place, fleet: Fleet, asked: argparse.Namespace) -> list[str]:
    """Until every run is settled, or it takes too long."""
    total = asked.runs + sum(map(has_child, range(asked.runs)))
    ends = time.monotonic() + asked.seconds
    restarts = time.monotonic() + asked.restart
    shown = time.monotonic()
    while time.monotonic() < ends:
        fleet.fill()
        if not asked.calm:
            fleet.disturb()
            if place.server is not None and time.monotonic() > restarts:
                place.server.kill()
                place.server.start_again()
                fleet.counts["server killed"] += 1
                restarts = time.monotonic() + asked.restart
        time.sleep(LOOK_SECONDS)
        counts = place.counts()
        if asked.verbose and time.monotonic() - shown > 5:
            shown = time.monotonic()
            print(json.dumps({"left": round(ends - shown), **counts, **fleet.counts}), file=sys.stderr, flush=True)
        if sum(counts.get(status, 0) for status in ("completed", "failed", "cancelled", "in_doubt", "held", "diverged")) == total:
            return []
    return [f"not drained after {asked.seconds} seconds: {place.counts()}", *place.left()]


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fleet", description=__doc__)
    parser.add_argument("--runs", type=int, default=1500)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--concurrency", type=int, default=8, help="of each worker")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--database", action="append", choices=DATABASES, help="only this one; may be repeated")
    parser.add_argument("--seconds", type=float, default=1800, help="of one database, against hanging")
    parser.add_argument("--pause", type=float, default=1.5, help="seconds between two disturbances of a worker, on average")
    parser.add_argument("--restart", type=float, default=15, help="seconds between two kills of the server")
    parser.add_argument("--directory", help="where the files lie; default: that of temporary files")
    parser.add_argument("--calm", action="store_true", help="disturb nobody")
    parser.add_argument("--spoilt", default="", choices=("", "minted"), help="spoil the app, to see that it is found out")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
