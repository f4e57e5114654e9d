"""Waits: what a workflow asks to be told, and which messages answer that.

Owns the types of answers, who may give them, what they are about and until when they count. Knows no engine. Invariant: the answer that a workflow gets
went through the codec, on the first run and on replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

from recovery import codec
from recovery.codec import Codec, type_title
from recovery.core.contracts import microseconds
from recovery.core.durations import stated
from recovery.core.entries import JSON, LAPSED, Decision
from recovery.core.errors import DefinitionError, RecoveryError, SignalRefused, WaitLapsed
from recovery.core.instants import instant_us, iso
from recovery.core.mail import APPROVED_UNTIL, Wanted, sooner
from recovery.core.wording import of_type
from recovery.definitions.effect import Bound
from recovery.ports import Message

T = TypeVar("T")

NO_DEFAULT: Final[Any] = object()
"""A wait without a default raises when it lapses."""

FINGERPRINT_MIN: Final = 8
"""Characters of a fingerprint that name the call which an answer approves."""


@dataclass(frozen=True, slots=True)
class Wait(Generic[T]):
    """One call of `run.wait_for` or `run.receive`."""

    wanted: Wanted
    codec: Codec[T]
    default: Any

    @property
    def name(self) -> str:
        return self.wanted.name

    def value(self, run_id: str, step: str, ended: Decision) -> T:
        """What the workflow gets. Raises WaitLapsed, and ValueUnreadable."""
        if ended.form == LAPSED:
            if self.default is not NO_DEFAULT:
                return self.default  # type: ignore[no-any-return]  # of the caller's type
            raise WaitLapsed(run_id=run_id, step=step, what=self.wanted.known_as, until=iso(ended.value))
        return self.codec.decode(ended.value["value"], where=f"answer to {self.name!r}", root="value")


def wait_for(
    name: str,
    schema: Any,
    *,
    about: Bound[Any] | None,
    by: Sequence[str] | None,
    valid_until: datetime | None,
    timeout: timedelta | None,
    valid_for: timedelta | None,
    default: Any,
) -> Wait[Any]:
    """Of `run.wait_for`. Raises DefinitionError."""
    _check_names("run.wait_for", by)
    if about is not None:
        if not isinstance(about, Bound):
            raise _refused("run.wait_for", f"about= is {of_type(about)}", "Pass a bound effect: about=purchase(units=2).")
        about.taken()
    elif valid_for is not None:
        raise _refused(
            "run.wait_for", "valid_for= says how long a call may be sent, and about= names none", "Pass about= or leave it out."
        )
    ends_us = _ends_us("run.wait_for", valid_until)
    reading = _Reading(_codec_of(schema), tuple(by or ()), about, ends_us, _lasts_us("run.wait_for", "valid_for=", valid_for))
    wanted = Wanted(
        name=name,
        queue=False,
        read=reading.read,
        fingerprint="" if about is None else about.fingerprint,
        until_us=ends_us,
        lasts_us=_lasts_us("run.wait_for", "timeout=", timeout),
        said=reading.said(),
    )
    return Wait(wanted, reading.codec, default)


def receive(topic: str, schema: Any, *, by: Sequence[str] | None, timeout: timedelta | None, default: Any) -> Wait[Any]:
    """Of `run.receive`. Raises DefinitionError."""
    _check_names("run.receive", by)
    reading = _Reading(_codec_of(schema), tuple(by or ()), None, None, None)
    lasts_us = _lasts_us("run.receive", "timeout=", timeout)
    return Wait(Wanted(name=topic, queue=True, read=reading.read, lasts_us=lasts_us, said=reading.said()), reading.codec, default)


def _lasts_us(call: str, argument: str, duration: timedelta | None) -> int | None:
    return None if duration is None else microseconds(stated(duration, "call", call, argument))


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a message must say."""

    codec: Codec[Any]
    by: tuple[str, ...]
    about: Bound[Any] | None
    ends_us: int | None
    valid_for_us: int | None

    def said(self) -> dict[str, JSON]:
        """What the entry tells people of it."""
        said: dict[str, JSON] = {"type": type_title(self.codec.type)}
        if self.codec.veils.any:
            said["secret"] = True  # whoever tells of an answer before it is taken in has no type to know it from
        if self.by:
            said["by"] = list(self.by)
        if self.about is not None:
            said["about"] = {"effect": self.about.effect.name, "arguments": dict(self.about.stored)}
        return said

    def read(self, message: Message) -> dict[str, JSON]:
        """The answer as it is stored. Raises RecoveryError where the message is none."""
        try:
            body = codec.loads(message.body)
            value, about, until_us = body["value"], body.get("about", ""), body.get("valid_until_us")
        except (ValueError, KeyError, AttributeError, TypeError):
            raise _unfit(message, "its body is not what a sender writes", "Send it with `recover signal`.") from None
        if self.by and message.by not in self.by:
            raise _unfit(message, f"{message.by!r} may not answer", f"It is to be answered by {', '.join(self.by)}.")
        fingerprint = "" if self.about is None else self.about.fingerprint
        if fingerprint and not (len(about) >= FINGERPRINT_MIN and fingerprint.startswith(about)):
            problem = f"it approves {about[:12] or 'no call by name'}, and what is to be approved is {fingerprint[:12]}"
            raise _unfit(message, problem, "Look at the call with `recover waits`, and name its fingerprint with --about.")
        parsed = self.codec.parse(value, where=f"answer to {message.name!r}", root="value")
        stored = {"value": self.codec.encode(parsed, where=f"answer to {message.name!r}", root="value")}
        return stored if self.about is None else {**stored, APPROVED_UNTIL: self._stands_until_us(message, until_us)}

    def _stands_until_us(self, message: Message, until_us: int | None) -> int | None:
        """Until when the approved call may be sent: the sooner of what the workflow and the answer say; None: no end."""
        for_us = None if self.valid_for_us is None else message.at_us + self.valid_for_us
        return sooner(self.ends_us, for_us, until_us)


@lru_cache(maxsize=1024)
def _hashed(schema: Any) -> Codec[Any]:
    return Codec(schema, what="answer")


def _codec_of(schema: Any) -> Codec[Any]:
    """Kept, since building one costs more than the wait's commit."""
    try:
        return _hashed(schema)
    except TypeError:  # it has no hash
        return Codec(schema, what="answer")


def _ends_us(method: str, at: datetime | None) -> int | None:
    if at is not None and at.utcoffset() is None:
        raise _refused(method, "its moment has no time zone", "Pass one that has, such as datetime(2030, 1, 1, tzinfo=UTC).")
    return None if at is None else instant_us(at)


def _check_names(method: str, by: Sequence[str] | None) -> None:
    if by is not None and (isinstance(by, str) or not by or not all(isinstance(who, str) and who for who in by)):
        raise _refused(method, "by= is no list of names", 'Pass one, such as by=["shift lead"], or leave it out for anybody.')


def _refused(method: str, problem: str, advice: str) -> DefinitionError:
    return DefinitionError(what="call", name=method, problem=problem, advice=advice)


def _unfit(message: Message, problem: str, advice: str) -> RecoveryError:
    return SignalRefused(
        run_id=message.run_id, what=f"the answer to {message.name!r} by {message.by}", problem=problem, advice=advice
    )
