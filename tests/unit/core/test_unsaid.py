"""What was said and is not durable yet: in which order it becomes so, and that a branch costs nothing once it has nothing left to say."""

from __future__ import annotations

from recovery.core.entries import PUBLISHED, Decision
from recovery.core.ids import ROOT
from recovery.core.unsaid import Unsaid, not_after


def said(step: str, at_us: int = 0) -> Decision:
    return Decision(step=step, fingerprint="", value=None, form=PUBLISHED, at_us=at_us)


def test_what_a_branch_was_begun_from_stands_before_it_and_its_siblings_say_nothing_with_it() -> None:
    unsaid = Unsaid()
    for step in ("map#1/0/a#1", "map#1/1/a#1", "map#1/0/b#1/0/a#1", "map#1"):
        unsaid.say(said(step))
    assert [entry.step for entry in unsaid.before("map#1/0")] == ["map#1", "map#1/0/a#1", "map#1/0/b#1/0/a#1"]
    assert [entry.step for entry in unsaid.before(ROOT)] == ["map#1", "map#1/0/a#1", "map#1/1/a#1", "map#1/0/b#1/0/a#1"]


def test_what_has_become_durable_is_gone_and_its_branch_with_the_last_of_it() -> None:
    unsaid = Unsaid()
    for step in ("map#1/0/a#1", "map#1/0/a#2"):
        unsaid.say(said(step))
    unsaid.said(said("map#1/0/a#1"))
    assert not unsaid.of("map#1/0/a#1")
    assert unsaid.of("map#1/0/a#2")
    unsaid.said(said("map#1/0/a#2"))
    assert not unsaid


def test_nothing_is_stamped_behind_what_it_was_said_before() -> None:
    assert [entry.at_us for entry in not_after([said("a#1", 5), said("a#2", 9)], 7)] == [5, 7]
