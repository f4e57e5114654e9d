"""The catalogue: every entry is a legal contract, each promise with a source and a status, and what is told about it is what recovery does."""

from __future__ import annotations

import copy
import json
import re
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
import yaml
from pydantic import ValidationError
from typer.testing import CliRunner

from docs.generate import DOCUMENTS
from recovery import catalogue, cli, contracts, errors
from recovery.catalogue import Basis, Entry, Status
from recovery.catalogue.consequences import TIMEOUT_US, resend_until_us
from recovery.catalogue.shelf import _providers
from recovery.console.contracts import (
    FOLLOWS,
    KNOWN,
    a_copy,
    after_a_crash,
    cited,
    how_known,
    means,
    provider,
    shelf,
    shown,
    window,
)
from recovery.console.paper import Paper, plain
from recovery.core.contracts import Contract, Kind, microseconds
from recovery.core.rows import Action
from recovery.core.truth import check
from tests.unit.core.making import sent

NAMES = catalogue.names()

WANTED = """stripe-v1 stripe-v2 ietf-idempotency-key adyen paypal-orders-v2 paypal-payments-v2 square checkout-com ppro qonto truelayer-v3
azure-communication-services google-aip-155 ec2-run-instances dynamodb-transact-write-items sqs-fifo step-functions-start-execution
kafka-idempotent-producer s3-conditional-write kubernetes-create postgresql-prepared sql-receipt-row smtp sendgrid-mail-send agentmail resend
sendmux github-issues powertools-idempotency stripe-metadata-search"""


def test_the_known_providers_are_there() -> None:
    assert sorted(WANTED.split()) == NAMES


def test_every_class_of_effect_but_a_read_has_an_example() -> None:
    assert {entry.kind for entry in catalogue.entries()} == set(Kind) - {Kind.READ}


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_is_a_legal_contract_that_survives_storage(name: str) -> None:
    entry, contract = catalogue.entry(name), catalogue.load(name)
    assert (entry.name, contract.name, contract.kind) == (name, name, entry.kind)
    assert check(contract) is contract
    again = Contract.from_json(json.loads(json.dumps(contract.to_json())))
    assert (again, again.digest) == (contract, contract.digest)


@pytest.mark.parametrize("name", NAMES)
def test_every_promise_and_note_has_a_source_and_a_status(name: str) -> None:
    entry = catalogue.entry(name)
    for note in (*entry.promises, *entry.notes):
        source, status = entry.sources[note.source], entry.status(note)
        assert (source.basis is Basis.VENDOR) <= (status in {Status.READ, Status.NOT_PUBLISHED})
        assert (status in {Status.READ, Status.EARLIER}) <= (
            source.url is not None and source.read is not None and len(source.read) == 10
        )
        assert status in KNOWN
    for source in entry.sources.values():
        assert source.url is None or not re.search(r"pypi|npmjs|crates\.io|rubygems", source.url)


def test_a_window_that_is_not_published_says_how_we_know_that() -> None:
    square, window_of = catalogue.entry("square"), {e.name: e.promise("window") for e in catalogue.entries()}
    unpublished = {
        name for name, p in window_of.items() if p is not None and catalogue.entry(name).status(p) is Status.NOT_PUBLISHED
    }
    assert (
        unpublished
        == {name for name in NAMES if window(catalogue.load(name)) == "not published"}
        == {"square", "ietf-idempotency-key"}
    )
    assert (promise := window_of["square"]) is not None
    assert square.sources[promise.source].basis is Basis.VENDOR


@pytest.mark.parametrize(
    ("name", "field", "status"),
    [
        ("stripe-v1", "window", Status.READ),
        ("agentmail", "window", Status.READ),
        ("ec2-run-instances", "window", Status.EARLIER),
        ("square", "window", Status.NOT_PUBLISHED),
        ("square", "key_length_max", Status.EARLIER),
        ("github-issues", "lookup.authoritative", Status.REPORTED),
        ("adyen", "remembers", Status.INFERRED),
        ("stripe-v1", "lookup.lag", None),
    ],
)
def test_a_number_is_known_as_well_as_its_source(name: str, field: str, status: Status | None) -> None:
    assert how_known(catalogue.entry(name), field) is status


