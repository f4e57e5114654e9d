"""Judging in a loop against a small world that keeps its contract and does its worst within it.

Workers die between any two steps, copies are held back and doubled, replies are lost, stock comes and goes, wishes change, journals
are restored from backups. Whatever happens: at most one effect, and every settled outcome is true once all copies have landed.
Time is in single microseconds, so that every boundary is met often; ties at one microsecond are broken at random.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from recovery.core.contracts import Contract, Kind, Lookup, Replay
from recovery.core.entries import AnswerKind, OutcomeKind, Settled
from recovery.core.policy import Budget
from recovery.core.rows import Action
from tests.unit.core.making import STEP, Story

BASE = Contract(kind=Kind.KEYED, window_us=60, settle_window_us=7, clock_error_us=1)
CONTRACTS = {
    "keyed": BASE,
    "keyed, rejections forgotten": replace(BASE, replay_rejection=Replay.REEXECUTES),
    "keyed, short window": replace(BASE, window_us=12, replay_rejection=Replay.REEXECUTES),
    "keyed, can be asked": replace(BASE, window_us=30, lookup=Lookup(lag_us=3, retention_us=50)),
    "keyed, can be closed": replace(BASE, window_us=30, lookup=Lookup(), close=True),
    "keyed, can be closed and not asked": replace(BASE, window_us=30, close=True, replay_rejection=Replay.REEXECUTES),
    "receipts in the same transaction": replace(BASE, kind=Kind.COTRANSACTIONAL, window_us=None, lookup=Lookup(), close=True),
    "probeable": Contract(kind=Kind.PROBEABLE, settle_window_us=7, clock_error_us=1, lookup=Lookup()),
    "probeable, lagging": Contract(
        kind=Kind.PROBEABLE, settle_window_us=7, clock_error_us=1, lookup=Lookup(lag_us=4, retention_us=40), trust_settle=True
    ),
    "probeable, trusting": Contract(kind=Kind.PROBEABLE, settle_window_us=7, clock_error_us=1, lookup=Lookup(), trust_settle=True),
    "opaque": Contract(kind=Kind.OPAQUE, settle_window_us=7, clock_error_us=1),
}
TIMEOUT = 5


@dataclass
class World:
    """The environment: what has landed, and what is still on its way."""

    contract: Contract
    chance: random.Random
    now: int = 0
    under_way: list[tuple[int, int]] = field(default_factory=list)  # (lands at, copy number)
    results: dict[int, tuple[AnswerKind, int]] = field(
        default_factory=dict
    )  # of copies: what was answered, and the receipt's number
    executed: list[int] = field(default_factory=list)  # when
    record: tuple[int, AnswerKind, int] | None = None  # under the key: since when, what, which receipt
    stock_from: int = 0  # nothing is in stock before

    def pass_to(self, at: int) -> None:
        """Land everything due. What is due at this very microsecond may or may not have landed."""
        self.now = at
        for lands_at, copy in sorted(self.under_way):
            if lands_at < at or (lands_at == at and self.chance.random() < 0.5):
                self.under_way.remove((lands_at, copy))
                self.results[copy] = self._land(lands_at)

    def _land(self, at: int) -> tuple[AnswerKind, int]:
        known = self._known(at)
        if self.contract.keyed and known is not None:
            return known
        if at < self.stock_from:
            if self.contract.keyed and self.contract.replay_rejection is Replay.ORIGINAL:
                self.record = (at, AnswerKind.REFUSED, 0)
            return AnswerKind.REFUSED, 0
        self.executed.append(at)
        self.record = (at, AnswerKind.FOUND, len(self.executed))
        return AnswerKind.FOUND, len(self.executed)

    def _known(self, at: int) -> tuple[AnswerKind, int] | None:
        if self.record is None:
            return None
        since, kind, receipt = self.record
        window = self.contract.window_us
        forgotten = window is not None and at >= since + window and kind is not AnswerKind.CLOSED  # which is for ever
        return None if forgotten else (kind, receipt)

    def close(self, at: int) -> tuple[AnswerKind, int]:
        known = self._known(at)
        if known is not None:
            return known
        self.record = (at, AnswerKind.CLOSED, 0)
        return AnswerKind.CLOSED, 0

    def look(self) -> tuple[AnswerKind, int]:
        lookup = self.contract.lookup
        assert lookup is not None
        as_of = self.now - self.chance.randint(0, lookup.lag_us)
        for number, at in enumerate(self.executed, start=1):
            if at <= as_of and (lookup.retention_us is None or self.now < at + lookup.retention_us):
                return AnswerKind.FOUND, number
        known = self._known(self.now)
        return known if known is not None and known[0] is AnswerKind.CLOSED else (AnswerKind.ABSENT, 0)


@dataclass
class Run:
    """One intent and everything that befalls it."""

    contract: Contract
    chance: random.Random
    world: World = field(init=False)
    story: Story = field(default_factory=Story)
    settled: Settled | None = None
    restored: bool = False
    wanted: bool = True
    copies: int = 0
    rows: list[int] = field(default_factory=list)
    actual: Contract | None = None  # what the world keeps to, where that is not what the contract says

    def __post_init__(self) -> None:
        self.world = World(self.actual or self.contract, self.chance, stock_from=self.chance.choice([0, 0, 0, 9, 30]))
        self.story.entries[1] = replace(self.story.entries[1], timeout_us=TIMEOUT)

    def go(self) -> None:
        """Judge and act until it is settled or parked; at most as often as budgets and crashes allow."""
        backup = (len(self.story.entries), self.story.attempts)
        for _ in range(60):
            if self.chance.random() < 0.15:
                self.world.pass_to(self.world.now + self.chance.choice([1, 3, 10, 40]))
            if self.chance.random() < 0.03:
                self.wanted = False
            if self.chance.random() < 0.03 and not self.restored:
                del self.story.entries[backup[0] :]
                self.story.attempts, self.restored = backup[1], True
            elif self.chance.random() < 0.2:
                backup = (len(self.story.entries), self.story.attempts)
            judgement = self.story.conclude(
                self.world.now,
                self.contract,
                can_probe=self.contract.lookup is not None,
                can_close=self.contract.close,
                wanted=self.wanted,
                restored=self.restored,
                incarnation=int(self.restored),
                budget=Budget(attempts=4, probes=6, backoff=timedelta(microseconds=1), backoff_max=timedelta(microseconds=4)),
            )
            self.rows.append(judgement.row.number)
            if judgement.settlement is not None:
                self.settled = judgement.settlement
                return
            if judgement.action is Action.PARK:
                return
            self.act(judgement.action, judgement.next_look_us or 0)
        raise AssertionError(f"does not end: rows {self.rows}")

    def act(self, action: Action, next_look: int) -> None:
        if action is Action.WAIT:
            assert next_look > self.world.now
            self.world.pass_to(next_look)
        elif action is Action.ASK:
            self.ask()
        elif action is Action.CLOSE:
            self.close()
        else:
            assert action in {Action.SEND, Action.RESEND}
            self.send(action)

    def ask(self) -> None:
        asked = self.world.now
        kind, receipt = self.world.look()
        self.world.pass_to(asked + self.chance.randint(0, 3))
        if self.chance.random() < 0.2:
            return  # died with the answer in memory
        if self.chance.random() < 0.2:
            kind = AnswerKind.UNREACHABLE
        self.story.probe(self.world.now, kind, asked=asked, **self._told(kind, receipt))

    def close(self) -> None:
        self.story.attempt(self.world.now, "close", timeout=TIMEOUT)
        fate = self.chance.random()
        if fate < 0.2:
            return  # died before it left
        kind, receipt = self.world.close(self.world.now)
        if fate > 0.4:
            self.story.closed(self.world.now, kind, **self._told(kind, receipt))

    def send(self, action: Action) -> None:
        start = self.world.now
        self.story.attempt(start, action.value, timeout=TIMEOUT)
        fate = self.chance.random()
        if fate < 0.1:
            return  # died before it left
        if fate < 0.2:
            self.story.reply(start, "not_sent")
            return
        if fate < 0.3:
            self.story.reply(start, "turned_away")
            return
        last = start + TIMEOUT + self.contract.settle_window_us + self.contract.clock_error_us
        stretch = self.actual.settle_window_us if self.actual else 0
        first = self._copy(self.chance.choice([start, start + 2, last, self.chance.randint(start, last + stretch)]))
        remembered = self.contract.keyed and self.contract.replay_rejection is Replay.ORIGINAL
        if remembered and last - start < (self.contract.window_us or 0) and self.chance.random() < 0.2:
            self._copy(self.chance.randint(start, last))  # doubled on its way; where no key covers both copies, A5 rules it out
        self.world.pass_to(start + self.chance.randint(0, TIMEOUT))
        if fate < 0.5:
            return  # died before it heard
        if first in self.world.results and fate > 0.6:
            kind, receipt = self.world.results[first]
            self.story.reply(self.world.now, kind, asked=start, **self._told(kind, receipt))
        else:
            self.story.reply(self.world.now, "unreachable", asked=start)

    def _copy(self, lands_at: int) -> int:
        self.copies += 1
        self.world.under_way.append((lands_at, self.copies))
        return self.copies

    def _told(self, kind: AnswerKind, receipt: int) -> dict[str, Any]:
        told: dict[str, Any] = {"epoch": f"{int(self.restored)}.1"}
        if kind is AnswerKind.FOUND:
            told |= {"receipt": f"r{receipt}", "value": receipt}
        return told | ({"error": "OutOfStock"} if kind is AnswerKind.REFUSED else {})

    def harm(self) -> str:
        """What went wrong, once everything has landed; "" for nothing."""
        self.world.pass_to(self.world.now + 1000)
        times = len(self.world.executed)
        if times > 1:
            return "twice"
        if self.settled is None:
            return ""
        happened = self.settled.outcome in {OutcomeKind.APPLIED, OutcomeKind.APPLIED_WITHOUT_VALUE}
        return "" if happened == bool(times) else f"settled {self.settled.outcome} after {times} executions"


def live(contract: Contract, seed: int, actual: Contract | None = None) -> Run:
    run = Run(contract, random.Random(seed), actual=actual)
    run.go()
    return run


@pytest.mark.parametrize("name", CONTRACTS)
def test_at_most_one_effect_and_every_outcome_true(name: str) -> None:
    """I1, I2, I8. A contract that trusts the settle window is kept by this world too."""
    runs = {seed: live(CONTRACTS[name], seed) for seed in range(1000)}
    assert {seed: (run.harm(), run.rows) for seed, run in runs.items() if run.harm()} == {}
    outcomes = Counter(run.settled.outcome if run.settled else None for run in runs.values())
    assert outcomes[OutcomeKind.APPLIED] > 100
    assert outcomes[OutcomeKind.REJECTED] > 10


def test_the_loop_visits_the_rows_of_the_first_contracts() -> None:
    """Otherwise the world would be too kind to say anything."""
    visited = {row for contract in CONTRACTS.values() for seed in range(200) for row in live(contract, seed).rows}
    assert visited >= {8, 14, 15, 16, 20, 24, 25, 26, 27, 28, 29, 30, 31, 34, 35, 36, 37, 38, 39, 40, 42, 44}


@pytest.mark.parametrize(
    ("name", "lie"),
    [
        ("keyed", {"window_us": 20}),  # A1: the key is forgotten sooner than declared
        ("keyed", {"kind": Kind.PROBEABLE}),  # A1: the key is not looked at
        ("probeable, trusting", {"settle_window_us": 30}),  # A2: copies act later than declared
        ("probeable, trusting", {"lookup": Lookup(lag_us=20)}),  # A1: the look-up lags more than declared
        ("keyed, rejections forgotten", {"settle_window_us": 60}),  # A2
    ],
)
def test_a_world_that_breaks_its_contract_is_caught_harming(name: str, lie: dict[str, Any]) -> None:
    """The checks above can fail: each promise is conditional, and here the condition is taken away."""
    actual = replace(CONTRACTS[name], **lie)
    assert any(live(CONTRACTS[name], seed, actual).harm() for seed in range(3000))


def test_the_story_keeps_to_one_step() -> None:
    assert live(BASE, 1).story.step.step == STEP
