"""The stage of a crash test: a journal, the environment, workers, and what must hold whatever was killed.

Owns the assertions that all crash tests share. Reads the journal and the service by itself and believes no worker's report alone.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

from recovery import AsyncEngine, Engine, codec
from recovery.core.chain import Row
from recovery.core.entries import Decision, Settled, Status
from recovery.crashpoints import VARIABLE, hooked
from recovery.examples.inventory.client import Applied, InventoryClient, Reservation
from recovery.examples.inventory.process import Inventory
from recovery.ports import Journal
from recovery.storage import open_journal
from recovery.storage.reading import read
from recovery.testing.pieces import in_one_piece
from tests.crash.children import Child, Ended, Forked, Nursery, spoilt
from tests.crash.worker import STOP, UNITS
from tests.crash.workflows import KEYS, SCARCE, SERVICE, WORKFLOWS

_numbers = count(1)

SENDING = {"send.before", "probe.before", "close.before"}


@dataclass
class Stage:
    """Where workers run. `traces` keeps what uninterrupted ones passed, by (colour, shape, kill)."""

    url: str
    inventory: Inventory
    inventory_file: Path
    nursery: Nursery
    traces: dict[tuple[str, ...], list[str]] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return self.url.partition(":")[0]

    @cached_property
    def journal(self) -> Journal:
        return open_journal(self.url)

    @cached_property
    def service(self) -> InventoryClient:
        return InventoryClient(self.inventory.url)

    @cached_property
    def books(self) -> sqlite3.Connection:
        """The service's own database, read only."""
        return sqlite3.connect(f"file:{self.inventory_file}?mode=ro", uri=True)

    def executions(self, run_id: str) -> Counter[str]:
        """How often each effect of a run was really executed, by key: counted by the service in the effect's own transaction."""
        return Counter(key for (key,) in self.books.execute("SELECT key FROM execution WHERE key GLOB ?", [f"{run_id}:*"]))

    def warm_up(self) -> None:
        """Let the nursery do once what it would otherwise do first in every worker: lazy imports, compiled patterns."""
        for colour in ("sync", "async"):
            story = self.new_run("lossy", colour)
            self.nursery.warm_up([*story.arguments("run"), "--hurried"], story.environment())

    def close(self) -> None:
        self.books.close()
        self.service.__exit__(None, None, None)
        self.journal.close()

    def new_run(self, shape: str, colour: str, steps: str = "") -> Story:
        return Story(self, shape, colour, f"{shape}-{colour}-{next(_numbers)}", steps)


