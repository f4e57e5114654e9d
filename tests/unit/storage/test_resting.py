"""Resting: what is moved out of a row, in which order and as which bytes, is what the plain way would move, however often a value stands in it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from recovery.core.entries import KINDS, Answered, AnswerKind, Entry, Observation, OutcomeKind, Settled, Source, encode, kind_of
from recovery.storage import resting
from recovery.storage.contents import BY_NAME, at, put, values_in
from recovery.storage.resting import ELSEWHERE, payload_of, references, rest, wake
from recovery.texts import dumps, loads
from tests.unit.storage.test_bodies import made

_SURROGATE = re.compile(r"\\ud[89a-f]")
INLINE = 12
"""Bytes, in the place of 64 kB: drawn values are on both sides of it."""


def plainly(entry: Entry) -> tuple[str, list[bytes]]:
    """The text of its row and the bytes beside it: each place is looked at by itself."""
    body, kind = encode(entry), kind_of(entry)
    if len(dumps(body).encode()) <= INLINE:
        return dumps(body), []
    places = []
    for path in values_in(kind, body):
        value = at(body, path)
        named = path in BY_NAME and isinstance(value, dict) and value
        places += [(*path, part) for part in value] if named else [path]
    moved: dict[str, Any] = {}
    payloads: dict[str, bytes] = {}
    for place in places:
        text = dumps(at(body, place)).encode()
        if len(text) > INLINE:
            payload = payload_of(text)
            moved[".".join(place)] = [payload.digest, len(text)]
            payloads[payload.digest] = text
    for place in places:
        if ".".join(place) in moved:
            put(body, place, None)
    return dumps(body | ({ELSEWHERE: moved} if moved else {})), list(payloads.values())


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_moves_out_is_what_the_plain_way_moves_out(kind: str) -> None:
    @settings(deadline=None, max_examples=40)  # a busy machine is no failure
    @given(made(KINDS[kind]))
    def check(entry: Any) -> None:
        assume(not _SURROGATE.search(repr(encode(entry))))  # no codec lets half of a pair through, which is no UTF-8
        with pytest.MonkeyPatch.context() as smaller:
            smaller.setattr(resting, "INLINE_MAX", INLINE)
            rested = rest(entry, 1)
            assert (rested.body, [each.body for each in rested.payloads]) == plainly(entry)
            assert rest(entry, 1, None, dumps(encode(entry))) == rested

    check()


@settings(deadline=None, max_examples=40)  # a busy machine is no failure
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=INLINE), st.booleans())
def test_an_outcome_that_stands_in_its_row_twice_is_one_payload_and_comes_back(value: str, same: bool) -> None:
    again = value if same else "".join(list(value))
    answer = Answered(kind=AnswerKind.FOUND, value=again)
    reply = Observation(step="a#1", source=Source.REPLY, asked_at_us=1, observed_at_us=2, answer=answer, attempt=1, epoch="0.1")
    entry = Settled(step="a#1", outcome=OutcomeKind.APPLIED, at_us=2, value=value, observation=reply)
    with pytest.MonkeyPatch.context() as smaller:
        smaller.setattr(resting, "INLINE_MAX", INLINE)
        body, payloads = rest(entry, 1)
    assert [each.body for each in payloads] == [dumps(value).encode()]
    assert [each.field for each in references(loads(body))] == ["value", "observation.answer.value"]
    stored = {each.digest: each.body for each in payloads}
    assert wake("settled", loads(body) | {"step": "a#1"}, lambda of: loads(stored[of.digest].decode())) == entry
