"""Lost power: every legal state of the disk after each system call, opened with the shipped code."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.power import judging, stores
from tests.power.releases import versions
from tests.power.sweep import Questions, Swept, recorded, swept

pytestmark = [pytest.mark.power, pytest.mark.usefixtures("disk")]

KILLED = -signal.SIGKILL

JOURNALS: dict[str, list[tuple[str, int]]] = {
    "created": [("created", 0)],
    "continued": [("continued", 0)],
    "checkpointed": [("checkpointed", 0)],
    "claimed by a second process": [("abandoned", KILLED), ("claimed", 0)],
    **{f"migrated from {version}": [(f"migrated:{version}", 0)] for version in versions()[:-1]},
}
"""Programs that run one after the other on one disk, with their return codes."""

Record = Callable[[str, object], None]


def journal(directory: Path, *programs: tuple[str, int], spoilt: str = "") -> Swept:
    reader = judging.Reader()
    ask = Questions(reader.read, judging.wrong_with, judging.recovered_wrongly)
    return swept(recorded(directory, *programs, spoilt=spoilt), judging.Facts(), ask, stop_at_first=bool(spoilt))


def store(directory: Path, program: str, spoilt: str = "") -> Swept:
    ask = Questions(stores.read, stores.wrong_with, stores.recovered_wrongly)
    return swept(recorded(directory, (program, 0), spoilt=spoilt), stores.Facts(), ask, stop_at_first=bool(spoilt))


def looked_at(found: Swept, record: Record, *, calls: int, readings: int) -> None:
    """Nothing is wrong, and it was no empty look."""
    record("swept", str(found))
    assert found.failures == []
    assert found.calls >= calls
    assert found.readings >= readings
    assert found.states > found.distinct > found.readings


@pytest.mark.parametrize("name", JOURNALS)
def test_a_journal_keeps_what_it_acknowledged(tmp_path: Path, record_property: Record, name: str) -> None:
    """Each state opens; every acknowledged append is there byte for byte, and its chain verifies; half an append is nowhere; no effect has landed
    without its intent; the namespace and each claim are those that were acknowledged; and the run, called again, ends with each effect once."""
    looked_at(journal(tmp_path, *JOURNALS[name]), record_property, calls=150, readings=8)


@pytest.mark.parametrize("name", stores.PROGRAMS)
def test_a_checkpoint_store_holds_the_old_or_the_new(tmp_path: Path, record_property: Record, name: str) -> None:
    """Each state loads as the last acknowledged checkpoint or the one under way, bit for bit; marks and what is in quarantine stay; the next save works."""
    looked_at(store(tmp_path, name), record_property, calls=34, readings=3)


# -- that it can fail --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "spoilt", "problem"),
    [
        ("continued", "normal", "an acknowledged append is gone"),
        ("continued", "off", "an acknowledged append is gone"),
        ("created", "normal", "an acknowledged append is gone"),
        ("created", "no-directory-sync", "the journal was acknowledged, and is gone"),
    ],
)
def test_a_journal_that_syncs_less_is_found_out(tmp_path: Path, program: str, spoilt: str, problem: str) -> None:
    """`synchronous` turned down, and a new file whose name is not synced."""
    [failure] = journal(tmp_path, (program, 0), spoilt=spoilt).failures
    assert problem in failure


@pytest.mark.parametrize("program", ["saved", "directories", "shards"])
@pytest.mark.parametrize("spoilt", ["no-file-sync", "no-directory-sync"])
def test_a_store_that_syncs_less_is_found_out(tmp_path: Path, program: str, spoilt: str) -> None:
    [failure] = store(tmp_path, program, spoilt).failures
    assert "damaged among the checkpoints" in failure or "acknowledged" in failure
