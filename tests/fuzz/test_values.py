"""The first cases of spoilt values in `make fuzz`, and that they are spoilt."""

from __future__ import annotations

from collections import Counter

from tests.fuzz.values import outcome, whole

CASES = 300


def test_spoilt_values_are_refused_by_name_or_come_back_whole() -> None:
    subjects = [whole(encrypted=False), whole(encrypted=True)]
    found = Counter(outcome(subjects[number % 2], number) for number in range(CASES))
    assert [told for told in found if told.startswith("WRONG")] == []
    assert {"JournalCorrupt", "IncompatibleVersion", "EncryptionKeyWrong", "EncryptionKeyMissing"} <= set(found)
    assert found["whole"] < CASES / 4
