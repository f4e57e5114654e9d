"""The register of keys against a dict: any sequence of questions, with commits and rollbacks, gets the answers that the model gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from recovery import receipts
from recovery.core.ids import Epoch
from recovery.receipts import Absent, Kind, Receipt, Receipts

METADATA = sa.MetaData()
RECEIPT = receipts.table(METADATA)
EFFECT = sa.Table("effect", METADATA, sa.Column("id", sa.Integer, primary_key=True), sa.Column("key", sa.String(50)))

KEYS = st.sampled_from(["a", "b", "c"])
FINGERPRINTS = st.sampled_from(["f1", "f2"])
EPOCHS = st.none() | st.integers(1, 4)
ENDINGS = st.sampled_from(["applied", "rejected", "broken"])
WINDOW_US = 100


class Rejection(Exception):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Broken(Exception):
    pass


@dataclass(frozen=True)
class Row:
    """What the model knows about a key."""

    kind: str = "absent"
    fingerprint: str = ""
    value: Any = None
    epoch: int = 0
    at_us: int = 0
    pruned: bool = False

    @property
    def decided(self) -> bool:
        return self.kind != "absent"

    def told(self) -> tuple[Any, ...]:
        """How a decided key answers a look-up."""
        return (self.kind, self.fingerprint, None if self.pruned else self.value, self.at_us, self.pruned)


def told(receipt: Receipt | Absent) -> tuple[Any, ...]:
    assert isinstance(receipt, Receipt)
    return (str(receipt.kind), receipt.fingerprint, receipt.value, receipt.at_us, receipt.pruned)


class RegisterAgainstDict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.engine = sa.create_engine("sqlite://")
        METADATA.create_all(self.engine)
        self.connection = self.engine.connect()
        self.now_us = 1_000
        self.number = 0
        self.register = Receipts(RECEIPT, window=timedelta(microseconds=WINDOW_US), clock_us=lambda: self.now_us)
        self.rows: dict[str, Row] = {}
        self.effects: dict[str, int] = {}
        self.committed = (dict(self.rows), dict(self.effects))

    def teardown(self) -> None:
        self.connection.close()
        self.engine.dispose()

    # -- the model -----------------------------------------------------------------------------------------------------

    def refusal(self, row: Row, fingerprint: str, epoch: int | None) -> type[Exception] | None:
        """What refuses a call that might decide the key."""
        if row.decided:
            return receipts.KeyMismatch if fingerprint and row.fingerprint and fingerprint != row.fingerprint else None
        return receipts.Superseded if row.epoch and (epoch is None or epoch < row.epoch) else None

    def expect_once(self, key: str, fingerprint: str, ending: str, epoch: int | None, not_after_us: int | None) -> Any:
        row = self.rows.get(key, Row())
        if row.kind == "closed":
            return receipts.Closed
        if row.decided:
            return self.refusal(row, fingerprint, epoch) or (receipts.Expired if row.pruned else row.told())
        if not_after_us is not None and self.now_us > not_after_us:
            return receipts.TooLate
        if refused := self.refusal(row, fingerprint, epoch):
            return refused
        if ending == "broken":
            return Broken
        value: Any = {"number": self.number}
        self.rows[key] = Row(ending, fingerprint, value, epoch or 0, self.now_us)
        if ending == "applied":
            self.effects[key] = self.effects.get(key, 0) + 1
        return self.rows[key].told()

    # -- the rules -----------------------------------------------------------------------------------------------------

    @rule(key=KEYS, fingerprint=FINGERPRINTS, ending=ENDINGS, epoch=EPOCHS, slack=st.none() | st.integers(-1, 1))
    def once(self, key: str, fingerprint: str, ending: str, epoch: int | None, slack: int | None) -> None:
        self.number += 1
        not_after_us = None if slack is None else self.now_us + slack
        expected = self.expect_once(key, fingerprint, ending, epoch, not_after_us)

        def work() -> Any:
            self.connection.execute(sa.insert(EFFECT).values(key=key))
            if ending == "broken":
                raise Broken
            if ending == "rejected":
                raise Rejection(self.number)
            return {"number": self.number}

        try:
            got: Any = told(
                self.register.once(
                    self.connection,
                    key=key,
                    fingerprint=fingerprint,
                    work=work,
                    rejects=(Rejection,),
                    not_after_us=not_after_us,
                    epoch=Epoch(0, epoch) if epoch else None,
                )
            )
        except (Broken, receipts.ReceiptRefusal) as refused:
            got = type(refused)
        assert got == expected

    @rule(key=KEYS, fingerprint=st.just("") | FINGERPRINTS, epoch=EPOCHS)
    def look_up(self, key: str, fingerprint: str, epoch: int | None) -> None:
        row = self.rows.get(key, Row())
        # Reading without an epoch is free; reading with one raises it, and so must not be lower.
        expected: Any = self.refusal(row, fingerprint, epoch) if row.decided or epoch else None
        if expected is None and not row.decided and epoch:
            self.rows[key] = replace(row, epoch=epoch)
        found = self.answer(self.register.look_up, key, fingerprint, epoch)
        if expected is not None:
            assert found is expected
        elif row.decided:
            assert told(found) == row.told()
        else:
            assert found == Absent(scope="", key=key, as_of_us=self.now_us)

    @rule(key=KEYS, fingerprint=st.just("") | FINGERPRINTS, epoch=EPOCHS)
    def close(self, key: str, fingerprint: str, epoch: int | None) -> None:
        row = self.rows.get(key, Row())
        expected = self.refusal(row, fingerprint, epoch)
        if expected is None and not row.decided:
            self.rows[key] = Row("closed", fingerprint, None, epoch or 0, self.now_us)
        found = self.answer(self.register.close, key, fingerprint, epoch)
        if expected is not None:
            assert found is expected
        else:
            assert told(found) == self.rows[key].told()
            assert found.replayed is row.decided

    def answer(self, ask: Callable[..., Any], key: str, fingerprint: str, epoch: int | None) -> Any:
        """What is answered, or the class of the refusal."""
        try:
            return ask(self.connection, key=key, fingerprint=fingerprint, epoch=Epoch(0, epoch) if epoch else None)
        except receipts.ReceiptRefusal as refused:
            return type(refused)

    @rule(forward=st.integers(1, WINDOW_US + 1))
    def time_passes(self, forward: int) -> None:
        self.now_us += forward

    @rule()
    def prune(self) -> None:
        old = {
            key
            for key, row in self.rows.items()
            if row.kind in {"applied", "rejected"} and not row.pruned and row.at_us < self.now_us - WINDOW_US
        }
        for key in old:
            self.rows[key] = replace(self.rows[key], pruned=True)
        assert self.register.prune(self.connection) == len(old)

    @rule()
    def commit(self) -> None:
        self.connection.commit()
        self.committed = (dict(self.rows), dict(self.effects))

    @rule()
    def roll_back(self) -> None:
        self.connection.rollback()
        self.rows, self.effects = dict(self.committed[0]), dict(self.committed[1])

    @invariant()
    def effects_are_those_of_applied_keys_and_no_row_is_half_written(self) -> None:
        counted = sa.select(EFFECT.c.key, sa.func.count()).group_by(EFFECT.c.key)
        assert dict(self.connection.execute(counted).all()) == self.effects
        assert max(self.effects.values(), default=1) == 1
        stored = set(self.connection.execute(sa.select(RECEIPT.c.kind)).scalars())
        assert Kind.OPEN not in stored


RegisterAgainstDict.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestRegisterAgainstDict = RegisterAgainstDict.TestCase
