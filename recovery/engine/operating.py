"""Operating: the verbs of operators as methods of both engines.

Owns their signatures; what they do is in `recovery.operators`. Invariant: both colours have the same verbs with the same arguments.
"""

from __future__ import annotations

import getpass
from collections.abc import Awaitable, Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from recovery.core.entries import JSON, OutcomeKind
from recovery.core.operations import Op
from recovery.core.policy import Budget
from recovery.definitions.recovered import Recovered
from recovery.drivers.asynchronous import AsyncDriver
from recovery.drivers.sync import SyncDriver, finish
from recovery.engine.wiring import Wiring
from recovery.operators import (
    acknowledging,
    asking,
    doubting,
    driving,
    explaining,
    forgetting,
    holding,
    planning,
    resolving,
    whole_runs,
)
from recovery.operators.acknowledging import Acknowledged
from recovery.operators.asking import Probed
from recovery.operators.doubting import Doubts
from recovery.operators.driving import Closed
from recovery.operators.explaining import Explanation
from recovery.operators.forgetting import Forgotten
from recovery.operators.holding import Ordered
from recovery.operators.planning import Plan
from recovery.operators.resolving import Resolved, Word
from recovery.operators.whole_runs import WholeRun
from recovery.ports import Hold

T = TypeVar("T")


def whoever(by: str) -> str:
    """Who gives an order: as said, else the user of this process."""
    if by:
        return by
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "an unnamed user"


class Operating(Wiring):
    """The verbs, each as the procedure that a driver carries out. The engines add the driver."""

    def _doubt(self, limit: int | None, older: timedelta) -> Coroutine[Op[Any], Any, Doubts]:
        return doubting.doubts(self.world(), limit=limit, older=older)

    def _resolve(
        self, run_id: str, step: str, outcome: OutcomeKind, evidence: str, by: str, reason: str, value: JSON, rejection: str
    ) -> Coroutine[Op[Any], Any, Resolved]:
        word = Word(outcome=outcome, by=by, reason=reason, evidence=evidence, value=value, error=rejection)
        return resolving.resolve(self.world(), run_id, step, word)


class SyncOperating(Operating):
    """The verbs of Engine. Each raises RunNotFound, JournalCorrupt and StoreUnavailable beside what it says."""

    def _operate(self, run_id: str, procedure: Coroutine[Op[Any], Any, T]) -> T:
        return finish(SyncDriver(self.surroundings(), run_id=run_id).drive(self.allowed(procedure)))

    def doubt(self, *, limit: int | None = None, older: timedelta = timedelta(0)) -> Doubts:
        """What needs a person, oldest first: runs in doubt, held or diverged; outcomes that something recorded speaks against; and the
        contracts that are held. older: only what has waited for at least so long. Changes nothing."""
        return self._operate("", self._doubt(limit, older))

    def explain(self, run_id: str, step: str) -> Explanation:
        """Why a step stands where it stands, and what would change that. Changes nothing. Raises StepNotFound."""
        return self._operate(run_id, explaining.explain(self.world(), run_id, step))

    def explain_run(self, run_id: str) -> WholeRun:
        """Why a run stands where it stands, who acts next, and with which commands. Changes nothing."""
        return self._operate(run_id, whole_runs.whole_run(self.world(), run_id))

    def plan(self, run_id: str, *, probe: bool = True, cancel: tuple[str, str] | None = None) -> Plan:
        """What `recover` would do next; asks read-only questions unless `probe` is false, and appends nothing. cancel: by whom and why, to see
        what a cancel would do."""
        return self._operate(run_id, planning.plan(self.world(), run_id, probe=probe, cancel=cancel))

    def probe(self, run_id: str, step: str) -> Probed:
        """Ask the environment about one effect, read-only, and keep its answer. Acts on nothing."""
        return self._operate(run_id, asking.probe(self.world(), run_id, step))

    def redrive(self, run_id: str, step: str, *, by: str = "", reason: str = "", budget: Budget | None = None) -> Recovered[Any]:
        """Allow one attempt more under the same key than the budget does, and recover. Raises NotLicensed, StepSettled."""
        return self._operate(run_id, driving.redrive(self.world(budget=budget), run_id, step, by=whoever(by), reason=reason))

    def resolve(
        self,
        run_id: str,
        step: str,
        outcome: OutcomeKind,
        *,
        evidence: str,
        by: str,
        reason: str,
        value: JSON = None,
        rejection: str = "",
    ) -> Resolved:
        """Settle a step by a person's word. value: in stored form (plain JSON). Raises StepSettled, OverrideRefused, LeaseUnavailable."""
        return self._operate(run_id, self._resolve(run_id, step, outcome, evidence, by, reason, value, rejection))

    def close_key(self, run_id: str, step: str, *, by: str = "", reason: str = "") -> Closed:
        """Close a step's key: get its outcome, or have the environment refuse it for ever. Raises OverrideRefused, StepSettled."""
        return self._operate(run_id, driving.close_key(self.world(), run_id, step, by=whoever(by), reason=reason))

    def hold(self, run_id: str, *, by: str, reason: str) -> Ordered:
        """Hold a run: nothing is sent for it until it is released. Takes it from a living owner. Raises OverrideRefused."""
        return self._operate(run_id, holding.hold(self.world(), run_id, by=by, reason=reason))

    def release(self, run_id: str, *, by: str, reason: str) -> Ordered:
        """Release a held run; the next recovery goes on. Raises OverrideRefused."""
        return self._operate(run_id, holding.release(self.world(), run_id, by=by, reason=reason))

    def hold_contract(self, contract: str, *, by: str, reason: str) -> Hold:
        """Hold a contract by its digest or name, for every engine on this database: from its next load or renewal of a lease on."""
        return self._operate("", holding.hold_contract(self.world(), contract, by=by, reason=reason))

    def release_contract(self, contract: str, *, by: str, reason: str) -> Hold:
        """Release a held contract. Raises OverrideRefused."""
        return self._operate("", holding.release_contract(self.world(), contract, by=by, reason=reason))

    def acknowledge(self, run_id: str, step: str, *, by: str, reason: str) -> Acknowledged:
        """Say that what speaks against a step's outcome was seen to; the outcome stands. Raises StepNotFound, OverrideRefused."""
        return self._operate(run_id, acknowledging.acknowledge(self.world(), run_id, step, by=by, reason=reason))

    def fence(self, run_id: str, *, by: str = "", reason: str = "") -> Ordered:
        """Raise a run's epoch, so that its last worker can append nothing more. Raises OverrideRefused on a settled run."""
        return self._operate(run_id, holding.fence(self.world(), run_id, by=whoever(by), reason=reason))

    def forget(self, run_id: str, *, by: str = "", reason: str = "") -> Forgotten:
        """Remove a settled run's entries; its id and keys stay taken. Raises RunUnsettled, KeyStillAsked, and OverrideRefused while
        something speaks against an outcome and nobody has acknowledged it."""
        return self._operate(run_id, forgetting.forget(self.world(), run_id, by=whoever(by), reason=reason))


