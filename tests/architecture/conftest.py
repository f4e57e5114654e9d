"""What the architecture tests share: syntax trees of all our modules, for as long as they run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.architecture import source


@pytest.fixture(scope="package", autouse=True)
def _trees_are_let_go() -> Iterator[None]:
    """Else the garbage collector goes through millions of nodes for the rest of the session."""
    yield
    source.tree.cache_clear()
