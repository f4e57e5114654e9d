"""Ranks that hand each other documents: whole, by a deadline, and with a name for whoever does not come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoint.errors import CheckpointError, CheckpointInvalid, RankFailed, RanksMissing, WritersMissing
from recovery.checkpoint.files import LocalDisk
from recovery.checkpoint.limits import Limits
from recovery.checkpoint.meeting import Meeting


@dataclass
class Time:
    """Passes when somebody pauses. `then`: what happens at a pause, by its number."""

    us: int = 0
    then: dict[int, Callable[[], Any]] = field(default_factory=dict)
    pauses: int = 0

    def pause(self, seconds: float) -> None:
        self.us += round(seconds * 1e6)
        self.pauses += 1
        self.then.get(self.pauses, lambda: None)()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "store" / "ranks" / "token" / "000000000"
    made.mkdir(parents=True)
    return made


def seat(place: Path, rank: int, *, size: int = 3, what: str = "save", time: Time | None = None) -> Meeting:
    time = time or Time()
    return Meeting(LocalDisk(), place, Limits(), rank, size, 10, what, now_us=lambda: time.us, pause=time.pause)


def test_everybody_hears_what_everybody_said(place: Path) -> None:
    seats = [seat(place, rank) for rank in range(3)]
    for each in seats:
        each.tell("plan", {"from": each.rank})
    assert [each.hear("plan") for each in seats] == [{rank: {"from": rank} for rank in range(3)}] * 3


def test_whoever_comes_late_is_waited_for(place: Path) -> None:
    time = Time()
    time.then[20] = lambda: seat(place, 2).tell("plan", 2)
    for rank in range(2):
        seat(place, rank).tell("plan", rank)
    assert seat(place, 0, time=time).hear("plan") == {0: 0, 1: 1, 2: 2}


def test_the_coordinator_gives_up_at_the_deadline_and_names_who_did_not_come(place: Path) -> None:
    time = Time()
    seat(place, 1).tell("receipt", [])
    with pytest.raises(WritersMissing) as caught:
        seat(place, 0, time=time).hear("receipt")
    assert (caught.value.missing, caught.value.store) == ("rank 0, rank 2", str(place.parents[2]))
    assert 10e6 < time.us < 11e6


def test_the_others_hold_the_coordinator_for_lost_after_twice_the_deadline(place: Path) -> None:
    time = Time()
    with pytest.raises(RanksMissing, match="It may have been committed") as caught:
        seat(place, 1, time=time).hear_coordinator("outcome")
    assert caught.value.missing == "rank 0"
    assert 20e6 < time.us < 21e6


def test_a_load_that_lacks_a_rank_says_that_nothing_was_loaded(place: Path) -> None:
    with pytest.raises(RanksMissing, match="Nothing was loaded or replaced"):
        seat(place, 0, what="load").hear("verdict.0")


def test_what_one_rank_fails_of_all_others_raise_without_waiting(place: Path) -> None:
    time = Time()
    with pytest.raises(CheckpointInvalid), seat(place, 2).part():
        raise CheckpointInvalid(where="w/0", problem="it is not finite", reason="finite")
    with pytest.raises(CheckpointInvalid) as caught, seat(place, 1, time=time).part():
        seat(place, 1, time=time).hear_coordinator("order")
    assert (caught.value.where, caught.value.__notes__, time.us) == ("w/0", ["Rank 2 said so."], 0)


def test_an_error_that_is_not_ours_is_told_in_words(place: Path) -> None:
    with pytest.raises(ZeroDivisionError), seat(place, 2).part():
        raise ZeroDivisionError("no step")
    with pytest.raises(RankFailed) as caught:
        seat(place, 0).hear("plan")
    assert (caught.value.rank, caught.value.problem) == (2, "ZeroDivisionError: no step")


def test_whoever_only_heard_of_a_failure_does_not_repeat_it(place: Path) -> None:
    first = seat(place, 2)
    with pytest.raises(ZeroDivisionError), first.part():
        raise ZeroDivisionError
    second = seat(place, 1)
    with pytest.raises(CheckpointError), second.part():
        second.hear("plan")
    assert sorted(path.name for path in place.iterdir()) == ["failed-00002.json"]


def test_whoever_fails_because_another_one_did_raises_what_that_one_failed_of(place: Path) -> None:
    with pytest.raises(CheckpointInvalid), seat(place, 0).part():
        raise CheckpointInvalid(where="w/0", problem="it is not finite", reason="finite")
    with pytest.raises(CheckpointInvalid, match="not finite") as caught, seat(place, 1).part():
        raise FileNotFoundError("the attempt is gone")
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    assert sorted(path.name for path in place.iterdir()) == ["failed-00000.json"]


def test_a_document_that_is_still_written_is_not_heard(place: Path) -> None:
    (place / ".plan-00002.json").write_bytes(b'{"half":')
    with pytest.raises(WritersMissing, match="rank 2"):
        seat(place, 0).hear("plan")


def test_earlier_meetings_are_forgotten_and_later_ones_are_not(place: Path) -> None:
    for number in range(4):
        (place.parent / f"{number:09d}").mkdir(exist_ok=True)
        (place.parent / f"{number:09d}" / "plan-00000.json").touch()
    seat(place.parent / "000000002", 0).forget_earlier()
    assert sorted(path.name for path in place.parent.iterdir()) == ["000000002", "000000003"]


def test_a_document_beyond_the_limit_is_refused_before_it_is_read(place: Path) -> None:
    (place / "plan-00000.json").write_bytes(b" " * 65)
    meeting = Meeting(LocalDisk(), place, Limits(state_bytes=64), 0, 1, 1, "save")
    with pytest.raises(CheckpointError, match="64 is the limit"):
        meeting.hear("plan")
