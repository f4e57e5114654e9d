"""Failure logs: both forms, strictly, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.checkpoint.planning import failures
from recovery.checkpoint.refusals import FailureLogRefused


def written(directory: Path, name: str, text: str | bytes) -> Path:
    path = directory / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.csv", "at_s,node\n200,b\n100,a\n450.5,c\n"),
        ("log.csv", "\ufeffnode,at_s\r\na,100\r\nb,200\r\nc,450.5\r\n"),
        ("log.jsonl", '{"at_s": 100}\n\n{"at_s": 200.0, "node": "b"}\n{"at_s": "450.5"}\n'),
    ],
)
def test_seconds_count_from_the_beginning(tmp_path: Path, name: str, text: str) -> None:
    found = failures.read(written(tmp_path, name, text))
    assert found.at_s == (100.0, 200.0, 450.5)
    assert found.mtbf_s == pytest.approx(450.5 / 3)
    assert (found.source, found.seed) == (name, None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.csv", "at\n2026-01-01T00:00:00Z\n2026-01-01 02:00:00\n2026-01-01T02:00:00+01:00\n"),
        ("log.ndjson", '{"at": "2026-01-01T00:00:00Z"}\n{"at": "2026-01-01T01:00:00Z"}\n{"at": "2026-01-01T02:00:00Z"}\n'),
    ],
)
def test_times_count_from_the_first_failure(tmp_path: Path, name: str, text: str) -> None:
    assert failures.read(written(tmp_path, name, text)).at_s == (3600.0, 7200.0)


@pytest.mark.parametrize(
    ("name", "text", "where", "problem"),
    [
        ("a.csv", "when\n1\n", "a.csv:1", "neither `at` nor `at_s`"),
        ("a.csv", "", "a.csv:1", "neither `at` nor `at_s`"),
        ("a.csv", "at_s\n1\nsoon\n", "a.csv:3", "'soon' is not a number of seconds"),
        ("a.csv", "at_s\n-1\n", "a.csv:2", "is not a number of seconds"),
        ("a.csv", "at_s\nnan\n", "a.csv:2", "is not a number of seconds"),
        ("a.csv", "at\n1795983682\n", "a.csv:2", "is not a time"),
        ("a.csv", "at,at_s\n,\n", "a.csv:2", "no failure time"),
        ("a.csv", "at,at_s\n2026-01-01,5\n", "a.csv:2", "both"),
        ("a.csv", "at,at_s\n2026-01-01,\n,5\n", "a.csv:3", "lines above have `at`"),
        ("a.csv", 'at_s\n"1\n', "a.csv:2", "not CSV"),
        ("a.csv", "at_s\n", "a.csv", "too few failures"),
        ("a.csv", "at\n2026-01-01\n", "a.csv", "too few failures"),
        ("a.csv", "at_s\n0\n", "a.csv", "too few failures"),
        ("a.csv", b"at_s\n\xff\n", "a.csv", "not UTF-8"),
        ("a.jsonl", "5\n", "a.jsonl:1", "not a JSON object"),
        ("a.jsonl", '{"at_s": 1}\n{"at_s": \n', "a.jsonl:2", "not a JSON object"),
        ("a.jsonl", '{"at_s": true}\n', "a.jsonl:1", "is not a number of seconds"),
        ("a.jsonl", '{"at_s": 1' + "0" * 400 + "}\n", "a.jsonl:1", "is not a number of seconds"),
        ("a.jsonl", '{"at": 5}\n', "a.jsonl:1", "is not a time"),
        ("a.jsonl", "[" * 50_000 + "\n", "a.jsonl:1", "not a JSON object"),
        ("a.jsonl", '{"at_s": 1, "x": "' + "y" * failures.LINE_MAX + '"}\n', "a.jsonl:1", "not a JSON object"),
    ],
)
def test_what_is_no_failure_log_is_refused_with_its_line(
    tmp_path: Path, name: str, text: str | bytes, where: str, problem: str
) -> None:
    with pytest.raises(FailureLogRefused) as caught:
        failures.read(written(tmp_path, name, text))
    assert caught.value.where == str(tmp_path / where)
    assert problem in caught.value.problem
    assert len(str(caught.value)) < 600


def test_a_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "a.csv", "at_s\n1\n2\n3\n")
    monkeypatch.setattr(failures, "COUNT_MAX", 2)
    with pytest.raises(FailureLogRefused, match=r"a\.csv:4: it is past 2 failures"):
        failures.read(path)
    monkeypatch.setattr(failures, "BYTES_MAX", 5)
    with pytest.raises(FailureLogRefused, match="larger than 5 bytes"):
        failures.read(path)


@pytest.mark.parametrize("name", ["nothing.csv", "."])
def test_a_log_that_is_not_there_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FailureLogRefused, match="no such file"):
        failures.read(tmp_path / name)


def test_drawing_is_bounded() -> None:
    for shape in (0.1, 11.0):
        with pytest.raises(FailureLogRefused, match="Weibull shape"):
            failures.weibull(100.0, shape)
    with pytest.raises(FailureLogRefused, match="2 to 1000000"):
        failures.exponential(100.0, count=1)


def test_what_is_drawn_is_the_same_everywhere() -> None:
    """Pinned: a report that names its seed can be repeated by somebody else."""
    assert [round(at, 6) for at in failures.exponential(1000.0, count=3, seed=7).at_s] == [391.314844, 554.833301, 1607.328919]
