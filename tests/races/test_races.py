"""Whatever is ordered of runs by many at once, nothing happens twice that nobody ordered anew: the journals name the order of each double."""

from __future__ import annotations

import pytest

from recovery.testing.logical import repeated
from tests.races.racing import Race


def judged(race: Race) -> list[str]:
    """Play a race; the doubles that orders allow, in words. Fails for any other, and for whatever else went wrong."""
    race.go(threads=3, moves=25)
    assert race.bugs == []
    assert race.broken == []
    assert race.open == []
    found = repeated(race.loaded(), race.service.done)
    assert [str(happened) for happened in found if happened.too_often] == []
    told = [str(happened) for happened in found]
    print(*told, sep="\n")  # with the orders that allow it: what a person wants to see of a race
    return told


@pytest.mark.parametrize("seed", [1])
def test_every_double_has_its_order(store_url: str, seed: int) -> None:
    judged(Race(store_url, seed))


@pytest.mark.parametrize("seed", [2])
def test_without_new_keys_and_forks_of_open_runs_nothing_happens_twice(store_url: str, seed: int) -> None:
    assert judged(Race(store_url, seed, new_keys=False, forks=False)) == []
