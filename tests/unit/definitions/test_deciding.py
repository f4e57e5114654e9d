"""A decision's arguments are compared between processes, so their fingerprint must not depend on one."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from recovery.definitions.deciding import Deciding

SCRIPT = """
from recovery.definitions.deciding import Deciding
print(Deciding("d", print, ({"a", "b", "c"}, {"k": [{"x", "y", "z"}]}), {}).fingerprint)
print(Deciding("d", print, (["a"], {"k": 1}), {"n": 2}).fingerprint)
"""


def fingerprints(hash_seed: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return done.stdout.split("\n")[:2]


def test_a_fingerprint_is_the_same_in_every_process() -> None:
    first, *others = [fingerprints(seed) for seed in ("1", "2", "3")]
    assert others == [first, first]
    assert len(first[1]) == 64


@pytest.mark.parametrize("argument", [object(), {"a"}, [{1}], float("nan"), 2**60, print], ids=list("abcdef"))
def test_what_has_no_lasting_form_is_compared_by_its_type_and_the_rest_by_value(argument: Any) -> None:
    """A client beside a prompt must not hide that the prompt is another one."""
    assert Deciding("d", print, (argument,), {}).fingerprint == Deciding("d", print, (argument,), {}).fingerprint != ""
    assert Deciding("d", print, (argument, "v1"), {}).fingerprint != Deciding("d", print, (argument, "v2"), {}).fingerprint
    assert Deciding("d", print, (argument,), {}).fingerprint != Deciding("d", print, (b"",), {}).fingerprint


def test_arguments_are_told_apart() -> None:
    assert Deciding("d", print, (1,), {}).fingerprint != Deciding("d", print, (2,), {}).fingerprint
    assert Deciding("d", print, (), {"a": 1}).fingerprint != Deciding("d", print, (1,), {}).fingerprint
