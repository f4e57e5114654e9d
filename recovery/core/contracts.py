"""Contracts: how a promise of an environment is stated, class by class.

Owns the constructors. Durations are ``timedelta`` at this face. Knows nothing of evidence. Invariant: what a constructor returns can be true
(`core.truth`), and names every field that was left to a default, so that verdicts can name those they relied on.
"""

from __future__ import annotations

from datetime import timedelta

from recovery.core.stating import (
    UNPUBLISHED,
    Remembers,
    Unpublished,
    Window,
    asked,
    build,
    common,
    filled_in,
    optional,
    remembered,
    window_us,
)
from recovery.core.terms import (
    CLOCK_ERROR_DEFAULT,
    DURATION_MAX,
    FOR_EVER,
    NAMES,
    SETTLE_WINDOW_DEFAULT,
    AfterWindow,
    Batch,
    Contract,
    Deletion,
    Enforced,
    Kind,
    Lookup,
    Replay,
    WindowStart,
    contract_digest,
    microseconds,
)
from recovery.core.truth import check, refused

__all__ = [
    "CLOCK_ERROR_DEFAULT", "DURATION_MAX", "FOR_EVER", "NAMES", "SETTLE_WINDOW_DEFAULT", "UNPUBLISHED", "AfterWindow", "Batch", "CoTransactional", "Contract",
    "Deletion", "Enforced", "FirstSent", "Keyed", "Kind", "Lookup", "Named", "Opaque", "Prepared", "Probeable", "Read", "Remembers",
    "Replay", "Swallow", "Unpublished", "WindowStart", "check", "contract_digest", "microseconds",
]  # fmt: skip


def Keyed(
    *,
    window: Window,
    window_starts: WindowStart | None = None,
    after_window: AfterWindow | None = None,
    settle_window: timedelta | None = None,
    clock_error: timedelta | None = None,
    lookup: Lookup | None = None,
    close: bool | None = None,
    cancel_by_key: bool | None = None,
    fail_open: bool | None = None,
    mismatch_checked: bool | None = None,
    lock_outlives_execution: bool | None = None,
    remembers: Remembers | None = None,
    remembers_rejections: bool | None = None,
    failures_effect_free: bool | None = None,
    replay: Replay | None = None,
    stable_fields: tuple[str, ...] | None = None,
    shown_once: bool | None = None,
    batch: Batch | None = None,
    disconnect_cancels: bool | None = None,
    valid_for: timedelta | None = None,
    key_carrier: str | None = None,
    key_length_max: int | None = None,
    name: str = "",
    version: int = 1,
) -> Contract:
    """One effect per key for `window`, counted from the first attempt; a re-send of the key is the look-up.

    window: how long a key is remembered, or `UNPUBLISHED`: then the first attempt is sent and never re-sent.
    replay: what a re-send returns after a success, `Replay.ORIGINAL` (the first reply) or `Replay.CURRENT` (the object as it is now, of which
    the `stable_fields` give the outcome back). remembers: what is kept of a request that did not succeed; `remembers_rejections` says the
    same about declared rejections alone. failures_effect_free: whether a failure that is forgotten had no effect; without that a re-send
    after one may act twice.

    Unstated fields default to: a settle window of 20 minutes, a clock error of 2 seconds, no look-up, no close, no cancelling, a key store
    that fails closed, checks mismatches and serialises copies, original replay, rejections remembered, failures forgotten and without
    effect, no end to being wanted, keys of at most 255 characters. A verdict names the ones it relied on.
    """
    stated = common(settle_window, clock_error, valid_for) | {
        "window_us": window_us(Kind.KEYED, name, window),
        "window_starts": window_starts,
        "after_window": after_window,
        "lookup": lookup,
        "close": close,
        "cancel_by_key": cancel_by_key,
        "fail_open": fail_open,
        "mismatch_checked": mismatch_checked,
        "lock_outlives_execution": lock_outlives_execution,
        "failures_effect_free": failures_effect_free,
        "replay_success": replay,
        "stable_fields": stable_fields,
        "shown_once": shown_once,
        "batch": batch,
        "disconnect_cancels": disconnect_cancels,
        "key_carrier": key_carrier,
        "key_length_max": key_length_max,
    }
    stated |= remembered(name, remembers, remembers_rejections)
    if shown_once and replay is Replay.ORIGINAL:
        raise refused(
            Kind.KEYED, name, "replay", "a replay cannot return what is shown only once", "Leave `replay` or `shown_once` out."
        )
    return build(Kind.KEYED, name, version, stated)


