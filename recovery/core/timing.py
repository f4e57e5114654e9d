"""Timing: the named times of one step, and which of its attempts still count.

Owns semantics of t0, quiet_at, not_after and the ends of retention. Knows nothing of verdicts and reads no clock: "now" is
part of the situation. Invariant: every time here is a function of the durable attempts and replies, so that two workers that
read the same journal agree on it. All times are whole microseconds.

An attempt counts against quiet_at until it is proven without effect: it never left, or a final reply of its own says that
nothing was done. Every window that licenses something is counted from t0, whatever it starts from: work is completed and terminated later
than it was first seen, so that the true end is never sooner. A success or a remembered failure does not remove an attempt, because another copy of it may still act.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from recovery.core.contracts import Contract, Deletion, Enforced, Kind, Lookup
from recovery.core.entries import AnswerKind, Attempt, Source
from recovery.core.history import EffectStep, Noted
from recovery.core.policy import Budget
from recovery.core.trust import UNDECLARED
from recovery.core.values import value

CLOSING: Final = "close"
SENDING: Final = "send"
CANCELLING: Final = "cancel"
ASKED: Final = frozenset({Source.PROBE, Source.CANCEL})
"""Sources of answers to a question. A cancel by key is one that also undoes what it finds; it leaves no tombstone."""

NOTHING_DONE: Final = frozenset({AnswerKind.NOT_SENT, AnswerKind.TURNED_AWAY, AnswerKind.REFUSED})
"""Replies which prove that the attempt they answer did nothing."""

_TELLS_NOTHING_NEW: Final = frozenset({AnswerKind.UNREACHABLE, AnswerKind.NOT_SENT})
"""Answers between two that tell of work in progress, which do not mean that it has ended."""

SAYS_NOTHING: Final = frozenset({AnswerKind.UNREACHABLE, AnswerKind.IN_FLIGHT, AnswerKind.TURNED_AWAY, AnswerKind.NOT_SENT})
"""Answers that tell nothing about earlier attempts; each is followed by a back-off."""


@value(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a step is judged in, beside its own evidence.

    contracts: the pinned one first, then later ones; the weaker counts, field by field.
    can_probe, can_close, can_cancel: whether there is something to call. wanted: not cancelled; approval and valid_until stand.
    restored: the journal comes from a backup, so that attempts may be missing. incarnation: the database's, to tell probes
    asked since then. replay_fingerprint: of the replayed call; None when judging from the journal alone.
    same_bytes: the code that makes the request is the code that made the first one.
    """

    now_us: int
    contracts: tuple[Contract, ...]
    budget: Budget
    can_probe: bool
    can_close: bool
    can_cancel: bool = False
    wanted: bool = True
    restored: bool = False
    incarnation: int = 0
    held: bool = False
    scope_changed: bool = False
    replay_fingerprint: str | None = None
    same_bytes: bool = True


@value(frozen=True, slots=True, kw_only=True)
class Timing:
    """The named times of a step; None where a time does not exist.

    t0_us: the first attempt that may have been sent. quiet_at_us: after it no copy acts; None: every attempt is proven
    without effect. not_after_us: the last moment at which a re-send may start. counts_at_us: the first moment at which an
    absence can be final, or, where none can, at which a last look shows all there will be. The three ends are exclusive;
    None there: no end.
    """

    t0_us: int | None
    quiet_at_us: int | None
    not_after_us: int | None
    counts_at_us: int
    receipt_until_us: int | None
    absence_until_us: int | None
    close_until_us: int | None
    matures: bool  # at counts_at_us the environment itself proves an absence
    fence_at_us: int | None  # after it the environment refuses every copy, by first-sent

    def quiet(self, at_us: int) -> bool:
        """Whether at `at_us` no copy can act any more."""
        return self.quiet_at_us is None or at_us > self.quiet_at_us


def replies(step: EffectStep) -> defaultdict[int, set[AnswerKind]]:
    """What was answered to each attempt itself, by its number. In one pass: an attempt that met a copy at work is followed by hundreds."""
    told: defaultdict[int, set[AnswerKind]] = defaultdict(set)
    for noted in step.observations:
        if noted.observation.attempt is not None:
            told[noted.observation.attempt].add(noted.answer.kind)
    return told


