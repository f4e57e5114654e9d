"""Fakes: effects whose own functions are the environment, called as they stand.

Owns the calling of a user's fake behind the simulated network, and what is noted of it. Must not know what the fake keeps. Invariant: a fake
is told apart from another by everything that it was asked and gave since it was made, in order; so it must be a function of that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from recovery import codec
from recovery.core.contracts import Batch
from recovery.core.entries import JSON
from recovery.definitions.answer import Answer, Gone, ReplyWas, Unreachable
from recovery.definitions.call import Call
from recovery.definitions.effect import Bound
from recovery.definitions.rejection import Rejection, encode_rejection
from recovery.drivers.sync import finish
from recovery.testing.batches import note_items
from recovery.testing.clock import ManualClock
from recovery.testing.footprints import Footprint
from recovery.testing.knobs import Outcome, Request
from recovery.testing.ledger import Declined, Executed, Ledger
from recovery.testing.scripts import VALUE


@dataclass(slots=True)
class Fakes:
    """What was asked of the fakes of one history. done: by key, the values that were given under it, each once."""

    clock: ManualClock
    ledger: Ledger
    footprint: Footprint = field(default_factory=Footprint)
    done: dict[str, list[str]] = field(default_factory=dict)

    def inside(self, bound: Bound[Any]) -> FakeInside:
        """`bound` may be a stand-in; what is called is the effect's own."""
        return FakeInside(self, Bound(bound.effect, bound.stored))

    def standing(self) -> object:
        return self.footprint.fed


@dataclass(frozen=True, slots=True)
class FakeInside:
    """The inside of an environment for one bound effect: its own functions. A value that was not given before under its key is an
    effect, the same value again is a replay."""

    fakes: Fakes
    bound: Bound[Any]

    def carry_out(self, request: Request) -> Outcome:
        """Call the body. Whatever it raises that is no answer is a failure of the service."""
        call = request.call
        try:
            given = self._called(self.bound.invoke, call)
        except Rejection as rejection:
            said = encode_rejection(rejection)
            event = Declined(at_us=self.fakes.clock.wall_us(), key=call.key, error=rejection.name, value=said)
            self.fakes.ledger.add(event, "environment", f"declines {call.key}: {rejection}")
            return rejection
        except ReplyWas as reply:
            answer: Answer[Any] = reply.answer
            return answer
        except Exception as error:  # noqa: BLE001  # the fake fails, as a service does
            self.fakes.ledger.tell(self.fakes.clock.wall_us(), "environment", f"{call.key} fails: {error!r}")
            return Unreachable(detail=type(error).__name__)
        effect = self.bound.effect
        stored = effect.outcome.encode(given, where=effect.signature.where, root="result")
        text = codec.canonical(stored).decode()
        told = "<secret>" if effect.outcome.veils.any else repr(given)
        known = self.fakes.done.setdefault(call.key, [])
        if text not in known:
            self._note(call.key, dict(request.arguments), stored, f"does {effect.name} under {call.key}: {told}")
            known.append(text)
        return {"receipt": f"{call.key}-{known.index(text) + 1}", VALUE: stored}

    def _note(self, key: str, arguments: dict[str, Any], stored: JSON, text: str) -> None:
        """A value that is new under its key; of a batch whose items have results of their own, each item."""
        now_us, ledger = self.fakes.clock.wall_us(), self.fakes.ledger
        if self.bound.effect.contract.batch is not Batch.PER_ITEM_RESULT:
            ledger.add(Executed(at_us=now_us, key=key, arguments=arguments, value=stored), "environment", text)
            return
        before = {(at, codec.canonical(item)) for known in self.fakes.done[key] for at, item in enumerate(codec.loads(known))}
        new = {at: item for at, item in enumerate(stored) if (at, codec.canonical(item)) not in before}
        note_items(ledger, key, arguments, new, now_us)

    def begin(self, request: Request) -> Outcome | None:
        """Work of a fake takes no time."""
        return self.carry_out(request)

    def executed(self, request: Request) -> Outcome:
        return self.carry_out(request)

    def given_up(self, request: Request) -> None:
        """Nothing was begun."""

    def hold(self, request: Request) -> None:
        """A fake prepares what it prepares in its body."""

    def look_up(self, call: Call, items: int = 0, *, by_name: bool = False) -> Answer[Any]:  # noqa: ARG002  # the probe knows its request
        """Call the probe."""
        found: Answer[Any] = self._called(self.bound.ask, call)
        return found

    def close(self, call: Call) -> Answer[Any]:
        found: Answer[Any] = self._called(self.bound.close, call)
        return found

    def cancel(self, call: Call) -> bool:
        return isinstance(self._called(self.bound.cancel, call), Gone)

    def _called(self, function: Callable[[Call], Any], call: Call) -> Any:
        """Call it, and note what it was asked and gave. A coroutine of a fake never suspends: there is nothing to wait for in it."""
        asked = (function.__name__, call.key, call.epoch, dict(self.bound.stored))
        try:
            given = function(call)
            if self.bound.effect.is_async:
                given = finish(given)
        except Exception as error:  # an answer, too; raised again
            self.fakes.footprint.feed((asked, type(error).__name__, str(error)))
            raise
        self.fakes.footprint.feed((asked, given))
        return given
