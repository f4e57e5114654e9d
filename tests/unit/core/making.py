"""Short ways to write a step's history and the situation it is judged in. Times are microseconds; S, M and H are units."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from recovery.core.contracts import Contract, Keyed, Lookup, Opaque, Probeable
from recovery.core.entries import Answered, AnswerKind, Attempt, Intent, Observation, Opened, OutcomeKind, Settled, Source
from recovery.core.evidence import Situation, examine
from recovery.core.facts import Facts
from recovery.core.history import EffectStep, fold
from recovery.core.judgement import Judgement, conclude
from recovery.core.policy import Budget
from recovery.core.rows import Row

S = 1_000_000
M = 60 * S
H = 60 * M
STEP = "reserve#1"
TIMEOUT = 30 * S
ERROR = 2 * S
SETTLE = 20 * M

BUDGET = Budget(attempts=5, probes=20, backoff=timedelta(milliseconds=200), backoff_max=timedelta(seconds=30))

KEYED = Keyed(window=timedelta(hours=24))
PROBEABLE = Probeable()
OPAQUE = Opaque()
ASKABLE = Keyed(window=timedelta(hours=24), lookup=Lookup())
CLOSABLE = Keyed(window=timedelta(hours=24), lookup=Lookup(), close=True)
FORGETFUL = Keyed(window=timedelta(hours=24), remembers_rejections=False)


def quiet(send_until: int) -> int:
    """The last moment at which a copy may act, with the default settle window."""
    return send_until + SETTLE + ERROR


@dataclass
class Story:
    """A journal under construction, one entry per call, in order."""

    entries: list[Any] = field(default_factory=list)
    late: list[Observation] = field(default_factory=list)
    attempts: int = 0

    def __post_init__(self) -> None:
        self.entries.append(Opened(workflow="w", version="1", input=None, input_digest="d", at_us=0))
        self.entries.append(
            Intent(
                step=STEP,
                effect="reserve",
                environment="inventory",
                scope="s",
                key="reservation-1",
                fingerprint="ours",
                arguments={"sku": "FILTER-A", "units": 2},
                contract="c",
                timeout_us=TIMEOUT,
                at_us=0,
            )
        )

    def attempt(self, at: int, purpose: str = "send", timeout: int = TIMEOUT) -> Story:
        self.attempts += 1
        self.entries.append(
            Attempt(step=STEP, number=self.attempts, purpose=purpose, sent_at_us=at, send_until_us=at + timeout, epoch="0.1")
        )
        return self

    def reply(self, at: int, kind: str, attempt: int | None = None, asked: int | None = None, **answer: Any) -> Story:
        """A reply to the given attempt, else to the last one."""
        return self._observe(Source.REPLY, at, kind, attempt or self.attempts, asked, answer)

    def probe(self, at: int, kind: str, asked: int | None = None, **answer: Any) -> Story:
        return self._observe(Source.PROBE, at, kind, None, asked, answer)

    def probed_by_operator(self, at: int, kind: str, **answer: Any) -> Story:
        self.entries.append(replace(_observation(Source.PROBE, at, kind, None, None, answer), by_operator=True))
        return self

    def closed(self, at: int, kind: str = "closed", **answer: Any) -> Story:
        return self._observe(Source.CLOSE, at, kind, self.attempts, None, answer)

    def cancelled(self, at: int, kind: str, **answer: Any) -> Story:
        return self._observe(Source.CANCEL, at, kind, self.attempts, None, answer)

    def operator(self, at: int, kind: str, **answer: Any) -> Story:
        return self._observe(Source.OPERATOR, at, kind, None, None, answer)

    def late_reply(self, at: int, kind: str, attempt: int, **answer: Any) -> Story:
        self.late.append(_observation(Source.LATE, at, kind, attempt, None, answer))
        return self

    def verdict(self, judgement: Judgement) -> Story:
        self.entries.append(judgement.recorded())
        return self

    def settled(self, settlement: Settled | None = None, **values: Any) -> Story:
        made = settlement or Settled(step=STEP, outcome=OutcomeKind.APPLIED, at_us=0)
        self.entries.append(replace(made, **values))
        return self

    def _observe(self, source: Source, at: int, kind: str, attempt: int | None, asked: int | None, answer: dict[str, Any]) -> Story:
        self.entries.append(_observation(source, at, kind, attempt, asked, answer))
        return self

    @property
    def step(self) -> EffectStep:
        step = fold("run-1", self.entries, self.late).steps[STEP]
        assert isinstance(step, EffectStep)
        return step

    # -- asking ------------------------------------------------------------------------------------------------------

    def conclude(self, now: int, contract: Contract | tuple[Contract, ...] = KEYED, **situation: Any) -> Judgement:
        return conclude(self.step, situate(now, contract, **situation))

    def row(self, now: int, contract: Contract | tuple[Contract, ...] = KEYED, **situation: Any) -> int:
        return self.conclude(now, contract, **situation).row.number

    def facts(self, now: int, contract: Contract | tuple[Contract, ...] = KEYED, **situation: Any) -> Facts:
        return examine(self.step, situate(now, contract, **situation)).facts


def _observation(source: Source, at: int, kind: str, attempt: int | None, asked: int | None, answer: dict[str, Any]) -> Observation:
    epoch = answer.pop("epoch", "0.1")
    return Observation(
        step=STEP,
        source=source,
        asked_at_us=at if asked is None else asked,
        observed_at_us=at,
        answer=Answered(kind=AnswerKind(kind), **answer),
        attempt=attempt,
        epoch=epoch,
    )


def situate(now: int, contract: Contract | tuple[Contract, ...] = KEYED, **values: Any) -> Situation:
    contracts = contract if isinstance(contract, tuple) else (contract,)
    defaults: dict[str, Any] = {
        "budget": BUDGET,
        "can_probe": any(one.lookup is not None for one in contracts),
        "can_close": any(one.close for one in contracts),
    }
    return Situation(now_us=now, contracts=contracts, **(defaults | values))


def sent(at: int = 0) -> Story:
    """An attempt left, and nothing came back: killed between attempt and reply."""
    return Story().attempt(at)


def swapped(rows: tuple[Row, ...], first: int) -> tuple[Row, ...]:
    """The table with rows `first` and `first` + 1 exchanged."""
    changed = list(rows)
    changed[first - 1], changed[first] = changed[first], changed[first - 1]
    return tuple(changed)
