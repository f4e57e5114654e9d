"""cancel, pause, resume, fork and restart, as typed: exit codes, documents, and every misuse."""

from __future__ import annotations

from typing import Any

import pytest

from docs.generate import DOCUMENTS
from tests.integration.cli_place import Place

WHO = ("--by", "ann", "--reason", "x")


def typed(place: Place, *words: str) -> Any:
    return place.recover(*words, "--db", place.url)


def keys(place: Place, *words: str) -> set[str]:
    return set(typed(place, *words, "--json").document) - {"schema_version"}


def unwrapped(printed: str) -> str:
    return " ".join(printed.split())


@pytest.fixture
def open_run(place: Place) -> Place:
    """A run whose worker died when its effect was done."""
    place.worker("order", "o1", "screw", crash_at="send.after:1")
    return place


def test_orders_about_an_open_run_print_what_is_documented(open_run: Place) -> None:
    place = open_run
    assert keys(place, "pause", "o1", *WHO) == set(DOCUMENTS["recover pause"])
    assert typed(place, "pause", "o1", *WHO).code == 2
    assert keys(place, "resume", "o1", *WHO) == set(DOCUMENTS["recover resume"])
    assert typed(place, "resume", "o1", *WHO).code == 2
    assert typed(place, "restart", "o1", "nowhere#1", *WHO).code == 2
    assert keys(place, "restart", "o1", "book#1", "--forbid", "book#1", "--plan", *WHO) == set(DOCUMENTS["recover restart"])
    assert keys(place, "cancel", "o1", *WHO) == set(DOCUMENTS["recover cancel"])
    for verb in ("cancel", "pause", "resume"):
        assert typed(place, verb, "nowhere", *WHO).code == 2
        assert typed(place, verb, "o1", "--by", "ann").code == 2, "an order says why"


def test_a_fork_of_an_open_run_says_that_both_go_on(open_run: Place) -> None:
    place = open_run
    assert "happens in both, unless `recover cancel o1` ends it" in unwrapped(
        typed(place, "fork", "o1", "o2", "--at", "book#1", "--plan", *WHO).out
    )
    made = typed(place, "fork", "o1", "o2", "--at", "book#1", *WHO, "--json").document
    assert (made["of_run_status"], made["both_go_on"]) == ("running", True)
    typed(place, "cancel", "o1", *WHO)
    assert "both" not in typed(place, "fork", "o1", "o2", "--at", "book#1", *WHO).out
    assert not typed(place, "fork", "o1", "o2", "--at", "book#1", *WHO, "--json").document["both_go_on"]


def test_forks_print_what_is_documented_and_refuse_what_cannot_be(place: Place) -> None:
    place.worker("order", "o1", "screw")
    assert keys(place, "fork", "o1", "o2", *WHO, "--plan") == set(DOCUMENTS["recover fork"])
    assert typed(place, "show", "o2").code == 2, "a plan stores nothing"
    assert typed(place, "fork", "o1", "o2", *WHO).code == 0
    assert typed(place, "fork", "o1", "o2", *WHO).code == 0, "the same again"
    assert typed(place, "fork", "o1", "o1", *WHO).code == 2
    assert typed(place, "fork", "o1", "o3", "--new-key", "x#1", *WHO).code == 2, "a new key has a reason"
    assert typed(place, "fork", "o1", "o3", "--new-key", "x#1=y", "--forbid", "x#1", *WHO).code == 2, "one word for a step"
    assert typed(place, "cancel", "o1", *WHO).code == 2
    assert typed(place, "restart", "o1", "x#1", *WHO).code == 2
