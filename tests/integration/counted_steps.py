"""A workflow of as many steps as one likes, and what of them was sent: `sent` is emptied by whoever looks at it."""

from __future__ import annotations

from datetime import timedelta

from recovery import Call, Environment, Run, contracts, effect, workflow

sent: list[int] = []


@effect(contracts.Keyed(window=timedelta(days=1)), environment=Environment("counted"))
def step(call: Call, *, number: int) -> int:
    sent.append(number)
    return number


@workflow
def many(run: Run, steps: int) -> int:
    return sum(run.perform(step(number=number)) for number in range(steps))
