"""The model check, bounded: every setting for its first states, and some of them whole. `make model` runs the full bound."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import pytest

from recovery.core.contracts import AfterWindow, Batch, Contract, Deletion, Enforced, Kind, Lookup, Replay, WindowStart
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


LABELS = {"name", "version", "key_carrier", "key_length_max", "unstated"}
"""Fields that no verdict reads."""


def _values(things: Iterable[Any], name: str) -> set[Any]:
    return {getattr(thing, name) for thing in things}


@pytest.mark.parametrize("name", [field.name for field in fields(Contract) if field.name not in LABELS])
def test_the_bound_holds_every_modifier_in_every_way(name: str) -> None:
    """A new field of a contract, or a new way to fill one in, is searched too."""
    every = {
        "kind": set(Kind),
        "window_starts": set(WindowStart),
        "after_window": set(AfterWindow),
        "replay_success": {Replay.ORIGINAL, Replay.CURRENT},
        "replay_rejection": {Replay.ORIGINAL, Replay.REEXECUTES},
        "replay_failure": {Replay.REEXECUTES, Replay.RESUMES, Replay.INDETERMINATE},
        "enforced": set(Enforced),
        "batch": set(Batch),
    }
    found = _values(CONTRACTS.values(), name)
    assert found >= every.get(name, set())
    assert len(found) > 1


@pytest.mark.parametrize("name", [field.name for field in fields(Lookup)])
def test_the_bound_holds_every_kind_of_look_up(name: str) -> None:
    found = _values((contract.lookup for contract in CONTRACTS.values() if contract.lookup), name)
    assert found >= (set(Deletion) if name == "deletion" else set())
    assert len(found) > 1


@pytest.mark.parametrize("enforced", list(Enforced))
def test_partly_applied_batches_are_in_the_bound(enforced: Enforced) -> None:
    """Item by item, with a key and without one, with each way of proving an absence."""
    batches = [contract for contract in CONTRACTS.values() if contract.batch is Batch.PER_ITEM_RESULT]
    assert any(contract.enforced is enforced and contract.lookup for contract in batches)
    assert {contract.keyed for contract in batches} == {True, False}
