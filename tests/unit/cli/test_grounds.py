"""Grounds: a file's content or a text, and never the mistyped name of a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import typer

from recovery.cli.grounds import BYTES_MAX, grounds


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "board.txt").write_bytes(b"order 1 \xff")
    (tmp_path / "call").write_text("at noon")
    (tmp_path / "mails").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("board.txt", "file board.txt: order 1 \N{REPLACEMENT CHARACTER}"),
        ("./board.txt", "file board.txt: order 1 \N{REPLACEMENT CHARACTER}"),
        ("call", "file call: at noon"),
        ("text:call", "call"),
        ("text:bord.txt", "bord.txt"),
        ("text:", ""),
        ("", ""),
    ],
)
def test_a_file_that_is_here_gives_its_content(said: str, kept: str) -> None:
    assert grounds(said) == kept


@pytest.mark.parametrize(
    "said",
    [
        "telephone", "OPS-123", "ticket 12", "see bord.txt", "the log at /var/log/mail", "https://tickets/12.html", "ann@example.com",
        "v1.2", "1.000.000", "...and she said so", "she said yes.", "x" * 5_000, f"{'x' * 300} {'y' * 300}/z", "a \0 b", "\udcff scan",
    ],
)  # fmt: skip
def test_what_looks_like_no_name_is_a_text(said: str) -> None:
    assert grounds(said) == said


@pytest.mark.parametrize(
    "said",
    ["bord.txt", "mails/7", "/nowhere/log", "~/log", ".log", "board.txt/7", "mails", ".", "log.gz", f"{'x' * 300}.txt", "a\0.txt"],
)
def test_the_name_of_a_file_that_cannot_be_read_is_refused_with_how_to_say_that_it_is_a_text(said: str) -> None:
    with pytest.raises(typer.BadParameter, match="Nothing was settled") as refused:
        grounds(said)
    assert "--evidence text:" in refused.value.message.replace("'", "")
    assert grounds(f"text:{said}") == said


def test_a_file_that_may_not_be_read_is_no_text(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # whoever runs the tests may read everything
    with pytest.raises(typer.BadParameter, match="Permission denied"):
        grounds("call")


def test_a_pipe_of_the_shell_is_read(here: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"from the log")
    os.close(writing)
    assert grounds(f"/dev/fd/{reading}") == f"file {reading}: from the log"
    os.close(reading)


def test_a_file_that_is_too_large_is_refused_and_not_cut(here: Path) -> None:
    (here / "long.log").write_bytes(b"x" * BYTES_MAX)
    assert len(grounds("long.log")) == BYTES_MAX + len("file long.log: ")
    (here / "long.log").write_bytes(b"x" * (BYTES_MAX + 1))
    with pytest.raises(typer.BadParameter, match="Nothing was settled"):
        grounds("long.log")
