"""A run whose ordinary steps are judged beforehand leaves the very journal of one in which each is judged by the table."""

from __future__ import annotations

from datetime import timedelta

import pytest

from recovery import Call, Engine, InFlight, Rejection, ReplyWas, Riding, Run, contracts, effect, workflow
from recovery.core.chain import Row
from recovery.core.machine import Machine
from recovery.errors import NotExecuted
from recovery.testing import ManualClock
from recovery.testing.pieces import in_one_piece

DAY = timedelta(hours=24)


class Refused(Rejection):
    why: str


@effect(contracts.Keyed(window=DAY), rejects=(Refused,))
def keyed(call: Call, *, number: int) -> int:
    if number == 2:
        raise Refused(why="two")
    if number == 3 and call.attempt == 1:
        raise ReplyWas(InFlight())
    return number


@effect(contracts.Opaque())
def opaque(call: Call, *, number: int) -> str:
    return f"{number}"


@effect(contracts.Read())
def read(call: Call) -> None:
    return None


@effect(contracts.Keyed(window=DAY, stable_fields=("id",)))
def fielded(call: Call, *, id: int) -> dict[str, int]:
    return {"id": id}


@workflow
def mixed(run: Run) -> list[str]:
    told = [
        str(run.perform(keyed(number=1), key="a")),
        str(run.attempt(keyed(number=2), key="b")),
        str(run.perform(keyed(number=3), key="c")),
    ]
    told += [run.perform(opaque(number=4), key="d"), str(run.perform(read(), key="e")), str(run.perform(fielded(id=5), key="f"))]
    with run.deadline(timedelta(minutes=1), name="soon"):
        told.append(str(run.perform(keyed(number=6), key="g")))
    told += [str(run.perform(keyed(number=number), key=f"h{number}")) for number in range(7, 9)]
    try:
        run.perform(keyed(number=9).until(run.now()), key="i")
    except NotExecuted as error:
        told.append(error.reason)
    return told


def journal(riding: Riding | None) -> list[tuple[str, str, str]]:
    clock = ManualClock()
    with Engine("memory://", workflows=[mixed], clock=clock, riding=riding) as engine:
        engine.run("one", mixed)
        return [(row.kind, row.step, row.body) for row in rows_of(engine)]


def rows_of(engine: Engine) -> list[Row]:
    loaded = in_one_piece(engine.surroundings().journal, "one")
    assert loaded is not None
    return list(loaded[1])


@pytest.mark.parametrize("riding", [Riding(), None], ids=["riding", "strict"])
def test_the_journal_is_the_same(riding: Riding | None, monkeypatch: pytest.MonkeyPatch) -> None:
    straight = journal(riding)
    monkeypatch.setattr(Machine, "straight", False)
    assert journal(riding) == straight
    assert len(straight) > 20
