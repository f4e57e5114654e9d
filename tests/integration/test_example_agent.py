"""The agent of the examples, told that a call which it wanted is proven not executed: the model hears so, and the run goes on."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest

from recovery import AsyncEngine, Engine, errors
from recovery.examples import agent
from recovery.testing import ManualClock

SCRIPT = [{"calls": [{"name": "reserve", "arguments": {"sku": "FILTER-A", "units": 6}}]}, {"text": "Nothing is reserved."}]
YES = {"approved": True}


@pytest.fixture(autouse=True)
def _script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "script.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in SCRIPT))
    monkeypatch.setenv("AGENT_SCRIPT", str(tmp_path / "script.jsonl"))


def test_an_approval_that_lapses_before_the_call_does_not_end_the_run() -> None:
    clock = ManualClock()
    with Engine("memory://", workflows=[agent.agent], clock=clock) as engine:
        with pytest.raises(errors.AnswerPending):
            engine.run("r", agent.agent, "filters")
        [wait] = engine.waits("r")
        engine.signal("r", wait.step, YES, by="shift lead", about=wait.about)
        clock.advance(timedelta(hours=2))
        assert engine.recover("r").result() == "Nothing is reserved."


def test_the_same_awaited() -> None:
    async def story() -> None:
        clock = ManualClock()
        async with AsyncEngine("memory://", workflows=[agent.agent_async], clock=clock) as engine:
            with pytest.raises(errors.AnswerPending):
                await engine.run("r", agent.agent_async, "filters")
            [wait] = await engine.waits("r")
            await engine.signal("r", wait.step, YES, by="shift lead", about=wait.about)
            clock.advance(timedelta(hours=2))
            assert (await engine.recover("r")).result() == "Nothing is reserved."

    asyncio.run(story())
