"""The agent of the examples, killed at every place that it passes: each tool acts once, and the model is not asked again once its answer is durable."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from recovery import Engine, errors
from recovery.core.entries import Decision, Intent
from recovery.crashpoints import VARIABLE
from recovery.examples.agent import reserve
from recovery.examples.inventory.client import InventoryClient
from tests.crash.stage import Stage
from tests.crash.workflows import SKU
from tests.warm import WarmParent

WORKER = str(Path(__file__).with_name("agent_worker.py"))
SCRIPT: list[dict[str, Any]] = [
    {"calls": [{"name": "reserve", "arguments": {"sku": SKU, "units": 2}}]},
    {"calls": [{"name": "reserve", "arguments": {"sku": SKU, "colour": "blue"}}, {"name": "burn", "arguments": {}}]},
    {"calls": [{"name": "reserve", "arguments": {"sku": SKU, "units": 6}}]},
    {"text": "Eight are reserved."},
]
ASKING = {"decide.before", "decide.after", "append.decision.before"}  # the model's answer is on its way, and not durable

_numbers = count(1)


@dataclass
class Agent:
    """One agent's run on a stage. `directory`: where its model's script is, and what it was asked."""

    stage: Stage
    colour: str
    parent: WarmParent
    directory: Path
    run_id: str

    def work(self, kill_at: str = "") -> tuple[int, dict[str, Any]]:
        """One worker's exit status, and what it printed."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RECOVERY_")} | {
            "INVENTORY_URL": self.stage.inventory.url,
            "RECOVERY_DB": self.stage.url,
            "AGENT_SCRIPT": str(self.directory / "script.jsonl"),
        }
        if kill_at:
            environment[VARIABLE] = kill_at
        command = [WORKER, self.colour, self.run_id, "filters"]
        ended = self.parent.run(command, directory=self.directory, environment=environment)
        assert ended.returncode in {0, 8, -9, 137}, ended.stderr
        return ended.returncode, json.loads(ended.stdout) if ended.stdout else {}

    def approve(self, approved: bool = True, note: str = "") -> None:
        """As a person does it: what is waited for names the call."""
        with Engine(self.stage.url) as engine:
            [waited] = engine.waits(self.run_id)
            assert waited.arguments == {"sku": SKU, "units": 6}
            answer = {"approved": approved, "note": note}
            engine.signal(self.run_id, "approval", answer, by="shift lead", about=waited.about)

    def to_its_end(self) -> None:
        """As whoever finds it: recovered, approved if it waits for that, recovered."""
        code, _ = self.work()
        if code == 8:
            self.approve()
            code, _ = self.work()
        assert code == 0

    def asked(self) -> Counter[str]:
        """How often the model was asked for each of its answers."""
        file = self.directory / "script.asked"
        return Counter(file.read_text().split()) if file.exists() else Counter()

    def check(self, more: int = 0) -> None:
        """Each effect happened once, and the model was asked once for each answer, and `more` times because of a crash in between."""
        history = Engine(self.stage.journal).history(self.run_id)
        intents = [entry for entry in history if isinstance(entry, Intent)]
        assert [intent.arguments["units"] for intent in intents] == [2, 6]
        with InventoryClient(self.stage.inventory.url):
            assert [self.stage.inventory.executions(intent.key) for intent in intents] == [1, 1]
        answers = [entry for entry in history if isinstance(entry, Decision) and entry.step.startswith("model#")]
        assert [entry.value.get("text", "") for entry in answers][-1] == "Eight are reserved."
        asked = self.asked()
        assert set(asked) == set("0123")
        assert asked.total() - len(SCRIPT) <= more
        assert Engine(self.stage.journal).get(self.run_id).value == "Eight are reserved."


EVERY = int(os.environ.get("EVERY", "0"))
"""At each so-manieth place, on both databases in both colours (`make kills`); 0: at one place in each of its two legs, on each database in one colour."""

PLACES = [("sqlite", "sync"), ("postgresql", "async"), *([("sqlite", "async"), ("postgresql", "sync")] if EVERY else [])]


@pytest.fixture(params=PLACES, ids="-".join)
def new_agent(request: pytest.FixtureRequest, warm_parent: WarmParent, tmp_path: Path) -> Callable[[], Agent]:
    kind, colour = request.param
    stage = request.getfixturevalue(f"{kind}_stage")

    def made() -> Agent:
        number = next(_numbers)
        directory = tmp_path / str(number)
        directory.mkdir()
        (directory / "script.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in SCRIPT))
        return Agent(stage, colour, warm_parent, directory, f"agent-{kind}-{colour}-{number}")

    return made


def test_the_agent_survives_a_kill_at_every_place(new_agent: Callable[[], Agent]) -> None:
    whole = new_agent()
    code, first = whole.work()
    assert code == 8
    whole.approve()
    code, second = whole.work()
    assert code == 0
    assert second["said"] == "Eight are reserved."
    whole.check()
    assert whole.asked() == Counter("0123")
    legs = [[*numbered(leg["passages"])] for leg in (first, second)]
    for leg, (point, occurrence) in few(legs, whole.run_id):
        agent = new_agent()
        if leg == 1:
            agent.work()
            agent.approve()
        code, _ = agent.work(f"{point}:{occurrence}")
        assert code in {-9, 137}, f"{point}:{occurrence} was not reached"
        agent.to_its_end()
        agent.check(more=1 if point in ASKING else 0)


def few(legs: list[list[tuple[str, int]]], case: str) -> list[tuple[int, tuple[str, int]]]:
    """Each of them takes several processes."""
    chosen = [places[::EVERY] if EVERY else [places[crc32(case.encode()) % len(places)]] for places in legs]
    return [(leg, place) for leg, places in enumerate(chosen) for place in places]


def numbered(passages: list[str]) -> list[tuple[str, int]]:
    """Each passage with how often its place had been passed by then."""
    passed: Counter[str] = Counter()
    places = []
    for point in passages:
        passed[point] += 1
        places.append((point, passed[point]))
    return places


def test_changed_arguments_are_asked_for_again(new_agent: Callable[[], Agent]) -> None:
    """S28: an approval names the call that it approves, and approves no other."""
    agent = new_agent()
    assert agent.work()[0] == 8
    with Engine(agent.stage.url) as engine, pytest.raises(errors.SignalRefused):
        engine.signal(agent.run_id, "approval", {"approved": True}, by="shift lead", about=reserve(sku=SKU, units=7).fingerprint)
    assert agent.work()[0] == 8
    agent.approve()
    assert agent.work()[0] == 0
    agent.check()


def test_what_is_not_approved_is_not_done_and_the_model_hears_so(new_agent: Callable[[], Agent]) -> None:
    agent = new_agent()
    assert agent.work()[0] == 8
    agent.approve(approved=False, note="too many")
    assert agent.work()[0] == 0
    history = Engine(agent.stage.journal).history(agent.run_id)
    assert [entry.arguments["units"] for entry in history if isinstance(entry, Intent)] == [2]
