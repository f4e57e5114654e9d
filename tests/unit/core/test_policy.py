"""Policies are refused where they are stated, in words: a number of seconds is the first thing that is typed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from recovery import Budget, Engine, Lease, Riding
from recovery.core.errors import DefinitionError

DURATIONS = {
    Budget: ("max_wait", "max_answer_wait", "backoff", "backoff_max"),
    Lease: ("term", "renew_every"),
    Riding: ("limit", "horizon"),
}


@pytest.mark.parametrize(("policy", "field"), [(policy, field) for policy, fields in DURATIONS.items() for field in fields])
def test_a_number_is_no_duration(policy: Any, field: str) -> None:
    with pytest.raises(DefinitionError, match=rf"{field}'?: it is a int, not a timedelta.*timedelta\(seconds=30\)"):
        policy(**{field: 20})


def test_a_call_may_wait_as_long_as_it_takes() -> None:
    assert Budget(max_wait=None).max_wait is None


@pytest.mark.parametrize("said", [True, False, timedelta(hours=1)])
def test_an_engine_says_what_riding_it_takes(said: Any) -> None:
    with pytest.raises(DefinitionError, match=r"riding.*or None to be strict"):
        Engine("memory://", riding=said)
