"""`recover worker` and `recover enqueue` as a person types them: real processes, ended, killed at every place of a claim, and asked how they are."""

from __future__ import annotations

import json
import signal
import socket
import urllib.error
import urllib.request
from typing import Any

import pytest

from recovery.core.entries import Status
from tests.integration.cli_place import APP, Place, until
from tests.warm import Program, ended_after

KILLED = -signal.SIGKILL


def enqueued(place: Place, run_id: str, *more: str) -> None:
    ended = place.recover("enqueue", "order", "--input", '{"item": "screw"}', "--run-id", run_id, "--app", APP, *more)
    assert (ended.code, ended.err, ended.out) == (0, "", f"run {run_id} enqueued; a worker takes it up\n")


def events(process: Program, wanted: str) -> dict[str, Any]:
    """What the worker says, up to the wanted event."""
    assert process.stdout is not None
    for line in process.stdout:
        said: dict[str, Any] = json.loads(line)
        if said["event"] == wanted:
            return said
    pytest.fail(f"it ended without {wanted}: {process.stderr.read() if process.stderr else ''}")


def answer(port: int, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as reply:  # our own
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.mark.parametrize("point", ["claim.before", "claim.after", "load.after"])
def test_a_worker_that_dies_at_any_place_of_a_claim_leaves_the_run_to_the_next(place: Place, point: str) -> None:
    enqueued(place, "o1")
    killed = place.recover("worker", "--app", APP, "--until-idle", RECOVERY_CRASH_AT=point)
    assert killed.code == KILLED
    ended = place.recover("worker", "--app", APP, "--until-idle", "--json")
    assert (ended.code, ended.err) == (0, "")
    said = [json.loads(line) for line in ended.out.splitlines()]
    assert [each["event"] for each in said] == ["started", "claimed", "brought on", "draining", "ended"]
    assert (said[1]["run_id"], said[1]["crashes"]) == ("o1", 0 if point == "claim.before" else 1)
    assert said[2]["status"] == "completed"
    assert place.ledger() == ["book book-o1"]


def explained(place: Place) -> None:
    """A quarantined run says itself why it is held, what ended with it, who acts next and how."""
    why = place.recover("explain", "o1", "--app", APP, "--json").document["why"]
    assert (why["status"], why["parking"], why["page"]) == ("held", "quarantined", "reference/parking/quarantined.md")
    assert why["deaths"] == {"workers": 2, "last_alone": True}
    assert (why["acts"], why["commands"][0]) == ("a person", "recover release o1 --by WHO --reason TEXT")
    assert why["last"] == {"seq": 1, "kind": "opened", "step": ""}
    text = " ".join(place.recover("explain", "--run-id", "o1", "--app", APP).out.split())
    for said in ("2 in a row ended", "had nothing else at work", "a person", "recover release o1", "recover parking quarantined"):
        assert said in text
    [doubt] = place.recover("doubt", "--app", APP, "--json").document["doubts"]
    assert (doubt["parking"], doubt["page"]) == (why["parking"], why["page"])
    assert why["reason"] in doubt["reason"]


def test_a_run_that_kills_its_workers_is_quarantined_and_a_person_lets_it_go(place: Place) -> None:
    enqueued(place, "o1")
    for _ in range(2):
        assert place.recover("worker", "--app", APP, "--until-idle", RECOVERY_CRASH_AT="load.after").code == KILLED
    ended = place.recover("worker", "--app", APP, "--until-idle", "--crashes", "2")
    assert "quarantined o1: problem quarantined: 2 workers in a row ended while they had it" in ended.out
    shown = place.recover("runs", "--app", APP)
    assert "held (quarantined: 2 workers" in " ".join(shown.out.split())
    assert place.recover("--all", "--app", APP).code == 3
    assert place.ledger() == []
    explained(place)
    assert place.recover("release", "o1", "--by", "ann", "--reason", "mended", "--app", APP).code == 0
    assert place.recover("worker", "--app", APP, "--until-idle").code == 0
    assert place.ledger() == ["book book-o1"]


def test_a_worker_that_is_to_end_finishes_what_it_has_and_takes_no_more(place: Place) -> None:
    place.touch("closed")
    enqueued(place, "o1")
    with ended_after(place.recovering("worker", "--app", APP, "--json", "--health", "0", "--poll", "0.05")) as worker:
        port = events(worker, "started")["health_port"]
        events(worker, "claimed")
        until("readiness", lambda: answer(port, "/readyz")[0] == 200)
        assert answer(port, "/livez") == (200, {"ok": True, "at_work": 1})
        assert answer(port, "/nothing")[0] == 404
        worker.send_signal(signal.SIGTERM)
        assert events(worker, "draining")["at_work"] == 1
        assert answer(port, "/readyz")[0] == 503
        enqueued(place, "o2")
        place.remove("closed")
        assert events(worker, "brought on")["status"] == "completed"
        events(worker, "ended")
        assert worker.wait(60) == 0
    row = place.row("o2")
    assert row is not None
    assert (row.status, row.owner) == (Status.QUEUED, None)


def test_a_worker_says_which_queues_it_serves(place: Place) -> None:
    ended = place.recover("worker", "--app", APP, "--until-idle", "--queue", "", "--queue", "mail")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[0].endswith('queues "" mail')
    assert ended.out.splitlines()[1] == 'unknown queue: queue mail, known ""'


def test_a_second_signal_ends_the_worker_at_once_and_its_run_is_found(place: Place) -> None:
    place.touch("closed")
    enqueued(place, "o1")
    with ended_after(place.recovering("worker", "--app", APP, "--json")) as worker:
        events(worker, "claimed")
        worker.send_signal(signal.SIGTERM)
        events(worker, "draining")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 128 + signal.SIGTERM
    place.remove("closed")
    assert place.recover("worker", "--app", APP, "--until-idle").code == 0
    row = place.row("o1")
    assert row is not None
    assert row.status is Status.COMPLETED


def test_what_does_not_come_to_its_next_step_ends_with_the_worker(place: Place) -> None:
    place.touch("closed")
    enqueued(place, "o1")
    with ended_after(place.recovering("worker", "--app", APP, "--json", "--drain", "0")) as worker:
        until("the effect under way", lambda: place.entries("o1") >= 3)
        worker.send_signal(signal.SIGTERM)
        assert events(worker, "ended")["left"] == 1
        assert worker.wait(60) == 4
    place.remove("closed")
    assert place.recover("--all", "--app", APP).code == 0


def test_a_key_is_enqueued_once(place: Place) -> None:
    order = ("enqueue", "order", "--input", '{"item": "screw"}', "--key", "17", "--app", APP)
    assert place.recover(*order).out == "run order:17 enqueued; a worker takes it up\n"
    assert place.recover(*order).out == "run order:17 was there already: queued\n"
    assert place.recover(*order, "--json").document["is_new"] is False


def test_what_cannot_be_enqueued_is_refused_with_what_to_do(place: Place) -> None:
    for given in ("[", "3", '{"other": 1}', "{}"):
        assert "order takes item" in place.recover("enqueue", "order", "--input", given, "--run-id", "a", "--app", APP).sentence
    assert "neither a run id nor a key" in place.recover("enqueue", "order", "--input", '{"item": "x"}', "--app", APP).sentence
    unknown = place.recover("enqueue", "nothing", "--key", "a", "--app", APP).sentence
    assert "the app has no workflow 'nothing' (it has: " in unknown
    assert "--app" in place.recover("enqueue", "order", "--run-id", "a").sentence
    assert "--app" in place.recover("worker").sentence
    assert place.recover("enqueue", "order", "--not-before", "soon", "--run-id", "a", "--app", APP).code == 2
    assert place.files() == {"shop.py"}


def test_several_workers_share_what_is_due_and_what_one_of_them_dies_with(place: Place) -> None:
    names = [f"o{number:02}" for number in range(24)]
    said = "from shop import engine, order\nwith engine:\n    [engine.enqueue(order('screw'), run_id=f'o{number:02}') for number in range(24)]"
    assert place.run_python("-c", said).code == 0
    arguments = ("worker", "--app", APP, "--until-idle", "--json", "--concurrency")
    # This world counts each sending. The one that dies has nothing else at work that could have been sent and not been noted.
    workers = [place.recovering(*arguments, "2"), place.recovering(*arguments, "1", RECOVERY_CRASH_AT="send.before:3")]
    ended = [worker.communicate(timeout=240) for worker in workers]
    for worker, (_, problem) in zip(workers, ended, strict=True):
        assert worker.returncode in {0, KILLED}, problem
        assert "locked" not in problem
    assert place.recover("worker", "--app", APP, "--until-idle").code == 0
    assert sorted(place.ledger()) == [f"book book-{name}" for name in names]
    assert {row.status for name in names if (row := place.row(name)) is not None} == {Status.COMPLETED}


def test_a_worker_that_starts_while_the_server_is_down_waits_for_it(place: Place) -> None:
    with socket.socket() as nobody:  # bound, and not listening: its port is refused
        nobody.bind(("127.0.0.1", 0))
        place.url = f"postgresql://ann@127.0.0.1:{nobody.getsockname()[1]}/nothing"
        with ended_after(place.recovering("worker", "--app", APP, "--json", "--health", "0")) as worker:
            port = events(worker, "started")["health_port"]
            assert "did not answer" in events(worker, "unreachable")["problem"]
            assert answer(port, "/readyz")[0] == 503
            assert answer(port, "/livez")[0] == 200
            worker.send_signal(signal.SIGTERM)
            events(worker, "ended")
            assert worker.wait(60) == 0
