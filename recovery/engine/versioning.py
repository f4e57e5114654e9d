"""Versioning: what engines say about recorded runs and the versions of their code.

Owns the signatures; what is done is in `recovery.operators`. Invariant: both colours have the same methods with the same arguments.
"""

from __future__ import annotations

from recovery.engine.operating import AsyncOperating, SyncOperating
from recovery.operators import fitting
from recovery.operators.fitting import Checked


class SyncVersioning(SyncOperating):
    """What Engine says about versions."""

    def check(self, run_id: str | None = None, *, settled: bool = False, version: str | None = None) -> Checked:
        """Replay a run against today's code, or all that are open, and do nothing else: say which no longer fit, and from which entry on.

        settled: also runs that have ended.
        version: against this version of their workflows, not the one that each would go on with.

        Sends, asks, decides and appends nothing. Raises RunNotFound.
        """
        return self._operate("", fitting.check(self.world(), run_id, settled=settled, version=version))


class AsyncVersioning(AsyncOperating):
    """What AsyncEngine says about versions: as Engine, to be awaited."""

    async def check(self, run_id: str | None = None, *, settled: bool = False, version: str | None = None) -> Checked:
        """As Engine.check."""
        return await self._operate("", fitting.check(self.world(), run_id, settled=settled, version=version))
