"""`recover --run-id` as a person types it: real processes, real kills, both databases where it matters."""

from __future__ import annotations

import signal
import sqlite3

from tests.integration.cli_place import APP, Place, until
from tests.warm import ended_after


def test_a_killed_workers_run_ends_with_its_original_outcome(either: Place) -> None:
    either.worker("order", "o1", "screw", crash_at="send.after")
    assert either.ledger() == ["book book-o1"]
    ended = either.recover("--run-id", "o1", "--app", APP, "--json")
    assert (ended.code, ended.err) == (0, "")
    assert ended.document["outcome"]["value"] == "booked screw in blue"
    assert [verdict["action"] for verdict in ended.document["verdicts"]] == ["resend", "adopt"]
    assert ended.document["appended"] == 3  # the attempt, the settled step, the settled run
    assert ended.document["schema_version"] == 1


def test_a_settled_run_prints_its_outcome_and_changes_nothing(either: Place) -> None:
    assert either.worker("order", "o1", "screw").out == "booked screw in blue\n"
    before = either.head("o1")
    for arguments in (["--app", APP], ["--db", either.url]):
        ended = either.recover("--run-id", "o1", *arguments)
        assert (ended.code, ended.err) == (0, "")
        assert '"booked screw in blue"' in ended.out
        assert "changed nothing: this is the original outcome" in ended.out
    assert either.head("o1") == before
    assert either.ledger() == ["book book-o1"]


def test_a_runs_own_failure_is_final_and_exits_1(place: Place) -> None:
    place.worker("order", "o1", "nothing", crash_at="append.ended.before")
    ended = place.recover("--run-id", "o1", "--app", APP)
    assert (ended.code, ended.err) == (1, "")
    assert "NoStock: item='nothing'" in ended.out
    again = place.recover("--run-id", "o1", "--app", APP, "--json")
    assert (again.code, again.document["appended"], again.document["error"]["type"]) == (1, 0, "RunFailed")


def test_doubt_exits_3_and_says_everything_that_a_person_needs(either: Place) -> None:
    either.worker("notify", "n1", "bob", crash_at="send.after")
    ended = either.recover("--run-id", "n1", "--app", APP)
    assert (ended.code, ended.err) == (3, "")
    document = either.recover("--run-id", "n1", "--app", APP, "--json").document
    intent, attempt = document["unsettled"][0]["intent"], document["unsettled"][0]["attempts"][0]
    for wanted in (
        "step         mail#1",
        "effect       mail, contract opaque",
        "environment  world, scope tests",
        "key          mail-n1",
        'arguments    {"to": "bob"}',
        f"fingerprint  {intent['fingerprint']}",
        f"1: send at {_exact(attempt['sent_at_us'])}, until {_exact(attempt['send_until_us'])}",
        "answers      none",
        "verdict      park, row opaque\n",
        "to settle it",
    ):
        assert _squeezed(wanted) in _squeezed(ended.out)
    assert "assumes" not in ended.out  # it rests on nothing, and a line that says so would be read as a worry
    assert "opaque: opaque" not in ended.out
    assert document["exit_code"] == 3
    assert document["appended"] == 0  # looking again without news appends nothing
    assert either.ledger() == ["mail mail-n1"]


def test_an_unreachable_environment_exits_4_with_the_time_of_the_next_look(place: Place) -> None:
    place.worker("order", "o1", "screw", crash_at="send.before")
    place.touch("unreachable")
    ended = place.recover("--run-id", "o1", "--app", APP, "--no-wait", "--json")
    assert (ended.code, ended.document["run"]["status"]) == (4, "waiting")
    assert ended.document["run"]["next_look"] in ended.document["error"]["message"]
    place.remove("unreachable")
    assert place.recover("--run-id", "o1", "--app", APP).code == 0
    assert place.ledger() == ["book book-o1"]


def test_a_diverged_workflow_exits_5_and_sends_nothing(place: Place) -> None:
    place.worker("order", "o1", "screw", crash_at="send.before")
    code = place.directory / "shop.py"
    code.write_text(code.read_text().replace('run.decide("colour"', 'run.decide("size"'))
    ended = place.recover("--run-id", "o1", "--app", APP)
    assert (ended.code, place.ledger()) == (5, [])
    assert "recorded step colour#1, attempted step size#1" in ended.out
    assert "register the version that it started with" in ended.out
    assert "this call  sent nothing; recorded that the code no longer fits" in ended.out
    assert "this call  changed nothing" in place.recover("--run-id", "o1", "--app", APP).out
    assert place.recover("--run-id", "o1", "--app", APP, "--plan").code == 5
    code.write_text(code.read_text().replace('run.decide("size"', 'run.decide("colour"'))
    assert place.recover("--run-id", "o1", "--app", APP).code == 0


