"""Reading what is recorded: which entry a value that no longer fits stands in, and whether a recorded request means the present one.

Owns those two. Does no I/O. Invariant: a recorded request is taken for the present one only if the effect itself, reading the recorded arguments as its
models are today, would ask for the very same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from recovery.core.errors import ValueUnreadable
from recovery.core.history import DecisionStep, EffectStep
from recovery.core.machine import Machine
from recovery.definitions.bound import Bound


@contextmanager
def reading(machine: Machine, step: str) -> Iterator[None]:
    """A value of this step is decoded: what is raised about it names the entry."""
    try:
        yield
    except ValueUnreadable as error:
        raise read_in(machine, step, error) from error


def read_in(machine: Machine, step: str, error: ValueUnreadable) -> ValueUnreadable:
    """The same, naming the entry of this step."""
    return error.in_entry(machine.history.run_id, _entry(machine, step), step)


def _entry(machine: Machine, step: str) -> int:
    recorded = machine.history.steps.get(step)
    if isinstance(recorded, DecisionStep):
        return recorded.seq
    return recorded.settled_seq or recorded.seq if isinstance(recorded, EffectStep) else 0


def fingerprint_of(machine: Machine, step: str, bound: Bound[Any]) -> str:
    """The call's own fingerprint; the recorded one where that is of the same arguments in an older version of their models."""
    recorded = machine.history.steps.get(step)
    if not isinstance(recorded, EffectStep) or recorded.intent.fingerprint == bound.fingerprint:
        return bound.fingerprint
    effect = bound.effect
    if recorded.intent.effect != effect.name or not any(codec.models.any for codec in effect.signature.parameters.values()):
        return bound.fingerprint
    with reading(machine, step):
        arguments = effect.signature.decode(recorded.intent.arguments)
    again = effect.bind(effect.signature.encode((), arguments))
    return recorded.intent.fingerprint if again.fingerprint == bound.fingerprint else bound.fingerprint
