"""Random histories of calls, made on a database and on the journal in memory: every answer and every row must be the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from recovery.core.chain import Row, chained
from recovery.core.entries import Status
from recovery.core.ids import Epoch
from recovery.core.instants import LATEST_US
from recovery.core.resting import RestsFor
from recovery.ports import Append, Evidence, Hold, Journal, KeyClaim, Message, Owner, Payload, RunRow, Stub
from recovery.storage import open_journal
from recovery.storage.memory import MemoryJournal
from recovery.testing.pieces import joined
from tests.conformance.making import new_run, raise_incarnation

_numbers = count(1)

names = st.sampled_from(["a", "b", "c"])
keys = st.lists(
    st.builds(
        KeyClaim,
        environment=st.just("inventory"),
        scope=st.sampled_from(["one", "two"]),
        key=names,
        fingerprint=st.sampled_from(["print", "other"]),
        step=st.sampled_from(["reserve#1", "reserve#2"]),
    ),
    max_size=3,
).map(tuple)
statuses = st.sampled_from(list(Status))
ours = settings(max_examples=20, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck))


class Twins(RuleBasedStateMachine):
    """Both journals live through all histories; each history has runs and keys of its own."""

    model: MemoryJournal
    real: Journal

    @initialize()
    def begin(self) -> None:
        self.life = next(_numbers)
        self.run_ids: set[str] = set()
        self.seen: list[RunRow] = []  # every row that was ever shown, most of them out of date
        self.made: list[Append] = []

    def both(self, call: str, *arguments: Any, **named: Any) -> Any:
        expected = getattr(self.model, call)(*arguments, **named)
        assert getattr(self.real, call)(*arguments, **named) == expected
        return expected

    def show(self, row: RunRow | None) -> None:
        if row is not None:
            self.seen.append(row)

    @rule(name=names, status=statuses, by=names)
    def open(self, name: str, status: Status, by: str) -> None:
        run_id = f"{self.life}-{name}"
        self.run_ids.add(run_id)
        self.show(self.both("open_run", new_run(self.model, run_id, by=Owner(token=by), status=status)))

    @rule(name=names)
    def look(self, name: str) -> None:
        self.show(self.both("find", f"{self.life}-{name}"))

    @precondition(lambda self: self.seen)
    @rule(data=st.data(), by=names)
    def claim(self, data: st.DataObject, by: str) -> None:
        seen = data.draw(st.sampled_from(self.seen[-6:]))
        self.show(self.both("claim", seen, Owner(token=by, pid=7), lease_term_us=5, at_us=6))

    @precondition(lambda self: self.seen)
    @rule(data=st.data(), call=st.sampled_from(["renew", "release"]))
    def hold(self, data: st.DataObject, call: str) -> None:
        seen = data.draw(st.sampled_from(self.seen[-6:]))
        self.both(call, seen.run_id, seen.owner.token if seen.owner else "nobody", seen.epoch)

    @precondition(lambda self: self.seen)
    @rule(data=st.data(), size=st.integers(1, 4))
    def append(self, data: st.DataObject, size: int) -> None:
        batch = [self._member(data) for _ in range(size)]
        self.both("append", batch)
        self.made += batch
        for append in batch:
            self.show(self.model.find(append.run_id))

    def _member(self, data: st.DataObject) -> Append:
        if self.made and data.draw(st.integers(0, 4)) == 0:
            return data.draw(st.sampled_from(self.made[-6:]))  # a repeat
        seen = data.draw(st.sampled_from(self.seen[-6:]))
        token, previous, rows = f"t{next(_numbers)}", seen.head_digest, list[Row]()
        for seq in range(seen.head + 1, seen.head + 1 + data.draw(st.integers(1, 2))):
            rows.append(chained(previous, seq, "decision", f"s#{seq}", "{}", seen.epoch, token))
            previous = rows[-1].digest
        return Append(
            run_id=seen.run_id,
            owner=seen.owner.token if seen.owner else "nobody",
            epoch=seen.epoch,
            head=seen.head,
            rows=tuple(rows),
            status=data.draw(statuses),
            at_us=9,
            next_look_us=data.draw(st.none() | st.integers(0, LATEST_US)),
            reason=data.draw(st.sampled_from(["", "why"])),
            rests_for=data.draw(st.sampled_from(RestsFor)),
            keys=tuple(replace(claim, environment=f"env-{self.life}") for claim in data.draw(keys)),
            keeps_look=data.draw(st.booleans()),
            contracts=tuple((digest, "{}") for digest in data.draw(st.lists(names, max_size=2))),
            payloads=tuple(Payload(f"{self.life}-{name}", name.encode()) for name in data.draw(st.lists(names, max_size=2))),
        )

    @rule(name=names, body=st.sampled_from(["1", "2"]), at_us=st.integers(0, 3))
    def keep(self, name: str, body: str, at_us: int) -> None:
        run_id = f"{self.life}-{name}"
        self.both("add_evidence", Evidence(run_id, "s#1", Epoch(0, 1), at_us, "observation", body))
        self.both("evidence", run_id)

    @precondition(lambda self: self.seen)
    @rule(data=st.data(), by=names)
    def forget(self, data: st.DataObject, by: str) -> None:
        seen = data.draw(st.sampled_from(self.seen[-6:]))
        self.both("forget", seen, Stub(seen.run_id, "digest", by, "why", 3))
        self.both("stub", seen.run_id)
        self.show(self.model.find(seen.run_id))

    @rule(name=names, slot=st.sampled_from(["", "first", "second"]), token=st.integers(0, 5), at_us=st.integers(0, 3))
    def tell(self, name: str, slot: str, token: int, at_us: int) -> None:
        run_id = f"{self.life}-{name}"
        message = Message(run_id=run_id, kind="signal", name="go", slot=slot, body="{}", by="ann", at_us=at_us, token=f"t{token}")
        self.both("deliver", message)
        self.both("inbox", run_id, at_us)
        self.show(self.model.find(run_id))

    @rule(name=names, held=st.booleans(), repeat=st.integers(0, 3))
    def say(self, name: str, held: bool, repeat: int) -> None:
        token = f"{self.life}-{repeat}"
        self.both("add_hold", Hold(f"{self.life}-{name}", held, "ann", "why", 1, token))
        self.both("holds")

    @rule(wanted=st.none() | st.lists(statuses, max_size=4), limit=st.integers(1, 5), name=names)
    def list(self, wanted: Any, limit: int, name: str) -> None:
        self.both("runs", statuses=wanted, limit=limit, after=f"{self.life}-{name}")

    @rule(never=st.integers(0, 9))
    def restore(self, never: int) -> None:
        if never == 0:
            raise_incarnation(self.model)
            raise_incarnation(self.real)
        self.both("incarnation")

    @invariant()
    def hold_the_same(self) -> None:
        for run_id in sorted(self.run_ids):
            self.both("stream", run_id, joined)
        self.both("payloads", [f"{self.life}-{name}" for name in ("a", "b", "c")])
        for scope in ("one", "two"):
            for name in ("a", "b", "c"):
                self.both("key_owner", f"env-{self.life}", scope, name)


@pytest.fixture
def real(store_url: str) -> Iterator[Journal]:
    journal = open_journal(store_url)
    yield journal
    journal.close()


def test_a_database_and_the_model_answer_alike(real: Journal) -> None:
    model = MemoryJournal()
    model._namespace = real.namespace()  # or no digest would be the same
    machine = type("Twins", (Twins,), {"model": model, "real": real})
    run_state_machine_as_test(machine, settings=ours)
