"""`show`, `runs`, `--plan` and `migrate`, and what all commands share: streams, colours, options."""

from __future__ import annotations

import os
import re

import pytest

from docs.generate import DOCUMENTS
from recovery import codec
from recovery.core.entries import Answered, AnswerKind, Observation, Source, encode
from recovery.core.ids import Epoch
from recovery.ports import Evidence
from recovery.storage import open_journal
from tests.integration.cli_place import APP, Place

ANSI = re.compile(r"\x1b\[")


@pytest.fixture
def settled(place: Place) -> Place:
    """A run that was killed and recovered."""
    place.worker("order", "o1", "screw", crash_at="send.after")
    assert place.recover("--run-id", "o1", "--app", APP).code == 0
    return place


def test_show_tells_the_whole_story_in_order(settled: Place) -> None:
    ended = settled.recover("show", "o1", "--app", APP)
    assert (ended.code, ended.err) == (0, "")
    told = re.findall(
        r"  (opened|decided|intended|attempt|claimed|observed|adopted|completed) .*?(workflow order|blue|book|\d: \w+|epoch 0\.2|reply|applied|booked)",
        ended.out,
    )
    assert told == [
        ("opened", "workflow order"),
        ("decided", "blue"),
        ("intended", "book"),
        ("attempt", "book"),
        ("claimed", "epoch 0.2"),
        ("attempt", "book"),
        ("observed", "book"),
        ("adopted", "book"),
        ("completed", "book"),
    ]
    assert "key book-o1" in ended.out
    assert "2: resend" in ended.out


def test_show_is_plain_in_a_pipe_and_coloured_on_a_terminal(settled: Place) -> None:
    plain = settled.recover("show", "o1", "--app", APP)
    assert not ANSI.search(plain.out)
    assert [line for line in plain.out.splitlines() if line != line.rstrip()] == []
    coloured = settled.recover("show", "o1", "--app", APP, FORCE_COLOR="1", COLUMNS="110")
    assert ANSI.search(coloured.out)
    assert "\x1b[" not in settled.recover("show", "o1", "--app", APP, FORCE_COLOR="1", NO_COLOR="1", TERM="dumb").out


def test_show_json_is_the_whole_journal(settled: Place) -> None:
    document = settled.recover("show", "o1", "--app", APP, "--json").document
    assert [entry["kind"] for entry in document["entries"]] == ["opened", "decision", "intent", "attempt", "settled", "settled"]
    assert document["entries"][2]["body"]["key"] == "book-o1"
    assert document["head_digest"] == settled.head("o1") == document["entries"][-1]["digest"]
    assert document["entries"][2]["body"]["contract"] in document["contracts"]


def test_huge_and_hostile_values_are_bounded_and_escaped(place: Place) -> None:
    place.worker("order", "o1", "x" * 50_000 + "\x1b[31m")
    place.worker("order", "o2", "\x1b[31mred\u202e\x9b")
    shown = place.recover("show", "o1", "--app", APP)
    assert len(shown.out) < 5000
    assert "characters; all of it with --json)" in shown.out
    for command in (["show", "o2"], ["--run-id", "o2"]):
        out = place.recover(*command, "--app", APP).out
        assert [c for c in out if not c.isprintable() and c != "\n"] == []
    assert place.recover("show", "o1", "--app", APP, "--json").document["entries"][0]["body"]["input"]["item"].startswith("xxx")


def test_show_limits_its_lines_and_says_so(settled: Place) -> None:
    out = settled.recover("show", "o1", "--app", APP, "--limit", "2").out
    assert "earlier lines; --limit 0 shows all" in out
    assert "opened" not in out
    assert "completed" in out


def test_looking_changes_nothing(either: Place) -> None:
    either.worker("order", "o1", "screw", crash_at="send.before")
    before = either.row("o1")
    for command in (["show", "o1"], ["runs"], ["--run-id", "o1", "--plan"]):
        assert either.recover(*command, "--app", APP).code in {0, 4}
        assert either.recover(*command, "--db", either.url).code in {0, 4}
    assert either.row("o1") == before
    assert either.ledger() == []


