"""A hundred races, or RACES=N, from SEED on, half of them without new keys and forks of open runs. `make kills` runs it."""

from __future__ import annotations

import os
from pathlib import Path

from tests.races.racing import Race
from tests.races.test_races import judged


def test_no_race_doubles_an_effect_without_an_order(tmp_path: Path) -> None:
    every, seed = int(os.environ.get("EVERY", "1")), int(os.environ.get("SEED", "1000"))
    doubles = 0
    for number in range(int(os.environ.get("RACES", "100")) // every):
        anew = number % 2 == 0
        told = judged(Race(f"sqlite:///{tmp_path / f'{number}.db'}", seed + number, new_keys=anew, forks=anew))
        assert anew or told == []
        doubles += len(told)
    print(f"{doubles} doubles, each with its order")
