"""A long run that is brought on again: its journal is read in pieces, nothing that is settled is judged or sent again, and the process is left as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from recovery import Engine
from recovery.storage.folding import MANY
from recovery.storage.portions import PORTION
from tests.benchmarks.building import built
from tests.integration.counted_steps import many, sent, step

STEPS = max(MANY, PORTION)  # of two rows each


@pytest.fixture
def engine(store_url: str) -> Iterator[Engine]:
    with Engine(store_url, workflows=[many]) as made:
        made.run("pattern", many, 1)
        built(
            made,
            "long",
            many,
            {"steps": STEPS},
            "pattern",
            (step(number=number) for number in range(STEPS - 1)),
            iter(range(STEPS - 1)),
        )
        sent.clear()
        yield made


@pytest.mark.parametrize("collecting", [True, False])
def test_a_long_run_goes_on_behind_its_last_settled_step(engine: Engine, collecting: bool) -> None:
    before = gc.isenabled()
    (gc.enable if collecting else gc.disable)()
    try:
        recovered = engine.recover("long")
        assert gc.isenabled() is collecting
    finally:
        (gc.enable if before else gc.disable)()
    assert recovered.value == sum(range(STEPS))
    assert sent == [STEPS - 1]
    assert [verdict.row for verdict in recovered.verdicts[: STEPS - 1]] == ["kept"] * (STEPS - 1)