def test_runs_lists_by_id_and_by_status(either: Place) -> None:
    assert either.worker("order", "b", "screw").code == 0
    either.worker("notify", "a", "bob", crash_at="send.before")
    ended = either.recover("runs", "--app", APP)
    assert [line.split()[:3] for line in ended.out.splitlines()[1:]] == [["a", "notify", "running"], ["b", "order", "completed"]]
    assert "dead" in ended.out
    assert ended.out.splitlines()[0].split()[-1] == "worker"
    of_nobody = either.recover("runs", "--status", "completed", "--app", APP).out  # a column that says nothing is left out
    assert of_nobody.splitlines()[0].split() == ["run", "workflow", "status", "epoch", "entries", "updated", "(UTC)"]
    assert either.recover("runs", "--limit", "1", "--app", APP).out.splitlines()[2:] == ["… and more; raise --limit"]
    assert [run["run_id"] for run in either.recover("runs", "--status", "completed", "--app", APP, "--json").document["runs"]] == [
        "b"
    ]
    one = either.recover("runs", "--limit", "1", "--app", APP, "--json").document
    assert ([run["run_id"] for run in one["runs"]], one["more"]) == (["a"], True)
    assert either.recover("runs", "--status", "waiting", "--app", APP).out == "no runs\n"


# -- plans -------------------------------------------------------------------------------------------------------------


def test_a_plan_with_the_app_says_what_would_be_sent(place: Place) -> None:
    place.worker("order", "o1", "screw", crash_at="send.after")
    ended = place.recover("--run-id", "o1", "--app", APP, "--plan")
    assert (ended.code, ended.err) == (4, "")
    assert (
        "book#1: send it again under the same key (same-key-inside-window, row resend); book in world/tests, key book-o1"
        in ended.out
    )
    assert place.head("o1") in ended.out
    assert "proven dead: it would be taken over at once" in ended.out
    assert "journal alone" not in ended.out
    assert place.ledger() == ["book book-o1"]


def test_a_plan_from_the_journal_alone_says_what_it_does_not_know(place: Place) -> None:
    place.worker("order", "o1", "screw", crash_at="send.after")
    ended = place.recover("--run-id", "o1", "--db", place.url, "--plan")
    assert ended.code == 4
    assert "book#1: send it again under the same key" in ended.out
    assert "From the journal alone" in ended.out
    assert "Unknown: whether the app still asks for this" in ended.out
    document = place.recover("--run-id", "o1", "--db", place.url, "--plan", "--json").document
    step = document["plan"]["steps"][0]
    assert (step["action"], step["row"], step["key"], document["plan"]["from_journal_alone"]) == (
        "resend",
        "resend",
        "book-o1",
        True,
    )


def test_a_plan_knows_what_has_no_intent_yet(place: Place) -> None:
    place.worker("order", "o1", "screw", crash_at="append.decision.after")
    ended = place.recover("--run-id", "o1", "--app", APP, "--plan")
    assert "book#1: send it (nothing-sent, row " in ended.out
    assert "new, book in world/tests, key book-o1" in ended.out
    place.worker("order", "o2", "screw", crash_at="open.after")
    ended = place.recover("--run-id", "o2", "--app", APP, "--plan")
    assert "no intent is unsettled" in ended.out
    assert "then the workflow would decide 'colour'" in ended.out


def test_a_plan_that_would_park_exits_3_and_a_settled_one_0(place: Place) -> None:
    place.worker("notify", "n1", "bob", crash_at="send.before")
    for target in (["--app", APP], ["--db", place.url]):
        ended = place.recover("--run-id", "n1", "--plan", *target)
        assert ended.code == 3
        assert "mail#1: leave it in doubt (row opaque)" in ended.out
        assert "a person must look" in ended.out
    place.worker("order", "o1", "screw")
    assert place.recover("--run-id", "o1", "--plan", "--db", place.url).code == 0


# -- migrating ---------------------------------------------------------------------------------------------------------


def test_migrate_says_from_what_to_what_and_is_safe_to_repeat(place: Place, empty_postgres_url: str) -> None:
    for url in (place.url, empty_postgres_url):
        first = place.recover("migrate", "--db", url)
        assert (first.code, first.err) == (0, "")
        assert re.search(r" was migrated from nothing: schema version \d{4}\.\n$", first.out)
        document = place.recover("migrate", "--db", url, "--json").document
        assert document["from"] == document["to"]
        assert document["migrated"] is False
        assert place.recover("runs", "--db", url).out == "no runs\n"


