"""`recover checkpoint verify-resume`: the report, the document, the plot, the exit codes and the refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.generate import DOCUMENTS
from recovery.core.errors import ExitCode
from tests.integration.cli_typed import Ended, typed

TRAINERS = "tests.integration.resume_trainers"


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def verified(*arguments: str) -> Ended:
    """What it compares are processes of their own."""
    return typed("checkpoint", "verify-resume", *arguments)


def test_the_document_has_the_documented_keys(tmp_path: Path) -> None:
    ended = verified("--before", "2", "--after", "2", "--plot", "p.svg", "--keep", "kept", "--json")
    assert (ended.code, ended.err) == (0, "")
    document = ended.document
    assert set(document) == {"schema_version", *DOCUMENTS["recover checkpoint verify-resume"]}
    assert (document["finding"], document["exact"], document["divergence"]) == ("exact", True, None)
    assert (document["before"], document["after"], document["draws"]) == (2, [2], 8)
    assert all(each["noticed"] and each["refused"] for each in document["dropped"])
    assert [line["name"] for line in document["trajectories"]] == [
        "uninterrupted",
        "resumed",
        "weights only",
        "all but the moments",
    ]
    assert (tmp_path / document["plot"]).stat().st_size > 1000
    assert (tmp_path / document["store"] / "ckpt").is_dir()


def test_a_divergence_ends_with_five_and_names_it() -> None:
    trainer = ("--make", f"{TRAINERS}:ForgetsItsMasks", "--step", f"{TRAINERS}:step")
    ended = verified(*trainer, "--before", "2", "--after", "1", "--no-ablate")
    assert (ended.code, ended.err) == (int(ExitCode.DIVERGED), "")
    for part in (
        "diverged: restored whole, and an update takes something from outside the state",
        "field          history",
        "after update   3",
        "index          [2], the only element that differs",
        "ULP",
        "also           m/embedding, m/hidden",
        "a generator that is not registered",
    ):
        assert part in ended.out


def test_a_trainer_that_fails_ends_with_four_and_its_own_words() -> None:
    ended = verified("--make", f"{TRAINERS}:make_hidden", "--step", f"{TRAINERS}:fails", "--no-ablate")
    assert (ended.code, ended.out) == (int(ExitCode.UNRESOLVED), "")
    assert "ArithmeticError: the loss ran away (resume_trainers.py, line " in ended.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--contract", "loose"), "Use exact, torch-deterministic, torch-reordered"),
        (("--plot", "p.pdf"), ".png or an .svg"),
        (("--keep", "full"), "it is not empty"),
        (("--make", "trainer", "--step", "trainer:step"), "MODULE:FUNCTION"),
    ],
)
def test_a_refusal_is_one_sentence_and_2_before_anything_runs(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "old").touch()
    ended = verified(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert says in ended.err


def test_a_trainer_is_made_and_stepped() -> None:
    ended = verified("--make", "trainer:make")
    assert (ended.code, ended.out) == (2, "")
    assert "give both, or neither" in " ".join(ended.err.replace("│", " ").split())