def test_no_number_of_a_contract_rests_on_what_was_never_read() -> None:
    """What is as given may be a note; a value that recovery acts upon was read, reported, or follows from what was."""
    assert not [(e.name, p.field) for e in catalogue.entries() for p in e.promises if e.status(p) is Status.UNVERIFIED]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_promised_is_stated_and_everything_else_is_told_to_be_a_default(name: str) -> None:
    entry, contract = catalogue.entry(name), catalogue.load(name)
    fields = {"replay": "replay_success", "remembers": "replay_failure", "remembers_rejections": "replay_rejection"}
    for promise in entry.promises:
        field = fields.get(promise.field, promise.field.partition(".")[0])
        assert not {field, f"{field}_us"} & set(contract.unstated), promise.field


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_survives_its_own_form(name: str) -> None:
    entry = catalogue.entry(name)
    assert Entry.model_validate(entry.model_dump(mode="json", by_alias=True)) == entry
    assert Entry.model_validate(yaml.safe_load((_providers() / f"{name}.yaml").read_text(encoding="utf-8"))) == entry


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("stripe-v1", "window_us", 24 * 3600 * 10**6),
        ("stripe-v1", "replay_failure", contracts.Replay.INDETERMINATE),
        ("stripe-v2", "replay_failure", contracts.Replay.RESUMES),
        ("qonto", "mismatch_checked", False),
        ("paypal-orders-v2", "replay_success", contracts.Replay.CURRENT),
        ("square", "window_us", None),
        ("square", "cancel_by_key", True),
        ("square", "close", False),
        ("sendmux", "fail_open", True),
        ("resend", "key_carrier", "header:Idempotency-Key"),
        ("square", "key_length_max", 45),
        ("paypal-orders-v2", "key_length_max", 108),
        ("truelayer-v3", "window_us", 30 * 24 * 3600 * 10**6),
        ("ietf-idempotency-key", "mismatch_checked", False),
        ("powertools-idempotency", "lock_outlives_execution", False),
        ("azure-communication-services", "after_window", contracts.AfterWindow.REJECTS),
        ("google-aip-155", "key_length_max", 36),
        ("sqs-fifo", "kind", Kind.SWALLOW),
        ("sql-receipt-row", "window_us", microseconds(contracts.FOR_EVER)),
        (
            "stripe-metadata-search",
            "lookup",
            contracts.Lookup(lag_us=3600 * 10**6, authoritative=False, deletion=contracts.Deletion.INVISIBLE, original=False),
        ),
    ],
)
def test_what_matters_most_arrives_in_the_contract(name: str, field: str, value: Any) -> None:
    assert getattr(catalogue.load(name), field) == value


# -- what you know better --------------------------------------------------------------------------------------------------


def test_what_you_know_better_replaces_a_promise() -> None:
    longer = catalogue.load("paypal-orders-v2", window=timedelta(hours=72), stable_fields=("id",))
    assert (longer.window_us, longer.stable_fields) == (72 * 3600 * 10**6, ("id",))
    assert longer.name == "paypal-orders-v2"


def test_a_promise_can_be_taken_out() -> None:
    assert catalogue.load("stripe-v1", remembers=None).replay_failure is contracts.Replay.REEXECUTES
    assert "replay_failure" in catalogue.load("stripe-v1", remembers=None).unstated


def test_what_you_know_better_must_be_able_to_be_true() -> None:
    with pytest.raises(errors.DefinitionError, match="close"):
        catalogue.load("sendmux", close=True)
    with pytest.raises(TypeError):
        catalogue.load("smtp", window=timedelta(hours=1))


def test_an_unknown_provider_is_a_usage_error_that_names_the_known_ones() -> None:
    with pytest.raises(errors.InvalidName, match=r"provider 'stripe' is not valid.*stripe-v1, stripe-v2"):
        catalogue.load("stripe")
    with pytest.raises(errors.InvalidName):
        catalogue.load("../providers/stripe-v1")


# -- the form of an entry --------------------------------------------------------------------------------------------------

PLAIN: dict[str, Any] = {
    "name": "plain",
    "title": "Plain",
    "class": "keyed",
    "sources": {"page": {"title": "A page", "basis": "vendor", "read": "2026-11-29", "url": "https://example.com/"}},
    "promises": [{"field": "window", "is": "PT24H", "says": "A day.", "source": "page"}],
}


def changed(change: Any) -> dict[str, Any]:
    entry = copy.deepcopy(PLAIN)
    change(entry)
    return entry


