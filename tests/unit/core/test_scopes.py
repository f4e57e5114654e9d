"""Which deadline bounds what, by branch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recovery.core.scopes import Limit, Scopes

EARLY, LATE = Limit("early#1", 10), Limit("late#1", 20)


def test_what_begins_in_a_scope_or_below_it_is_bounded_and_nothing_beside_or_after_it() -> None:
    scopes = Scopes()
    scopes.enter("left#1", LATE)
    assert scopes.bound("left#1") == LATE
    assert scopes.bound("left#1/gather#1/0") == LATE
    assert scopes.bound("") is None
    assert scopes.bound("right#1") is None
    scopes.leave("left#1", LATE)
    assert scopes.bound("left#1") is None


def test_of_scopes_inside_each_other_the_earliest_bounds_whichever_is_the_inner_one() -> None:
    for outer, inner in ((EARLY, LATE), (LATE, EARLY)):
        scopes = Scopes()
        scopes.enter("", outer)
        scopes.enter("b#1", inner)
        assert scopes.bound("b#1") == EARLY
        assert scopes.bound("") == outer


def test_of_two_at_one_moment_the_inner_one_is_named() -> None:
    scopes = Scopes()
    scopes.enter("", Limit("outer#1", 10))
    scopes.enter("", Limit("inner#1", 10))
    assert scopes.bound("") == Limit("inner#1", 10)


def test_a_branch_that_outlives_its_scope_keeps_the_bound() -> None:
    scopes = Scopes()
    scopes.enter("", EARLY)
    scopes.inherit("b#1", "")
    scopes.leave("", EARLY)
    assert scopes.bound("b#1") == EARLY
    assert scopes.bound("") is None


@given(st.lists(st.integers(0, 5), max_size=8))
def test_leaving_in_any_order_leaves_nothing(moments: list[int]) -> None:
    scopes, limits = Scopes(), [Limit("deadline#1", at) for at in moments]
    for limit in limits:
        scopes.enter("", limit)
    for left in range(len(limits)):
        found = scopes.bound("")
        assert found is not None
        assert found.at_us == min(limit.at_us for limit in limits[left:])
        scopes.leave("", limits[left])
    assert scopes.bound("") is None
