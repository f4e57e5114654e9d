"""Scripts: what an effect of one's own comes to in a simulated environment, as a function of its arguments.

Owns the way from a stored request to a value or a declared rejection, and its note in the ledger. Knows neither keys nor time. Invariant: what
it gives is the stored form of what the user's function gave, in an envelope with a receipt's id, so that a warehouse keeps it like anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from recovery.core.contracts import Contract, Enforced, Kind, Replay
from recovery.core.entries import JSON
from recovery.definitions.effect import Effect
from recovery.definitions.rejection import Rejection, encode_rejection
from recovery.testing.knobs import Anchor, Knobs, OnMismatch, Remembered, Value
from recovery.testing.ledger import Declined, Executed, Ledger

VALUE: Final = "value"
"""Where the envelope has what the script gave."""


class Misplayed(BaseException):
    """A script failed, or gave what its effect cannot return: no workflow may go on from there, since no service behaves so."""

    def __init__(self, effect: str, error: Exception) -> None:
        super().__init__(f"the script of {effect} does not do as its effect says: {type(error).__name__}: {error}")


def given(effect: Effect[..., Any], script: Callable[..., Any], arguments: Mapping[str, Any]) -> tuple[Any, JSON]:
    """What a script gives, as it is and in stored form. Raises the Rejection that it raises, and Misplayed for whatever else, and for what cannot be stored."""
    try:
        value = script(**arguments)
        return value, effect.outcome.encode(value, where=effect.signature.where, root="result")
    except Rejection:
        raise
    except Exception as error:  # a script's own mistake, which must not look like a service that fails
        raise Misplayed(effect.name, error) from error


@dataclass(slots=True)
class ScriptRoom:
    """In the place of a `Stockroom`: does what the script says, as often as it is told to."""

    ledger: Ledger
    effect: Effect[..., Any]
    script: Callable[..., Any]
    made: int = 0
    stock: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)

    def take(self, key: str, wanted: Mapping[str, Any], now_us: int) -> Value | Rejection:
        """Play the script once."""
        stored = self.played(key, wanted, now_us)
        if isinstance(stored, Rejection):
            return stored
        done = Executed(at_us=now_us, key=key, arguments=dict(wanted), value=stored)
        self.ledger.add(done, "environment", f"does {self.effect.name} under {key}: {stored!r}")
        return self.enveloped(stored)

    def played(self, key: str, wanted: Mapping[str, Any], now_us: int) -> JSON | Rejection:
        """What the script gives, in stored form. Raises Misplayed for whatever it raises that is no declared rejection, and for what cannot be stored."""
        try:
            return given(self.effect, self.script, self.effect.signature.decode(wanted))[1]
        except Rejection as rejection:
            said = encode_rejection(rejection)
            event = Declined(at_us=now_us, key=key, error=rejection.name, value=said)
            self.ledger.add(event, "environment", f"declines {key}: {rejection}")
            return rejection

    def enveloped(self, stored: JSON) -> Value:
        """With the id of a new receipt."""
        self.made += 1
        return {"receipt": f"{self.effect.name}-{self.made}", VALUE: stored}

    def take_all(self, key: str, wanted: Mapping[str, Any], now_us: int) -> Value | Rejection:
        """A batch is scripted as a whole."""
        return self.take(key, wanted, now_us)

    def hold(self, name: str, sku: str, quantity: int) -> bool:  # noqa: ARG002  # as a stockroom's
        """Nothing is held: a script has no stock."""
        return False

    def add(self, more: Mapping[str, int]) -> None:
        """Nothing is there to become more."""


def promised(contract: Contract) -> Knobs:
    """An environment that keeps this contract, and promises no more than it: what is not remembered is forgotten at once."""
    remembers = {
        kept
        for kept, replay in (
            (Remembered.SUCCESS, Replay.REEXECUTES if contract.replay_success is Replay.REEXECUTES else Replay.ORIGINAL),
            (Remembered.REJECTION, contract.replay_rejection),
            (Remembered.FAILURE, contract.replay_failure),
        )
        if replay in {Replay.ORIGINAL, Replay.CURRENT, Replay.INDETERMINATE}
    }
    lookup = contract.lookup
    return Knobs(
        window=None if contract.window_us is None or contract.kind is Kind.COTRANSACTIONAL else _lasts(contract.window_us),
        window_starts=Anchor.FIRST_SEEN if contract.window_starts == Anchor.FIRST_SEEN.value else Anchor.COMPLETED,
        remembers=frozenset(remembers),
        mismatch=OnMismatch.REFUSES if contract.mismatch_checked else OnMismatch.REPLAYS,
        lag=_lasts(0 if lookup is None else lookup.lag_us),
        retention=None if lookup is None or lookup.retention_us is None else _lasts(lookup.retention_us),
        fail_open=contract.fail_open,
        tombstone=contract.close,
        replay=Replay.CURRENT if contract.replay_success is Replay.CURRENT else Replay.ORIGINAL,
        enforces=contract.enforced,
        asking_raises=contract.enforced is Enforced.EPOCH,
        disconnect_cancels=contract.disconnect_cancels,
    )


def _lasts(us: int) -> timedelta:
    return timedelta(microseconds=us)
