"""The public types as code: mypy strict and pyright accept the right uses and reject exactly the marked lines."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
pytestmark = pytest.mark.typing

CASES = sorted((HERE / "cases").glob("*.py"))

Lines = set[tuple[str, int]]


def expected() -> Lines:
    return {
        (path.name, number)
        for path in CASES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if "# expect-error" in line
    }


def run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 1, done.stdout + done.stderr  # 1: errors were found; anything else: the tool failed
    return done.stdout


def mypy(cache: Path) -> Lines:
    options = ["--strict", "--config-file=", "--python-version=3.11", "--no-error-summary", f"--cache-dir={cache}"]
    output = run(sys.executable, "-m", "mypy", *options, *map(str, CASES))
    found = re.findall(r"^(?:.*/)?(\w+\.py):(\d+): error:", output, re.MULTILINE)
    return {(name, int(line)) for name, line in found}


def pyright() -> Lines:
    output = run(sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", *map(str, CASES))
    errors = [item for item in json.loads(output)["generalDiagnostics"] if item["severity"] == "error"]
    return {(Path(item["file"]).name, item["range"]["start"]["line"] + 1) for item in errors}


def test_there_are_wrong_uses_of_both_colours() -> None:
    assert {name for name, _ in expected()} == {path.name for path in CASES}
    assert {name.partition("_")[0] for name, _ in expected()} == {"async", "sync"}
    assert len(expected()) > 100


@pytest.mark.parametrize("tool", ["mypy", "pyright"])
def test_exactly_the_marked_lines_are_errors(tool: str, tmp_path: Path) -> None:
    found = mypy(tmp_path) if tool == "mypy" else pyright()
    assert sorted(found - expected()) == []
    assert sorted(expected() - found) == []
