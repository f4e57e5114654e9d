"""Who may go on after a worker died, froze or was overtaken: real processes, real signals, both databases."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from recovery.clocks import read_boot_us
from recovery.core.entries import Observation, Source, decode
from recovery.core.errors import LeaseUnavailable
from recovery.core.ids import Epoch
from tests.crash.children import ROOT, started
from tests.crash.stage import Stage
from tests.crash.workflows import SERVICE
from tests.warm import WarmParent, ended_after

HOUR = 3600.0
ROUNDS = 8


def test_a_killed_owner_is_replaced_at_once(stage: Stage, colour: str) -> None:
    """Its lease runs for another hour, and the recoverer does not wait at all: the dead process is proof enough."""
    story = stage.new_run("plain", colour)
    assert story.work("run", "send.after:1", lease=HOUR).killed
    ended = story.work("recover", wait=0.0, lease=HOUR)
    story.check_outcome(ended)
    story.check_once()


def test_a_living_owner_is_named_and_left_alone(stage: Stage, colour: str) -> None:
    story = stage.new_run("plain", colour)
    with started(story.child("run", stop_at="send.after:1", lease=HOUR)) as (owner,):
        owner.wait_until_stopped()
        before = story.rows()
        refused = story.work("recover", wait=0.0)
        assert (refused.returncode, refused.report["error"]) == (7, "LeaseUnavailable")
        assert f"process {owner.pid} on " in refused.report["message"]
        assert story.rows() == before
        owner.go_on()
        story.check_outcome(owner.wait())
    story.check_once()


def test_the_command_names_a_living_owner(stage: Stage, warm_parent: WarmParent) -> None:
    story = stage.new_run("plain", "sync")
    with started(story.child("run", stop_at="send.after:1", lease=HOUR)) as (owner,):
        owner.wait_until_stopped()
        refused = command(warm_parent, stage, story.run_id, "--no-wait")
        assert refused.returncode == 7
        assert f"process {owner.pid} on " in refused.stderr
        assert "Traceback" not in refused.stderr


def test_the_command_recovers_a_killed_run(stage: Stage, warm_parent: WarmParent) -> None:
    """The whole way of a person: the command, its document and its status; a second time it says the same."""
    story = stage.new_run("plain", "sync")
    assert story.work("run", "send.after:1").killed
    first, again = (command(warm_parent, stage, story.run_id, "--json") for _ in range(2))
    assert (first.returncode, again.returncode) == (0, 0), first.stderr
    story.check_growth()
    assert json.loads(story.outcome_bytes()) == story.expected()
    documents = [json.loads(said.stdout) for said in (first, again)]
    assert [document["appended"] for document in documents] == [len(story.durable) - 3, 0]
    assert documents[0]["outcome"] == documents[1]["outcome"]
    story.check_once()


def test_a_frozen_owner_is_superseded_after_its_lease(stage: Stage, colour: str) -> None:
    """S17: it wakes up behind its successor, and can write nothing but evidence."""
    story = stage.new_run("plain", colour)
    with started(story.child("run", stop_at="send.after:1", lease=1.0)) as (stale,):
        stale.wait_until_stopped()
        began_us = read_boot_us()
        story.check_outcome(story.work("recover", wait=60.0))
        assert read_boot_us() - began_us >= 1_000_000  # nobody may be overtaken while his lease runs
        settled = story.durable
        stale.go_on()
        ended = stale.wait()
    assert (ended.returncode, ended.report["error"]) == (7, "FencedOut"), ended
    assert story.rows() == settled
    epochs = [row.epoch for row in settled]
    assert epochs == sorted(epochs)
    assert {epochs[0], epochs[-1]} == {Epoch(0, 1), Epoch(0, 2)}
    [kept] = stage.journal.evidence(story.run_id)
    observation = decode(kept.kind, json.loads(kept.body))
    assert isinstance(observation, Observation)
    assert (observation.source, observation.step, kept.epoch) == (Source.LATE, "reserve#1", Epoch(0, 1))
    story.check_once()
    story.check_settles_nothing_new()


def test_a_frozen_owner_is_refused_though_its_successor_has_written_nothing_yet(stage: Stage, colour: str) -> None:
    """The head has not moved, so only the epoch in the statement that writes can refuse it."""
    story = stage.new_run("plain", colour)
    with started(story.child("run", stop_at="send.after:1", lease=0.2)) as (stale,):
        stale.wait_until_stopped()
        with started(story.child("recover", stop_at="load.after", wait=60.0)) as (successor,):
            successor.wait_until_stopped()
            before = story.rows()
            stale.go_on()
            ended = stale.wait()
            assert (ended.returncode, ended.report["error"]) == (7, "FencedOut"), ended
            assert f"process {successor.pid} on " in ended.report["message"]
            assert story.rows() == before
            successor.go_on()
            story.check_outcome(successor.wait())
    story.check_growth()
    assert len(stage.journal.evidence(story.run_id)) == 1
    story.check_once()
    story.check_settles_nothing_new()


def test_a_process_frozen_inside_a_commit_holds_up_its_sqlite_file_until_it_is_killed(sqlite_stage: Stage) -> None:
    """Not promised: a file has one write lock, and a stopped process does not give it back. Whoever comes is told so, and loses nothing."""
    story = sqlite_stage.new_run("plain", "sync")
    with started(story.spoilt_child("freezing", "run", lease=HOUR)) as (frozen,):
        frozen.wait_until_stopped()
        before = story.rows()
        assert [row.kind for row in before] == ["opened", "decision"]
        other = sqlite_stage.new_run("plain", "sync")
        with started(other.spoilt_child("impatient", "run")) as (held_up,):
            ended = held_up.wait()
        assert (ended.returncode, ended.report["error"]) == (4, "StoreUnavailable"), ended
        assert "database is locked" in ended.report["message"]
    assert story.rows() == before  # what was not committed never was
    for run, verb in ((story, "recover"), (other, "run")):
        run.check_outcome(run.work(verb))
        run.check_once()


def test_of_two_recoverers_one_wins(stage: Stage, warm_parent: WarmParent) -> None:
    """Both are let go in front of the claim at the same moment, and the winner holds the run until the other has given up."""
    with racers(stage, warm_parent) as (left, right):
        for _ in range(ROUNDS):
            story = stage.new_run("plain", "sync")
            assert story.work("run", "send.after:1").killed
            for racer in (left, right):
                racer.say(story.run_id)
            assert [racer.hear() for racer in (left, right)] == ["ready", "ready"]
            for racer in (left, right):
                racer.say("go")
            heard = {racer: racer.hear() for racer in (left, right)}
            [winner] = [racer for racer in heard if heard[racer] == "claimed"]
            [loser] = [racer for racer in heard if racer is not winner]
            report = json.loads(heard[loser])
            assert (report["error"], report["exit"]) == ("LeaseUnavailable", LeaseUnavailable.exit_code)
            assert f"process {winner.pid} on " in report["message"]
            winner.say("go")
            assert json.loads(winner.hear()) == {"error": "", "exit": 0, "pid": winner.pid}
            assert json.loads(story.outcome_bytes()) == story.expected()
            story.check_once()


class Racer:
    """A conversation with a `racer.py`."""

    def __init__(self, stage: Stage, warm_parent: WarmParent) -> None:
        heard, said = os.pipe()
        self._said = os.fdopen(said, "w")
        environment = os.environ | {SERVICE: stage.inventory.url}
        command = ["-W", "error", str(ROOT / "tests" / "crash" / "racer.py"), "--db", stage.url]
        self._process = warm_parent.start(command, directory=ROOT, environment=environment, stdin=heard)
        os.close(heard)
        self.pid = self._process.pid

    def say(self, line: str) -> None:
        self._said.write(f"{line}\n")
        self._said.flush()

    def hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def end(self) -> None:
        self._said.close()
        with ended_after(self._process), suppress(subprocess.TimeoutExpired):
            self._process.wait(120)


@contextmanager
def racers(stage: Stage, warm_parent: WarmParent) -> Iterator[tuple[Racer, Racer]]:
    with ExitStack() as both:
        left, right = Racer(stage, warm_parent), Racer(stage, warm_parent)
        both.callback(left.end)
        both.callback(right.end)
        yield left, right


def command(warm_parent: WarmParent, stage: Stage, run_id: str, *options: str) -> subprocess.CompletedProcess[str]:
    """`recover --run-id`, as a person runs it."""
    arguments = ["--run-id", run_id, "--db", stage.url, "--app", "tests.crash.app:engine", *options]
    environment = os.environ | {SERVICE: stage.inventory.url}
    return warm_parent.run(["-W", "error", "-m", "recovery", *arguments], directory=ROOT, environment=environment)
