"""Places for the command-line tests: a directory, an app and a database."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cli_place import Place
from tests.warm import WarmParent


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
