"""Riding: which observation may wait for the next commit of its run, and for how long.

Owns the rule (semantics: R3 and R4). Knows nothing of stores, threads or how long anything takes. Invariant: what rides would be learnt again,
as it was, by sending its key once more: if it is lost with its process, nobody has seen it, and the recovery returns the same.
"""

from __future__ import annotations

from typing import Final

from recovery.core.contracts import Batch, Contract, Kind, Replay
from recovery.core.entries import Observation, OutcomeKind, Settled, Source
from recovery.core.history import EffectStep
from recovery.core.policy import Budget
from recovery.core.timing import SENDING, Timing, valid_until_us

_REMEMBERING: Final = frozenset({Kind.KEYED, Kind.COTRANSACTIONAL})
"""Where a re-send returns what was, rather than that something was (a swallowed copy), or dies by its age (first-sent)."""


def may_ride(effect: EffectStep, settled: Settled, contract: Contract, timing: Timing, budget: Budget, horizon_us: int) -> bool:
    """Whether a settlement may become durable later than the workflow goes on from it.

    horizon_us: how much later its key must still be good for a re-send. Whatever else would keep that from being made, or from being answered
    with the same, makes the settlement durable at once: that nobody wants it any more by then, that no attempt is left, or that there was more
    evidence than the one reply to the one attempt."""
    if not comes_again(effect, settled, contract, budget):
        return False
    ends = (timing.not_after_us, valid_until_us(effect, contract), effect.intent.attempts_until_us)
    return timing.not_after_us is not None and settled.at_us + horizon_us < min(at_us for at_us in ends if at_us is not None)


def comes_again(effect: EffectStep, settled: Settled, contract: Contract, budget: Budget) -> bool:
    """Whether a re-send would bring this outcome again, as it was, while its key is remembered."""
    reply = settled.observation
    if reply is None or settled.heuristic or settled.reconstructed or not _is_only(effect, reply):
        return False
    return _replays(contract, settled.outcome) and _attempts_max(effect, budget) >= 2


def _is_only(effect: EffectStep, reply: Observation) -> bool:
    """Whether the reply to a first attempt is all that is known."""
    return (
        reply.source is Source.REPLY
        and len(effect.attempts) == 1
        and effect.attempts[0].purpose == SENDING
        and not effect.observations
    )


def _replays(contract: Contract, outcome: OutcomeKind) -> bool:
    """Whether a re-send is allowed and returns this outcome as it was: its status is remembered, all of it is shown again, and the key store fails
    closed."""
    if contract.kind not in _REMEMBERING or contract.fail_open or contract.shown_once or contract.batch is not Batch.NONE:
        return False
    if not (contract.lock_outlives_execution and contract.mismatch_checked and contract.failures_effect_free):
        return False
    if contract.lookup is not None and not contract.lookup.original:
        return False  # changed code asks before it sends again
    if outcome is OutcomeKind.APPLIED:
        return contract.replay_success is Replay.ORIGINAL
    return outcome is OutcomeKind.REJECTED and contract.replay_rejection is Replay.ORIGINAL


def _attempts_max(effect: EffectStep, budget: Budget) -> int:
    said = effect.intent.attempts_max
    return budget.attempts if said is None else min(budget.attempts, said)
