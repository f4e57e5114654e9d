"""The weaker of two contracts: a meet, field by field, that never promises more than either."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.contracts import AfterWindow, Batch, Contract, Deletion, Enforced, Kind, Lookup, Replay, WindowStart
from recovery.core.trust import LOOKUP_RULES, RULES, weaker, weakest
from tests.unit.core.making import KEYED, OPAQUE, PROBEABLE

LOOKUPS = st.builds(
    Lookup,
    lag_us=st.integers(0, 3),
    retention_us=st.none() | st.integers(1, 3),
    authoritative=st.booleans(),
    deletion=st.sampled_from(Deletion),
    marker_reliable=st.booleans(),
    original=st.booleans(),
)
DRAWN = st.builds(
    Contract,
    kind=st.sampled_from(Kind),
    key_length_max=st.integers(1, 3),
    window_us=st.none() | st.integers(1, 3),
    window_starts=st.sampled_from(WindowStart),
    after_window=st.sampled_from(AfterWindow),
    mismatch_checked=st.booleans(),
    lock_outlives_execution=st.booleans(),
    fail_open=st.booleans(),
    replay_success=st.sampled_from(Replay),
    replay_rejection=st.sampled_from(Replay),
    replay_failure=st.sampled_from(Replay),
    failures_effect_free=st.booleans(),
    lookup=st.none() | LOOKUPS,
    close=st.booleans(),
    cancel_by_key=st.booleans(),
    compare_and_set=st.booleans(),
    settle_window_us=st.integers(0, 3),
    clock_error_us=st.integers(0, 3),
    enforced=st.sampled_from(Enforced),
    trust_settle=st.booleans(),
    valid_for_us=st.none() | st.integers(1, 3),
    disconnect_cancels=st.booleans(),
    stable_fields=st.sampled_from([(), ("a",), ("b",), ("a", "b")]),
    shown_once=st.booleans(),
    batch=st.sampled_from(Batch),
)
"""Every field but the names; `test_no_field_is_forgotten` holds this list."""

CONTRACTS = DRAWN.map(lambda made: replace(made, window_us=None) if made.kind is Kind.READ else made)
"""Without reads that have a window, which are refused where they are stated."""

FOR_PEOPLE = {"name", "version", "key_carrier"}


def test_every_field_has_a_rule() -> None:
    """A field that is added without one would keep the pinned contract's promise after trust was lowered."""
    assert set(RULES) == {item.name for item in fields(Contract)} - {"unstated"}
    assert set(LOOKUP_RULES) == {item.name for item in fields(Lookup)}


@given(CONTRACTS, CONTRACTS)
def test_no_field_promises_more_than_either(a: Contract, b: Contract) -> None:
    """Field by field: lowering it again with either side changes nothing."""
    both = weaker(a, b)
    for name, rule in RULES.items():
        if name not in FOR_PEOPLE:
            lowered = getattr(both, name)
            assert rule(lowered, getattr(a, name)) == rule(lowered, getattr(b, name)) == lowered, name


def test_every_field_is_drawn() -> None:
    """The strategies above vary every field that a rule is about; one left out would be compared with its default only."""
    drawn = set(DRAWN.wrapped_strategy.kwargs) if hasattr(DRAWN, "wrapped_strategy") else set(DRAWN.kwargs)
    assert drawn == set(RULES) - FOR_PEOPLE


def test_no_field_is_forgotten() -> None:
    """A field that `weaker` does not compare would keep the pinned contract's promise after trust was lowered."""
    weak = Contract(
        kind=Kind.OPAQUE, key_length_max=1, mismatch_checked=False, lock_outlives_execution=False, fail_open=True,
        replay_success=Replay.REEXECUTES, replay_rejection=Replay.REEXECUTES, failures_effect_free=False, settle_window_us=10**12,
        clock_error_us=10**12, disconnect_cancels=True, shown_once=True, compare_and_set=True, valid_for_us=1,
    )  # fmt: skip
    strong = Contract(
        kind=Kind.KEYED, name="pinned", version=7, key_carrier="header", window_us=1, window_starts=WindowStart.TERMINATED,
        after_window=AfterWindow.REJECTS, replay_failure=Replay.ORIGINAL, lookup=Lookup(), close=True, cancel_by_key=True,
        enforced=Enforced.DEADLINE, trust_settle=True, stable_fields=("id",), batch=Batch.ATOMIC,
    )  # fmt: skip
    both = weaker(strong, weak)
    named = {"name", "version", "key_carrier", "unstated"}
    assert {item.name for item in fields(Contract) if getattr(both, item.name) != getattr(weak, item.name)} - named == set()
    assert {item.name for item in fields(Contract) if getattr(strong, item.name) == getattr(weak, item.name)} <= {"unstated"}
    assert (both.name, both.version, both.key_carrier) == ("pinned", 7, "header")


