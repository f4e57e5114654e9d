"""Engines: the wiring of a database, a clock, leases and workflows, for `def` and for `async def`."""

from recovery.engine.asynchronous import AsyncEngine
from recovery.engine.sync import Engine

__all__ = ["AsyncEngine", "Engine"]
