"""The default bound, for every class of contract: as much of it as a minute has room for. `make explore` runs these."""

from __future__ import annotations

import pytest

from recovery.testing import explore
from tests.explorer.subjects import CONTRACTS, subject

pytestmark = pytest.mark.explore

SAMPLE = 300
"""Histories of each class, the ones with the fewest faults first."""


@pytest.mark.parametrize("contract", CONTRACTS)
def test_no_promise_is_broken_within_the_default_bound(contract: str) -> None:
    explored = explore(subject(contract, effects=1), histories_max=SAMPLE, stores=["sqlite"])
    assert explored, explored.violations[0].scenario
    assert explored.histories == SAMPLE
    assert explored.repeated >= 20
