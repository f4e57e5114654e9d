"""What an append says to other runs, and what a broken visit leaves: one behaviour on memory, SQLite and PostgreSQL."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import count

import pytest

from recovery.core.entries import Status
from recovery.core.resting import GRAVEST_FIRST
from recovery.ports import Append, Appended, Fenced, Journal, KeyTaken, Message, RunRow
from tests.conformance.making import appended, claim_of, member, opened

_tokens = count(1)

RESTING = list(GRAVEST_FIRST)


def word(to: str = "parent", *, slot: str = "child:child") -> Message:
    body, token = '{"status":"completed"}', f"w{next(_tokens)}"
    return Message(run_id=to, kind="settled", name="child", slot=slot, body=body, by="recovery", at_us=50, token=token)


def settling(run: RunRow, *words: Message) -> Append:
    return replace(member(run, status=Status.COMPLETED), words=words)


def resting(journal: Journal, run_id: str = "parent", status: Status = Status.WAITING, next_look_us: int | None = None) -> RunRow:
    return appended(journal, member(opened(journal, run_id), status=status, next_look_us=next_look_us))


@pytest.mark.parametrize("status", RESTING)
@pytest.mark.parametrize(("look_us", "then_us"), [(None, 50), (1_000, 50), (10, 10)])
def test_who_rests_is_told_and_is_due(journal: Journal, status: Status, look_us: int | None, then_us: int) -> None:
    parent, child = resting(journal, status=status, next_look_us=look_us), opened(journal, "child")
    told = word()
    assert journal.append([settling(child, told)]) == [Appended()]
    assert journal.find("parent") == replace(parent, next_look_us=then_us)
    assert journal.inbox("parent") == [replace(told, number=1)]
    now = journal.find("child")
    assert now is not None
    assert (now.status, now.head) == (Status.COMPLETED, child.head + 1)


@pytest.mark.parametrize("status", [Status.RUNNING, Status.QUEUED, Status.DIVERGED, Status.COMPLETED])
def test_who_does_not_rest_is_told_nothing(journal: Journal, status: Status) -> None:
    parent, child = resting(journal, status=status), opened(journal, "child")
    assert journal.append([settling(child, word(), word("nobody"))]) == [Appended()]
    assert journal.find("parent") == parent
    assert journal.inbox("parent") == []


def test_what_is_refused_tells_nobody(journal: Journal) -> None:
    """Neither a superseded writer nor one that loses a key: their rows are not there, and no word of them is."""
    parent, child, other = resting(journal), opened(journal, "child"), opened(journal, "other")
    appended(journal, member(other, keys=(claim_of("k"),)))
    stale = settling(replace(child, head=child.head + 1), word())
    assert isinstance(journal.append([replace(stale, rows=(replace(stale.rows[0], seq=child.head + 2),))])[0], Fenced)
    assert isinstance(journal.append([replace(settling(child, word()), keys=(claim_of("k", step="reserve#9"),))])[0], KeyTaken)
    assert journal.find("parent") == parent
    assert journal.inbox("parent") == []


def test_a_repeated_append_tells_once(journal: Journal) -> None:
    parent, child = resting(journal), opened(journal, "child")
    ends = settling(child, word())
    assert journal.append([ends]) == [Appended()]
    assert journal.append([ends]) == [Appended()]
    [message] = journal.inbox("parent")
    assert message.number == 1
    assert journal.append([member(parent)]) == [Appended()]  # no head was moved


def test_members_of_one_batch_tell_one_run_and_each_other(journal: Journal) -> None:
    """Two children of one parent, whose own append stands in the same batch; and one member that is refused."""
    parent = resting(journal)
    first, second, stale = (opened(journal, name) for name in ("a-child", "z-child", "y-child"))
    appended(journal, member(stale))
    batch = [
        settling(second, word(slot="child:z")),
        member(parent, status=Status.IN_DOUBT, next_look_us=1_000),
        settling(stale, word(slot="child:y")),
        settling(first, word(slot="child:a")),
    ]
    results = journal.append(batch)
    assert [type(result) for result in results] == [Appended, Appended, Fenced, Appended]
    assert {message.slot for message in journal.inbox("parent")} == {"child:a", "child:z"}
    assert [message.number for message in journal.inbox("parent")] == [1, 2]


def test_a_look_is_kept_that_came_forward_meanwhile(journal: Journal) -> None:
    """Who appends without looking at the inbox, such as an operator, must not put off what a message has made due."""
    seen = resting(journal, next_look_us=1_000)
    journal.deliver(word())
    wrote = appended(journal, replace(member(seen, status=Status.WAITING, next_look_us=9_999), keeps_look=True))
    assert wrote.next_look_us == 50
    assert appended(journal, member(wrote, status=Status.WAITING, next_look_us=9_999)).next_look_us == 9_999


@pytest.mark.parametrize("status", RESTING)
@pytest.mark.parametrize(
    ("look_us", "due_us", "then_us"), [(None, 70, 70), (1_000, 70, 70), (10, 70, 10), (1_000, None, 1_000), (None, None, None)]
)
def test_a_run_is_given_up_as_due(
    journal: Journal, status: Status, look_us: int | None, due_us: int | None, then_us: int | None
) -> None:
    run = resting(journal, status=status, next_look_us=look_us)
    assert run.owner is not None
    for _ in range(2):
        assert journal.release("parent", run.owner.token, run.epoch, due_us)
        assert journal.find("parent") == replace(run, owner=None, next_look_us=then_us)


def test_only_who_rests_is_given_up_as_due_and_only_by_its_owner(journal: Journal) -> None:
    running, rests = opened(journal, "running"), resting(journal)
    assert running.owner is not None
    assert journal.release("running", running.owner.token, running.epoch, 70)
    assert journal.find("running") == replace(running, owner=None)
    assert not journal.release("parent", "somebody else", rests.epoch, 70)
    assert journal.find("parent") == rests


def test_an_end_and_a_rest_at_the_same_moment(journal: Journal) -> None:
    """A child settles while its parent says that it rests and looks at it: the parent is told, or sees the end behind its append. Parents and children
    name each other in both orders, so that two who take the rows of both must not wait in a circle."""
    for number in range(20):
        names = [f"{number}-a", f"{number}-b"]
        parent_id, child_id = names if number % 2 else reversed(names)
        parent, child = opened(journal, parent_id), opened(journal, child_id)
        start = threading.Barrier(2)

        def end(child: RunRow = child, to: str = parent_id, start: threading.Barrier = start) -> None:
            start.wait()
            assert journal.append([settling(child, word(to))]) == [Appended()]

        ends = threading.Thread(target=end)
        ends.start()
        start.wait()
        appended(journal, member(parent, status=Status.WAITING))
        there = journal.find(child_id)
        ends.join()
        now = journal.find(parent_id)
        assert there is not None
        assert now is not None
        assert there.status.settled or now.next_look_us == 50


def test_families_that_settle_crosswise_wait_in_no_circle(journal: Journal) -> None:
    """Each of two runs rests and is told by the other's settling: both take both rows, at the same moment."""
    for number in range(10):
        left, right = resting(journal, f"{number}-l"), resting(journal, f"{number}-r")
        start, came = threading.Barrier(2), []

        def end(one: RunRow, other: RunRow, start: threading.Barrier = start, came: list[object] = came) -> None:
            start.wait()
            came.extend(journal.append([settling(one, word(other.run_id))]))

        both = [threading.Thread(target=end, args=pair) for pair in ((left, right), (right, left))]
        for each in both:
            each.start()
        for each in both:
            each.join()
        assert came == [Appended(), Appended()]