class AsyncOperating(Operating):
    """The verbs of AsyncEngine: as those of Engine, to be awaited."""

    def _operate(self, run_id: str, procedure: Coroutine[Op[Any], Any, T]) -> Awaitable[T]:
        return AsyncDriver(self.surroundings(), run_id=run_id).drive(self.allowed(procedure))

    async def doubt(self, *, limit: int | None = None, older: timedelta = timedelta(0)) -> Doubts:
        """As Engine.doubt."""
        return await self._operate("", self._doubt(limit, older))

    async def explain(self, run_id: str, step: str) -> Explanation:
        """As Engine.explain."""
        return await self._operate(run_id, explaining.explain(self.world(), run_id, step))

    async def explain_run(self, run_id: str) -> WholeRun:
        """As Engine.explain_run."""
        return await self._operate(run_id, whole_runs.whole_run(self.world(), run_id))

    async def plan(self, run_id: str, *, probe: bool = True, cancel: tuple[str, str] | None = None) -> Plan:
        """As Engine.plan."""
        return await self._operate(run_id, planning.plan(self.world(), run_id, probe=probe, cancel=cancel))

    async def probe(self, run_id: str, step: str) -> Probed:
        """As Engine.probe."""
        return await self._operate(run_id, asking.probe(self.world(), run_id, step))

    async def redrive(
        self, run_id: str, step: str, *, by: str = "", reason: str = "", budget: Budget | None = None
    ) -> Recovered[Any]:
        """As Engine.redrive."""
        return await self._operate(run_id, driving.redrive(self.world(budget=budget), run_id, step, by=whoever(by), reason=reason))

    async def resolve(
        self,
        run_id: str,
        step: str,
        outcome: OutcomeKind,
        *,
        evidence: str,
        by: str,
        reason: str,
        value: JSON = None,
        rejection: str = "",
    ) -> Resolved:
        """As Engine.resolve."""
        return await self._operate(run_id, self._resolve(run_id, step, outcome, evidence, by, reason, value, rejection))

    async def close_key(self, run_id: str, step: str, *, by: str = "", reason: str = "") -> Closed:
        """As Engine.close_key."""
        return await self._operate(run_id, driving.close_key(self.world(), run_id, step, by=whoever(by), reason=reason))

    async def hold(self, run_id: str, *, by: str, reason: str) -> Ordered:
        """As Engine.hold."""
        return await self._operate(run_id, holding.hold(self.world(), run_id, by=by, reason=reason))

    async def release(self, run_id: str, *, by: str, reason: str) -> Ordered:
        """As Engine.release."""
        return await self._operate(run_id, holding.release(self.world(), run_id, by=by, reason=reason))

    async def hold_contract(self, contract: str, *, by: str, reason: str) -> Hold:
        """As Engine.hold_contract."""
        return await self._operate("", holding.hold_contract(self.world(), contract, by=by, reason=reason))

    async def release_contract(self, contract: str, *, by: str, reason: str) -> Hold:
        """As Engine.release_contract."""
        return await self._operate("", holding.release_contract(self.world(), contract, by=by, reason=reason))

    async def acknowledge(self, run_id: str, step: str, *, by: str, reason: str) -> Acknowledged:
        """As Engine.acknowledge."""
        return await self._operate(run_id, acknowledging.acknowledge(self.world(), run_id, step, by=by, reason=reason))

    async def fence(self, run_id: str, *, by: str = "", reason: str = "") -> Ordered:
        """As Engine.fence."""
        return await self._operate(run_id, holding.fence(self.world(), run_id, by=whoever(by), reason=reason))

    async def forget(self, run_id: str, *, by: str = "", reason: str = "") -> Forgotten:
        """As Engine.forget."""
        return await self._operate(run_id, forgetting.forget(self.world(), run_id, by=whoever(by), reason=reason))
