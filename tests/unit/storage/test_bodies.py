"""Bodies: the short way to an entry's text writes what the general way does, to the byte, whatever its fields hold."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.core import entries
from recovery.core.entries import KINDS, Answered, Attempt, Intent, Observation, Settled, encode
from recovery.storage.bodies import body_of
from recovery.texts import dumps

TEXTS = st.text(st.characters(exclude_categories=()), max_size=6)
NUMBERS = st.integers() | st.integers(2**53 - 1, 2**53 + 1) | st.sampled_from([0, -1, 2**64, -(2**63)])
JSONS = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
BY_ANNOTATION: dict[str, st.SearchStrategy[Any]] = {
    "str": TEXTS,
    "int": NUMBERS,
    "bool": st.booleans(),
    "JSON": JSONS,
    "int | None": st.none() | NUMBERS,
    "tuple[str, ...]": st.lists(TEXTS, max_size=3).map(tuple),
    "tuple[int, ...]": st.lists(NUMBERS, max_size=3).map(tuple),
}


def made(cls: type) -> st.SearchStrategy[Any]:
    """Entries of a class with anything in each of its fields, those included that somebody adds to it one day."""
    return st.builds(cls, **{item.name: value_of(item) for item in dataclasses.fields(cls)})


def value_of(item: dataclasses.Field[Any]) -> st.SearchStrategy[Any]:
    said = str(item.type)
    drawn = BY_ANNOTATION.get(said)
    if drawn is None:
        named = getattr(entries, said.removesuffix(" | None"))
        drawn = made(named) if dataclasses.is_dataclass(named) else st.sampled_from(named)
        drawn = st.none() | drawn if said.endswith(" | None") else drawn
    return drawn if item.default is dataclasses.MISSING else st.just(item.default) | drawn


def general(entry: Any) -> str:
    return dumps(encode(entry))


@settings(deadline=None)  # a busy machine is no failure
@given(made(Intent))
def test_an_intent_is_written_as_the_general_way_writes_it(entry: Intent) -> None:
    assert body_of(entry) == general(entry)


@settings(deadline=None)  # a busy machine is no failure
@given(made(Settled))
def test_an_outcome_is_written_as_the_general_way_writes_it(entry: Settled) -> None:
    assert body_of(entry) == general(entry)


@settings(deadline=None)  # a busy machine is no failure
@given(JSONS, made(Answered))
def test_an_outcome_is_written_so_where_it_is_its_replys_own_value(value: Any, answer: Answered) -> None:
    """Then its text is made once."""
    reply = Observation(
        step="a#1", source=entries.Source.REPLY, asked_at_us=1, observed_at_us=2, answer=dataclasses.replace(answer, value=value)
    )
    entry = Settled(step="a#1", outcome=entries.OutcomeKind.APPLIED, at_us=2, value=value, observation=reply)
    assert body_of(entry) == general(entry)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_of_entry_has_a_text(kind: str) -> None:
    @settings(deadline=None)  # a busy machine is no failure
    @given(made(KINDS[kind]))
    def check(entry: Any) -> None:
        assert body_of(entry) == general(entry)

    check()


@pytest.mark.parametrize("value", [math.nan, math.inf, object(), {1: object()}])
def test_what_is_no_json_is_refused_as_the_general_way_refuses_it(value: Any) -> None:
    """Nothing like it comes out of a codec; were one to let it through, no row would say something that cannot be read."""
    attempt = Attempt(step="a#1", number=1, purpose="send", sent_at_us=1, send_until_us=2, epoch="0.1")
    entry = Intent(
        step="a#1", effect="a", environment="a", scope="", key="k", fingerprint="f", arguments={"value": value}, contract="c", timeout_us=1,
        at_us=1, attempt=attempt,
    )  # fmt: skip
    with pytest.raises((ValueError, TypeError)) as general_refusal:
        general(entry)
    with pytest.raises(general_refusal.type, match=str(general_refusal.value).split("(", maxsplit=1)[0]):
        body_of(entry)
