"""A long journal is judged in as many passes over its evidence as a short one: a lock of 45 minutes makes about ninety attempts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from recovery.core.contracts import Enforced, Keyed, Lookup, Probeable, Replay
from recovery.core.judgement import conclude
from tests.unit.core.making import M, S, Story, sent, situate

DAYS = timedelta(days=30)


class Counted(list[Any]):
    """A list that counts how many of its items were looked at."""

    looked = 0

    def __iter__(self) -> Iterator[Any]:
        for item in super().__iter__():
            Counted.looked += 1
            yield item


def locked(copies: int) -> tuple[Story, Any]:
    story = sent()
    for number in range(1, copies):
        story.reply(number * M - S, "in_flight").attempt(number * M, "resend")
    return story, Keyed(window=DAYS, settle_window=timedelta(days=2))


def absent(copies: int) -> tuple[Story, Any]:
    story = sent()
    for number in range(1, copies):
        story.attempt(number * M, "resend").probe(number * M + S, "absent", raised="0.1")
    return story, Probeable(enforced=Enforced.EPOCH)


def found(copies: int) -> tuple[Story, Any]:
    story = sent()
    for number in range(1, copies):
        story.attempt(number * M, "resend").reply(number * M + S, "found", value={"id": 1, "state": number})
    return story, Keyed(window=DAYS, replay=Replay.CURRENT, stable_fields=("id",))


def asked(copies: int) -> tuple[Story, Any]:
    story = sent()
    for number in range(1, copies):
        story.probe(number * M, "in_flight")
    return story, Probeable(lookup=Lookup())


@pytest.mark.parametrize("shape", [locked, absent, found, asked])
def test_the_work_of_one_judgement_grows_with_the_evidence_and_not_with_its_square(
    shape: Callable[[int], tuple[Story, Any]],
) -> None:
    looked = {}
    for copies in (40, 160):
        story, contract = shape(copies)
        step = story.step
        step = replace(step, attempts=Counted(step.attempts), observations=Counted(step.observations))
        Counted.looked = 0
        conclude(step, situate(copies * M, contract))
        looked[copies] = Counted.looked
    assert 0 < looked[160] <= 4 * looked[40] + 200
