"""`recover replay`: one line each, a count, and on failure the transcript."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import psycopg
import pytest

from docs.generate import DOCUMENTS
from tests.architecture.source import ROOT
from tests.integration.cli_place import Place

S01 = ROOT / "scenarios" / "s01-lost-reply.yaml"
SHORT = ROOT / "scenarios" / "s13-replayed-failure.yaml"
"""What is told of its plays is told of all."""


def test_scenarios_that_hold_are_one_line_each_and_a_count(place: Place) -> None:
    ended = place.recover("replay", str(S01), "--store", "memory")
    assert (ended.code, ended.err) == (0, "")
    *lines, count = ended.out.splitlines()
    assert [line for line in lines if not re.fullmatch(r"✓ S01 .+  memory, (sync|async), \d+\.\d\d s", line)] == []
    assert count.startswith(f"{len(lines)} of {len(lines)} plays hold: memory sync ")


def test_a_scenario_that_does_not_hold_shows_its_transcript_and_exits_1(place: Place) -> None:
    broken = place.directory / "broken.yaml"
    text = S01.read_text()
    broken.write_text(re.sub(r"stock: \{FILTER-A: 8\}", "stock: {FILTER-A: 7}", text, count=1))
    assert broken.read_text() != text, "the scenario no longer says what this test changes"
    ended = place.recover("replay", "broken.yaml", "--store", "memory")
    assert ended.code == 1
    assert "✗ S01" in ended.out
    assert "FILTER-A" in ended.out
    document = place.recover("replay", "broken.yaml", "--store", "memory", "--json").document
    assert set(document) == {"schema_version", *DOCUMENTS["recover replay"]}
    failed = [result for result in document["scenarios"] if not result["passed"]]
    assert len(failed) == document["failed"] > 0
    assert failed[0]["problems"]
    assert failed[0]["transcript"].splitlines()[0] in ended.out


def test_a_file_that_is_no_scenario_names_file_and_line(place: Place) -> None:
    (place.directory / "wrong.yaml").write_text("scenario: S99\nname: wrong\nnonsense: 1\n")
    ended = place.recover("replay", "wrong.yaml", "--store", "memory")
    assert ended.code == 2
    assert re.search(r"wrong\.yaml:\d+", ended.out)
    assert ended.out.endswith("0 of 1 play hold\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.yaml"], "path 'nowhere.yaml' does not exist"),
        ([str(S01), "--store", "oracle"], "oracle is no store"),
        ([], "Missing argument 'PATH'"),
    ],
)
def test_a_mistake_is_named_and_exits_2(place: Place, arguments: list[str], says: str) -> None:
    ended = place.recover("replay", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err


def test_a_directory_without_scenarios_does_not_pass(place: Place, tmp_path: Path) -> None:
    (empty := tmp_path / "empty").mkdir()
    ended = place.recover("replay", str(empty))
    assert ended.code == 2
    assert "it holds no scenario files" in ended.out


@pytest.mark.parametrize("option", ["--store", "--db"])
def test_a_postgresql_database_of_ones_own_is_a_store_and_stays_as_it_was(
    place: Place, empty_postgres_url: str, option: str
) -> None:
    shutil.copy(SHORT, place.directory / "one.yaml")
    before = schemas(empty_postgres_url)
    ended = place.recover("replay", "one.yaml", option, empty_postgres_url)
    assert ended.code == 0, ended.out + ended.err
    assert " postgres, sync, " in ended.out
    assert " postgres, async, " in ended.out
    assert schemas(empty_postgres_url) == before


def schemas(url: str) -> list[tuple[str, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_t' ORDER BY 1").fetchall()


def test_the_count_says_what_was_played_on_each_store_in_each_colour(place: Place) -> None:
    document = place.recover("replay", str(SHORT), "--json").document
    plays = document["passed"] // 4
    count = place.recover("replay", str(SHORT)).out.splitlines()[-1]
    each = ", ".join(f"{store} {colour} {plays} of {plays}" for store in ("memory", "sqlite") for colour in ("sync", "async"))
    assert count == f"{plays * 4} of {plays * 4} plays hold: {each}"
