"""Consequences: what a contract means after a crash, worked out by the verdict table itself.

Owns the situations that are worth telling. Decides nothing: each is a small journal, judged by `conclude` as any other. Invariant: what is told
here is what recovery does, because it is the same function that says it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from recovery.core.contracts import Contract, Kind
from recovery.core.entries import Answered, AnswerKind, Attempt, Intent, Observation, Opened, Source
from recovery.core.evidence import Situation
from recovery.core.history import EffectStep, fold
from recovery.core.judgement import Judgement, conclude
from recovery.core.policy import Budget
from recovery.core.rows import Action, Row

_SECOND: Final = 1_000_000
_MINUTE: Final = 60 * _SECOND
TIMEOUT_US: Final = 30 * _SECOND
"""How long one attempt is taken to last."""

_STEP: Final = "effect#1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequence:
    """When: a situation after a crash. Then the row whose verdict it gets; `next_look_us` counts from the first attempt."""

    when: str
    row: Row
    assumptions: tuple[str, ...]
    next_look_us: int | None

    @property
    def action(self) -> Action:
        return self.row.action


@dataclass
class _Story:
    """A journal under construction: one intent, first sent at time 0."""

    contract: Contract
    entries: list[Any] = field(default_factory=list)
    attempts: int = 0

    def __post_init__(self) -> None:
        opened = Opened(workflow="w", version="1", input=None, input_digest="", at_us=0)
        intent = Intent(
            step=_STEP, effect="effect", environment="environment", scope="", key="key", fingerprint="f", arguments={},
            contract=self.contract.digest, timeout_us=TIMEOUT_US, at_us=0,
        )  # fmt: skip
        self.entries += [opened, intent]

    def attempt(self, at_us: int = 0) -> _Story:
        self.attempts += 1
        purpose = "send" if self.attempts == 1 else "resend"
        until_us = at_us + TIMEOUT_US
        self.entries.append(
            Attempt(step=_STEP, number=self.attempts, purpose=purpose, sent_at_us=at_us, send_until_us=until_us, epoch="0.1")
        )
        return self

    def told(self, at_us: int, kind: AnswerKind, *, probe: bool = False) -> _Story:
        self.entries.append(
            Observation(
                step=_STEP,
                source=Source.PROBE if probe else Source.REPLY,
                asked_at_us=at_us,
                observed_at_us=at_us,
                answer=Answered(kind=kind, error="Rejection" if kind is AnswerKind.REFUSED else ""),
                attempt=None if probe else self.attempts,
            )
        )
        return self

    def judged(self, now_us: int, *, wanted: bool = True) -> Judgement:
        step = fold("run", self.entries).steps[_STEP]
        assert isinstance(step, EffectStep)
        situation = Situation(
            now_us=now_us,
            contracts=(self.contract,),
            budget=Budget(),
            can_probe=self.contract.lookup is not None,
            can_close=self.contract.close,
            can_cancel=self.contract.cancel_by_key,
            wanted=wanted,
        )
        return conclude(step, situation)


def consequences(contract: Contract) -> list[Consequence]:
    """What follows from a contract in the situations that a worker's death leaves behind."""
    return [
        Consequence(when=when, row=judged.row, assumptions=judged.assumptions, next_look_us=judged.next_look_us)
        for when, judged in _situations(contract)
    ]


def resend_until_us(contract: Contract) -> int | None:
    """For how long after the first attempt a re-send may start; None: never."""
    judged = _Story(contract).attempt().judged(_SECOND)
    return None if judged.action is not Action.RESEND else judged.timing.not_after_us


def _situations(contract: Contract) -> Iterator[tuple[str, Judgement]]:
    yield "Nothing has left yet.", _Story(contract).judged(0)
    yield "The request may have left, and a minute has passed.", _sent(contract).judged(_MINUTE)
    if contract.window_us is not None:
        yield "The request may have left, and the window is over.", _sent(contract).judged(contract.window_us)
    elif contract.kind not in {Kind.READ, Kind.OPAQUE}:
        yield "The request may have left, and a week has passed.", _sent(contract).judged(7 * 24 * 60 * _MINUTE)
    quiet_us = _sent(contract).judged(_MINUTE).timing.quiet_at_us
    if contract.lookup is not None and quiet_us is not None:
        late_us = quiet_us + contract.lookup.lag_us + 1
        absent = AnswerKind.ABSENT
        yield "It was asked at once, and nothing was there.", _sent(contract).told(_MINUTE, absent, probe=True).judged(_MINUTE)
        yield (
            "It was asked when no copy could act any more, and nothing was there.",
            _sent(contract).told(late_us, absent, probe=True).judged(late_us),
        )
    twice = _sent(contract).attempt(_SECOND).told(2 * _SECOND, AnswerKind.REFUSED)
    if contract.kind is not Kind.SWALLOW and resend_until_us(contract) is not None:
        yield (
            "A copy was refused with a declared rejection, and the first request may still be under way.",
            twice.judged(2 * _SECOND),
        )
    yield "It is no longer wanted, and the request may have left.", _sent(contract).judged(_MINUTE, wanted=False)


def _sent(contract: Contract) -> _Story:
    return _Story(contract).attempt()
