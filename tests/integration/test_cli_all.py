"""`recover --all` as a person types it: orphaned and due runs go on, the others are counted, and the exit code is the worst of all."""

from __future__ import annotations

from tests.integration.cli_place import APP, Place


def test_what_dead_workers_left_is_brought_on_and_nothing_else_is(either: Place) -> None:
    for name in ("o1", "o2"):
        either.worker("order", name, "screw", crash_at="send.before")
    either.worker("notify", "n1", "bob", crash_at="send.after")
    assert either.recover("--run-id", "n1", "--app", APP).code == 3
    assert either.worker("order", "o3", "screw").code == 0
    either.worker("order", "o4", "nothing", crash_at="append.ended.before")
    doubted = either.head("n1")
    ended = either.recover("--all", "--app", APP, "--json")
    assert (ended.code, ended.err) == (3, "")
    found = [(run["run_id"], run["status"], run["exit_code"]) for run in ended.document["runs"]]
    assert found == [("o1", "completed", 0), ("o2", "completed", 0), ("o4", "failed", 1)]
    assert ended.document["left"] == {"in_doubt": 1}
    assert either.head("n1") == doubted
    assert sorted(either.ledger()) == ["book book-o1", "book book-o2", "book book-o3", "mail mail-n1"]
    again = either.recover("--all", "--app", APP)
    assert again.code == 3
    assert again.out == "0 taken up\n1 left: in doubt or held: a person must look (`recover doubt` lists it)\n"


def test_a_plan_of_all_says_what_would_be_done_and_does_nothing(place: Place) -> None:
    place.worker("order", "o1", "screw", crash_at="send.after")
    before = place.head("o1")
    ended = place.recover("--all", "--plan", "--app", APP)
    assert (ended.code, ended.err) == (4, "")
    assert ended.out.startswith("o1 running  book#1: resend")
    assert "1 to be taken up" in ended.out
    assert place.head("o1") == before
    assert place.recover("--all", "--app", APP).out == "1 taken up, 1 completed\n"


def test_what_waits_for_the_environment_is_due_at_its_next_look(place: Place) -> None:
    place.worker("order", "o1", "screw", crash_at="send.before")
    place.touch("unreachable")
    ended = place.recover("--all", "--app", APP, "--json")
    assert (ended.code, ended.document["runs"][0]["status"]) == (4, "waiting")
    place.remove("unreachable")
    while (ended := place.recover("--all", "--app", APP, "--json")).document["left"]:
        assert (ended.code, ended.document["left"]) == (4, {"unresolved": 1})
    assert (ended.code, ended.document["runs"][0]["status"]) == (0, "completed")
    assert place.ledger() == ["book book-o1"]


def test_a_run_whose_workflow_is_not_here_stops_no_other(place: Place) -> None:
    place.worker("order", "o1", "screw", crash_at="send.after")
    place.worker("notify", "n1", "bob", crash_at="append.intent.before")
    (place.directory / "other.py").write_text(
        "from recovery import Engine\nfrom shop import notify\nengine = Engine('sqlite:///shop.db', workflows=[notify])\n"
    )
    ended = place.recover("--all", "--app", "other:engine")
    assert ended.code == 2
    assert ended.out.startswith(
        "o1 running  Run 'o1' belongs to workflow 'order', which this engine does not have (it has: notify)."
    )
    assert "name the app that has it with --app module:engine." in ended.out
    assert "1 completed" in ended.out


def test_without_an_app_nothing_is_brought_on_and_a_plan_is_made(place: Place) -> None:
    place.worker("order", "o1", "screw", crash_at="send.after")
    before = place.head("o1")
    ended = place.recover("--all", "--db", place.url)
    assert (ended.code, ended.out) == (2, "")
    assert ended.sentence == (
        "Runs are brought on by the app's workflows, and there is no app. Nothing was changed. Name it with --app module:engine, "
        "RECOVERY_APP or [tool.recovery] in pyproject.toml; --all --plan works without one."
    )
    assert place.recover("--all", "--plan", "--db", place.url).code == 4
    assert place.head("o1") == before


def test_all_takes_no_run_id_and_belongs_to_no_command(place: Place) -> None:
    assert "--run-id" in place.recover("--all", "--run-id", "o1").err
    for alone in (("--all", "--plan"), ("--run-id", "o1")):
        assert "--concurrency" in place.recover(*alone, "--concurrency", "2").err
    ended = place.recover("--all", "runs")
    assert (ended.code, "belong to" in ended.err) == (2, True)
    for aimless in (("--plan",), ("--no-wait",), ("--max-wait", "1"), ("--concurrency", "2")):
        ended = place.recover(*aimless)
        assert (ended.code, "say which run: --run-id ID, or --all" in ended.err) == (2, True)


def test_an_empty_database_has_nothing_to_bring_on(place: Place) -> None:
    ended = place.recover("--all", "--app", APP)
    assert (ended.code, ended.out) == (0, "0 taken up\n")
