"""Places for the command-line tests: a directory, an app and a database."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer.testing

from tests.integration.cli_place import Place
from tests.warm import WarmParent


@pytest.fixture(scope="session", autouse=True)
def _assembled_once() -> Iterator[None]:
    """typer builds the whole tree of commands anew at every `CliRunner.invoke`, which costs more than most commands do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", cache(typer.testing._get_command))
        yield


@pytest.fixture
def place(tmp_path: Path, warm_parent: WarmParent) -> Place:
    """An app over an SQLite file in its own directory, which does not exist yet."""
    (directory := tmp_path / "place").mkdir()
    return Place(directory, f"sqlite:///{directory / 'shop.db'}", warm_parent)


@pytest.fixture
def either(tmp_path: Path, store_url: str, warm_parent: WarmParent) -> Place:
    """The same over SQLite and over PostgreSQL."""
    (directory := tmp_path / "place").mkdir()
    return Place(directory, store_url, warm_parent)
