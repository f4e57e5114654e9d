"""Entries: what is written is what is read, and what this version does not know is refused."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.entries import (
    KINDS,
    Answered,
    AnswerKind,
    Attempt,
    Entry,
    Intent,
    Observation,
    Opened,
    OutcomeKind,
    Settled,
    Source,
    Status,
    Verdict,
    decode,
    encode,
    kind_of,
    step_of,
)

JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
ANSWERS = st.builds(
    Answered,
    kind=st.sampled_from(AnswerKind),
    value=JSONS | st.just({"kind": "found", "value": 1}),
    error=st.text(),
    fingerprint=st.text(),
    receipt=st.text(),
    original=st.booleans(),
    as_of_us=st.none() | st.integers(),
    retry_after_us=st.none() | st.integers(0),
    detail=st.text(),
)
ATTEMPTS = st.builds(Attempt)
OBSERVATIONS = st.builds(Observation, source=st.sampled_from(Source), answer=ANSWERS, attempt=st.none() | st.integers(1))
ENTRIES = st.one_of(
    st.builds(Opened, input=JSONS),
    st.builds(KINDS["decision"], value=JSONS),
    st.builds(Intent, arguments=JSONS, attempt=st.none() | ATTEMPTS),
    ATTEMPTS,
    OBSERVATIONS,
    st.builds(Verdict, assumptions=st.lists(st.text()).map(tuple), next_look_us=st.none() | st.integers()),
    st.builds(
        Settled,
        outcome=st.sampled_from(OutcomeKind),
        value=JSONS,
        assumptions=st.lists(st.text()).map(tuple),
        evidence=st.lists(st.integers(1)).map(tuple),
        observation=st.none() | OBSERVATIONS,
    ),
)


@given(ENTRIES)
def test_decode_gives_back_what_encode_wrote(entry: Entry) -> None:
    assert decode(kind_of(entry), encode(entry)) == entry


@given(ENTRIES)
def test_the_stored_form_survives_json(entry: Entry) -> None:
    """Through text, as a database holds it; enums and tuples come back as what they were."""
    stored = json.loads(json.dumps(encode(entry)))
    again = decode(kind_of(entry), stored)
    assert again == entry
    assert types_of(again) == types_of(entry)


def types_of(entry: Any) -> list[Any]:
    """The types of an entry's own fields, down through nested entries."""
    values = [getattr(entry, item.name) for item in fields(entry)]
    return [types_of(value) if hasattr(value, "__dataclass_fields__") else type(value) for value in values]


@given(ENTRIES)
def test_defaults_are_left_out_and_nothing_else(entry: Entry) -> None:
    body = encode(entry)
    for item in fields(entry):
        left_out = item.name not in body
        default = item.default is not MISSING and getattr(entry, item.name) == item.default
        assert left_out <= default


def test_a_value_that_equals_a_default_of_another_type_is_kept() -> None:
    """False == 0 == 0.0 in Python, and None is a value too."""
    for value in (False, 0, 0.0, "", None, [], {}):
        answer = Observation(
            step="a#1", source=Source.PROBE, asked_at_us=0, observed_at_us=0, answer=Answered(kind=AnswerKind.FOUND, value=value)
        )
        again = decode("observation", encode(answer))
        assert isinstance(again, Observation)
        assert (again.answer.value, type(again.answer.value)) == (value, type(value))


def test_a_value_that_looks_like_an_answer_stays_a_value() -> None:
    value = {"kind": "found", "answer": {"kind": "absent"}, "attempt": {"number": 1}}
    settled = Settled(step="a#1", outcome=OutcomeKind.APPLIED, at_us=0, value=value)
    assert decode("settled", encode(settled)) == settled
    opened = Opened(workflow="w", version="1", input={"attempt": {"x": 1}, "evidence": [1]}, input_digest="d", at_us=0)
    assert decode("opened", encode(opened)) == opened
    nested = Observation(
        step="a#1", source=Source.PROBE, asked_at_us=0, observed_at_us=0, answer=Answered(kind=AnswerKind.FOUND, value=value)
    )
    assert decode("observation", encode(nested)) == nested


@pytest.mark.parametrize(
    ("kind", "body", "problem"),
    [
        ("rumour", {}, "unknown kind 'rumour'"),
        ("opened", {"mood": 1}, "unknown field 'mood'"),
        ("opened", {"workflow": "w"}, "missing"),
        ("observation", {"step": "a", "source": "dream", "asked_at_us": 0, "observed_at_us": 0, "answer": {"kind": "found"}}, "dream"),
        ("observation", {"step": "a", "source": "probe", "asked_at_us": 0, "observed_at_us": 0, "answer": {"kind": "hm"}}, "hm"),
        ("observation", {"step": "a", "source": "probe", "asked_at_us": 0, "observed_at_us": 0, "answer": {"kind": "found", "b": 1}},
         "unknown field 'b'"),
        ("settled", {"step": "a", "outcome": "perhaps", "at_us": 0}, "perhaps"),
    ],
)  # fmt: skip
def test_what_this_version_does_not_know_is_refused(kind: str, body: dict[str, Any], problem: str) -> None:
    """Never dropped: a newer field may be the one that forbids a sending."""
    with pytest.raises(ValueError, match=problem):
        decode(kind, body)


def test_every_kind_has_one_name_and_every_entry_a_step() -> None:
    assert len(set(KINDS.values())) == len(KINDS) == 8
    assert step_of(Opened(workflow="w", version="1", input=None, input_digest="d", at_us=0)) == ""
    assert step_of(Attempt(step="a#1", number=1, purpose="send", sent_at_us=0, send_until_us=1, epoch="0.1")) == "a#1"


def test_a_run_is_settled_in_three_statuses_only() -> None:
    assert {status for status in Status if status.settled} == {Status.COMPLETED, Status.FAILED, Status.CANCELLED}


@pytest.mark.parametrize("enum", [Status, AnswerKind, Source, OutcomeKind])
def test_stored_words_are_lower_case_names(enum: type[StrEnum]) -> None:
    assert all(member.value == member.name.lower() for member in enum)
