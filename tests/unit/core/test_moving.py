"""Moves of a run's steps to other names: whatever the order, each effect keeps its key, and no two have the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.core.entries import CHILD, PATCHED, TIMER, UNDOING, Decision, Override, Verb
from recovery.core.ids import ROOT
from recovery.core.moving import Places, checked, moved
from recovery.core.recorded import DecisionStep, Step

NAMES = [f"{name}#{n}" for name in "abc" for n in (1, 2)]


def recorded(*steps: str, form: str = "") -> dict[str, Step]:
    return {
        step: DecisionStep(seq, Decision(step=step, fingerprint="", value=None, at_us=0, form=form))
        for seq, step in enumerate(steps, start=2)
    }


def order(steps: dict[str, str | None], dropped: tuple[str, ...], number: int) -> Override:
    return Override(
        step=ROOT, verb=Verb.MOVE, by="ann", at_us=0, version=str(number), steps=[list(pair) for pair in steps.items()],
        dropped=dropped, epoch=f"0.{number}",
    )  # fmt: skip


@settings(max_examples=100, deadline=None, database=None)
@given(st.data())
def test_an_effect_keeps_its_key_through_all_moves_and_shares_it_with_none(data: st.DataObject) -> None:
    places, number = Places(), 0
    effects: dict[str, int] = {}  # what stands under a name now
    keys: dict[int, str] = {}  # of each effect that ever was
    completed: list[str] = []

    def record(step: str) -> None:
        effects[step] = len(keys)
        keys[effects[step]] = places.key_name(step)
        completed.append(step)

    for step in data.draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4), label="first"):
        record(step)
    for number in range(1, data.draw(st.integers(1, 4), label="moves") + 1):
        kept = data.draw(st.permutations(list(effects)), label="order")
        kept = kept[: data.draw(st.integers(0, len(kept)), label="kept")]
        names = data.draw(st.permutations(NAMES), label="names")
        wanted: dict[str, str | None] = dict(zip(names, kept, strict=False))
        room = names[len(kept) : len(kept) + data.draw(st.integers(0, len(names) - len(kept)), label="room")]
        wanted |= dict.fromkeys(room)
        dropped = tuple(step for step in effects if step not in kept)
        steps, completed = moved(places, recorded(*effects), completed, order(wanted, dropped, number))
        effects = {new: effects[old] for new, old in wanted.items() if old is not None}
        assert set(steps) == set(completed) == set(effects)
        assert places.in_order(steps) == list(wanted)
        for step, effect in effects.items():
            assert places.key_name(step) == keys[effect]
        for step in data.draw(st.lists(st.sampled_from([*room, *NAMES]), unique=True), label="recorded since"):
            if step not in effects:
                record(step)
        assert len(set(keys.values())) == len(keys)


def test_who_speaks_of_an_old_name_is_understood_by_its_epoch() -> None:
    places = Places()
    moved(places, recorded("a#1", "b#1"), [], order({"b#1": "a#1"}, ("b#1",), 5))
    moved(places, recorded("b#1"), [], order({"c#1": "b#1"}, (), 7))
    assert [places.called_now("a#1", epoch) for epoch in ("0.4", "0.5", "0.9", "")] == ["c#1", "a#1", "a#1", "a#1"]
    assert [places.called_now("b#1", epoch) for epoch in ("0.4", "0.5", "0.6", "0.7")] == [None, "c#1", "c#1", "b#1"]


def test_what_lies_below_a_step_goes_with_it_and_patches_stay() -> None:
    steps = recorded("gather#1", "gather#1/0/a#1", "sleep#1", "sleep#1/fired#1") | recorded("patched/new#1", form=PATCHED)
    whole = checked(steps, {"sleep#2": "sleep#1", "both#1": "gather#1"}, [])
    assert whole == {
        "sleep#2": "sleep#1", "sleep#2/fired#1": "sleep#1/fired#1", "both#1": "gather#1", "both#1/0/a#1": "gather#1/0/a#1",
        "patched/new#1": "patched/new#1",
    }  # fmt: skip
    assert checked(steps, {"sleep#1": "sleep#1"}, ["gather#1"]) == {
        "sleep#1": "sleep#1", "sleep#1/fired#1": "sleep#1/fired#1", "patched/new#1": "patched/new#1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("form", "says"), [(CHILD, "is the start of a child, which keeps its name"), (UNDOING, "it has begun to undo")]
)
def test_what_others_know_by_its_name_keeps_it(form: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        checked(recorded("a#1", form=form), {"b#1": "a#1"}, [])
    with pytest.raises(ValueError, match=says):
        checked(recorded("a#1", form=form), {}, ["a#1"])
    assert checked(recorded("a#1", form=TIMER), {"b#1": "a#1"}, []) == {"b#1": "a#1"}