def test_a_changed_entry_exits_6_and_nothing_is_sent_or_repaired(place: Place) -> None:
    place.worker("order", "o1", "screw", crash_at="send.before")
    with sqlite3.connect(place.directory / "shop.db") as connection:
        connection.execute("UPDATE journal SET body = replace(body, 'screw', 'crown') WHERE seq = 3")
    connection.close()
    for arguments in (["--run-id", "o1", "--app", APP], ["show", "o1", "--app", APP], ["--run-id", "o1", "--app", APP, "--plan"]):
        ended = place.recover(*arguments)
        assert ended.code == 6
        assert "corrupt at entry 3" in ended.sentence
    assert place.ledger() == []


def test_a_living_owner_exits_7_at_once_and_is_named(either: Place) -> None:
    either.touch("closed")
    with ended_after(either.working("order", "o1", "screw")) as worker:
        until("the worker's intent", lambda: either.entries("o1") == 3)
        before = either.head("o1")
        ended = either.recover("--run-id", "o1", "--app", APP, "--no-wait")
        assert ended.code == 7
        assert f"owned by process {worker.pid} on " in ended.sentence
        plan = either.recover("--run-id", "o1", "--app", APP, "--plan")
        assert f"process {worker.pid}" in plan.out
        assert either.head("o1") == before


def test_it_waits_for_a_living_owner_and_says_so(place: Place) -> None:
    place.touch("closed")
    with ended_after(place.working("order", "o1", "screw")) as worker:
        until("the worker's intent", lambda: place.entries("o1") == 3)
        with ended_after(place.recovering("--run-id", "o1", "--app", APP)) as recoverer:
            assert recoverer.stderr is not None
            assert recoverer.stderr.readline() == f"o1: waiting for {_owner(place)} to finish or its lease to end ...\n"
            place.remove("closed")
            out, err = recoverer.communicate(timeout=240)
        assert (recoverer.returncode, err) == (0, "")  # the waiting was said once
        assert '"booked screw in blue"' in out
        assert "changed nothing: its worker settled it meanwhile" in out
        assert worker.wait(120) == 0
    assert place.ledger() == ["book book-o1"]


def test_of_two_recoverers_the_loser_exits_7_and_names_the_winner(either: Place) -> None:
    either.worker("order", "o1", "screw", crash_at="send.before")
    either.touch("closed")
    with ended_after(either.recovering("--run-id", "o1", "--app", APP)) as winner:
        until("the winner's attempt", lambda: either.entries("o1") == 4)
        loser = either.recover("--run-id", "o1", "--app", APP, "--no-wait")
        assert loser.code == 7
        assert f"owned by process {winner.pid} on " in loser.sentence
        either.remove("closed")
        winner.communicate(timeout=240)
    assert winner.returncode == 0
    assert either.ledger() == ["book book-o1"]


def test_an_interrupt_says_that_nothing_is_lost(place: Place) -> None:
    place.worker("order", "o1", "screw", crash_at="send.before")
    place.touch("closed")
    with ended_after(place.recovering("--run-id", "o1", "--app", APP)) as recoverer:
        until("its attempt", lambda: place.entries("o1") == 4)
        recoverer.send_signal(signal.SIGINT)
        out, err = recoverer.communicate(timeout=240)
    assert (recoverer.returncode, out) == (130, "")
    assert err == "Interrupted. Nothing is lost: what was durable stays, and the same command goes on from there.\n"
    place.remove("closed")
    assert place.recover("--run-id", "o1", "--app", APP).code == 0
    assert place.ledger() == ["book book-o1"]


def test_an_async_app_recovers_too(place: Place) -> None:
    (place.directory / "later.py").write_text(
        "import shop\nfrom recovery import AsyncEngine, AsyncRun, workflow\n\n"
        "@workflow\nasync def greet(run: AsyncRun) -> str:\n    return await run.decide('word', lambda: 'hello')\n\n"
        "def make() -> AsyncEngine:\n    return AsyncEngine('sqlite:///later.db', workflows=[greet])\n\n"
        "if __name__ == '__main__':\n    import asyncio\n    asyncio.run(make().run('a1', greet))\n"
    )
    killed = place.run_python("later.py", RECOVERY_CRASH_AT="append.decision.after")
    assert killed.code == -signal.SIGKILL
    ended = place.recover("--run-id", "a1", "--app", "later:make", "--json")
    assert (ended.code, ended.document["outcome"]["value"]) == (0, "hello")
    plan = place.recover("--run-id", "a1", "--app", "later:make", "--plan")
    assert plan.code == 0


def _owner(place: Place) -> str:
    row = place.row("o1")
    assert row is not None
    return str(row.owner)


def _exact(us: int) -> str:
    from recovery.console.words import exact

    return exact(us)


def _squeezed(text: str) -> str:
    return " ".join(text.split())