ELSEWHERE = {
    f"recover {name}"
    for name in (
        "demo",
        "orphans",  # needs an environment that lists its receipts
        "replay",
        "explore",
        "doubt",
        *("explain", "explain RUN"),
        "probe",
        "resolve",
        "close",
        "hold",
        *("cancel", "pause", "resume", "fork", "restart"),  # in test_cli_controlling
        *("signal", "send", "query", "listen", "compensate"),  # they need a run that waits, publishes or has something to undo
        "parking",
        "acknowledge",
        "release",
        "fence",
        "forget",
        *(f"checkpoint {name}" for name in ("plan", "verify-resume", "list", "inspect", "verify", "diff", "gc", "pin", "unpin")),
        "contracts list",
        "contracts show",
    )
}


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name not in ELSEWHERE])
def test_documents_have_the_documented_keys(place: Place, name: str) -> None:
    place.worker("order", "o1", "screw")
    command = name.removeprefix("recover ").replace("--run-id", "--run-id o1").replace("show", "show o1").split()
    needed = {"recover restored": ("--by", "ann", "--reason", "x")}
    document = place.recover(*command, *needed.get(name, ()), "--db", place.url, "--json").document
    assert set(document) == {"schema_version", *DOCUMENTS[name]}


# -- what all commands share -------------------------------------------------------------------------------------------


def test_the_database_is_option_then_environment_then_app_then_default(place: Place) -> None:
    for number, name in enumerate(("recovery", "app", "environment", "option")):
        url = f"sqlite:///{place.directory / f'{name}.db'}"
        assert place.run_python("shop.py", "order", f"in-{name}", str(number), SHOP_DB=url).code == 0
    place.environment["SHOP_DB"] = "sqlite:///app.db"

    def listed(*arguments: str, **extra: str) -> list[str]:
        return [run["run_id"] for run in place.recover("runs", "--json", *arguments, **extra).document["runs"]]

    environment = {"RECOVERY_DB": "sqlite:///environment.db"}
    assert listed("--db", "sqlite:///option.db", "--app", APP, **environment) == ["in-option"]
    assert listed("--app", APP, **environment) == ["in-environment"]
    assert listed("--app", APP) == ["in-app"]
    assert listed() == ["in-recovery"]


def test_the_app_is_option_then_environment_then_project(place: Place) -> None:
    place.worker("order", "o1", "screw")
    (place.directory / "pyproject.toml").write_text('[tool.recovery]\napp = "shop:make"\n')
    assert place.recover("runs").out.startswith("run ")  # a function that returns an engine
    assert "there is no module 'absent'" in place.recover("runs", RECOVERY_APP="absent:engine").sentence
    assert place.recover("runs", "--app", APP, RECOVERY_APP="absent:engine").code == 0
    (place.directory / "pyproject.toml").write_text("[tool.recovery\n")
    ended = place.recover("runs")
    assert ended.code == 2
    assert "pyproject.toml cannot be read" in ended.sentence


def test_a_run_is_recovered_in_the_database_that_was_named_with_the_apps_workflows(place: Place) -> None:
    place.run_python("shop.py", "order", "o1", "screw", SHOP_DB="sqlite:///other.db", RECOVERY_CRASH_AT="send.before")
    ended = place.recover("--run-id", "o1", "--app", APP, "--db", "sqlite:///other.db")
    assert ended.code == 0
    assert "shop.db" not in place.files()


def test_options_may_stand_before_the_command(place: Place) -> None:
    place.worker("order", "o1", "screw")
    assert [run["run_id"] for run in place.recover("--json", "--db", place.url, "runs").document["runs"]] == ["o1"]


def test_help_imports_neither_the_database_nor_the_drawing(place: Place) -> None:
    ended = place.run_python("-X", "importtime", "-m", "recovery", "--help", fresh=True)
    assert ended.code == 0
    assert "Exit codes: 0 settled" in ended.out
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in ended.err.splitlines()}
    assert imported & {"sqlalchemy", "alembic", "pydantic", "rich", "structlog", "psycopg", "httpx"} == set()
    assert "typer" in imported


def test_a_reader_that_goes_away_is_no_error(settled: Place) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with settled.recovering("show", "o1", "--db", settled.url, stdout=writing) as process:
        os.close(writing)
        _, err = process.communicate(timeout=240)
    assert (process.returncode, err) == (141, "")


def test_late_evidence_is_shown_outside_the_chain(settled: Place) -> None:
    said = Answered(kind=AnswerKind.FOUND, value="booked screw")
    late = Observation(step="book#1", source=Source.LATE, asked_at_us=1, observed_at_us=2, answer=said, attempt=1, epoch="0.1")
    journal = open_journal(settled.url)
    journal.add_evidence(Evidence("o1", "book#1", Epoch(0, 1), 2, "observation", codec.dumps(encode(late))))
    journal.close()
    out = settled.recover("show", "o1", "--app", APP).out
    assert re.search(r"0\.1 +late evidence +book#1  observed: late to attempt 1 after 1 us: found \"booked screw\"", out)
    assert (
        settled.recover("show", "o1", "--app", APP, "--json").document["late_evidence"][0]["body"]["answer"]["value"]
        == "booked screw"
    )
