"""Stating: from what somebody said about an environment to a contract.

Owns how arguments become fields, and which fields were left to a default. Knows nothing of what each class promises. Invariant: a contract
leaves here only if it can be true.
"""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from enum import Enum, StrEnum
from types import NoneType
from typing import Any, Final, Literal, TypeAlias

from recovery.core.terms import Contract, Enforced, Kind, Replay, microseconds
from recovery.core.truth import check, refused


class Unpublished(Enum):
    """The type of `UNPUBLISHED`."""

    UNPUBLISHED = "unpublished"


UNPUBLISHED: Final = Unpublished.UNPUBLISHED
"""A window that the provider does not publish: the first attempt is sent, and never re-sent."""

Window: TypeAlias = timedelta | Literal[Unpublished.UNPUBLISHED]


class Remembers(StrEnum):
    """What a key remembers of a request that did not succeed."""

    ALL = "all"  # every result, failures included: a 500 is replayed for ever and says nothing about the effect
    REJECTIONS = "rejections"  # successes and declared rejections; after a failure the work is done again
    SUCCESSES = "successes"  # successes only: a rejection or a failure is forgotten, and the work is done again
    RESUMED = "resumed"  # successes; failed or half-done work is carried on by the next request


_REMEMBERED: Final = {
    Remembers.ALL: (Replay.ORIGINAL, Replay.INDETERMINATE),
    Remembers.REJECTIONS: (Replay.ORIGINAL, Replay.REEXECUTES),
    Remembers.SUCCESSES: (Replay.REEXECUTES, Replay.REEXECUTES),
    Remembers.RESUMED: (Replay.REEXECUTES, Replay.RESUMES),
}
"""What is replayed after a declared rejection, and after a failure."""


def common(settle_window: timedelta | None, clock_error: timedelta | None, valid_for: timedelta | None) -> dict[str, Any]:
    return {
        "settle_window_us": optional(settle_window),
        "clock_error_us": optional(clock_error),
        "valid_for_us": optional(valid_for),
    }


def asked(
    settle_window: timedelta | None,
    clock_error: timedelta | None,
    valid_for: timedelta | None,
    trust_settle: bool | None,
    enforced: Enforced | None,
    disconnect_cancels: bool | None,
) -> dict[str, Any]:
    """Fields of the classes that ask before they send. A declared rejection is not kept by a name or a marker."""
    return common(settle_window, clock_error, valid_for) | {
        "trust_settle": trust_settle,
        "enforced": enforced,
        "disconnect_cancels": disconnect_cancels,
        "replay_rejection": Replay.REEXECUTES,
    }


def filled_in(contract: Contract, **stated: object) -> Contract:
    """What the class itself filled in, because it was not stated, counts as a default."""
    filled = {"replay_rejection", *(name for name, value in stated.items() if value is None)}
    return replace(contract, unstated=tuple(sorted({*contract.unstated, *filled})))


def remembered(name: str, remembers: Remembers | None, rejections: bool | None) -> dict[str, Any]:
    if remembers is not None and rejections is not None:
        raise refused(Kind.KEYED, name, "remembers", "it is stated twice, here and by remembers_rejections", "State one of them.")
    if remembers is not None:
        rejection, failure = _REMEMBERED[remembers]
        return {"replay_rejection": rejection, "replay_failure": failure}
    return {"replay_rejection": None if rejections is None else Replay.ORIGINAL if rejections else Replay.REEXECUTES}


def window_us(kind: Kind, name: str, window: Window) -> int | None:
    """Microseconds, or None for an unpublished window."""
    if window is UNPUBLISHED and kind is not Kind.FIRST_SENT:
        return None
    if not isinstance(window, timedelta):
        advice = "State how long the environment remembers a key, or `contracts.UNPUBLISHED` if it does not say."
        raise refused(kind, name, "window", "it is not a duration", advice)
    return microseconds(window)


def optional(duration: timedelta | None) -> Any:
    """Whole microseconds; what is no duration stays a text, so that the check names its field."""
    return (
        repr(duration) if not isinstance(duration, timedelta | NoneType) else None if duration is None else microseconds(duration)
    )


def build(kind: Kind, name: str, version: int, stated: dict[str, Any]) -> Contract:
    given = {field_name: value for field_name, value in stated.items() if value is not None}
    known = {"kind", "name", "version", "unstated", *given} | ({"window_us"} if "window_us" in stated else set())
    unstated = tuple(sorted({item.name for item in fields(Contract)} - known))
    return check(Contract(kind=kind, name=name, version=version, unstated=unstated, **given))
