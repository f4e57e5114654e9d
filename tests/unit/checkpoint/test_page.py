"""The page about the format says what the code does."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from recovery.checkpoint import admitting, limits, manifest
from recovery.checkpoint.header import WIDTHS
from recovery.checkpoint.marks import Mark
from tests.benchmarks.reporting import Figure, compared, measured, put_on_page, read, write

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/reference/checkpoint-format.md").read_text(encoding="utf-8")

OF_A_STORE = (
    "admitting",
    "header",
    "manifest",
    "reading",
    "saving",
    "shards",
    "state",
    "strict",
    "tiling",
    "validating",
    "readback",
)


def rows(heading: str) -> dict[str, list[str]]:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return {match[1]: match[0].split("|") for match in re.finditer(r"^\| `([^`]+)` \|.*$", section, re.MULTILINE)}


def test_every_limit_is_told_with_its_value() -> None:
    told = {name: int(cells[2]) for name, cells in rows("Limits").items()}
    assert told == dataclasses.asdict(limits.Limits())


def test_every_key_of_a_manifest_is_told() -> None:
    assert set(rows("Manifest")) == set(admitting._KEYS)


def test_every_reason_of_a_store_is_told() -> None:
    sources = [(ROOT / "recovery/checkpoint" / f"{name}.py").read_text(encoding="utf-8") for name in OF_A_STORE]
    used = {reason for source in sources for reason in re.findall(r'reason(?:: str = |=)"([^"]+)"', source)} | {"invariant"}
    assert set(rows("Reasons")) == used


def test_names_are_told() -> None:
    assert {manifest.FILE, manifest.STATE, *Mark, *WIDTHS} <= set(re.findall(r"[A-Za-z0-9_.]+", PAGE))
    assert manifest.ID_DOMAIN.decode().strip() in PAGE


def test_the_figures_of_a_run_of_the_benchmark_find_their_place_on_the_page(tmp_path: Path) -> None:
    """As `make bench-checkpoint PAGE=...` puts them there; what stands around them is left alone."""
    ours = measured("commit 256 MB: recovery", [0.104, 0.093, 0.108], [0.092, 0.092, 0.09])
    bare = measured("commit 256 MB: the bare disk", [0.113, 0.093, 1.26], [0.05, 0.05, 0.05])
    figures = [Figure("load average at the end", 1.1, "", note="of one minute"), ours, bare]
    figures.append(compared("commit 256 MB over the floor", ours, 0.93, 1.25, "the bare disk"))
    write(tmp_path / "figures.json", figures)
    assert read(tmp_path / "figures.json") == figures
    page = tmp_path / "page.md"
    page.write_text((ROOT / "docs/explanation/checkpoints.md").read_text(encoding="utf-8"), encoding="utf-8")
    before = page.read_text(encoding="utf-8").splitlines()
    for _ in range(2):
        put_on_page(page, read(tmp_path / "figures.json"))
    after = page.read_text(encoding="utf-8").splitlines()
    row = "| commit 256 MB over the floor | 104 ms (93 to 108) | 92 ms | the bare disk | 113 ms (93 to 1,260) | 0.93 | at most 1.25 x | met |"
    assert row in after
    assert [line for line in after if "<!--" in line] == [line for line in before if "<!--" in line]
    assert after[: before.index("## What a save costs")] == before[: before.index("## What a save costs")]
    (tmp_path / "other.md").write_text("nothing")
    with pytest.raises(ValueError, match="no place"):
        put_on_page(tmp_path / "other.md", figures)
