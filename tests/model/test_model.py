"""The model check, bounded: every setting for its first states, and some of them whole. `make model` runs the full bound."""

from __future__ import annotations

import pytest

from tests.model.search import search
from tests.model.settings import CONTRACTS, settings

ALL = {setting.name: setting for setting in settings()}
FIRST = 40
PARTS = 12
WHOLE = (
    "keyed, short window: no longer wanted",
    "keyed, batch item by item, forgets rejections: stock comes back",
    "opaque: two workers",
    "probeable, epoch: restored",
    "named, removable: somebody takes the name",
    "co-transactional: another scope",
)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_setting_keeps_the_promises_in_its_first_states(part: int) -> None:
    searched = [search(setting, FIRST) for setting in list(ALL.values())[part::PARTS]]
    assert [found.violation for found in searched if found.violation] == []


@pytest.mark.parametrize("name", WHOLE)
def test_these_settings_keep_the_promises_further_on(name: str) -> None:
    found = search(ALL[name], 2_500)
    assert found.violation == ""
    assert found.states > 500


def test_the_bound_holds_every_class_of_contract() -> None:
    from recovery.core.contracts import Batch, Deletion, Enforced, Kind, Replay

    contracts = list(CONTRACTS.values())
    assert {contract.kind for contract in contracts} == set(Kind)
    assert {contract.enforced for contract in contracts} == set(Enforced)
    assert {contract.batch for contract in contracts} >= {Batch.NONE, Batch.ATOMIC, Batch.PER_ITEM_RESULT}
    assert {contract.lookup.deletion for contract in contracts if contract.lookup} == set(Deletion)
    assert {contract.replay_failure for contract in contracts} >= {Replay.REEXECUTES, Replay.RESUMES, Replay.INDETERMINATE}