def test_the_plain_entry_is_valid() -> None:
    assert Entry.model_validate(PLAIN).contract().window_us == 24 * 3600 * 10**6


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda e: e["promises"][0].update(source="elsewhere"), "sources and citations differ"),
        (lambda e: e["sources"].update(unused=e["sources"]["page"]), "sources and citations differ"),
        (lambda e: e["sources"]["page"].pop("read"), "has the day on which it was read"),
        (lambda e: e["sources"]["page"].update(read="2026-11"), "has the day on which it was read"),
        (lambda e: e["sources"]["page"].update(basis="inferred"), "what is inferred has neither"),
        (lambda e: e["sources"]["page"].update(basis="as given"), "what is as given has its month"),
        (lambda e: e["sources"]["page"].update(basis="as given", read="2026-11"), "this was not read"),
        (lambda e: e["sources"]["page"].update(basis="general knowledge"), "basis"),
        (lambda e: e["sources"]["page"].pop("url"), "a page without one is not read at the vendor"),
        (
            lambda e: (e["sources"]["page"].update(basis="earlier edition"), e["sources"]["page"].pop("url")),
            "a vendor's page has its address",
        ),
        (lambda e: e["sources"]["page"].update(read="November"), "pattern"),
        (lambda e: e["sources"]["page"].update(url="http://example.com"), "pattern"),
        (lambda e: e["promises"].append(e["promises"][0]), "promised twice"),
        (lambda e: e["promises"][0].update({"is": "a day"}), "duration"),
        (lambda e: e["promises"][0].update({"is": "PT0S"}), "not longer than zero"),
        (lambda e: e["promises"][0].update(field="windows"), "valid boolean|unexpected keyword"),
        (lambda e: e["promises"].clear(), "sources and citations differ"),
        (lambda e: e.update({"class": "kind"}), "class"),
        (lambda e: e.update(name="Plain Name"), "pattern"),
        (lambda e: e.update(extra=1), "Extra inputs"),
    ],
)
def test_a_careless_entry_is_refused(change: Any, complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        Entry.model_validate(changed(change))


# -- what follows ----------------------------------------------------------------------------------------------------------


def test_what_is_told_is_what_recovery_does() -> None:
    """The same row as a journal of the kind gets, on both sides of the last moment of a re-send."""
    for name in NAMES:
        contract, until_us = catalogue.load(name), resend_until_us(catalogue.load(name))
        if until_us is not None:
            assert sent().row(until_us, contract) == 30
            assert sent().row(until_us + 1, contract) != 30
        else:
            assert sent().row(1_000_000, contract) != 30
    assert TIMEOUT_US == 30 * 10**6


@pytest.mark.parametrize("name", NAMES)
def test_a_first_request_is_always_sent_and_never_repeated_after_the_window(name: str) -> None:
    told = catalogue.consequences(catalogue.load(name))
    assert told[0].action is Action.SEND
    assert {c.action for c in told if "window is over" in c.when} <= {Action.PARK, Action.ASK}


def test_a_contract_of_ones_own_is_explained_too() -> None:
    told = catalogue.consequences(contracts.CoTransactional(close=True))
    assert [c.row.name for c in told if "no longer wanted" in c.when] == ["close-unwanted"]
    assert catalogue.consequences(contracts.Read())[1].action is Action.SEND
    named = contracts.Named(lookup=contracts.Lookup(deletion=contracts.Deletion.VISIBLE), trust_settle=True)
    assert [c.row.name for c in catalogue.consequences(named) if "no copy could act" in c.when] == ["send-on-trust"]


def test_a_person_is_told_in_one_sentence() -> None:
    assert after_a_crash(catalogue.load("stripe-v1")) == "Sent again for 23 h 39 min, then in doubt."
    assert after_a_crash(catalogue.load("sql-receipt-row")) == "Sent again under the same key, at any time."
    assert after_a_crash(catalogue.load("smtp")) == "Never sent twice; a person decides."
    assert after_a_crash(catalogue.load("square")) == "Never sent twice; in doubt."
    assert after_a_crash(catalogue.load("github-issues")) == "Never sent twice; asked."
    assert after_a_crash(contracts.Read()) == "It is read again."
    assert (window(catalogue.load("square")), window(catalogue.load("smtp"))) == ("not published", "-")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("stripe-v1", "After 24 h a copy is a second charge."),
        ("azure-communication-services", "After 5 min a copy is refused, and does nothing."),
        ("sendmux", "While the key store is down a copy is a second mail, and after 24 h always."),
        ("agentmail", "24 h after the first has completed a copy is a second mail."),
        ("ec2-run-instances", "24 h after the end of what it made a copy is a second launch."),
        ("smtp", "Nothing stops a copy: it is a second mail."),
        ("postgresql-prepared", "Once the first is resolved, a copy is a second transaction."),
        ("kubernetes-create", "A copy is refused while the name is taken; after that it is a second object."),
        ("square", "Nobody says when a key is forgotten; from then on a copy is a second payment."),
        ("sql-receipt-row", "A copy never acts again."),
    ],
)
def test_a_person_is_told_what_one_more_request_is(name: str, sentence: str) -> None:
    assert a_copy(catalogue.entry(name)) == sentence


