"""Controlling: what is to become of a run, as methods of both engines.

Owns the signatures of cancel, pause, resume, fork and restart; what they do is in `recovery.operators`. Invariant: both colours have the same verbs with the
same arguments.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any

from recovery.core.inheritance import Policy
from recovery.core.operations import Op
from recovery.definitions.recovered import Recovered
from recovery.engine.operating import AsyncOperating, SyncOperating
from recovery.engine.wiring import Wiring
from recovery.operators import cancelling, forking
from recovery.operators.cancelling import Told
from recovery.operators.forking import Forked, Restarted


class Controlling(Wiring):
    """The verbs whose arguments need more than passing on."""

    def _fork(
        self,
        run_id: str,
        new_run_id: str,
        at: str,
        policies: Mapping[str, Policy] | None,
        version: str,
        by: str,
        reason: str,
        *,
        plan: bool,
    ) -> Coroutine[Op[Any], Any, Forked]:
        return forking.fork(
            self.world(), run_id, new_run_id, at=at, policies=policies or {}, version=version, by=by, reason=reason, plan=plan
        )

    def _restart(
        self, run_id: str, step: str, policies: Mapping[str, Policy] | None, by: str, reason: str, *, plan: bool
    ) -> Coroutine[Op[Any], Any, Restarted]:
        return forking.restart(self.world(), run_id, step, policies=policies or {}, by=by, reason=reason, plan=plan)


class SyncControlling(Controlling, SyncOperating):
    """The verbs of Engine. Each raises RunNotFound, JournalCorrupt and StoreUnavailable beside what it says."""

    def cancel(self, run_id: str, *, by: str, reason: str) -> Recovered[Any]:
        """Cancel a run: nothing new is begun, what is open is settled, and it ends as cancelled. A living owner takes that in at its next step
        or renewal of the lease; else it is done here, as far as it can be. Safe to repeat. Raises OverrideRefused where the run settled otherwise."""
        return self._operate(run_id, cancelling.cancel(self.world(), run_id, by=by, reason=reason))

    def pause(self, run_id: str, *, by: str, reason: str) -> Told:
        """Pause a run: it begins nothing new until it is resumed, and nothing that is under way is lost. Raises OverrideRefused."""
        return self._operate(run_id, cancelling.pause(self.world(), run_id, by=by, reason=reason))

    def resume(self, run_id: str, *, by: str, reason: str) -> Told:
        """Let a paused run go on; the next recovery does. Raises OverrideRefused."""
        return self._operate(run_id, cancelling.resume(self.world(), run_id, by=by, reason=reason))

    def fork(
        self,
        run_id: str,
        new_run_id: str,
        *,
        at: str = "",
        policies: Mapping[str, Policy] | None = None,
        version: str = "",
        by: str,
        reason: str,
        plan: bool = False,
    ) -> Forked:
        """Store a new run that takes over what `run_id` did before its step `at` (all that it did, for ""), and is started by `recover`.

        policies: by step, Reuse(), NewKey(reason) or Forbid(), for effects of the old run; without one, an effect before `at` is reused, and a
        later one that may have happened is forbidden. version: of the workflow, the old run's by default. plan: only say what it would be. Safe to
        repeat. Raises StepNotFound, InvalidName, and OverrideRefused: an effect before `at` is not settled, or the run id is taken."""
        return self._operate(new_run_id, self._fork(run_id, new_run_id, at, policies, version, by, reason, plan=plan))

    def restart(
        self, run_id: str, step: str, *, policies: Mapping[str, Policy] | None = None, by: str, reason: str, plan: bool = False
    ) -> Restarted:
        """Begin a new generation of an unsettled run at one of its steps: from there on its steps have other identities, and so other keys.

        policies: as for `fork`, and one for each effect from `step` on that may have happened. plan: only say what it would be. Raises StepNotFound,
        HeadMoved, LeaseUnavailable, and OverrideRefused: the run is settled or cancelled, or a policy is missing."""
        return self._operate(run_id, self._restart(run_id, step, policies, by, reason, plan=plan))


class AsyncControlling(Controlling, AsyncOperating):
    """The verbs of AsyncEngine: as those of Engine, to be awaited."""

    async def cancel(self, run_id: str, *, by: str, reason: str) -> Recovered[Any]:
        """As Engine.cancel."""
        return await self._operate(run_id, cancelling.cancel(self.world(), run_id, by=by, reason=reason))

    async def pause(self, run_id: str, *, by: str, reason: str) -> Told:
        """As Engine.pause."""
        return await self._operate(run_id, cancelling.pause(self.world(), run_id, by=by, reason=reason))

    async def resume(self, run_id: str, *, by: str, reason: str) -> Told:
        """As Engine.resume."""
        return await self._operate(run_id, cancelling.resume(self.world(), run_id, by=by, reason=reason))

    async def fork(
        self,
        run_id: str,
        new_run_id: str,
        *,
        at: str = "",
        policies: Mapping[str, Policy] | None = None,
        version: str = "",
        by: str,
        reason: str,
        plan: bool = False,
    ) -> Forked:
        """As Engine.fork."""
        return await self._operate(new_run_id, self._fork(run_id, new_run_id, at, policies, version, by, reason, plan=plan))

    async def restart(
        self, run_id: str, step: str, *, policies: Mapping[str, Policy] | None = None, by: str, reason: str, plan: bool = False
    ) -> Restarted:
        """As Engine.restart."""
        return await self._operate(run_id, self._restart(run_id, step, policies, by, reason, plan=plan))