def Swallow(
    *,
    window: Window,
    window_starts: WindowStart | None = None,
    settle_window: timedelta | None = None,
    clock_error: timedelta | None = None,
    lookup: Lookup | None = None,
    fail_open: bool | None = None,
    batch: Batch | None = None,
    valid_for: timedelta | None = None,
    key_carrier: str | None = None,
    key_length_max: int | None = None,
    name: str = "",
    version: int = 1,
) -> Contract:
    """A duplicate inside `window` is accepted and dropped, and nothing is told: a queue with deduplication ids.

    The effect returns None, since an acceptance says the same whether it is the first or a copy. Unstated fields default to those of `Keyed`.
    """
    stated = common(settle_window, clock_error, valid_for) | {
        "window_us": window_us(Kind.SWALLOW, name, window),
        "window_starts": window_starts,
        "lookup": lookup,
        "fail_open": fail_open,
        "batch": batch,
        "key_carrier": key_carrier,
        "key_length_max": key_length_max,
    }
    return build(Kind.SWALLOW, name, version, stated)


def FirstSent(
    *,
    window: timedelta,
    settle_window: timedelta | None = None,
    clock_error: timedelta | None = None,
    lookup: Lookup | None = None,
    mismatch_checked: bool | None = None,
    remembers: Remembers | None = None,
    failures_effect_free: bool | None = None,
    stable_fields: tuple[str, ...] | None = None,
    shown_once: bool | None = None,
    valid_for: timedelta | None = None,
    key_carrier: str | None = None,
    key_length_max: int | None = None,
    name: str = "",
    version: int = 1,
) -> Contract:
    """Keyed, and each request carries the time of first sending (`call.first_sent`): the environment refuses it after `window`.

    So late copies die by themselves, and an authoritative absence after the window is final (OASIS Repeatable Requests 1.0). Unstated fields
    default to those of `Keyed`.
    """
    stated = common(settle_window, clock_error, valid_for) | {
        "window_us": window_us(Kind.FIRST_SENT, name, window),
        "after_window": AfterWindow.REJECTS,
        "lookup": lookup,
        "mismatch_checked": mismatch_checked,
        "failures_effect_free": failures_effect_free,
        "stable_fields": stable_fields,
        "shown_once": shown_once,
        "key_carrier": key_carrier,
        "key_length_max": key_length_max,
    }
    return build(Kind.FIRST_SENT, name, version, stated | remembered(name, remembers, None))


def Named(
    *,
    lookup: Lookup | None = None,
    window: timedelta | None = None,
    compare_and_set: bool | None = None,
    close: bool | None = None,
    enforced: Enforced | None = None,
    settle_window: timedelta | None = None,
    clock_error: timedelta | None = None,
    trust_settle: bool | None = None,
    stable_fields: tuple[str, ...] | None = None,
    shown_once: bool | None = None,
    batch: Batch | None = None,
    disconnect_cancels: bool | None = None,
    valid_for: timedelta | None = None,
    key_carrier: str | None = None,
    key_length_max: int | None = None,
    name: str = "",
    version: int = 1,
) -> Contract:
    """The client names the object that is created (`If-None-Match: *`, a unique key), or sets a value if it is still what it was.

    The name is the receipt, and the object must carry a marker of ours, or our own success looks like somebody else's. lookup: reads it by
    name; by default deletion is `INVISIBLE`, so that an absence never is a proof. window: how long a name cannot be taken again even if its
    object is removed (with `compare_and_set`: how long the compared version does not come back); for ever where deletion is impossible. With
    one a create is simply sent again; without one it asks first. Other unstated fields default to those of `Probeable`.
    """
    look = lookup or Lookup(deletion=Deletion.INVISIBLE)
    for_ever = isinstance(lookup, Lookup) and look.deletion is Deletion.IMPOSSIBLE and look.marker_reliable and not compare_and_set
    stated = asked(settle_window, clock_error, valid_for, trust_settle, enforced, disconnect_cancels) | {
        "lookup": look,
        "window_us": optional(window) if window is not None else microseconds(FOR_EVER) if for_ever else None,
        "compare_and_set": compare_and_set,
        "close": close,
        "stable_fields": stable_fields,
        "shown_once": shown_once,
        "batch": batch,
        "key_carrier": "name" if key_carrier is None else key_carrier,
        "key_length_max": key_length_max,
    }
    return filled_in(build(Kind.NAMED, name, version, stated), lookup=lookup, window_us=window)