def effect_attempts(step: EffectStep) -> list[Attempt]:
    """Attempts that carry the effect; a close or a cancel never does."""
    return [attempt for attempt in step.attempts if attempt.purpose not in {CLOSING, CANCELLING}]


def possibly_sent(step: EffectStep) -> list[Attempt]:
    """Attempts that may have left."""
    told = replies(step)
    return [attempt for attempt in effect_attempts(step) if AnswerKind.NOT_SENT not in told[attempt.number]]


def _still_working(step: EffectStep, contract: Contract) -> list[Noted]:
    """Answers that a copy is being worked on, given while one may be: progress, which spends nothing. What says so again behind the
    moment at which every attempt that was there at the first such answer must be over is no progress any more (A2)."""
    progress: list[Noted] = []
    until: int | None = None
    for noted in step.observations:
        if noted.answer.kind is AnswerKind.IN_FLIGHT:
            seen_at = noted.observation.observed_at_us
            if until is None:
                until = quiet_after([attempt for attempt in step.attempts if attempt.sent_at_us <= seen_at], contract)
            if until is not None and seen_at <= until:
                progress.append(noted)
        elif noted.answer.kind not in _TELLS_NOTHING_NEW:
            until = None  # the work that was seen has come to something; what is seen after it is another one
    return progress


def attempts_spent(step: EffectStep, contract: Contract, *, closing: bool = False) -> int:
    """How many attempts (or closes) count against the budget: those that may have left, but for those that only met a copy at work."""
    met = {noted.observation.attempt for noted in _still_working(step, contract)}
    tried = [attempt for attempt in step.attempts if attempt.purpose == CLOSING] if closing else effect_attempts(step)
    free = [{AnswerKind.IN_FLIGHT} if attempt.number in met else set() for attempt in tried]
    answered = replies(step)
    told = [answered[attempt.number] for attempt in tried]
    return sum(AnswerKind.NOT_SENT not in kinds and not (ours and kinds == ours) for kinds, ours in zip(told, free, strict=True))


def probes_spent(step: EffectStep, contract: Contract) -> int:
    """How many questions count against the budget: those that were answered, but for answers that a copy is at work, and for what a
    person had asked."""
    working = [noted.observation for noted in _still_working(step, contract)]
    met = sum(seen.source in ASKED and not seen.by_operator for seen in working)
    return step.probes - met


def without_effect(kinds: set[AnswerKind]) -> bool:
    """Whether these replies prove that their attempt did nothing. A reply that says otherwise outweighs them."""
    return bool(kinds & NOTHING_DONE) and kinds <= NOTHING_DONE | {AnswerKind.UNREACHABLE}


def exposed_attempts(step: EffectStep) -> list[Attempt]:
    """Attempts not proven without effect: each may have acted or may still act."""
    told = replies(step)
    return [attempt for attempt in effect_attempts(step) if not without_effect(told[attempt.number])]


def quiet_after(attempts: Sequence[Attempt], contract: Contract) -> int | None:
    """The moment after which no copy of `attempts` acts; None for no attempts."""
    if not attempts:
        return None
    return max(attempt.send_until_us for attempt in attempts) + contract.settle_window_us + contract.clock_error_us


def fits_window(send_until_us: int, t0_us: int | None, contract: Contract) -> bool:
    """Whether all copies of an attempt land while the key of the attempt at `t0_us` is still remembered."""
    if t0_us is None:
        return True
    if contract.window_us is None:
        return False
    return send_until_us + contract.settle_window_us + contract.clock_error_us < t0_us + contract.window_us


def lookup_of(contract: Contract) -> Lookup:
    return contract.lookup or UNDECLARED


def tombstones(step: EffectStep) -> list[Noted]:
    """The environment's answers that say that the key is refused for ever."""
    closed = [noted for noted in step.observations if noted.answer.kind is AnswerKind.CLOSED]
    return [noted for noted in closed if noted.observation.source is not Source.OPERATOR]


