"""Mistakes in scenario files: each names the file, the line and the field, and nothing is run."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from recovery.core.errors import RecoveryError
from recovery.testing import ScenarioError, ScenarioResult, load, replay_paths
from recovery.testing.forms import duration
from recovery.testing.loading import SIZE_MAX, parse

GOOD = """\
scenario: S00
name: a plain run
story: A worker reserves two units and nothing goes wrong.
environment:
  stock: {FILTER-A: 10}
  effects:
    reserve: {contract: keyed, window: 24h}
workflow:
  - perform: reserve
    with: {sku: FILTER-A, qty: 2}
  - return: $reserve
timeline:
  - run: A
  - advance: 1h30m
expect:
  status: completed
"""


def refused(text: str) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        parse(text, "file.yaml")
    return list(caught.value.problems)


def test_a_good_file() -> None:
    [scenario] = parse(GOOD, "file.yaml")
    assert scenario.name == "a plain run"
    assert scenario.environment.effects["reserve"].window == timedelta(hours=24)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("  - run: A", "  - run: A\n    kill: {at: nowhere}", "file.yaml:14: timeline[0].kill.at: 'nowhere' is no crash point"),
        ("  - run: A", "  - run: A\n    kill: {at: send.after, occurrence: 0}", "file.yaml:14: timeline[0].kill.occurrence: Input should be"),
        ("  - run: A", "  - run: A\n    typo: 1", "file.yaml:14: timeline[0].typo: Extra inputs are not permitted"),
        ("  - run: A", "  - walk: A", "file.yaml:13: timeline[0]: it has none of: run, recover"),
        ("advance: 1h30m", "advance: soon", "file.yaml:14: timeline[1].advance: a duration is written like"),
        ("advance: 1h30m", "advance: 90", "file.yaml:14: timeline[1].advance: a duration is written like"),
        ("status: completed", "status: finished", "file.yaml:16: expect.status: Input should be"),
        ("status: completed", "entries: {intents: 1}", "file.yaml:16: expect.entries: there is no kind of entry 'intents'"),
        ("status: completed", "verdicts: [7]", "file.yaml:16: expect.verdicts[0]: Input should be a valid string"),
        ("status: completed", "settled: {reserve#1: {row: best}}", "file.yaml:16: expect.settled.reserve#1.row: there is no verdict row 'best'"),
        ("story: A worker reserves two units and nothing goes wrong.\n", "", "file.yaml:1: story: Field required"),
        ("    with: {sku: FILTER-A, qty: 2}\n", "", "file.yaml:9: workflow[0].with: Field required"),
        ("with: {sku: FILTER-A, qty: 2}", "with: 7", "file.yaml:10: workflow[0].with: Input should be a valid dictionary"),
        ("contract: keyed, window: 24h", "contract: keyed", "file.yaml:7: environment.effects.reserve: a keyed contract has a window"),
        ("contract: keyed", "contract: opaque", "file.yaml:7: environment.effects.reserve: a contract of the class opaque has no key, and so neither a window nor a close"),
        ("contract: keyed", "contract: magic", "file.yaml:7: environment.effects.reserve.contract: Input should be"),
        ("- perform: reserve", "- perform: refund", "file.yaml:1: file: the environment has no effect 'refund'; it has: reserve"),
        ("name: a plain run", "name: a\nname: b", "file.yaml:3: name: it is there twice"),
        ("name: a plain run", "name: &a x\nexempt: *a", "file.yaml:2: exempt: aliases are not used here"),
        ("name: a plain run", "name: !!python/object/apply:os.getcwd []", "file.yaml:2: name: the tag 'tag:yaml.org,2002:python/object/apply:os.getcwd'"),
        ("name: a plain run", "name: [", "file.yaml:4: file: "),
        ("name: a plain run", "variants: 3", "file.yaml:2: variants: a list of mappings"),
        ("name: a plain run", "name: x\nvariants: [{story: no name of its own here}]", "file.yaml:3: variants[0].name: a variant is a mapping"),
        ("name: a plain run", "name: x\nexempt: {I11: none}", "file.yaml:3: exempt.I11"),
    ],
)  # fmt: skip
def test_a_mistake_names_its_place(old: str, new: str, problem: str) -> None:
    assert old in GOOD
    problems = refused(GOOD.replace(old, new))
    assert any(found.startswith(problem) for found in problems), problems


def test_several_mistakes_are_told_at_once() -> None:
    problems = refused(GOOD.replace("run: A", "run: ''").replace("1h30m", "soon"))
    assert len(problems) == 2


def test_a_mistake_in_a_variant_names_the_variants_line() -> None:
    problems = refused(GOOD + "variants:\n  - name: one\n  - name: two\n    expect:\n      status: finished\n")
    assert problems == [problem for problem in problems if problem.startswith("file.yaml:21: expect.status: ")] != []


def test_a_mistake_outside_a_variant_names_the_files_line() -> None:
    problems = refused(GOOD.replace("1h30m", "soon") + "variants:\n  - name: one\n")
    assert problems[0].startswith("file.yaml:14: timeline[1].advance")


@pytest.mark.parametrize("text", ["", "# nothing\n", "- a\n- b\n", "plain\n"])
def test_what_is_no_mapping(text: str) -> None:
    assert refused(text)[0].startswith("file.yaml:1: file: ")


def test_variants_are_merged_over_the_file() -> None:
    both = parse(
        GOOD + "variants:\n"
        "  - name: one\n"
        "  - name: two\n"
        "    environment: {stock: {FILTER-B: 1}, effects: {reserve: {contract: opaque, window: null}}}\n"
        "    timeline: [{run: A}]\n"
        "    expect: {executions: {}}\n",
        "file.yaml",
    )
    assert [scenario.name for scenario in both] == ["one", "two"]
    assert both[1].environment.stock == {"FILTER-A": 10, "FILTER-B": 1}
    assert both[1].environment.effects["reserve"].contract == "opaque"
    assert len(both[1].timeline) == 1
    assert both[1].expect.status == "completed"
    assert both[0].expect.executions is None


def test_a_variant_replaces_values_whole() -> None:
    [scenario] = parse(GOOD + "  outcome: {a: 1}\nvariants:\n  - name: one\n    expect: {outcome: {b: 2}}\n", "file.yaml")
    assert scenario.expect.outcome == {"b": 2}


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_text(GOOD + "#" * SIZE_MAX)
    with pytest.raises(ScenarioError, match=r"large.yaml:1: file: it is larger than"):
        load(path)


def test_deep_nesting_is_refused() -> None:
    assert "nested too deeply" in refused(GOOD + "  outcome: " + "[" * 60 + "]" * 60 + "\n")[0]


def test_dates_are_strings() -> None:
    [scenario] = parse(GOOD + "  outcome: 2026-01-01\n", "file.yaml")
    assert scenario.expect.outcome == "2026-01-01"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("30s", 30), ("20m", 1200), ("25h", 90_000), ("7d", 604_800), ("1h30m", 5400), ("1.5s", 1.5)],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["999999999999d", "999999999d999999999d"])
def test_a_duration_beyond_what_can_be_counted_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="999,999,999 days"):
        duration(text)


@pytest.mark.parametrize("text", ["", "s", "1", "-1s", "1 s", "1w", "1h-5m", "\u0661s", 5, None])
def test_what_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match="a duration is written like"):
        duration(text)


def test_a_bad_file_is_a_result_and_the_next_file_is_played(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD.replace("run: A", "walk: A"))
    (tmp_path / "b.yaml").write_text(GOOD)
    (tmp_path / "empty").mkdir()
    heard = []
    paths = [tmp_path, tmp_path / "gone.yaml", tmp_path / "empty"]
    results = replay_paths(paths, stores=["memory", "sqlite"], colours=["sync"], on_result=heard.append)
    assert results == heard
    assert [(result.path.name, result.store, result.passed) for result in results] == [
        ("a.yaml", "memory", False),
        ("gone.yaml", "memory", False),
        ("empty", "memory", False),
        ("b.yaml", "memory", True),
        ("b.yaml", "sqlite", True),
    ]
    assert results[0].problems[0].startswith(f"{tmp_path / 'a.yaml'}:13: timeline[0]: ")
    assert "No such file" in results[1].problems[0]
    assert "holds no scenario files" in results[2].problems[0]


def test_a_passwords_url_is_not_in_a_result(tmp_path: Path) -> None:
    results: list[ScenarioResult] = []
    (tmp_path / "a.yaml").write_text("")
    with pytest.raises(RecoveryError) as refused:
        replay_paths([tmp_path], stores=["postgresql://me:secret@127.0.0.1:1/x"], on_result=results.append)
    assert "secret" not in str(refused.value)
    assert [result.store for result in results] == ["postgres"]


def test_a_pipe_and_a_device_are_no_scenarios(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    for path in (tmp_path / "pipe.yaml", Path("/dev/zero")):
        with pytest.raises(ScenarioError, match="it is not a regular file"):
            load(path)


def test_nesting_without_end_is_refused() -> None:
    assert refused("a: " + "[" * 20_000) == ["file.yaml:1: file: it is nested too deeply"]
