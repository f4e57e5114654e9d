"""What crash tests share: one service, one nursery and one database of each kind per pytest process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from recovery.examples.inventory.process import Inventory, serve
from recovery.storage.migrate import migrate
from tests.crash.children import Nursery
from tests.crash.stage import Stage
from tests.crash.workflows import SKU
from tests.postgres import PostgresServer

INVENTORY = "inventory.db"
PLENTY = 1_000_000_000


@pytest.fixture(scope="session")
def crash_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """In memory where that can be had: a killed process loses no page of the system's cache, and syncing is most of a run's time."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path_factory.mktemp("crash")
        return
    with TemporaryDirectory(prefix="recovery-crash-", dir="/dev/shm") as directory:
        yield Path(directory)


@pytest.fixture(scope="session")
def inventory(crash_directory: Path) -> Iterator[Inventory]:
    """The environment: a process of its own with a database of its own."""
    with serve(f"sqlite:///{crash_directory / INVENTORY}", {SKU: PLENTY}) as running:
        yield running


@pytest.fixture(scope="session")
def nursery(crash_directory: Path) -> Iterator[Nursery]:
    with Nursery(crash_directory) as running:
        yield running


@pytest.fixture(scope="session")
def sqlite_stage(crash_directory: Path, inventory: Inventory, nursery: Nursery) -> Iterator[Stage]:
    url = f"sqlite:///{crash_directory / 'journal.db'}"
    migrate(url)
    with closing(Stage(url, inventory, crash_directory / INVENTORY, nursery)) as made:
        made.warm_up()
        yield made


@pytest.fixture(scope="session")
def postgresql_stage(
    postgres_server: PostgresServer, crash_directory: Path, inventory: Inventory, nursery: Nursery
) -> Iterator[Stage]:
    url = postgres_server.url(postgres_server.take("crash", migrate))
    with closing(Stage(url, inventory, crash_directory / INVENTORY, nursery)) as made:
        made.warm_up()
        yield made


@pytest.fixture(params=["sqlite", "postgresql"])
def stage(request: pytest.FixtureRequest) -> Stage:
    """A journal of either kind, the environment, and where workers come from. Tests share it and use run ids of their own."""
    return request.getfixturevalue(f"{request.param}_stage")


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> str:
    return request.param
