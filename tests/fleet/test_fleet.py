"""The judge of the fleet finds what it is there for; `make fleet` lets it judge real workers."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.fleet import Member
from tests.fleet.judging import behaved, counted, wanted

RUNS = 30


@pytest.fixture
def outside() -> dict[str, Any]:
    """What a service has done for a fleet that did everything right."""
    done, declined = wanted(RUNS)
    return {"done": dict(done), "declined": dict(declined), "mismatches": 0, "keys": {}}


def member(directory: Path, code: int, said: str = "", problem: str = "", *, killed: bool = False) -> Member:
    process = subprocess.Popen(["/bin/sh", "-c", f"exit {code}"])
    process.wait()
    one = Member("worker-1", process, directory / "out", directory / "err", killed=killed)
    one.said.write_text(said)
    one.complained.write_text(problem)
    return one


def test_what_was_done_once_is_right(outside: dict[str, Any]) -> None:
    assert list(counted(RUNS, outside)) == []


def test_each_effect_that_was_not_done_once_is_named(outside: dict[str, Any]) -> None:
    outside["done"]["order-4/ship"] = 2
    del outside["done"]["order-11/pack"]
    outside["done"]["order-3/charge"] = outside["declined"].pop("order-3/charge")
    outside["mismatches"] = 1
    assert list(counted(RUNS, outside)) == [
        "order-11/pack happened 0 times, and should have 1 times",
        "order-3/charge happened 1 times, and should have 0 times",
        "order-4/ship happened 2 times, and should have 1 times",
        "order-3/charge was declined 0 times, and should have 1 times",
        "1 requests were other ones than the first under their key",
    ]


@pytest.mark.parametrize(
    ("code", "said", "problem", "wrong"),
    [
        (0, '{"event": "ended"}\n', "", ""),
        (1, "", "", "ended with 1"),
        (0, "OperationalError: database is locked\n", "", "database is locked"),
        (0, "", "something\n", "wrote to standard error: something"),
        (0, '{"event": "en\n{}\n', "", "said what is no document"),
    ],
)
def test_what_a_worker_should_not_write_is_found(tmp_path: Path, code: int, said: str, problem: str, wrong: str) -> None:
    found = list(behaved([member(tmp_path, code, said, problem)]))
    assert (wrong in " ".join(found)) if wrong else (found == [])


def test_a_worker_that_was_killed_may_have_said_half_a_line(tmp_path: Path) -> None:
    assert list(behaved([member(tmp_path, 137, '{}\n{"event": "br', killed=True)])) == []