def test_reading_again_changes_nothing() -> None:
    read = Entry.model_validate({"name": "get", "title": "A read", "class": "read", "sources": {}, "promises": []})
    assert (a_copy(read), plain(shelf(Paper(StringIO()), [read])).splitlines()[1].split()) == (
        "A copy changes nothing.", ["get", "-", "at", "any", "time", "nothing", "new", "-", "read"],
    )  # fmt: skip


def test_values_are_shown_as_people_read_them() -> None:
    def value(name: str, field: str) -> str:
        promise = catalogue.entry(name).promise(field)
        assert promise is not None
        return shown(promise)

    assert value("stripe-v1", "window") == "24 h"
    assert value("sql-receipt-row", "window") == "for ever"
    assert value("square", "window") == "unpublished"
    assert value("stripe-v1", "after_window") == "executes as new"
    assert (value("qonto", "mismatch_checked"), value("resend", "mismatch_checked"), value("qonto", "key_carrier")) == (
        "no", "yes", "header:X-Qonto-Idempotency-Key",
    )  # fmt: skip


def test_every_action_status_and_class_has_words() -> None:
    assert set(FOLLOWS) == set(Action)
    assert set(KNOWN) == set(Status)
    assert all(means(kind).endswith(".") for kind in Kind)


# -- recover contracts -----------------------------------------------------------------------------------------------------


def recover(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, ["contracts", *arguments])


def test_the_list_names_every_provider() -> None:
    listed = recover("list")
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()[1 : len(NAMES) + 1]] == NAMES
    assert "None of it was measured." in listed.stdout


@pytest.mark.parametrize(("width", "columns"), [(80, 4), (100, 4), (120, 6)])
def test_the_list_fits_a_terminal_line_by_line(width: int, columns: int) -> None:
    screen = StringIO()
    paper = Paper(screen, terminal=True, width=width)
    paper.print(shelf(paper, catalogue.entries()))
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in screen.getvalue().splitlines()]
    assert len(re.split(r" {2,}", lines[0])) == columns
    assert [line.split()[0] for line in lines[1 : len(NAMES) + 1]] == NAMES
    assert lines[len(NAMES) + 1] == ""


def test_the_list_marks_a_window_that_is_not_on_the_vendors_page_today() -> None:
    lines = {line.split()[0]: line for line in recover("list").stdout.splitlines() if line}
    assert "24 h *" in lines["ec2-run-instances"]
    assert {name for name in NAMES if " *" in lines[name]} == {"ec2-run-instances"}


@pytest.mark.parametrize("name", NAMES)
def test_a_provider_is_shown_with_the_source_of_every_promise(name: str) -> None:
    entry = catalogue.entry(name)
    text = plain(provider(Paper(StringIO()), entry))
    for promise in entry.promises:
        assert promise.says in text
        assert entry.sources[promise.source].title in text
        assert f"({KNOWN[entry.status(promise)]} [" in text
    assert a_copy(entry) in text
    for source in entry.sources.values():
        assert cited(source) in text
        assert source.url is None or source.url in text
    for consequence in catalogue.consequences(entry.contract()):
        assert consequence.when in text
        assert f"({consequence.row.name})" in text


def test_a_provider_is_shown_at_a_terminal_and_in_a_pipe() -> None:
    answer = recover("show", "qonto")
    assert answer.exit_code == 0
    assert "The kept reply is returned even where the body differs." in answer.stdout
    assert "in doubt: a person decides (key-expired)" in answer.stdout
    screen = StringIO()
    paper = Paper(screen, terminal=True, width=100)
    paper.print(provider(paper, catalogue.entry("qonto")))
    assert "╭" in screen.getvalue()
    assert "key-expired" in screen.getvalue()


def test_documents_have_the_documented_keys() -> None:
    listed, told = (json.loads(recover(*words, "--json").stdout) for words in (("list",), ("show", "stripe-v1")))
    assert set(listed) == {"schema_version", *DOCUMENTS["recover contracts list"]}
    assert [line["name"] for line in listed["contracts"]] == NAMES
    assert set(told) == {"schema_version", *DOCUMENTS["recover contracts show"]}
    assert Contract.from_json(told["contract"]).digest == told["digest"] == catalogue.load("stripe-v1").digest
    assert Entry.model_validate(told["provider"]) == catalogue.entry("stripe-v1")
    assert told["measured"] is False
    assert told["statuses"]["window"] == listed["contracts"][NAMES.index("stripe-v1")]["window_status"] == "read at the vendor"
    assert set(told["statuses"]) == {promise.field for promise in catalogue.entry("stripe-v1").promises}


def test_an_unknown_provider_ends_with_a_sentence_and_exit_code_2() -> None:
    told = recover("show", "nope", "--json")
    assert told.exit_code == 2
    assert json.loads(told.stdout)["error"]["type"] == "InvalidName"
