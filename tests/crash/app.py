"""The app of the `recover` command in these tests: the workflows, over the database that --db names."""

from __future__ import annotations

from recovery import AsyncEngine, Engine
from tests.crash.workflows import WORKFLOWS

engine = Engine("memory://", workflows=WORKFLOWS["sync"].values())
async_engine = AsyncEngine("memory://", workflows=WORKFLOWS["async"].values())