@dataclass
class Story:
    """One run and the processes that worked on it. steps: what the shape `mixed` does, which has no checks of its own here."""

    stage: Stage
    shape: str
    colour: str
    run_id: str
    steps: str = ""
    riding: bool = False
    durable: list[Row] = field(default_factory=list)

    # -- acting --------------------------------------------------------------------------------------------------------

    def arguments(self, command: str, **options: float) -> list[str]:
        said = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        steps = ["--steps", self.steps] if self.steps else []
        rides = ["--riding"] if self.riding else []
        return [command, self.shape, self.run_id, "--db", self.stage.url, "--colour", self.colour, *steps, *rides, *said]

    def environment(self, armed: str = "", stop_at: str = "") -> Mapping[str, str]:
        return {SERVICE: self.stage.inventory.url, VARIABLE: armed, STOP: stop_at}

    def work(self, command: str, armed: str = "", **options: float) -> Ended:
        """A worker from the nursery, to its end; the journal only grew, by whole entries at its end."""
        hurried = [] if options else ["--hurried"]  # leases are waited for in real time
        ended = self.stage.nursery.worker([*self.arguments(command, **options), *hurried], self.environment(armed))
        self.check_growth()
        return ended

    def typed(self, words: Sequence[str]) -> list[str]:
        """A command of a person about this run, with the app and the database it is for; `{run}` stands for the run."""
        engine = "engine" if self.colour == "sync" else "async_engine"
        said = [word.format(run=self.run_id) for word in words]
        return [*said, "--json", "--db", self.stage.url, "--app", f"tests.crash.app:{engine}"]

    def ordered(self, words: Sequence[str], armed: str = "") -> Ended:
        """The command in a process of its own, to its end."""
        ended = self.stage.nursery.worker(["order", *self.typed(words)], self.environment(armed))
        self.check_growth()
        return ended

    def child(self, command: str, armed: str = "", stop_at: str = "", **options: float) -> Forked:
        return Forked(self.stage.nursery, self.arguments(command, **options), self.environment(armed, stop_at))

    def spoilt_child(self, way: str, command: str, **options: float) -> Child:
        return Child(self.arguments(command, **options), self.environment(), spoilt(way))

    # -- what must hold ------------------------------------------------------------------------------------------------

    def rows(self) -> list[Row]:
        found = in_one_piece(self.stage.journal, self.run_id)
        return found[1] if found else []

    def check_growth(self) -> None:
        """What was durable is a prefix of what is, and the chain verifies."""
        rows = self.rows()
        assert rows[: len(self.durable)] == self.durable
        self.durable = rows
        if rows:
            read(self.stage.journal, self.run_id)

    def check_once(self) -> None:
        """No effect twice and (where it can be known) none missing, by the environment's own count."""
        allowed = {0, 1} if self.shape == "doubtful" else {1}
        times = self.stage.executions(self.run_id)
        bookings = KEYS[self.shape](self.run_id)
        for keys in bookings:
            assert sum(times[key] for key in keys) in allowed, times
        assert set(times) <= {key for keys in bookings for key in keys}

    def check_outcome(self, ended: Ended) -> None:
        """The outcome is that of an uninterrupted run: the bytes in the journal, and what the worker was given."""
        assert ended.returncode == 0, ended
        assert self.outcome_bytes() == codec.dumps(self.expected())
        assert ended.report["value"] == self.expected()

    def outcome_bytes(self) -> str:
        [body] = [json.loads(row.body) for row in self.rows() if row.kind == "settled" and row.step == ""]
        return codec.dumps(body["value"])

    def expected(self) -> dict[str, Any]:
        """Made from what nobody here decides: the one decision that is durable, and the reservations that the service really made."""
        entries = read(self.stage.journal, self.run_id).entries
        [decision] = [entry for entry in entries if isinstance(entry, Decision)]
        assert isinstance(decision.value, dict)
        return {
            "made_by": decision.value["made_by"],
            "bookings": [{"id": self._reservation(keys), "units": UNITS} for keys in KEYS[self.shape](self.run_id)],
            "refused": SCARCE if self.shape == "plain" else "",
        }

    def _reservation(self, keys: list[str]) -> str:
        times = self.stage.executions(self.run_id)
        [key] = [key for key in keys if times[key]]
        known = self.stage.service.look_up(key)
        assert isinstance(known, Applied)
        assert isinstance(known.value, Reservation)
        return known.value.id

    def check_doubt(self, ended: Ended) -> None:
        """An effect that nothing can prove: said so, never sent again, and never concluded."""
        assert (ended.returncode, ended.report["error"]) == (3, "EffectInDoubt"), ended
        run = self.stage.journal.find(self.run_id)
        assert run is not None
        assert (run.status, run.owner) == (Status.IN_DOUBT, None)
        assert not [entry for entry in read(self.stage.journal, self.run_id).entries if isinstance(entry, Settled)]

    def check_settles_nothing_new(self) -> None:
        """I7: another recovery appends and sends nothing. A settled run is asked for here; one in doubt is claimed by a process."""
        before = self.durable
        passed = self._passed_here() if self.shape != "doubtful" else self.work("recover").passages
        self.check_growth()
        assert self.durable == before
        assert not set(passed) & SENDING
        assert not [point for point in passed if point.startswith("append")]

    def _passed_here(self) -> list[str]:
        passed: list[str] = []
        workflows = WORKFLOWS[self.colour].values()
        with hooked(passed.append):
            if self.colour == "async":
                recovered = asyncio.run(AsyncEngine(self.stage.journal, workflows=workflows).recover(self.run_id))
            else:
                recovered = Engine(self.stage.journal, workflows=workflows).recover(self.run_id)
        assert dataclasses.asdict(recovered.result()) == self.expected()
        return passed