def Prepared(
    *,
    lookup: Lookup | None = None,
    window: timedelta | None = None,
    close: bool | None = None,
    settle_window: timedelta | None = None,
    clock_error: timedelta | None = None,
    trust_settle: bool | None = None,
    stable_fields: tuple[str, ...] | None = None,
    shown_once: bool | None = None,
    valid_for: timedelta | None = None,
    key_carrier: str | None = None,
    key_length_max: int | None = None,
    name: str = "",
    version: int = 1,
) -> Contract:
    """The hold of a two-step effect: the environment keeps it under our name until it is confirmed or given up, and can list it.

    Confirming and giving up are effects of their own, each with its contract. An unconfirmed hold changes nothing for good, but locks what it
    holds. lookup: reads the hold by name; by default deletion is `INVISIBLE`, because a resolved hold looks like none. Where the prepared work
    leaves a marker that outlives it, state `VISIBLE`. window: how long a hold's name cannot be used again after it is resolved; without one
    a hold is asked for, never prepared twice. Other unstated fields default to those of `Probeable`.
    """
    stated = asked(settle_window, clock_error, valid_for, trust_settle, None, None) | {
        "lookup": lookup or Lookup(deletion=Deletion.INVISIBLE),
        "window_us": optional(window),
        "close": close,
        "stable_fields": stable_fields,
        "shown_once": shown_once,
        "key_carrier": "name" if key_carrier is None else key_carrier,
        "key_length_max": key_length_max,
    }
    return filled_in(build(Kind.PREPARED, name, version, stated), lookup=lookup, window_us=window)


def CoTransactional(
    *,
    window: timedelta = FOR_EVER,
    lookup: Lookup | None = None,
    close: bool | None = None,
    settle_window: timedelta | None = None,
    clock_error: timedelta | None = None,
    enforced: Enforced | None = None,
    mismatch_checked: bool | None = None,
    remembers: Remembers | None = None,
    stable_fields: tuple[str, ...] | None = None,
    shown_once: bool | None = None,
    batch: Batch | None = None,
    valid_for: timedelta | None = None,
    key_carrier: str | None = None,
    key_length_max: int | None = None,
    name: str = "",
    version: int = 1,
) -> Contract:
    """The receipt is written in the effect's own transaction: there is one if and only if the effect happened.

    window: how long the receipt's row is kept, for ever by default. `recovery.receipts` makes this true for a service of yours. Unstated
    fields default to those of `Keyed`.
    """
    stated = common(settle_window, clock_error, valid_for) | {
        "window_us": window_us(Kind.COTRANSACTIONAL, name, window),
        "lookup": lookup,
        "close": close,
        "enforced": enforced,
        "mismatch_checked": mismatch_checked,
        "stable_fields": stable_fields,
        "shown_once": shown_once,
        "batch": batch,
        "key_carrier": key_carrier,
        "key_length_max": key_length_max,
    }
    return build(Kind.COTRANSACTIONAL, name, version, stated | remembered(name, remembers, None))


def Probeable(
    *,
    lookup: Lookup | None = None,
    enforced: Enforced | None = None,
    settle_window: timedelta | None = None,
    clock_error: timedelta | None = None,
    trust_settle: bool | None = None,
    cancel_by_key: bool | None = None,
    stable_fields: tuple[str, ...] | None = None,
    shown_once: bool | None = None,
    batch: Batch | None = None,
    disconnect_cancels: bool | None = None,
    valid_for: timedelta | None = None,
    name: str = "",
    version: int = 1,
) -> Contract:
    """No deduplication, but an effect can be found by our key: ask first, and never send twice on an assumption.

    Unstated fields default to: an authoritative look-up without lag whose receipts nobody deletes, a settle window of 20
    minutes, a clock error of 2 seconds, and no trust in the settle window (an assumed absence parks).
    """
    stated = asked(settle_window, clock_error, valid_for, trust_settle, enforced, disconnect_cancels) | {
        "lookup": lookup or Lookup(),
        "cancel_by_key": cancel_by_key,
        "stable_fields": stable_fields,
        "shown_once": shown_once,
        "batch": batch,
    }
    return filled_in(build(Kind.PROBEABLE, name, version, stated), lookup=lookup)


def Opaque(
    *,
    settle_window: timedelta | None = None,
    batch: Batch | None = None,
    disconnect_cancels: bool | None = None,
    valid_for: timedelta | None = None,
    name: str = "",
    version: int = 1,
) -> Contract:
    """No key, no receipt, nothing to ask: at most once, and a person decides after a crash."""
    stated = common(settle_window, None, valid_for) | {"batch": batch, "disconnect_cancels": disconnect_cancels}
    return build(Kind.OPAQUE, name, version, stated)


def Read(*, valid_for: timedelta | None = None, name: str = "", version: int = 1) -> Contract:
    """It changes nothing: after a crash it is simply read again. What it returned is journaled, because later steps depend on it."""
    return build(Kind.READ, name, version, common(None, None, valid_for))
