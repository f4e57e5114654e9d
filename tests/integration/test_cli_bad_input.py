"""Bad input: a sentence that says what happened and what to do, the right exit code, no traceback, nothing left behind."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg
import pytest

from recovery import codec
from recovery.core.chain import chained, genesis
from recovery.core.entries import ENTRY_FORMAT, Opened, Status, encode
from recovery.core.ids import Epoch
from recovery.ports import NewRun, Owner
from recovery.storage import open_journal
from tests.integration.cli_place import APP, Place

READING = (["show", "x"], ["runs"], ["--run-id", "x"], ["--run-id", "x", "--plan"])


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_asking_where_no_database_is_leaves_none_behind(place: Place, command: list[str]) -> None:
    before = place.files()
    ended = place.recover(*command)
    assert ended.code == 2
    assert ended.sentence == (
        "The database sqlite:///recovery.db cannot be used: there is no database there. Nothing was changed. "
        "It is looked for there where nobody says: name it with --db or RECOVERY_DB, or the app that uses it with --app."
    )
    named = place.recover(*command, "--db", "sqlite:///recovery.db")
    assert named.sentence.endswith("Nothing was changed. Check the path, or start a run to create it.")
    assert place.files() == before


def test_an_unknown_run_id_is_not_found_and_creates_nothing(either: Place) -> None:
    before = either.files()
    ended = either.recover("--run-id", "x", "--app", APP)
    assert ended.code == 2
    assert ended.sentence.startswith("There is no run 'x' in ")
    assert ended.sentence.endswith("Nothing was changed. List runs with `recover runs`.")
    assert either.files() == before


def test_an_unknown_run_id_among_others_is_not_found(place: Place) -> None:
    place.worker("order", "o1", "screw")
    before = place.files()
    for command in (["show", "x"], ["--run-id", "x"], ["--run-id", "x", "--plan"]):
        ended = place.recover(*command, "--app", APP)
        assert ended.code == 2
        assert ended.sentence.startswith("There is no run 'x' in ")
    assert place.files() == before


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("oracle://x/y", "The database oracle://x/y cannot be used: 'oracle' is not a kind of database known here."),
        ("shop.db", "The database shop.db cannot be used: it is not a URL."),
        ("sqlite:///", "The database sqlite:/// cannot be used: it names no file."),
        ("postgresql://me:secret@127.0.0.1:1/x", "The database postgresql://me:***@127.0.0.1:1/x did not answer"),
    ],
)
def test_a_wrong_url_is_named_without_its_password(place: Place, url: str, says: str) -> None:
    ended = place.recover("show", "x", "--db", url)
    assert ended.code == (4 if "did not answer" in says else 2)
    assert ended.sentence.startswith(says)
    assert "secret" not in ended.err
    if ended.code == 4:  # it was asked a question, which casts no doubt on any write
        assert ended.sentence.endswith("It was only asked, and nothing was written; it is safe to run the same command again.")


@pytest.mark.parametrize("command", READING[1:3], ids=" ".join)
def test_a_file_that_is_no_database_is_refused_and_left_alone(place: Place, command: list[str]) -> None:
    path = place.directory / "shop.db"
    path.write_bytes(b"not a database" * 100)
    ended = place.recover(*command, "--app", APP)
    assert ended.code == 2
    assert "its file is not an SQLite database" in ended.sentence
    assert path.read_bytes() == b"not a database" * 100


def test_somebody_elses_database_gets_no_tables_by_being_asked(place: Place) -> None:
    path = place.directory / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    for command in READING[1:]:
        ended = place.recover(*command, "--app", APP)
        assert ended.code == 2
        assert ended.sentence
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_an_unmigrated_postgresql_says_so_in_one_sentence(place: Place, empty_postgres_url: str, command: list[str]) -> None:
    ended = place.recover(*command, "--db", empty_postgres_url)
    assert ended.code == 2
    assert "Run `recover migrate` on it; if its journal has a schema or table_prefix, say it in the URL." in ended.sentence
    with psycopg.connect(empty_postgres_url) as connection:
        found = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert found == (0,)


def test_a_workflow_is_no_app_and_is_not_called(place: Place) -> None:
    for name, kind in (("order", "a Workflow"), ("mail", "an Effect")):
        ended = place.recover("runs", "--app", f"shop:{name}")
        assert ended.code == 2
        assert ended.sentence.startswith(f"The app 'shop:{name}' is {kind}, not an engine. Nothing was changed. Name an Engine")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            '{"itme": "screw"}',
            "the input has itme, which is no parameter of it. Nothing happened. order takes item (str); give it with --input.",
        ),
        ('["screw"]', "the input is no object with the names of its parameters."),
        ("{}", "the input has no item."),
    ],
)
def test_an_input_that_does_not_fit_is_told_with_what_is_wrong(place: Place, given: str, says: str) -> None:
    ended = place.recover("enqueue", "order", "--run-id", "o1", "--input", given, "--app", APP)
    assert ended.code == 2
    assert says in ended.sentence


def test_recovering_an_unsettled_run_needs_its_app(either: Place) -> None:
    either.worker("order", "o1", "screw", crash_at="send.before")
    before = either.head("o1")
    ended = either.recover("--run-id", "o1", "--db", either.url)
    assert ended.code == 2
    assert ended.sentence == (
        "Run 'o1' is not settled, and recovering it needs the app that has its workflow 'order'. Nothing was changed. "
        "Name it with --app module:engine, RECOVERY_APP or [tool.recovery] in pyproject.toml; `recover show` and --plan work without one."
    )
    assert either.head("o1") == before


def test_another_apps_run_is_refused_before_it_is_claimed(place: Place) -> None:
    place.worker("order", "o1", "screw", crash_at="send.before")
    (place.directory / "other.py").write_text("from recovery import Engine\nengine = Engine('sqlite:///shop.db')\n")
    before = place.row("o1")
    ended = place.recover("--run-id", "o1", "--app", "other:engine")
    assert ended.code == 2
    assert "belongs to workflow 'order', which this engine does not have (it has: none)" in ended.sentence
    assert place.row("o1") == before


APPS = {
    "nothing:engine": "The app 'nothing:engine' was not found: there is no module 'nothing'. Nothing was changed. Check its spelling",
    "shop": "The app 'shop' is not of the form module:engine. Nothing was changed. Write it as module:engine",
    "shop:": "The app 'shop:' is not of the form module:engine.",
    "../shop:engine": "The app '../shop:engine' is not of the form module:engine.",
    "shop:engin": "The app 'shop:engin' was not found: shop has no 'engin' (engines in it: engine).",
    "shop:number": "The app 'shop:number' is an int, not an engine.",
    "lacks:engine": "The app 'lacks:engine' does not import (ModuleNotFoundError: No module named 'absent', lacks.py line 1).",
    "raises:engine": "The app 'raises:engine' does not import (KeyError: 'X', raises.py line 2).",
    "typing_error:engine": "The app 'typing_error:engine' does not import (SyntaxError: ",
    "leaves:engine": "The app 'leaves:engine' does not import (SystemExit: 3, leaves.py line 2).",
    "uncontracted:engine": "effect 'send': ",
    "colours:engine": "workflow 'mixed': it is `async def` and takes a Run.",
}


@pytest.mark.parametrize("app", APPS)
def test_an_app_that_cannot_be_had_says_why(place: Place, app: str) -> None:
    for name, text in {
        "lacks": "import absent\n",
        "raises": "\n{}['X']\n",
        "typing_error": "def broken(:\n",
        "leaves": "import sys\nsys.exit(3)\n",
        "uncontracted": "from recovery import Call, effect\n\n@effect\ndef send(call: Call) -> None: ...\n",
        "colours": "from recovery import Run, workflow\n\n@workflow\nasync def mixed(run: Run) -> None: ...\n",
    }.items():
        (place.directory / f"{name}.py").write_text(text)
    before = place.files()
    ended = place.recover("--run-id", "x", "--app", app)
    assert ended.code == 2
    assert ended.sentence.startswith(APPS[app])
    assert place.files() == before


@pytest.mark.parametrize("command", [["show", "o1"], ["--run-id", "o1", "--app", APP], ["--run-id", "o1", "--plan"]], ids=" ".join)
def test_a_run_of_a_newer_entry_format_is_refused(place: Place, command: list[str]) -> None:
    """Its chain is intact: a newer version of this program wrote it."""
    journal = open_journal(place.url)
    opened = Opened(workflow="order", version="1", input={"item": "x"}, input_digest="d", at_us=1, format=ENTRY_FORMAT + 1)
    body, epoch = codec.dumps(encode(opened)), Epoch(journal.incarnation(), 1)
    row = chained(genesis(journal.namespace(), "o1"), 1, "opened", "", body, epoch, "token")
    journal.open_run(NewRun("o1", "order", "d", Status.RUNNING, Owner("owner"), 1, 1, (row,)))
    journal.release("o1", "owner", epoch)
    journal.close()
    ended = place.recover(*command, "--db", place.url)
    assert ended.code == 2
    assert f"entry 1 was written by a newer version (format {ENTRY_FORMAT + 1}" in ended.sentence
    assert ended.sentence.endswith("Install a newer recovery.")


def test_a_database_of_a_newer_version_is_refused(place: Place) -> None:
    place.worker("order", "o1", "screw", crash_at="send.before")
    path = place.directory / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE recovery_version SET version_num = '9999'")
    connection.close()
    for command in READING[1:3]:
        ended = place.recover(*command, "--app", APP)
        assert ended.code == 2
        assert "newer" in ended.sentence
    ended = place.recover("migrate", "--app", APP)
    assert ended.code == 2
    assert "newer" in ended.sentence


def test_a_value_that_cannot_be_stored_leaves_the_run_open_for_better_code(place: Place) -> None:
    place.touch("unreachable")
    place.worker("unstorable", "u1", crash_at="send.before")
    place.remove("unreachable")
    ended = place.recover("--run-id", "u1", "--app", APP)
    assert ended.code == 2
    assert "the value at result cannot be stored" in ended.sentence
    code = place.directory / "shop.py"
    code.write_text(code.read_text().replace("and object()", "and 'fine'"))
    ended = place.recover("--run-id", "u1", "--app", APP, "--json")
    assert (ended.code, ended.document["outcome"]["value"]) == (0, "fine")
    assert place.ledger() == ["book book-u1"]


def test_an_invalid_run_id_is_refused(place: Place) -> None:
    place.worker("order", "o1", "screw")
    for command in (["show", "a b"], ["--run-id", "a/b"], ["--run-id", ""]):
        ended = place.recover(*command, "--app", APP)
        assert ended.code == 2
        assert "is not valid" in ended.sentence


@pytest.mark.parametrize(
    "arguments",
    [[], ["--nonsense"], ["nonsense"], ["show"], ["--max-wait", "-1", "--run-id", "x"], ["--run-id", "x", "runs"]],
    ids=" ".join,
)
def test_a_mistake_on_the_command_line_exits_2_and_prints_nothing_on_stdout(place: Place, arguments: list[str]) -> None:
    ended = place.recover(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "Usage: recover" in ended.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["x1"], "Error: No such command 'x1'. To recover the run of that name: recover --run-id x1"),
        (["shwo"], "Error: No such command 'shwo'. Did you mean 'show'?"),
        (["list"], "Error: No such command 'list'. Did you mean 'runs'?"),
        (["a/b"], "Error: No such command 'a/b'."),
        (["runs", "--status", "bogus"], "Error: Invalid value for '--status': 'bogus' is not one of 'queued', "),
    ],
)
def test_a_mistake_on_the_command_line_says_what_to_type(place: Place, arguments: list[str], says: str) -> None:
    ended = place.recover(*arguments)
    assert ended.code == 2
    assert ended.err.splitlines()[-1].startswith(says)
    assert "Value error" not in ended.err


RUNS, WORK = ("-m", "recovery", "runs"), ("shop.py", "order", "o1", "screw")


@pytest.mark.parametrize(
    ("arguments", "point", "says"),
    [
        (RUNS, "bogus", "RECOVERY_CRASH_AT='bogus' names no crash point. There are, each with .before or .after: open, claim, "),
        (WORK, "send.aftr", "RECOVERY_CRASH_AT='send.aftr' names no crash point. Did you mean send.after? There are, "),
        (
            RUNS,
            "send.after:x",
            "RECOVERY_CRASH_AT='send.after:x': 'x' is no number of a passage. Write send.after:2 for the second",
        ),
        (WORK, "send.after:0", "RECOVERY_CRASH_AT='send.after:0': '0' is no number of a passage."),
    ],
)
def test_a_crash_point_that_is_none_ends_the_process_in_a_sentence(
    place: Place, arguments: tuple[str, ...], point: str, says: str
) -> None:
    ended = place.run_python(*arguments, RECOVERY_CRASH_AT=point)
    assert ended.code == 2
    assert ended.sentence.startswith(says)
    assert place.ledger() == []


def test_a_run_that_is_in_the_apps_own_database_is_not_lost_on_recovery_db(place: Place) -> None:
    place.worker("order", "o1", "screw", crash_at="send.before")
    other = f"sqlite:///{place.directory / 'other.db'}"
    assert place.run_python("shop.py", "order", "o2", "screw", SHOP_DB=other).code == 0
    ended = place.recover("--run-id", "o1", "--app", APP, RECOVERY_DB=other)
    assert ended.code == 2
    assert ended.sentence == (
        f"There is no run 'o1' in {other}, which RECOVERY_DB names (the app's own is {place.url}). Nothing was changed. "
        "List runs with `recover runs`."
    )
    assert "RECOVERY_DB" not in place.recover("show", "o1", "--app", APP, "--db", other).sentence


def test_with_json_an_error_is_the_document(place: Place) -> None:
    place.worker("order", "o1", "screw")
    ended = place.recover("show", "x", "--app", APP, "--json")
    assert ended.code == 2
    error = ended.document["error"]
    assert (error["type"], error["exit_code"], error["fields"]["run_id"]) == ("RunNotFound", 2, "x")
    assert error["message"] == ended.err.strip()


def test_a_bug_exits_70_with_one_sentence_and_a_traceback_on_request(place: Place) -> None:
    (place.directory / "buggy.py").write_text(
        "from recovery import Engine\n\nclass Buggy(Engine):\n    def recover(self, *a, **k):\n        raise KeyError('x')\n\n"
        "engine = Buggy('sqlite:///shop.db')\n"
    )
    place.worker("order", "o1", "screw")
    ended = place.recover("--run-id", "o1", "--app", "buggy:engine")
    assert ended.code == 70
    assert ended.sentence.startswith("recover met a bug of its own: KeyError: 'x'.")
    for arguments, extra in ((["--debug"], {}), ([], {"RECOVERY_TRACEBACK": "1"})):
        ended = place.recover("--run-id", "o1", "--app", "buggy:engine", *arguments, **extra)
        assert ended.code == 70
        assert "Traceback" in ended.err
        assert "buggy.py" in ended.err


def test_no_name_found_in_a_database_is_imported(place: Place) -> None:
    """A journal whose workflow is named like a module: nothing of that name is looked for."""
    (place.directory / "evil.py").write_text("from pathlib import Path\nPath('imported').touch()\n")
    code = place.directory / "shop.py"
    code.write_text(code.read_text().replace("@workflow\ndef order", "@workflow(name='evil:engine')\ndef order"))
    place.worker("order", "o1", "screw", crash_at="send.before")
    for command in (["--run-id", "o1"], ["--run-id", "o1", "--plan"]):
        assert place.recover(*command, "--db", place.url).code in {2, 4}
    assert "imported" not in place.files()


def test_an_unreadable_file_is_refused(place: Place, tmp_path: Path) -> None:
    ended = place.recover("show", "x", "--db", f"sqlite:///{tmp_path}")
    assert ended.code == 2
    assert "cannot be used: " in ended.sentence
    assert "irectory" in ended.sentence
