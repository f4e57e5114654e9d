"""The default bound, for every class of contract: as much of it as a minute has room for. `make explore` runs these."""

from __future__ import annotations

import pytest

from recovery.testing import explore
from tests.explorer.subjects import CONTRACTS, subject

pytestmark = pytest.mark.explore

SAMPLE = 300
"""Histories of each class, the ones with the fewest faults first."""


@pytest.mark.parametrize("contract", CONTRACTS)
def test_no_promise_is_broken_within_the_default_bound(contract: str, empty_postgres_url: str) -> None:
    """And a sample of the histories comes to the same journals on SQLite, on PostgreSQL and in the other colour."""
    explored = explore(subject(contract, effects=1), histories_max=SAMPLE, stores=["sqlite", empty_postgres_url])
    assert explored, explored.violations[0].scenario
    assert explored.histories == SAMPLE
    assert explored.repeated >= 20
    assert explored.colours == ("sync", "async")
