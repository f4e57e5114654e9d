"""Errors about one effect: its outcome is not a value, or it may not be touched.

Owns the branch of EffectError; see `errors` for the tree, and for what every error says.
"""

from __future__ import annotations

from typing import Any

from recovery.core.errors import RecoveryError
from recovery.core.exitcodes import ExitCode
from recovery.core.reasons import ParkingReason


class EffectError(RecoveryError):
    """One effect's outcome is not a value."""

    exit_code = ExitCode.IN_DOUBT


class EffectInDoubt(EffectError):
    """It might have happened, and nothing here can prove which. `reason` is a ParkingReason, each with a page of its own."""

    template = (
        "Run {run_id!r}, step {step}: {effect} with key {key!r} may have happened ({reason}). Nothing more will be sent. "
        "Ask why with `recover explain {run_id} {step}`, check the environment by the key or the arguments, then decide: "
        "`recover resolve {run_id} {step}` says what happened."
    )

    def __init__(self, *, reason: str, **fields: Any) -> None:
        super().__init__(reason=ParkingReason(reason), **fields)


class CompensationStuck(EffectInDoubt):
    """An applied effect is to be undone and cannot be by itself, so a person is asked: whether it was undone is in doubt until they say."""

    template = (
        "Run {run_id!r}: undoing is stuck at {undoes}, because {problem}. Its outcome stands: {outcome}. Undone before it: {undone}; to be "
        "undone after it: {left}. Nothing more will be sent. Undo it by hand, then say `recover resolve {run_id} {step} --applied`, or leave "
        "it as it is with `--not-executed`; each with --by, --reason and --evidence. Then go on with `recover --run-id {run_id}`."
    )


class EffectInterrupted(EffectError):
    """Its caller was cancelled or interrupted while the answer was on its way."""

    exit_code = ExitCode.UNRESOLVED
    template = (
        "Run {run_id!r}, step {step}: {effect} with key {key!r} was interrupted ({reason}) before its answer was known, so no later "
        "step may start. It may have happened, and nothing is lost. Settle it with `recover --run-id {run_id}`."
    )


class Unresolved(EffectError):
    exit_code = ExitCode.UNRESOLVED
    template = (
        "Run {run_id!r}, step {step}: {effect} with key {key!r} is not settled yet ({reason}). Nothing is lost. "
        "Look again at {next_look} with `recover --run-id {run_id}`."
    )


class KeyReused(EffectError):
    exit_code = ExitCode.USAGE
    template = (
        "The key {key!r} in {environment}/{scope} belongs to run {owner_run!r}, step {owner_step}. Nothing was sent. "
        "Give this effect a key of its own."
    )


class NotExecuted(EffectError):
    """Proven: the effect did not and will not happen under this key."""

    exit_code = ExitCode.FAILED
    template = (
        "Run {run_id!r}, step {step}: {effect} with key {key!r} was proven not executed ({reason}). Wanting it again is a new step."
    )


class RetriesExhausted(NotExecuted):
    """Its retry policy has had enough, and every attempt is proven without effect. Where one may have had an effect it is in doubt instead."""

    template = (
        "Run {run_id!r}, step {step}: {effect} with key {key!r} was tried {tries} times, and each try is proven without effect (the last: "
        "{last}). Its retry policy allows no more, and nothing was done. Wanting it again is a new step."
    )


class OutcomeUnavailable(EffectError):
    """Proven applied, without a value to return."""

    exit_code = ExitCode.FAILED
    template = "Run {run_id!r}, step {step}: {effect} with key {key!r} happened, but its value is not available ({reason}). Do not repeat it."


class NotLicensed(EffectError):
    """The verdict table does not allow what was ordered."""

    template = (
        "Run {run_id!r}, step {step}: {verb} is not licensed ({reason}, row {row}): {why} Nothing was sent or changed. "
        "See what would change it with `recover explain {run_id} {step}`."
    )


class KeyStillAsked(EffectError):
    """A key of the run could still be asked for, or a copy under it could still act."""

    exit_code = ExitCode.UNRESOLVED
    template = (
        "Run {run_id!r}, step {step}: its key {key!r} may still be asked for until {until}. Nothing was changed. "
        "Forget the run after that."
    )
