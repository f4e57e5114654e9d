"""The writer of one run: what it refuses before anything is sent to a store."""

from __future__ import annotations

from itertools import count

import pytest

from recovery.core.chain import genesis
from recovery.core.entries import OutcomeKind, Override, Settled, Status, Verb, Verdict
from recovery.core.errors import InvariantViolated
from recovery.core.ids import ROOT, Epoch
from recovery.core.operations import Append
from recovery.ports import Appended
from recovery.storage.writer import Writer

END = Append((Settled(step=ROOT, outcome=OutcomeKind.APPLIED, at_us=1),), Status.COMPLETED, None, "")
HELD = Append((Override(step=ROOT, verb=Verb.HOLD, by="ann", at_us=2, reason="x"),), Status.HELD, None, "x")
NEWS = Append(
    (Verdict(step="a#1", row="contradicted", action="keep", reason="x", at_us=2),), Status.COMPLETED, None, "contradicted"
)


def writer(*, ended: bool = False) -> Writer:
    tokens = count(1)
    return Writer("r", "o", Epoch(0, 1), 0, genesis("n", "r"), lambda: f"t{next(tokens)}", {}, ended)


def test_nothing_takes_a_run_back_from_its_end() -> None:
    """Whoever wrote it: the run could not be read any more. An operator's hold did so, between a look and a claim."""
    loaded = writer(ended=True)
    with pytest.raises(InvariantViolated, match="held behind its end"):
        loaded.prepare(HELD, 3)
    assert loaded.prepare(NEWS, 3).status is Status.COMPLETED, "a refused append leaves the writer usable"


def test_a_writer_knows_the_end_that_it_has_written_itself() -> None:
    mine = writer()
    assert mine.prepare(HELD, 3).status is Status.HELD
    mine = writer()
    append = mine.prepare(END, 3)
    mine.settle(append, Appended())
    with pytest.raises(InvariantViolated, match="held behind its end"):
        mine.prepare(HELD, 4)
