"""The programs on the page about torch jobs do what it says. `make test` writes them to files and no more, since they need torch."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.docs.runner import ROOT, blocks

PAGE = ROOT / "docs" / "how-to" / "checkpoint-a-torch-job.md"


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with the programs of the page."""
    for block in blocks(PAGE.read_text(encoding="utf-8")):
        if block.title:
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
    for name in ("once", "twice"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_program_goes_on_where_its_last_checkpoint_is(
    written: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = []
    for directory, updates in (("once", 20), ("twice", 10), ("twice", 20)):
        monkeypatch.chdir(written / directory)
        monkeypatch.setenv("UPDATES", str(updates))
        runpy.run_path(str(written / "train.py"), run_name="__main__")
        told.append(capsys.readouterr().out.splitlines())
    once, ten, twenty = told
    assert (once[0], ten[0], twenty[0]) == ("begins", "begins", "resumed after 10")
    assert once[1] == twenty[1] != ten[1]


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")
def test_dcp_s_own_save_and_load_run_as_shown(written: Path) -> None:
    runpy.run_path(str(written / "plain_dcp.py"), run_name="__main__")
    assert (written / "states" / "ckpt").is_dir()
