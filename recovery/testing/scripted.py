"""Scripted environments: a user's own effects, acted in a simulated environment without touching the module that defines them.

Owns which effect is acted how, and the stand-in that a simulated engine calls in its place. Must not know timelines. Invariants: an effect
behaves as its contract declares, over the same key store as everything that is simulated; the effect itself is not changed, so that the
same definition serves the real engine beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from recovery.core.contracts import Batch, Kind
from recovery.core.values import value
from recovery.definitions.answer import Absent, Answer, Found, Gone
from recovery.definitions.by_hand import by_hand
from recovery.definitions.call import Call
from recovery.definitions.effect import Bound, Effect
from recovery.testing.batches import BatchHouse, BatchRoom
from recovery.testing.clock import ManualClock
from recovery.testing.effects import MARKINGS
from recovery.testing.environment import SimulatedEnvironment, connection
from recovery.testing.fakes import Fakes
from recovery.testing.knobs import Marking
from recovery.testing.ledger import Ledger
from recovery.testing.scripts import VALUE, ScriptRoom, given, promised
from recovery.testing.warehouse import Warehouse

Script = Callable[..., Any]

AS_IT_STANDS: Any = object()
"""In the place of a script: the effect's own functions are a fake that lives in this process, and are called as they stand."""


class Unscripted(BaseException):
    """A workflow performed an effect that nobody scripted: no workflow may go on from there, and no real service is reached."""


class ScriptedEnvironment:
    """What acts in the place of real services while a workflow is explored or played.

    scripts: by effect, a function of its arguments (by name, and without the call) that gives the value or raises a declared rejection;
    or AS_IT_STANDS. The script of a batch whose items have results of their own gives a `Batched`, an item for an item. A script says what
    happens when the effect is carried out. Whether it is carried out is the simulated environment's to
    say, which keeps keys, receipts and windows as the effect's contract promises them, and nothing that it does not promise.
    fresh: called before each history, so that what the scripts and fakes keep begins anew.

    An effect's body, probe, close and cancel are replaced only in simulated engines. Raises ValueError for what cannot be scripted.
    """

    def __init__(self, scripts: Mapping[Effect[..., Any], Script], *, fresh: Callable[[], object] | None = None) -> None:
        self.effects: dict[str, Effect[..., Any]] = {}
        self._scripts: dict[str, Script] = {}
        self._fresh = fresh
        for effect, script in scripts.items():
            if effect.name in self.effects:
                raise ValueError(f"two effects are named {effect.name}")
            self.effects[effect.name] = effect
            self._scripts[effect.name] = script

    def furnish(self, environment: SimulatedEnvironment, clock: ManualClock, ledger: Ledger) -> None:
        """Begin a history: give each effect its inside of an environment."""
        if self._fresh is not None:
            self._fresh()
        fakes = Fakes(clock, ledger)
        environment.furniture.append(fakes.standing)
        for name, effect in self.effects.items():
            if self._scripts[name] is AS_IT_STANDS:
                environment.insides[name] = fakes.inside
                continue
            by_items = effect.contract.batch is Batch.PER_ITEM_RESULT
            room = (BatchRoom if by_items else ScriptRoom)(ledger, effect, self._scripts[name])
            of = BatchHouse if by_items else Warehouse
            house = of(clock, ledger, promised(effect.contract), room, scope=effect.environment.current_scope())
            environment.insides[name] = lambda _bound, house=house: house  # type: ignore[misc]  # one for all calls
            environment.furniture.append(house.standing)

    def stand_in(self, bound: Bound[Any]) -> Bound[Any]:
        """What a simulated engine calls. Raises Unscripted."""
        name = bound.effect.name
        if bound.effect is by_hand:
            return bound  # it reaches nobody
        if self.effects.get(name) is not bound.effect:
            raise Unscripted(f"effect {name} has no script; give {name}: a function of its arguments, or AS_IT_STANDS")
        if bound.effect.contract.kind is not Kind.READ:
            return StandIn(bound.effect, bound.stored, bound.valid_until_us)
        script = self._scripts[name]
        return bound if script is AS_IT_STANDS else Reading(bound.effect, bound.stored, script=script)


@value(frozen=True, slots=True)
class StandIn(Bound[Any]):
    """Reaches the simulated environment where the bound effect would reach the real one."""

    def invoke(self, call: Call) -> Any:
        return self._coloured(lambda: self._valued(connection().reserve(call, self.stored, self._marking, self)))

    def ask(self, call: Call) -> Any:
        return self._coloured(lambda: self._answered(connection().look_up(call, 0, self._marking, self)))

    def close(self, call: Call) -> Any:
        return self._coloured(lambda: self._answered(connection().close(call, self)))

    def cancel(self, call: Call) -> Any:
        def cancelled() -> Answer[Any]:
            if connection().cancel(call, self):
                return Gone()
            return (
                Absent()
                if self.effect.contract.lookup is None
                else self._answered(connection().look_up(call, 0, self._marking, self))
            )

        return self._coloured(cancelled)

    @property
    def _marking(self) -> Marking:
        """How the request names itself. A script holds nothing first, so what is prepared is named."""
        marking = MARKINGS.get(self.effect.contract.kind, Marking.NONE)
        return Marking.NAME if marking is Marking.HOLD else marking

    def _valued(self, came: Mapping[str, Any]) -> Any:
        return self.effect.decode_value(came[VALUE]) if VALUE in came else None

    def _answered(self, answer: Answer[Any]) -> Answer[Any]:
        """With the value that the body would have returned, and not its envelope."""
        if isinstance(answer, Found) and isinstance(answer.outcome, dict) and VALUE in answer.outcome:
            return replace(answer, outcome=self._valued(answer.outcome))
        return answer

    def _coloured(self, ask: Callable[[], Any]) -> Any:
        if not self.effect.is_async:
            return ask()

        async def asked() -> Any:
            return ask()

        return asked()


@value(frozen=True, slots=True)
class Reading(Bound[Any]):
    """A pure read: its script is called where it stands. What is wrong with it is Misplayed, and no silence of a service."""

    script: Script = lambda: None

    def invoke(self, call: Call) -> Any:  # noqa: ARG002  # scripts are given arguments alone
        def read() -> Any:
            return given(self.effect, self.script, self.arguments)[0]

        async def awaited() -> Any:
            return read()

        return awaited() if self.effect.is_async else read()
