"""Answers: what an environment says about one effect, as adapters write it.

Owns the words in which probes, closes and bodies answer. Knows neither codecs nor verdicts: only `judge` decides what an
answer proves. Invariant: an answer states one fact and never a conclusion.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Generic, TypeAlias, TypeVar

from recovery.definitions.rejection import Rejection

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

DETAIL_MAX: Final = 500  # characters
RETRY_AFTER_MAX: Final = timedelta(days=1)
"""The longest pause that an environment can ask for: it is asked again then. Without a bound one answer could silence a run for ever, and
nobody would hear of it, since a run that waits needs no person."""

IDENTITY_MAX: Final = 1000  # characters of a receipt's id or a fingerprint


def clipped(text: str, limit: int = DETAIL_MAX) -> str:
    """`text`, bounded and storable: a character that has no UTF-8 form (a lone surrogate) is escaped."""
    whole = text if text.isascii() else text.encode(errors="backslashreplace").decode()
    return whole if len(whole) <= limit else whole[: limit - 1] + "…"


def _check_text(what: str, text: str) -> None:
    """What identifies a request or a receipt is kept and compared as it is. Raises TypeError, ValueError."""
    if not isinstance(text, str):
        raise TypeError(f"an answer's {what} is a text, not {type(text).__name__}: write it as one")
    if len(text) > IDENTITY_MAX or not text.isprintable():
        raise ValueError(f"an answer's {what} is up to {IDENTITY_MAX} printable characters")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """`detail` is for people: bounded to DETAIL_MAX characters, and it must hold no secrets, since it is journaled."""

    detail: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "detail", clipped(self.detail))


@dataclass(frozen=True, slots=True)
class Found(_Answer, Generic[T_co]):
    """It happened. `outcome` is what the body would have returned.

    fingerprint: of the request that the environment stored, None where it does not tell; the contract's stable fields are
        compared then.
    receipt: the receipt's own id, "" where it has none.
    original: this is the first reply, not the object's present state; None: as the contract's look-up says.
    """

    outcome: T_co
    fingerprint: str | None = None
    receipt: str = ""
    original: bool | None = None

    def __post_init__(self) -> None:
        _Answer.__post_init__(self)
        _check_text("fingerprint", self.fingerprint or "")
        _check_text("receipt", self.receipt)
        if self.original not in {None, True, False}:
            raise TypeError(f"an answer's original is True, False or None, not {self.original!r}")


@dataclass(frozen=True, slots=True)
class Refused(_Answer):
    """The environment remembers that it refused this key, with a declared rejection."""

    error: Rejection
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        _Answer.__post_init__(self)
        _check_text("fingerprint", self.fingerprint or "")


@dataclass(frozen=True, slots=True)
class Accepted(_Answer):
    """Taken by a store that drops duplicates and tells nothing: this request may have been the first or a copy."""


@dataclass(frozen=True, slots=True)
class Absent(_Answer):
    """Nothing under this key as of `as_of`, which needs a time zone; None: as of the question, less the contract's lag.

    raised: the epoch below which the environment refuses every copy from now on, as `str(call.epoch)`, where this question raised it in the
    same transaction; "" where it raised none.
    """

    as_of: datetime | None = None
    raised: str = ""

    def __post_init__(self) -> None:
        _Answer.__post_init__(self)
        if self.as_of is not None and self.as_of.utcoffset() is None:
            raise ValueError("Absent(as_of=...) needs a time with a time zone, such as datetime.now(UTC)")
        _check_text("raised epoch", self.raised)


@dataclass(frozen=True, slots=True)
class InFlight(_Answer):
    """A copy is being worked on. `retry_after`: how long the environment asks to wait; at most a day counts."""

    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Gone(_Answer):
    """It happened, and its object has been removed since. Answer this before Foreign."""


@dataclass(frozen=True, slots=True)
class Foreign(_Answer):
    """The name is taken by an object that is not ours."""


@dataclass(frozen=True, slots=True)
class Mismatch(_Answer):
    """The key answers for another request."""


@dataclass(frozen=True, slots=True)
class Closed(_Answer):
    """The key is refused for ever, and nothing happened under it."""


@dataclass(frozen=True, slots=True)
class Expired(_Answer):
    """The key's window or the receipt's retention is over."""


@dataclass(frozen=True, slots=True)
class Indeterminate(_Answer):
    """A remembered failure that says nothing about the effect, such as a cached 500."""


@dataclass(frozen=True, slots=True)
class Unreachable(_Answer):
    """No answer: it might have happened."""


@dataclass(frozen=True, slots=True)
class TurnedAway(_Answer):
    """This request did nothing, and nothing is said about earlier ones: 401, 429, a 5xx that had no effect. At most a day of
    `retry_after` counts."""

    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class NotSent(_Answer):
    """Proof that this request never left: a refused connection, a failure before the first byte."""


Answer: TypeAlias = (
    Found[T]
    | Refused
    | Accepted
    | Absent
    | InFlight
    | Gone
    | Foreign
    | Mismatch
    | Closed
    | Expired
    | Indeterminate
    | Unreachable
    | TurnedAway
    | NotSent
)


class ReplyWas(Exception):
    """Raised by an effect's body to answer with something else than a value: `raise ReplyWas(InFlight())`."""

    def __init__(self, answer: Answer[object]) -> None:
        super().__init__(answer)
        self.answer = answer
