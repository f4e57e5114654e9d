"""Places for the command-line tests: a directory, an app and a database."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cli_place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An app over an SQLite file in its own directory, which does not exist yet."""
    (directory := tmp_path / "place").mkdir()
    return Place(directory, f"sqlite:///{directory / 'shop.db'}")


@pytest.fixture
def either(tmp_path: Path, store_url: str) -> Place:
    """The same over SQLite and over PostgreSQL."""
    (directory := tmp_path / "place").mkdir()
    return Place(directory, store_url)
