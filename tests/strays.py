"""A test run leaves nothing in the checkout: a pytest plugin that looks before the first test and after the last.

Owns what counts as left. What tools keep for themselves does not: hidden directories, bytecode, builds. Files of other owners that appear
during the run are told as well, since nobody can see who wrote them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

OF_TOOLS = {"__pycache__", "build", "dist"}
_before = pytest.StashKey[set[str]]()
_left = pytest.StashKey[list[str]]()


def standing(root: Path) -> set[str]:
    """The files and the directories below `root`, relative to it."""
    found: set[str] = set()
    for where, directories, files in os.walk(root):
        directories[:] = [name for name in directories if not (name in OF_TOOLS or name.startswith("."))]
        found.update(Path(where, name).relative_to(root).as_posix() for name in [*files, *directories])
    return found


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):  # who started the workers looks, once
        session.config.stash[_before] = standing(session.config.rootpath)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if _before not in config.stash or config.getoption("--rewrite", default=False):
        return
    config.stash[_left] = sorted(standing(config.rootpath) - config.stash[_before])
    if config.stash[_left] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for path in config.stash.get(_left, []):
        terminalreporter.write_line(f"LEFT IN THE CHECKOUT by a test, or written by somebody during the run: {path}", red=True)
