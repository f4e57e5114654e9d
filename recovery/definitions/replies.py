"""Replies: what came out of a body, a probe or a close, in the stored form that the core weighs.

Owns the translation of values, exceptions and answers into `core.entries.Answered`. Decides nothing about what they prove.
Invariant: whatever user code returns or raises becomes an answer that claims no more than it says; what cannot be
understood means "it might have happened". An exception's message is never kept, since it may hold secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from recovery.codec import Codec, is_itself
from recovery.core.contracts import microseconds
from recovery.core.entries import JSON, Answered, AnswerKind
from recovery.core.errors import ValueNotStorable
from recovery.definitions.answer import (
    DETAIL_MAX,
    RETRY_AFTER_MAX,
    Absent,
    Accepted,
    Closed,
    Expired,
    Foreign,
    Found,
    Gone,
    Indeterminate,
    InFlight,
    Mismatch,
    NotSent,
    Refused,
    ReplyWas,
    TurnedAway,
    Unreachable,
    clipped,
)
from recovery.definitions.batched import BatchCodec
from recovery.definitions.rejection import Rejection, encode_rejection

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

_WORDS: Final[dict[type, AnswerKind]] = {
    Accepted: AnswerKind.ACCEPTED,
    Absent: AnswerKind.ABSENT,
    InFlight: AnswerKind.IN_FLIGHT,
    Gone: AnswerKind.GONE,
    Foreign: AnswerKind.FOREIGN,
    Mismatch: AnswerKind.MISMATCH,
    Closed: AnswerKind.CLOSED,
    Expired: AnswerKind.EXPIRED,
    Indeterminate: AnswerKind.INDETERMINATE,
    Unreachable: AnswerKind.UNREACHABLE,
    TurnedAway: AnswerKind.TURNED_AWAY,
    NotSent: AnswerKind.NOT_SENT,
}


@dataclass(frozen=True, slots=True)
class Replies:
    """Translates for one effect. swallowed: its environment drops duplicates and tells nothing, so a return is an acceptance."""

    where: str
    outcome: Codec[Any]
    rejects: Mapping[str, type[Rejection]]
    look_up_is_original: bool
    swallowed: bool = False

    def returned(self, value: Any) -> Answered:
        """The body returned: it happened, and its value is stored, or said to be unstorable by type and path."""
        if self.swallowed:
            return Answered(kind=AnswerKind.ACCEPTED)
        if type(value) is self.outcome.plain and is_itself(value):
            return Answered(kind=AnswerKind.FOUND, value=value)
        kind, stored, detail = self._stored(value)
        return Answered(kind=kind, value=stored, detail=detail)

    def raised(self, error: BaseException) -> Answered | None:
        """The body raised. None for what is no answer at all (cancellation, KeyboardInterrupt): unknown, and to be raised on."""
        if not isinstance(error, Exception):
            return None
        if isinstance(error, ReplyWas):
            return self._answer(error.answer, original=True)
        if isinstance(error, Rejection):
            return self._refused(Refused(error))
        return Answered(kind=AnswerKind.UNREACHABLE, detail=error_name(error))

    def probed(self, answer: Any) -> Answered:
        """A probe or a close returned."""
        return self._answer(answer, original=self.look_up_is_original)

    def probe_raised(self, error: BaseException) -> Answered | None:
        """A probe or a close raised. A rejection counts only as a returned `Refused`: raised, it may mean the question itself."""
        if isinstance(error, Exception) and not isinstance(error, ReplyWas):
            return Answered(kind=AnswerKind.UNREACHABLE, detail=error_name(error))
        return self._answer(error.answer, original=self.look_up_is_original) if isinstance(error, ReplyWas) else None

    def _answer(self, answer: Any, *, original: bool) -> Answered:
        if isinstance(answer, Found):
            return self._found(answer, original=original)
        if isinstance(answer, Refused):
            return self._refused(answer)
        kind = _WORDS.get(type(answer))
        if kind is None:
            detail = clipped(f"{type(answer).__name__} is not an answer")
            return Answered(kind=AnswerKind.UNREACHABLE, detail=detail)
        as_of = answer.as_of if isinstance(answer, Absent) else None
        wait = answer.retry_after if isinstance(answer, InFlight | TurnedAway) else None
        return Answered(
            kind=kind,
            raised=answer.raised if isinstance(answer, Absent) else "",
            as_of_us=None if as_of is None else (as_of - _EPOCH) // _MICROSECOND,
            retry_after_us=None if wait is None else max(0, microseconds(min(wait, RETRY_AFTER_MAX))),
            detail=answer.detail,
        )

    def _found(self, answer: Found[Any], *, original: bool) -> Answered:
        kind, stored, detail = self._stored(answer.outcome, answer.detail)
        return Answered(
            kind=kind,
            value=stored,
            fingerprint=answer.fingerprint or "",
            receipt=answer.receipt,
            original=original if answer.original is None else answer.original,
            detail=detail,
        )

    def _stored(self, outcome: Any, detail: str = "") -> tuple[AnswerKind, JSON, str]:
        """An outcome in stored form, or where it cannot be stored."""
        try:
            stored = self.outcome.encode(outcome, where=self.where, root="result")
        except ValueNotStorable as error:
            return AnswerKind.UNSTORABLE, None, clipped(f"{type(outcome).__name__} at {error.path}")
        return AnswerKind.ITEMS if stored and isinstance(self.outcome, BatchCodec) else AnswerKind.FOUND, stored, detail

    def _refused(self, answer: Refused) -> Answered:
        """A rejection that is not declared, or cannot be stored, could not be raised again: it proves nothing to a replay."""
        error = answer.error
        if self.rejects.get(error.name) is not type(error):
            return Answered(kind=AnswerKind.UNREACHABLE, detail=clipped(f"{error_name(error)} is not declared in rejects="))
        try:
            fields = encode_rejection(error)
        except ValueNotStorable as refusal:
            return Answered(kind=AnswerKind.UNREACHABLE, detail=clipped(f"{error_name(error)} cannot be stored at {refusal.path}"))
        return Answered(
            kind=AnswerKind.REFUSED, error=error.name, value=fields, fingerprint=answer.fingerprint or "", detail=answer.detail
        )


def message_of(error: BaseException, limit: int = DETAIL_MAX) -> str:
    """What an error says, bounded and storable; "" where it fails to say anything, which must not hide the error itself."""
    try:
        return clipped(str(error), limit)
    except Exception:  # noqa: BLE001  # a failing __str__ is the user's code
        return ""


def error_name(error: BaseException) -> str:
    """The qualified type of an error, without its message."""
    return class_name(type(error))


def class_name(kind: type[BaseException]) -> str:
    """The qualified name of a class of errors."""
    return clipped(kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}", 200)