def timing_of(step: EffectStep, contract: Contract) -> Timing:
    """The named times, exactly as defined; `contract` is the weaker of all that count."""
    error, lookup = contract.clock_error_us, lookup_of(contract)
    exposed = [] if contract.kind is Kind.READ else exposed_attempts(step)
    t0 = min((attempt.sent_at_us for attempt in possibly_sent(step)), default=None)
    quiet_at = quiet_after(exposed, contract)
    not_after = None
    if t0 is not None and contract.window_us is not None:
        not_after = t0 + contract.window_us - error - contract.settle_window_us - step.intent.timeout_us - 1
    absence_until = _plus(t0, lookup.retention_us, -error)
    fence_at = None
    if contract.kind is Kind.FIRST_SENT:
        fence_at = _plus(t0, contract.window_us, error)
    counts_at = (quiet_at or 0) + lookup.lag_us + 1
    proof_at = _proof_at(step, contract, exposed, fence_at)
    matures = (
        proof_at is not None and can_be_final(contract) and (absence_until is None or proof_at + lookup.lag_us + 1 < absence_until)
    )
    if matures and proof_at is not None:
        counts_at = proof_at + lookup.lag_us + 1
    return Timing(
        t0_us=t0,
        quiet_at_us=quiet_at,
        not_after_us=not_after,
        counts_at_us=counts_at,
        receipt_until_us=_plus(quiet_at, lookup.retention_us),
        absence_until_us=absence_until,
        close_until_us=_plus(t0, key_retention_us(contract), -error),
        matures=matures,
        fence_at_us=fence_at,
    )


def can_be_final(contract: Contract) -> bool:
    """Whether an effect implies a receipt that we would see, and that nobody can have removed unseen. Work that was cut off half-way
    leaves none, unless a key makes it one with its record."""
    lookup = contract.lookup
    return (
        lookup is not None
        and lookup.authoritative
        and lookup.marker_reliable
        and lookup.deletion is not Deletion.INVISIBLE
        and not contract.fail_open
        and (contract.keyed or not contract.disconnect_cancels)
    )


def key_retention_us(contract: Contract) -> int | None:
    """How long a key's record lives, for a close to be a proof; None: as long as the database. Unknown counts as no time."""
    retention = contract.lookup.retention_us if contract.lookup is not None else None
    known = [value for value in (contract.window_us, retention) if value is not None]
    if known:
        return min(known)
    return None if contract.lookup is not None else 0


def valid_until_us(step: EffectStep, contract: Contract) -> int | None:
    """From when on nobody wants the effect any more: what the intent says, or a later contract that says sooner; None: never."""
    sooner = _plus(step.intent.at_us, contract.valid_for_us)
    return min((at for at in (step.intent.valid_until_us, sooner) if at is not None), default=None)


def send_until_us(step: EffectStep, now_us: int) -> int:
    """When an attempt that starts now must have given up: after its timeout, or at the deadline of the scope that it was begun in."""
    over_us = now_us + step.intent.timeout_us
    return over_us if step.intent.deadline_us is None else min(over_us, step.intent.deadline_us)


def carried_deadline(exposed: list[Attempt]) -> int | None:
    """The latest deadline that attempts carried, for environments which check it themselves."""
    return max((attempt.send_until_us for attempt in exposed), default=None)


def _proof_at(step: EffectStep, contract: Contract, exposed: list[Attempt], fence_at: int | None) -> int | None:
    """The moment after which the environment itself refuses every copy, or None where it never does."""
    known = [noted.observation.observed_at_us for noted in tombstones(step)]
    if fence_at is not None:
        known.append(fence_at)
    deadline = carried_deadline(exposed)
    if contract.enforced is Enforced.DEADLINE and deadline is not None:
        probed = [noted.answer for noted in step.observations if noted.observation.source in ASKED]
        if not any(answer.kind is AnswerKind.ABSENT and answer.as_of_us is None for answer in probed):
            known.append(deadline + contract.clock_error_us)
    return min(known, default=None)


def _plus(start: int | None, duration: int | None, margin: int = 0) -> int | None:
    return None if start is None or duration is None else start + duration + margin