@given(CONTRACTS, CONTRACTS)
def test_the_order_of_contracts_does_not_matter(a: Contract, b: Contract) -> None:
    assert weaker(a, b) == weaker(b, a)


@given(CONTRACTS, CONTRACTS, CONTRACTS)
def test_grouping_does_not_matter(a: Contract, b: Contract, c: Contract) -> None:
    assert weaker(weaker(a, b), c) == weaker(a, weaker(b, c)) == weakest((a, b, c))


@given(CONTRACTS, CONTRACTS)
def test_once_lowered_stays_lowered(a: Contract, b: Contract) -> None:
    assert weaker(weaker(a, b), a) == weaker(a, b)


@given(CONTRACTS)
def test_a_contract_is_as_weak_as_itself(a: Contract) -> None:
    assert weaker(a, a) == a


@pytest.mark.parametrize(
    ("a", "b", "kind"),
    [
        (Kind.KEYED, Kind.OPAQUE, Kind.OPAQUE),
        (Kind.KEYED, Kind.PROBEABLE, Kind.PROBEABLE),
        (Kind.SWALLOW, Kind.FIRST_SENT, Kind.KEYED),
        (Kind.NAMED, Kind.PREPARED, Kind.PROBEABLE),
        (Kind.NAMED, Kind.COTRANSACTIONAL, Kind.PROBEABLE),
        (Kind.READ, Kind.SWALLOW, Kind.SWALLOW),
        (Kind.READ, Kind.READ, Kind.READ),
    ],
)
def test_two_kinds_share_what_both_promise(a: Kind, b: Kind, kind: Kind) -> None:
    assert weaker(Contract(kind=a), Contract(kind=b)).kind is kind


@pytest.mark.parametrize(("a", "b"), list(permutations([Kind.KEYED, Kind.SWALLOW, Kind.FIRST_SENT, Kind.COTRANSACTIONAL], 2)))
def test_any_two_kinds_with_a_key_share_it(a: Kind, b: Kind) -> None:
    assert weaker(replace(KEYED, kind=a), replace(KEYED, kind=b)).kind is Kind.KEYED


@pytest.mark.parametrize(
    ("field", "a", "b", "weak"),
    [
        ("valid_for_us", 3, 5, 3),
        ("valid_for_us", None, 5, 5),
        ("window_us", 3, 5, 3),
        ("window_us", None, 5, None),
        ("settle_window_us", 3, 5, 5),
        ("clock_error_us", 3, 5, 5),
        ("key_length_max", 3, 5, 3),
    ],
)
def test_of_two_durations_the_one_counts_that_protects_for_less(field: str, a: int | None, b: int, weak: int | None) -> None:
    one, other = replace(KEYED, **{field: a}), replace(KEYED, **{field: b})
    assert getattr(weaker(one, other), field) == getattr(weaker(other, one), field) == weak


@pytest.mark.parametrize(
    ("field", "a", "b", "weak"), [("retention_us", 3, 5, 3), ("retention_us", None, 5, 5), ("lag_us", 3, 5, 5)]
)
def test_of_two_look_ups_the_one_counts_that_shows_less(field: str, a: int | None, b: int, weak: int) -> None:
    one, other = (replace(PROBEABLE, lookup=Lookup(**{field: value})) for value in (a, b))
    for seen in (weaker(one, other).lookup, weaker(other, one).lookup):
        assert getattr(seen, field) == weak


@pytest.mark.parametrize(("window_us", "kind"), [(5, Kind.FIRST_SENT), (4, Kind.KEYED), (6, Kind.KEYED)])
def test_two_fences_share_more_than_the_key_only_where_they_fall_together(window_us: int, kind: Kind) -> None:
    fence = replace(KEYED, kind=Kind.FIRST_SENT, window_us=5)
    assert weaker(fence, replace(fence, window_us=window_us, close=True)).kind is kind
    assert weaker(replace(KEYED, window_us=5), replace(KEYED, window_us=window_us, close=True)).kind is Kind.KEYED


@pytest.mark.parametrize("kind", [Kind.SWALLOW, Kind.COTRANSACTIONAL])
def test_a_kind_without_a_fence_stays_itself_whatever_its_window(kind: Kind) -> None:
    assert weaker(replace(KEYED, kind=kind, window_us=5), replace(KEYED, kind=kind, window_us=6)).kind is kind


def test_a_default_stays_named_only_where_it_decides() -> None:
    strict = replace(KEYED, settle_window_us=KEYED.settle_window_us * 2, unstated=("clock_error_us",))
    assert "settle_window_us" not in weaker(KEYED, strict).unstated
    assert "clock_error_us" in weaker(KEYED, strict).unstated
    assert "settle_window_us" in weaker(PROBEABLE, OPAQUE).unstated
