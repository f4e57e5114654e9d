"""An operator is killed with SIGKILL wherever an order passes a point, and gives the order again: it is there once, and whole.

The orders are the real commands, in both colours, on both databases. Where an order passes, and what it has made durable by then, is learnt
from one that nobody kills; what a killed one made durable is found by reading the journal, never by what the command said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count

import pytest
from typer.testing import CliRunner

from recovery import Engine, cli
from recovery.core.chain import Row
from recovery.core.entries import Override
from recovery.core.errors import ExitCode
from recovery.crashpoints import POINTS, hooked
from recovery.storage.reading import read
from recovery.testing.pieces import in_one_piece
from tests.crash.children import started
from tests.crash.orders import HOLD, ORDERS, WHO, Order
from tests.crash.orders_app import LONG_AGO, settle_long_ago
from tests.crash.sampling import sampled
from tests.crash.stage import Stage, Story
from tests.crash.test_points import ORDERS as POINTS_OF_ORDERS
from tests.crash.workflows import SERVICE

_numbers = count(1)


@pytest.fixture(autouse=True)
def _service(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The orders that are given in this process reach it, too."""
    monkeypatch.setenv(SERVICE, stage.inventory.url)


def given(story: Story, words: Sequence[str]) -> int:
    """The order in this process, to its end."""
    code = CliRunner().invoke(cli.app, story.typed(words)).exit_code
    story.check_growth()
    return code


def passed(story: Story, words: Sequence[str]) -> list[tuple[str, int]]:
    """The points that the order passes, each with the number of entries that it has made by then."""
    places: list[tuple[str, int]] = []
    began = len(story.rows())
    with hooked(lambda point: places.append((point, len(story.rows()) - began))):
        assert given(story, words) == 0
    return places


