"""A row that is left unread is read later to the very entry that it would have been read to at once; and no other text is taken for one."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.core.chain import Row
from recovery.core.entries import (
    JSON,
    Answered,
    AnswerKind,
    Attempt,
    Entry,
    Intent,
    Observation,
    OutcomeKind,
    Settled,
    Source,
    kind_of,
    latest_us,
)
from recovery.core.ids import Epoch
from recovery.storage.alike import Alike, Intents
from recovery.storage.opening import Opening, withheld
from recovery.storage.resting import rest

AT_US = 1_796_046_950_447_260
NASTY = st.sampled_from(
    [
        '","fingerprint":"', '","arguments":', ',"contract":"c","timeout_us":1,"at_us":1', '"', "\\", '\\"', "é", "\u2028", "$secret", "0", ",", "}}", "\n",
    ]
)  # fmt: skip
TEXTS = st.one_of(NASTY, st.text(max_size=6), st.lists(NASTY, max_size=3).map("".join))
VALUES: st.SearchStrategy[JSON] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False, allow_infinity=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(TEXTS, inner, max_size=2)),
    max_leaves=4,
)
TIMES = st.one_of(st.integers(0, 10**9).map(lambda us: AT_US + us), st.sampled_from([0, 1, 10**15 - 1, 10**15, 10**16 - 1, 10**16]))
WORDS = st.text("0123456789abcdef", min_size=64, max_size=64)
STEPS = st.sampled_from(["step#1", "step#2", "gather#1/0/step#1", "other#1", "s"])


@st.composite
def intents(draw: st.DrawFn) -> Intent:
    step = draw(STEPS)
    attempt = Attempt(step=step, number=1, purpose="send", sent_at_us=draw(TIMES), send_until_us=draw(TIMES), epoch=draw(EPOCHS))
    plain = Intent(
        step=step, effect=draw(NAMES), environment="nowhere", scope="", key=draw(st.one_of(WORDS, TEXTS)), at_us=draw(TIMES),
        fingerprint=draw(st.one_of(WORDS, TEXTS)), arguments=draw(VALUES), contract="c" * 64, timeout_us=30_000_000, attempt=attempt,
    )  # fmt: skip
    odd: list[dict[str, JSON]] = [{}, {}, {}, {"undoes": "a#1"}, {"attempts_max": 1}, {"valid_until_us": AT_US}, {"attempt": None}]
    return replace(plain, **draw(st.sampled_from(odd)))


@st.composite
def settlements(draw: st.DrawFn) -> Settled:
    step, value = draw(STEPS), draw(VALUES)
    answer = Answered(kind=AnswerKind.FOUND, value=draw(st.one_of(st.just(value), st.just(value), VALUES)))
    reply = Observation(
        step=step,
        source=Source.REPLY,
        asked_at_us=draw(TIMES),
        observed_at_us=draw(TIMES),
        answer=answer,
        attempt=1,
        epoch=draw(EPOCHS),
    )
    plain = Settled(
        step=step, outcome=OutcomeKind.APPLIED, at_us=draw(TIMES), value=value, row="receipt-original", reason="r",
        assumptions=("A1", "A6"), observation=reply,
    )  # fmt: skip
    other = [{}, {}, {}, {"evidence": (2,)}, {"error": "E"}, {"heuristic": True}, {"observation": None}, {"reason": ""}]
    return replace(plain, **draw(st.sampled_from(other)))  # type: ignore[arg-type]  # by name, each of its type


EPOCHS = st.sampled_from(["0.1", "0.1", "0.12"])
NAMES = st.sampled_from(["reserve", "reserve", "release", "é"])


def general(row: Row) -> Entry | None:
    """What the row says, read as any row is; None where it is none."""
    try:
        return Opening("r", None, strict=True).entry(row.seq, row.kind, row.step, row.body, withheld)
    except Exception:  # of a spoilt one: whatever refuses it
        return None


def row_of(entry: Entry, body: str | None = None) -> Row:
    return Row(2, kind_of(entry), getattr(entry, "step", ""), rest(entry, 2).body if body is None else body, Epoch(0, 1), "t", "d")


@settings(deadline=None)  # a busy machine is no failure
@given(st.lists(st.one_of(intents(), settlements()), min_size=2, max_size=6))
def test_what_is_left_unread_is_what_it_would_have_been_read_to(entries: list[Entry]) -> None:
    alike = Alike()
    for entry in entries:
        row, before = row_of(entry), alike.latest_us
        told = alike.told(row.kind, row.step, row.body)
        if told is None:
            assert alike.latest_us == before
            alike.learn(row.step, row.body, entry)
            continue
        form, kept = told
        assert form.read(row.step, kept) == general(row) == entry
        assert alike.latest_us == max(before, latest_us(entry))


@settings(deadline=None)  # a busy machine is no failure
@given(intents(), settlements(), st.data())
def test_a_spoilt_text_is_either_refused_or_read_as_what_it_says(intent: Intent, settled: Settled, data: st.DataObject) -> None:
    for entry in (intent, settled):
        alike, row = Alike(), row_of(entry)
        alike.learn(row.step, row.body, entry)
        if alike.told(row.kind, row.step, row.body) is None:
            continue
        at = data.draw(st.integers(0, len(row.body)))
        cut = data.draw(st.integers(0, 3))
        spoilt = row.body[:at] + data.draw(st.one_of(st.text('0,"}{:\\e', max_size=2), NASTY)) + row.body[at + cut :]
        other = row_of(entry, spoilt)
        if (told := alike.told(other.kind, other.step, other.body)) is not None:
            form, kept = told
            assert form.read(other.step, kept) == general(other)


def ordinary(number: int, arguments: JSON = None, value: JSON = None) -> tuple[Intent, Settled]:
    step, at_us = f"step#{number}", AT_US + number
    attempt = Attempt(step=step, number=1, purpose="send", sent_at_us=at_us, send_until_us=at_us + 5, epoch="0.1")
    intent = Intent(
        step=step, effect="reserve", environment="nowhere", scope="", key=f"k{number}", fingerprint=f"{number:064}", arguments=arguments,
        contract="c" * 64, timeout_us=5, at_us=at_us, attempt=attempt,
    )  # fmt: skip
    answer = Answered(kind=AnswerKind.FOUND, value=value)
    reply = Observation(
        step=step, source=Source.REPLY, asked_at_us=at_us, observed_at_us=at_us + 1, answer=answer, attempt=1, epoch="0.1"
    )
    settled = Settled(
        step=step,
        outcome=OutcomeKind.APPLIED,
        at_us=at_us + 1,
        value=value,
        row="w",
        reason="r",
        assumptions=("A1",),
        observation=reply,
    )
    return intent, settled


def test_ordinary_rows_are_left_unread() -> None:
    """Else the rest here proves nothing. Whether there is a value makes no other form."""
    alike, unread = Alike(), 0
    for number in range(1, 20):
        for entry in ordinary(number, {"n": number, "text": "é\u00e4"}, [None, "x", {"a": [1.5, "é"]}][number % 3]):
            row = row_of(entry)
            told = alike.told(row.kind, row.step, row.body)
            if told is None:
                alike.learn(row.step, row.body, entry)
            else:
                unread += 1
                assert told[0].read(row.step, told[1]) == entry
    assert unread == 2 * 18


def test_a_step_that_is_unread_has_one_key_and_one_set_of_arguments() -> None:
    alike = Alike()
    first, _ = ordinary(1, {"n": 1})
    row = row_of(first)
    alike.learn(row.step, row.body, first)
    told = alike.told(row.kind, row.step, row.body)
    assert told is not None
    form, kept = told
    assert isinstance(form, Intents)
    assert form.pattern is first
    assert form.is_of(kept, "k1", '{"n":1}')
    for key, arguments in (
        ("k2", '{"n":1}'), ("k", '{"n":1}'), ("k11", '{"n":1}'), ("", '{"n":1}'), ("k1", '{"n":2}'), ("k1", '{"n":1'), ("k1", '{"n":1}}'), ("k1", "{}"),
        ("k1", '{"n":1.0}'), ("k1", ""),
    ):  # fmt: skip
        assert not form.is_of(kept, key, arguments)


def test_marks_of_values_are_read_at_once() -> None:
    """Secrets, versions and payloads mean something else than they say."""
    alike = Alike()
    for number, arguments in enumerate([{"n": 1}, {"n": {"$secret": "x"}}, {"n": {"$int": "9007199254740993"}}], 1):
        intent, _ = ordinary(number, arguments)
        row = row_of(intent)
        assert alike.told(row.kind, row.step, row.body) is None
        alike.learn(row.step, row.body, intent)
