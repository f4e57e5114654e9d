"""The model check can fail: changes planted into the table are found by it, each with a history."""

from __future__ import annotations

import pytest

from tests.model.planted import CHANGES, planted
from tests.model.search import search
from tests.model.settings import settings

ALL = {setting.name: setting for setting in settings()}
STATES_MAX = 20_000


@pytest.mark.parametrize("change", [change for change in CHANGES if change.seen_in], ids=lambda change: change.name)
def test_a_planted_change_is_found(change) -> None:
    with planted(change):
        found = search(ALL[change.seen_in], STATES_MAX)
    assert found.violation
    assert "  1. " in found.violation


def test_what_the_model_cannot_see_has_a_reason() -> None:
    assert [change.name for change in CHANGES if bool(change.seen_in) == bool(change.why)] == []


def test_a_change_is_taken_back() -> None:
    """Otherwise the next search would run on a broken table."""
    from recovery.core import verdicts
    from recovery.core.evidence import _Weighing
    from recovery.core.findings import Reading

    def shipped() -> tuple[object, ...]:
        return verdicts.ROWS, _Weighing.gate, _Weighing.close, Reading.state_at

    before = shipped()
    for change in CHANGES:
        with planted(change):
            pass
    assert shipped() == before