def armed(places: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """For each place: how to die there, and how many entries there are by then."""
    times: Counter[str] = Counter()
    for point, entries in places:
        times[point] += 1
        yield f"{point}:{times[point]}", entries


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_about_a_run_is_there_once_and_whole(stage: Stage, name: str) -> None:
    order = ORDERS[name]
    twin = order.prepared(stage, "sync")
    for words in order.first:
        assert given(twin, words) == 0
    places = passed(twin, order.typed)
    assert {"claim.before", "load.after"} <= {point for point, _ in places}
    for number, (at, entries) in enumerate(sampled(list(armed(places)), f"{stage.kind} {name}")):
        story = order.prepared(stage, ("sync", "async")[number % 2])
        for words in order.first:
            assert given(story, words) == 0
        began = len(story.rows())  # its own: whether a worker wrote down that it backs off rests on how long the machine held it up
        assert story.ordered(order.typed, at).killed, f"{name} does not pass {at}"
        made = story.rows()[began:]
        assert len(made) == entries, f"{name}, killed at {at}, left half of an append"
        expected = again(order, made)
        assert given(story, order.typed) == expected, (name, at)
        check_once(order, story)


def again(order: Order, rows: Sequence[Row]) -> ExitCode:
    """How the order ends when it is given again, by the rows that the first one made durable."""
    made = [(row.kind, row.step) for row in rows]
    if order.goes_on:
        return ExitCode.SETTLED
    if ("settled", order.step) in made or (made and not order.repeats):
        return ExitCode.USAGE  # there is nothing left to order
    if order.waits and ("attempt", order.step) in made:
        return ExitCode.IN_DOUBT  # a copy of its own attempt may be answered still: nothing is sent beside it
    return ExitCode.SETTLED


def check_once(order: Order, story: Story) -> None:
    """What the order is about stands there once, no effect happened twice, and the run goes on as far as it can."""
    entries = read(story.stage.journal, story.run_id).entries
    verbs = [entry.verb.value for entry in entries if isinstance(entry, Override)]
    assert verbs == list(order.verbs) or (order.repeats and verbs == [*order.verbs, *order.verbs])
    held, before = order.verbs in {("hold",), ("pause",)}, story.rows()
    ended = story.work("recover")
    assert ended.returncode == order.ends, ended
    assert not held or story.rows() == before, "a held run does nothing"
    assert [row.step for row in story.rows() if row.kind == "settled"].count(order.step) == (0 if held else 1)
    assert set(story.stage.executions(story.run_id).values()) <= {1}
    run = story.stage.journal.find(story.run_id)
    assert run is not None
    assert run.status.settled or run.owner is None


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_word_about_a_contract_is_there_or_not(stage: Stage, side: str) -> None:
    subject = f"mail-{next(_numbers)}"
    story = stage.new_run("plain", "sync")  # its database and colour; the word is about no run
    for verb, held in (("hold", [subject]), ("release", [])):
        words = [verb, "--contract", subject, *WHO]
        assert story.ordered(words, f"hold.{side}").killed
        found = [hold.subject for hold in stage.journal.holds() if hold.subject == subject]
        assert (found == held) is (side == "after")
        assert given(story, words) == (2 if (verb, side) == ("release", "after") else 0)
        assert [hold.subject for hold in stage.journal.holds() if hold.subject == subject] == held


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_forgetting_is_whole_or_not_there(stage: Stage, side: str) -> None:
    story = stage.new_run("plain", "sync")
    run_id, journal = story.run_id, stage.journal
    settle_long_ago(Engine(journal), run_id, LONG_AGO)
    whole = in_one_piece(journal, run_id)
    assert whole is not None
    assert story.ordered(["forget", "{run}", *WHO], f"forget.{side}").killed
    assert (in_one_piece(journal, run_id) == whole, journal.stub(run_id) is None) == (
        (True, True) if side == "before" else (False, False)
    )
    code = CliRunner().invoke(cli.app, story.typed(["forget", "{run}", *WHO])).exit_code
    assert code == (2 if side == "after" else 0)
    loaded = in_one_piece(journal, run_id)
    assert loaded is not None
    assert loaded[1] == []
    assert journal.stub(run_id) is not None
    assert journal.key_owner("world", "", f"mail-{run_id}") is not None


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_hold_of_a_living_worker_stops_it_once_it_is_durable(stage: Stage, side: str) -> None:
    """Killed in front of its append, the operator has taken the run all the same: the worker is refused, and the hold is given again."""
    story = stage.new_run("plain", "sync")
    with started(story.child("run", stop_at="send.after:1", lease=3600.0)) as (worker,):
        worker.wait_until_stopped()
        assert story.ordered(HOLD, f"append.override.{side}").killed
        worker.go_on()
        assert worker.wait().report["error"] == "FencedOut"
    assert given(story, HOLD) == (2 if side == "after" else 0)
    check_once(ORDERS["hold"], story)


@pytest.mark.parametrize("point", ["open.before", "open.after"])
def test_a_fork_is_there_whole_or_not_at_all(stage: Stage, point: str) -> None:
    story = stage.new_run("plain", "sync")
    assert story.work("run", "append.settled.after:1").killed
    before, words = story.rows(), ["fork", "{run}", f"{story.run_id}-fork", *WHO]
    assert story.ordered(words, point).killed
    assert story.rows() == before, "its parent is only read"
    found = stage.journal.find(f"{story.run_id}-fork")
    assert (found is None) is (point == "open.before")
    assert given(story, words) == 0
    row, rows, _ = in_one_piece(stage.journal, f"{story.run_id}-fork") or pytest.fail("no fork")
    assert [(each.kind, each.step) for each in rows[:2]] == [("opened", ""), ("override", "")]
    assert row.status.value == "queued"
    assert given(story, ["--run-id", f"{story.run_id}-fork"]) == 0
    assert set(stage.executions(story.run_id).values()) <= {1}, "what it inherits was done by its parent alone"


def test_every_point_of_an_order_is_reached_here() -> None:
    here = {"append.override", "deliver", "hold", "forget"}
    assert {point.rpartition(".")[0] for point in POINTS if point.startswith(POINTS_OF_ORDERS)} == here == set(POINTS_OF_ORDERS)
