"""Policies are refused where they are stated, in words: a number of seconds is the first thing that is typed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from recovery import Budget, Call, Engine, Lease, Retry, Riding, Run, contracts, effect, workflow
from recovery.core.entries import Status
from recovery.core.errors import DefinitionError

DURATIONS = {
    Budget: ("max_wait", "max_answer_wait", "backoff", "backoff_max"),
    Lease: ("term", "renew_every"),
    Riding: ("limit", "horizon"),
    Retry: ("within",),
}


@pytest.mark.parametrize(("policy", "field"), [(policy, field) for policy, fields in DURATIONS.items() for field in fields])
def test_a_number_is_no_duration(policy: Any, field: str) -> None:
    with pytest.raises(DefinitionError, match=rf"{field}'?: it is an int, not a timedelta.*timedelta\(seconds=30\)"):
        policy(**{field: 20})


def test_a_call_may_wait_as_long_as_it_takes() -> None:
    assert Budget(max_wait=None).max_wait is None


@pytest.mark.parametrize("said", [True, False, timedelta(hours=1)])
def test_an_engine_says_what_riding_it_takes(said: Any) -> None:
    with pytest.raises(DefinitionError, match=r"riding.*or None to be strict"):
        Engine("memory://", riding=said)


def test_an_engine_waits_for_an_owner_as_long_as_a_duration_says() -> None:
    with pytest.raises(DefinitionError, match="wait_for_owner"):
        Engine("memory://", wait_for_owner=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"timeout": 10}, "timeout is an int"),
        ({"heartbeat": 10}, "heartbeat is an int"),
        ({"riding": Riding()}, "riding is a Riding"),
    ],
)
def test_an_effect_is_refused_where_it_is_defined(given: dict[str, Any], said: str) -> None:
    def post(call: Call) -> None: ...

    with pytest.raises(DefinitionError, match=said):
        effect(contracts.Opaque(), **given)(post)


@pytest.mark.parametrize("call", ["sleep", "sleep_until", "deadline", "timeout", "receive", "valid_for"])
def test_a_number_of_seconds_in_a_workflow_leaves_its_run_open(call: str) -> None:
    @effect(contracts.Opaque())
    def post(call: Call) -> None: ...

    @workflow
    def mistaken(run: Run) -> None:
        seconds: Any = 5
        match call:
            case "timeout":
                run.wait_for("answer", schema=str, timeout=seconds)
            case "valid_for":
                run.wait_for("answer", schema=str, about=post(), valid_for=seconds)
            case "receive":
                run.receive("answer", schema=str, timeout=seconds)
            case _:
                getattr(run, call)(seconds)

    with Engine("memory://", workflows=[mistaken]) as engine:
        with pytest.raises(DefinitionError):
            engine.run("r", mistaken)
        assert engine.get("r").status is Status.RUNNING
