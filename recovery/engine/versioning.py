"""Versioning: what engines say and do about recorded runs and the versions of their code.

Owns the signatures; what is done is in `recovery.operators`. Invariant: both colours have the same methods with the same arguments.
"""

from __future__ import annotations

from recovery.engine.operating import AsyncOperating, SyncOperating
from recovery.operators import fitting, moving, versions
from recovery.operators.fitting import Checked
from recovery.operators.moving import Moved
from recovery.operators.versions import Versions


class SyncVersioning(SyncOperating):
    """What Engine says about versions."""

    def check(self, run_id: str | None = None, *, settled: bool = False, version: str | None = None) -> Checked:
        """Replay a run against today's code, or all that are open, and do nothing else: say which no longer fit, and from which entry on.

        settled: also runs that have ended.
        version: against this version of their workflows, not the one that each would go on with.

        Sends, asks, decides and appends nothing. Raises RunNotFound.
        """
        return self._operate("", fitting.check(self.world(), run_id, settled=settled, version=version))

    def versions(self) -> Versions:
        """Which version of its workflow each open run goes by, and which versions nobody needs any more. Changes nothing."""
        return self._operate("", versions.versions(self.world()))

    def change_version(self, run_id: str, *, by: str, reason: str, version: str | None = None) -> Moved:
        """Move a run to another version of its workflow, by the migration that the version has from the run's own. The next recovery goes on.

        version: None takes the one that was registered last.

        Raises OverrideRefused where the run has unsettled steps, a living owner or no such migration, and Diverged where the new code does
        not fit what was moved; nothing is changed then.
        """
        return self._operate(run_id, moving.move(self.world(), run_id, version=version, by=by, reason=reason))

    def plan_version(self, run_id: str, *, version: str | None = None) -> Moved:
        """What `change_version` would do. Changes nothing. Raises as it does."""
        return self._operate(run_id, moving.move(self.world(), run_id, version=version, by="", reason="", dry=True))


class AsyncVersioning(AsyncOperating):
    """What AsyncEngine says about versions: as Engine, to be awaited."""

    async def check(self, run_id: str | None = None, *, settled: bool = False, version: str | None = None) -> Checked:
        """As Engine.check."""
        return await self._operate("", fitting.check(self.world(), run_id, settled=settled, version=version))

    async def versions(self) -> Versions:
        """As Engine.versions."""
        return await self._operate("", versions.versions(self.world()))

    async def change_version(self, run_id: str, *, by: str, reason: str, version: str | None = None) -> Moved:
        """As Engine.change_version."""
        return await self._operate(run_id, moving.move(self.world(), run_id, version=version, by=by, reason=reason))

    async def plan_version(self, run_id: str, *, version: str | None = None) -> Moved:
        """As Engine.plan_version."""
        return await self._operate(run_id, moving.move(self.world(), run_id, version=version, by="", reason="", dry=True))
