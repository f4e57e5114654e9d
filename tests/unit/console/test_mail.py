"""What is said to a run and by it, as lines of its timeline."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest

from recovery.console.paper import Paper, plain
from recovery.console.talking import signalled
from recovery.console.timeline import lines
from recovery.core.entries import ANSWER, LAPSED, PUBLISHED, UNFIT, WAIT, Decision
from recovery.operators.signalling import Signalled

T0 = 1_764_442_983_000_000
"""2025-11-29 19:03:03 UTC"""

ABOUT = {"effect": "buy", "arguments": {"units": 2}}

TOLD = {
    "a wait for anybody": (
        WAIT,
        "approval#1",
        {"name": "approval", "queue": False, "until_us": None, "type": "bool"},
        ("waits", "approval#1", "for the answer to approval", ()),
    ),
    "a wait about a call": (
        WAIT,
        "approval#1",
        {"name": "approval", "queue": False, "until_us": T0, "type": "bool", "by": ["ann", "bob"], "about": ABOUT},
        (
            "waits",
            "approval#1",
            "for the answer to approval, by ann, bob, until 2025-11-29 19:03:03.000 UTC",
            ('about buy {"units": 2}, fingerprint 0123456789ab',),
        ),
    ),
    "a wait in line": (
        WAIT,
        "chat#1",
        {"name": "chat", "queue": True, "until_us": None, "type": "str"},
        ("waits", "chat#1", "for the next message of chat", ()),
    ),
    "an answer": (
        ANSWER,
        "approval#1/answer#1",
        {"number": 1, "by": "ann", "at_us": T0, "value": True, "stands_until_us": T0},
        (
            "answered",
            "approval#1",
            "true, said by ann at 2025-11-29 19:03:03.000 UTC",
            ("the approved call may be sent until 2025-11-29 19:03:03.000 UTC",),
        ),
    ),
    "an answer that does not fit, from somebody who plays tricks": (
        UNFIT,
        "approval#1/unfit#1",
        {"number": 1, "by": "a\x1b[2J", "at_us": T0, "problem": "it is no bool"},
        ("unfit", "approval#1", "what a\\x1b[2J said answers nothing", ("it is no bool",)),
    ),
    "nobody": (
        LAPSED,
        "approval#1/answer#1",
        T0,
        ("lapsed", "approval#1", "nobody answered before 2025-11-29T19:03:03.000000Z", ()),
    ),
    "a publication": (PUBLISHED, "published#1", {"name": "stage", "value": [1]}, ("published", "", "stage is [1]", ())),
}


@pytest.mark.parametrize("case", TOLD)
def test_it_is_told(case: str) -> None:
    form, step, value, told = TOLD[case]
    entry = Decision(step=step, fingerprint="0123456789abcdef", value=value, form=form, at_us=T0)
    [line] = lines([(1, "0.1", entry)], {})
    assert (line.what, line.step, line.text, line.details) == told


def test_an_answer_that_nothing_waits_for_brings_no_run_on() -> None:
    """A run in doubt needs a person's resolution first: to recover it would come to the same doubt."""
    told = Signalled(
        run_id="r1", name="approval", step="approval#1", value=True, by="ann", at_us=T0, number=1, waited_for=True, repeated=False
    )
    assert "The run goes on with `recover --run-id r1`" in plain(signalled(Paper(StringIO()), told, ()))
    early = plain(signalled(Paper(StringIO()), replace(told, waited_for=False), ()))
    assert "It now waits for: nothing." in early
    assert "What it needs to go on: `recover show r1`." in early
    assert "goes on with" not in early
