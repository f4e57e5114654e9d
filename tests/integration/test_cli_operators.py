"""The operators' commands as typed: arguments, exit codes, documents and words. In this process but for the workers that die."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from docs.generate import DOCUMENTS
from recovery import cli
from recovery.core.reasons import PARKED
from tests.integration.cli_place import APP, Place, until
from tests.warm import ended_after

Typed = Callable[..., Result]
WORD = ("--by", "ann", "--reason", "the ledger shows it")


@pytest.fixture
def typed(place: Place, monkeypatch: pytest.MonkeyPatch) -> Typed:
    """`recover ARGUMENTS --app shop:engine`, in the place's directory."""
    for name in [name for name in os.environ if name.startswith(("RECOVERY_", "FORCE_COLOR", "COLUMNS"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SHOP_DB", place.url)
    monkeypatch.chdir(place.directory)
    monkeypatch.syspath_prepend(place.directory)
    monkeypatch.delitem(sys.modules, "shop", raising=False)

    def type_in(*arguments: str, app: bool = True) -> Result:
        chosen = ("--app", APP) if app else ("--db", place.url)
        return CliRunner().invoke(cli.app, [*arguments, *chosen])

    yield type_in  # type: ignore[misc]  # a generator, as fixtures may be
    sys.modules.pop("shop", None)


@pytest.fixture
def doubtful(place: Place) -> Place:
    """A mail that was sent, and nobody knows."""
    place.worker("notify", "n1", "bob", crash_at="send.after")
    return place


def document(ended: Result) -> Any:
    return json.loads(ended.stdout)


def test_each_doubt_and_each_explanation_names_a_page_that_the_program_prints(doubtful: Place, typed: Typed) -> None:
    assert typed("--run-id", "n1").exit_code == 3
    [doubt] = document(typed("doubt", "--json"))["doubts"]
    told = document(typed("explain", "n1", "mail#1", "--json"))["explanation"]
    assert (doubt["parking"], doubt["page"], told["page"]) == (
        "opaque",
        "reference/parking/opaque.md",
        "reference/parking/opaque.md",
    )
    told = typed("explain", "n1", "mail#1").stdout
    assert "recover parking opaque" in told
    decides = "recover resolve n1 mail#1 (--applied --value JSON | --not-executed) --by WHO --reason TEXT --evidence FILE-or-TEXT"
    assert f"  with          {decides}\n" in told
    assert document(typed("explain", "n1", "mail#1", "--json"))["explanation"]["commands"] == [
        decides
    ]  # no probe, no close, no key
    page = typed("parking", "opaque")
    assert (page.exit_code, page.stdout.splitlines()[0]) == (0, "# opaque: no key, and nothing to ask")
    assert document(typed("parking", "opaque", "--json"))["reasons"][0]["text"] == page.stdout.rstrip("\n")
    assert document(typed("doubt", "--older", "1h", "--json"))["doubts"] == []
    assert doubt["age_seconds"] > 0
    assert [typed("doubt", "--older", wrong).exit_code for wrong in ("1x", "", "h", "1h 30m", "-1h", "999999999d999999999d")] == [
        2
    ] * 6
    assert [line.split()[0] for line in typed("parking").stdout.splitlines()[:-1]] == [reason.value for reason in PARKED]
    assert "one of: contract-broken" in typed("parking", "tired").stderr


def test_a_run_is_explained_by_who_acts_next(place: Place, typed: Typed) -> None:
    def why(*arguments: str) -> Any:
        return document(typed("explain", *arguments, "--json"))["why"]

    place.worker("notify", "n1", "bob", crash_at="send.after")
    orphaned = why("n1")
    assert (orphaned["status"], orphaned["acts"], orphaned["commands"]) == ("running", "a worker", ["recover --run-id n1"])
    assert typed("--run-id", "n1").exit_code == 3
    doubtful = why("--run-id", "n1")
    assert (doubtful["acts"], doubtful["commands"]) == ("a person", ["recover explain n1 mail#1"])
    assert doubtful["unsettled"] == ["mail#1"]
    assert typed("hold", "n1", *WORD).exit_code == 0
    held = why("n1")
    assert (held["parking"], held["deaths"], held["reason"]) == ("held", None, "hold by ann: the ledger shows it")
    assert held["commands"] == ["recover release n1 --by WHO --reason TEXT", "recover --run-id n1"]
    assert typed("release", "n1", *WORD).exit_code == 0
    resolved = typed("resolve", "n1", "mail#1", "--not-executed", "--evidence", "x", *WORD)
    assert (resolved.exit_code, "gets NotExecuted; one that does not catch it ends as failed" in resolved.output) == (0, True)
    typed("--run-id", "n1")
    settled = why("n1")
    assert (settled["acts"], settled["parking"], settled["unsettled"]) == ("nobody", None, [])
    assert [typed("explain", *wrong).exit_code for wrong in ((), ("n1", "--run-id", "n1"), ("nobody",))] == [2, 2, 2]


def squeezed(text: str) -> str:
    return " ".join(text.split())


def test_a_doubt_from_its_list_to_its_end(doubtful: Place, typed: Typed) -> None:
    assert typed("--run-id", "n1").exit_code == 3
    listed = typed("doubt")
    assert listed.exit_code == 3
    assert "n1   mail#1  in_doubt  mail in world/tests  mail-n1  opaque" in listed.stdout
    why = typed("explain", "n1", "mail#1")
    assert why.exit_code == 0
    for wanted in (
        "park: opaque (row 44, opaque)",
        "entry 2,",
        "to settle it  The environment has no key, no receipt and nothing to ask.",
        "a person says what happened (resolve) -> adopt: operator (row 21, operator)",
        "the reply to attempt 1 comes late and says found -> adopt: original-receipt (row 8, receipt-original)",
    ):
        assert squeezed(wanted) in squeezed(why.stdout)
    (doubtful.directory / "log.txt").write_text("250 accepted for bob")
    done = typed("resolve", "n1", "mail#1", "--applied", "--value", '"sent to bob"', "--evidence", "log.txt", *WORD)
    assert (done.exit_code, "heuristic" in done.stdout) == (0, True)
    ended = typed("--run-id", "n1", "--json")
    assert (ended.exit_code, document(ended)["outcome"]["value"]) == (0, "sent to bob")
    story = typed("show", "n1").stdout
    assert "resolve by ann: the ledger shows it" in story
    assert "grounds file log.txt: 250 accepted for bob" in story
    assert (typed("doubt").exit_code, typed("doubt").stdout) == (0, "nothing needs a person\n")
    assert doubtful.ledger() == ["mail mail-n1"]


def test_a_mistyped_file_is_not_kept_as_the_evidence(doubtful: Place, typed: Typed) -> None:
    before = doubtful.head("n1")
    command = ("resolve", "n1", "mail#1", "--not-executed", *WORD, "--evidence")
    refused = typed(*command, "lgo.txt")
    assert (refused.exit_code, doubtful.head("n1")) == (2, before)
    assert "Nothing was settled" in refused.stderr
    assert "--evidence text:lgo.txt" in refused.stderr
    assert typed(*command, "text:lgo.txt").exit_code == 0
    assert "grounds lgo.txt" in typed("show", "n1").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--applied", "--not-executed"), "say one of"),
        ((), "say one of"),
        (("--applied", "--value", "{"), "not JSON"),
    ],
)
def test_a_resolution_says_one_thing(doubtful: Place, typed: Typed, arguments: tuple[str, ...], said: str) -> None:
    before = doubtful.head("n1")
    ended = typed("resolve", "n1", "mail#1", *arguments, "--evidence", "x", *WORD)
    assert ended.exit_code == 2
    assert said in ended.stderr
    for missing in (("--by", "a", "--reason", "b"), ("--by", "a", "--evidence", "b"), ("--reason", "a", "--evidence", "b")):
        assert typed("resolve", "n1", "mail#1", "--not-executed", *missing).exit_code == 2
    assert doubtful.head("n1") == before


def test_it_happened_alone_is_refused_where_a_value_is_owed_and_says_what_going_without_one_costs(
    doubtful: Place, typed: Typed
) -> None:
    before = doubtful.head("n1")
    refused = typed("resolve", "n1", "mail#1", "--applied", "--evidence", "x", *WORD)
    assert (refused.exit_code, doubtful.head("n1")) == (2, before)
    assert "mail returns str, and no value was given" in refused.stderr
    assert "--without-value" in refused.stderr
    done = typed("resolve", "n1", "mail#1", "--without-value", "--evidence", "x", *WORD)
    assert (done.exit_code, "applied without value" in done.stdout) == (0, True)
    assert "observation operator: a person says that it happened" in squeezed(typed("explain", "n1", "mail#1").stdout)
    assert "OutcomeUnavailable" in typed("--run-id", "n1").stdout


def test_a_word_of_the_wrong_type_is_refused_with_the_app_and_said_to_be_unchecked_without(doubtful: Place, typed: Typed) -> None:
    command = ("resolve", "n1", "mail#1", "--applied", "--value", "7", "--evidence", "x", *WORD)
    refused = typed(*command)
    assert refused.exit_code == 2
    assert "does not fit" in refused.stderr
    assert "without its app, the value was not compared" in typed(*command, app=False).stdout
    again = typed(*command)
    assert again.exit_code == 2
    assert "it is settled as applied, and that is final" in again.stderr


@pytest.mark.parametrize(
    "value", ["NaN", "1e400", "[" * 100_000, "{}}", '{"a": 1, "a": 2}'], ids=["nan", "overflow", "depth", "rest", "twice"]
)
def test_a_value_that_is_no_json_is_a_mistake_on_the_command_line(doubtful: Place, typed: Typed, value: str) -> None:
    ended = typed("resolve", "n1", "mail#1", "--applied", "--value", value, "--evidence", "x", *WORD, app=False)
    assert ended.exit_code == 2
    assert "it is not JSON" in squeezed(ended.stderr)


def test_bytes_of_a_command_line_that_are_no_text_are_refused_in_a_sentence(doubtful: Place, typed: Typed) -> None:
    before = doubtful.row("n1")
    for command in (
        ("fence", "n1", "--by", "a\udcff"),
        ("hold", "n1", "--by", "a", "--reason", "b\udcff"),
        ("restored", "--by", "a", "--reason", "\udcff"),
    ):
        ended = typed(*command, "--json")
        assert (ended.exit_code, document(ended)["error"]["type"]) == (2, "OverrideRefused")
    ended = doubtful.recover("doubt", "--db", "sqlite:///a\udcff.db", "--json")
    assert (ended.code, ended.document["error"]["type"]) == (2, "StoreUrlError")
    assert doubtful.row("n1") == before


def test_a_redrive_that_is_not_licensed_exits_3_and_says_the_row(doubtful: Place, typed: Typed) -> None:
    ended = typed("redrive", "n1", "mail#1")
    assert ended.exit_code == 3
    assert "sending its key again is not licensed (opaque, row 44)" in ended.stderr
    assert doubtful.ledger() == ["mail mail-n1"]


def test_a_redrive_goes_on_as_a_recovery_does(place: Place, typed: Typed) -> None:
    place.worker("order", "o1", "screw", crash_at="send.after")
    ended = typed("redrive", "o1", "book#1", "--by", "ann", "--json")
    assert (ended.exit_code, document(ended)["outcome"]["value"]) == (0, "booked screw in blue")


def test_holding_and_releasing(doubtful: Place, typed: Typed) -> None:
    held = typed("hold", "n1", *WORD)
    assert held.exit_code == 0
    assert "run n1: held" in held.stdout
    assert "fencing the journal does not fence the world" in held.stdout
    stopped = typed("--run-id", "n1")
    assert stopped.exit_code == 3
    assert "held (by ann: the ledger shows it)" in stopped.stdout
    assert "held" in typed("doubt").stdout
    assert typed("hold", "n1", *WORD).exit_code == 2
    assert typed("release", "n1", *WORD).exit_code == 0
    assert typed("release", "n1", *WORD).exit_code == 2
    assert typed("hold", *WORD).exit_code == 2  # neither a run nor a contract
    assert typed("hold", "n1", "--contract", "x", *WORD).exit_code == 2


def test_a_contract_is_held_by_the_digest_that_an_explanation_shows(place: Place, typed: Typed) -> None:
    place.worker("order", "o1", "screw", crash_at="send.before")
    digest = document(typed("explain", "o1", "book#1", "--json"))["explanation"]["contract"]
    assert typed("hold", "--contract", digest, *WORD).exit_code == 0
    assert typed("--run-id", "o1").exit_code == 3
    listed = typed("doubt")
    assert f"contract {digest} is held by ann (the ledger shows it)" in listed.stdout
    assert place.ledger() == []
    assert typed("release", "--contract", digest, *WORD).exit_code == 0
    assert typed("--run-id", "o1").exit_code == 0


def test_a_living_owner_is_respected_by_all_but_hold_and_fence(place: Place, typed: Typed) -> None:
    place.touch("closed")
    with ended_after(place.working("order", "o1", "screw")) as worker:
        until("the worker's intent", lambda: place.entries("o1") == 3)
        before = place.head("o1")
        refused = typed("resolve", "o1", "book#1", "--not-executed", "--evidence", "x", *WORD)
        assert refused.exit_code == 7
        assert f"owned by process {worker.pid} on " in refused.stderr
        assert place.head("o1") == before
        fenced = typed("fence", "o1")
        assert fenced.exit_code == 0
        assert f"process {worker.pid} on " in fenced.stdout
        assert "may still be sending" in fenced.stdout
        place.remove("closed")
        _, err = worker.communicate(timeout=240)
        assert "FencedOut" in err  # what it did is late evidence
    assert typed("--run-id", "o1").exit_code == 0
    assert place.ledger() == ["book book-o1"]  # its reply was adopted, and nothing was sent again


def test_a_plan_names_its_head_and_is_carried_out_only_there(place: Place, typed: Typed) -> None:
    place.worker("order", "o1", "screw", crash_at="send.before")
    plan = document(typed("--run-id", "o1", "--plan", "--json"))["plan"]
    assert plan["head_digest"] == place.head("o1")
    assert typed("fence", "o1").exit_code == 0
    moved = typed("--run-id", "o1", "--if-head", plan["head_digest"])
    assert moved.exit_code == 7
    assert "Plan again with" in moved.stderr
    assert place.ledger() == []
    assert typed("--run-id", "o1", "--if-head", place.head("o1")[:12]).exit_code == 0
    for wrong in (("--plan", "--if-head", "0" * 64), ("--no-probe",), ("--if-head", "abc")):
        assert typed("--run-id", "o1", *wrong).exit_code == 2


def test_forgetting_too_early_exits_4_with_the_time(place: Place, typed: Typed) -> None:
    place.worker("order", "o1", "screw")
    early = typed("forget", "o1")
    assert early.exit_code == 4
    assert "may still be asked for until 20" in early.stderr
    assert typed("forget", "nobody").exit_code == 2


def test_reading_commands_neither_create_nor_claim(place: Place, typed: Typed) -> None:
    for command in (("doubt",), ("explain", "n1", "mail#1"), ("explain", "n1")):
        assert typed(*command).exit_code == 2
    assert "shop.db" not in place.files()
    place.worker("notify", "n1", "bob", crash_at="send.after")
    before = place.row("n1")
    assert typed("doubt").exit_code == 0
    assert typed("explain", "n1", "mail#1").exit_code == 0
    assert typed("explain", "n1").exit_code == 0
    assert place.row("n1") == before


OPERATORS = {
    "recover doubt": (),
    "recover explain": ("n1", "mail#1"),
    "recover explain RUN": ("n1",),
    "recover parking": (),
    "recover resolve": ("n1", "mail#1", "--not-executed", "--evidence", "x", *WORD),
    "recover hold": ("n1", *WORD),
    "recover fence": ("n1",),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_documents_have_the_documented_keys(doubtful: Place, typed: Typed, name: str) -> None:
    ended = typed(name.split()[1], *OPERATORS[name], "--json")
    assert set(document(ended)) == {"schema_version", *DOCUMENTS[name]}
