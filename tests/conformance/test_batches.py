"""Large batches of members of every sort: what comes of each is the same on every store, whoever else is in its batch."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from recovery.core.entries import Status
from recovery.ports import Append, Journal, Payload, RunRow
from recovery.storage.memory import MemoryJournal
from recovery.testing.pieces import in_one_piece
from tests.conformance.making import claim_of, member, opened, owner, row_after

RUNS = 70
LARGE = Payload("a" * 64, b"alpha \x00\xff")
CONTRACTS = tuple((digit * 64, f'{{"contract":{digit}}}') for digit in "123")


def rows_of(run: RunRow, many: int) -> list[Any]:
    rows: list[Any] = []
    for number in range(many):
        after = replace(run, head=run.head + number, head_digest=rows[-1].digest if rows else run.head_digest)
        rows.append(row_after(after, step=f"plan#{number}", body='{"a":"π"}', token=f"token of {run.run_id} at {run.head}"))
    return rows


def drawn(random: Random, run: RunRow, sorts: tuple[str, ...]) -> Append:
    """A member of one of these sorts."""
    sort = random.choice(sorts)
    contracts = tuple(random.sample(CONTRACTS, random.choice((0, 0, 1, 2))))
    keys = tuple(claim_of(f"{run.run_id} {number}", step=f"plan#{number}") for number in range(random.choice((0, 1, 1, 2))))
    plain = member(run, *rows_of(run, random.randint(1, 3)), keys=keys, contracts=contracts)
    return {
        "at work": plain,
        "waits": replace(plain, status=Status.WAITING, next_look_us=random.randint(1, 9)),
        "held": replace(plain, status=Status.HELD, reason="paused"),
        "keeps its look": replace(plain, status=Status.WAITING, keeps_look=True, next_look_us=5),
        "ends": replace(plain, status=Status.COMPLETED),
        "is large": replace(plain, payloads=(LARGE,)),
        "is fenced": replace(plain, owner="somebody else"),
        "has moved": member(replace(run, head=run.head + 1)),
        "wants a key of another": replace(plain, keys=(*keys, claim_of("contended", step=run.run_id))),
        "is not there": replace(plain, run_id=f"{run.run_id}-never"),
    }[sort]


def what_came_of(journal: Journal, sorts: tuple[str, ...], seed: int) -> list[Any]:
    random = Random(seed)
    runs = [opened(journal, f"run-{number}", by=owner()) for number in range(RUNS)]
    told: list[Any] = []
    for _ in range(2):
        batch = [drawn(random, run, sorts) for run in runs]
        told.append([type(result).__name__ for result in journal.append(batch)])
        found = [in_one_piece(journal, run.run_id) for run in runs]
        runs = [there[0] for there in found if there is not None]
        for there in found:
            assert there is not None
            row, rows, contracts = there
            assert (row.head, row.head_digest) == (rows[-1].seq, rows[-1].digest)
            told.append((row.run_id, row.status, row.reason, row.next_look_us, row.updated_at_us, sorted(contracts.items())))
            told += [(each.seq, each.step, each.body) for each in rows]
        names = [f"run-{number} {which}" for number in range(RUNS) for which in range(2)]
        told.append([journal.key_owner("inventory", "warehouse-1", name) for name in (*names, "contended")])
        told.append(journal.payloads([LARGE.digest]))
    return told


REFUSED = ("is fenced", "has moved", "wants a key of another", "is not there")
WRITTEN = ("at work", "at work", "at work", "waits", "held", "keeps its look", "ends")


@pytest.mark.parametrize(
    "sorts",
    [WRITTEN, (*WRITTEN, "is large"), (*WRITTEN, *REFUSED, "is large")],
    ids=["all are written", "some are large", "all sorts"],
)
def test_a_batch_comes_to_the_same_on_every_store(journal: Journal, sorts: tuple[str, ...]) -> None:
    assert what_came_of(journal, sorts, seed=1) == what_came_of(MemoryJournal(), sorts, seed=1)


def test_of_two_members_that_want_one_key_the_first_has_it_whatever_either_brings(journal: Journal) -> None:
    """What brings more than rows and keys is written behind the others, but for this."""
    one, other = opened(journal, "one"), opened(journal, "other")
    wants = claim_of("contended")
    large = replace(member(one, row_after(one), keys=(wants,)), payloads=(LARGE,))
    results = journal.append([large, member(other, row_after(other), keys=(wants,))])
    assert [type(result).__name__ for result in results] == ["Appended", "KeyTaken"]
    owner_of = journal.key_owner(wants.environment, wants.scope, wants.key)
    assert owner_of is not None
    assert owner_of[0] == "one"


def test_two_members_of_one_run_stay_in_order_among_many_others(journal: Journal) -> None:
    random = Random(2)
    runs = [opened(journal, f"run-{number}") for number in range(RUNS)]
    batch = [drawn(random, run, WRITTEN) for run in runs]
    last = batch[3].rows[-1]
    behind = replace(runs[3], head=last.seq, head_digest=last.digest)
    results = journal.append([*batch[:50], member(behind, row_after(behind)), *batch[50:]])
    assert {type(result).__name__ for result in results} == {"Appended"}
    now = journal.find("run-3")
    assert now is not None
    assert now.head == last.seq + 1
