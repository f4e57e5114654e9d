"""Steps and branches: names, order, and how far a stop reaches."""

from __future__ import annotations

import pytest

from recovery.core.effect_errors import EffectInDoubt, Unresolved
from recovery.core.errors import ConcurrentStep, Diverged, StoreUnavailable
from recovery.core.ids import ROOT, branch_of
from recovery.core.steps import OutOfOrder, Steps, Unwind, lies_in, upwards

DOUBT = EffectInDoubt(run_id="r", step="s", effect="e", key="k", reason="opaque")
OTHER_DOUBT = EffectInDoubt(run_id="r", step="t", effect="e", key="k", reason="opaque")
LATER = Unresolved(run_id="r", step="s", effect="e", key="k", reason="settling", next_look="soon")
LOST = StoreUnavailable(url="u", problem="p", fate="f")


def steps(*recorded: str) -> Steps:
    return Steps.of("r", recorded)


def test_a_step_is_named_by_its_branch_its_name_and_its_occurrence() -> None:
    run = steps()
    assert [taken(run, "a", ROOT), taken(run, "a", ROOT), taken(run, "a", "left#1")] == ["a#1", "a#2", "left#1/a#1"]
    assert (branch_of("left#1/a#1"), branch_of("a#1")) == ("left#1", ROOT)
    assert list(upwards("gather#1/0/map#1/7")) == ["gather#1/0/map#1/7", "gather#1/0/map#1", "gather#1/0", "gather#1", ROOT]


def taken(run: Steps, name: str, branch: str) -> str:
    step = run.begin(name, branch)
    run.finish(branch)
    return step


def test_one_path_is_below_another_only_at_a_slash() -> None:
    assert lies_in("gather#1/1/a#1", "gather#1/1")
    assert not lies_in("gather#1/10", "gather#1/1")
    assert lies_in("anything", ROOT)


def test_the_second_step_at_a_time_is_refused_in_one_branch_and_not_in_another() -> None:
    run = steps()
    run.begin("a", "left#1")
    with pytest.raises(ConcurrentStep, match="left#1/a#1 was still under way"):
        run.begin("b", "left#1")
    assert run.begin("b", "right#1") == "right#1/b#1"
    assert run.begin("branch", ROOT, awaited=False) == "branch#1"


def test_doubt_stops_its_branch_and_what_joins_it_and_no_sibling() -> None:
    run = steps()
    stopped = run.stop(DOUBT, "gather#1/0")
    for branch in ("gather#1/0", "gather#1", ROOT):
        with pytest.raises(Unwind) as raised:
            run.begin("next", branch)
        assert raised.value is stopped
    assert run.begin("next", "gather#1/1") == "gather#1/1/next#1"
    assert run.begin("next", "gather#1/0/gather#1/0") == "gather#1/0/gather#1/0/next#1"  # begun before, and independent
    assert run.begin("next", "gather#1/00") == "gather#1/00/next#1"


def test_what_concerns_the_whole_run_stops_every_branch() -> None:
    run = steps()
    run.stop(DOUBT, "gather#1/0")
    run.stop(LOST)
    for branch in ("gather#1/1", ROOT):
        with pytest.raises(Unwind) as raised:
            run.begin("next", branch)
        assert raised.value.error is LOST


def test_of_several_stops_a_join_is_told_the_gravest() -> None:
    run = steps()
    run.stop(LATER, "gather#1/0")
    run.stop(DOUBT, "gather#1/1")
    stopped = run.stopped_at(ROOT)
    assert stopped is not None
    assert stopped.error is DOUBT
    first = run.stopped_at("gather#1/0")
    assert first is not None
    assert first.error is LATER


@pytest.mark.parametrize("turned", [False, True])
def test_of_stops_as_grave_the_first_counts_at_every_place_above_them(turned: bool) -> None:
    run = steps()
    for number in (1, 0) if turned else (0, 1):
        run.stop([DOUBT, OTHER_DOUBT][number], f"gather#1/{number}/deep#1/0")
    for branch in (ROOT, "gather#1"):
        stopped = run.stopped_at(branch)
        assert stopped is not None
        assert stopped.error is (OTHER_DOUBT if turned else DOUBT)
    assert run.stopped_at("gather#1/0/deep#1/1") is None


def test_the_first_reason_of_a_branch_stays() -> None:
    run = steps()
    run.stop(DOUBT, "a#1")
    run.stop(LATER, "a#1")
    assert run.stops["a#1"].error is DOUBT


def test_each_branch_replays_its_own_record_in_its_own_order() -> None:
    run = steps("gather#1", "gather#1/1/a#1", "gather#1/0/a#1", "gather#1/1/b#1", "after#1")
    assert taken(run, "gather", ROOT) == "gather#1"
    taken(run, "a", "gather#1/0")
    taken(run, "a", "gather#1/1")
    with pytest.raises(OutOfOrder) as other:
        run.begin("c", "gather#1/1")
    assert (other.value.at, other.value.attempted) == ("gather#1/1/b#1", "step gather#1/1/c#1")


def test_a_branch_that_ends_before_its_record_does_is_told_at_its_own_end() -> None:
    run = steps("gather#1", "gather#1/0/a#1", "gather#1/1/a#1")
    taken(run, "gather", ROOT)
    taken(run, "a", "gather#1/0")
    run.check_replayed("gather#1/0")
    with pytest.raises(OutOfOrder, match=r"gather#1/1/a#1"):
        run.check_replayed("gather#1/1")
    with pytest.raises(OutOfOrder):
        run.check_replayed(ROOT)


def test_a_step_without_a_record_ends_its_branch_and_what_joins_it() -> None:
    run = steps()
    run.unrecorded["gather#1/0"] = Diverged(run_id="r", seq=1, step="s", recorded="a", attempted="b")
    assert run.begin("a", "gather#1/1") == "gather#1/1/a#1"
    with pytest.raises(Unwind):
        run.begin("a", "gather#1/0")
    with pytest.raises(Unwind):
        run.begin("a", ROOT)
