"""The page about the format says what the code does."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from recovery.checkpoint import admitting, limits, manifest
from recovery.checkpoint.header import WIDTHS
from recovery.checkpoint.marks import Mark

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
