"""Settings: every class of contract, its modifiers, in every kind of weather that can matter to it.

Owns the bound of the model check. Knows nothing of how it is searched. All windows are single microseconds, so that every boundary is met:
a request takes 1, a copy may act for 1 longer and a clock may be wrong by 1, so that an attempt is quiet after 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from recovery.core.contracts import (
    FOR_EVER,
    AfterWindow,
    Batch,
    Contract,
    Deletion,
    Enforced,
    Kind,
    Lookup,
    Replay,
    WindowStart,
    microseconds,
)
from recovery.core.trust import weaker
from tests.model.states import Allowance, Setting

_TIMES: Final[dict[str, Any]] = {"settle_window_us": 1, "clock_error_us": 1}
KEYED: Final = Contract(kind=Kind.KEYED, window_us=8, **_TIMES)
FORGETS: Final = replace(KEYED, replay_rejection=Replay.REEXECUTES)
SWALLOW: Final = Contract(kind=Kind.SWALLOW, window_us=8, **_TIMES)
FIRST_SENT: Final = Contract(kind=Kind.FIRST_SENT, window_us=5, lookup=Lookup(), **_TIMES)
COTX: Final = Contract(kind=Kind.COTRANSACTIONAL, lookup=Lookup(), close=True, **_TIMES)
NAMED: Final = Contract(kind=Kind.NAMED, lookup=Lookup(), **_TIMES)
PREPARED: Final = Contract(kind=Kind.PREPARED, lookup=Lookup(deletion=Deletion.VISIBLE), **_TIMES)
PROBEABLE: Final = Contract(kind=Kind.PROBEABLE, lookup=Lookup(), **_TIMES)
TRUSTING: Final = replace(PROBEABLE, trust_settle=True)
DEADLINE: Final = replace(PROBEABLE, enforced=Enforced.DEADLINE)
EPOCH: Final = replace(PROBEABLE, enforced=Enforced.EPOCH)
OPAQUE: Final = Contract(kind=Kind.OPAQUE, **_TIMES)
READ: Final = Contract(kind=Kind.READ, **_TIMES)
STABLE: Final = ("id",)

CONTRACTS: Final[dict[str, Contract]] = {
    "read": READ,
    "keyed": KEYED,
    "keyed, forgets rejections": FORGETS,
    "keyed, window of five": replace(KEYED, window_us=5),
    "keyed, short window": replace(KEYED, window_us=3),
    "keyed, short window, forgets rejections": replace(FORGETS, window_us=3),
    "keyed, window of one more than a re-send needs": replace(KEYED, window_us=4),
    "keyed, clocks that agree": replace(KEYED, clock_error_us=0, window_us=4),
    "keyed, window unpublished": replace(KEYED, window_us=None),
    "keyed, present state": replace(KEYED, replay_success=Replay.CURRENT, stable_fields=STABLE),
    "keyed, present state without stable fields": replace(KEYED, replay_success=Replay.CURRENT),
    "keyed, shown once": replace(KEYED, shown_once=True),
    "keyed, shown once, can be asked": replace(KEYED, shown_once=True, lookup=Lookup(), stable_fields=STABLE),
    "keyed, keeps failures": replace(KEYED, replay_failure=Replay.INDETERMINATE, failures_effect_free=False),
    "keyed, keeps failures, can be asked": replace(
        KEYED, replay_failure=Replay.INDETERMINATE, failures_effect_free=False, lookup=Lookup()
    ),
    "keyed, forgets failures with effect": replace(KEYED, failures_effect_free=False),
    "keyed, forgets failures without effect": KEYED,
    "keyed, resumes failures": replace(KEYED, replay_failure=Replay.RESUMES),
    "keyed, copies not serialised": replace(KEYED, lock_outlives_execution=False),
    "keyed, refuses after the window": replace(KEYED, after_window=AfterWindow.REJECTS, window_us=5),
    "keyed, window from completion": replace(KEYED, window_starts=WindowStart.COMPLETED),
    "keyed, window from the end of its work": replace(KEYED, window_starts=WindowStart.TERMINATED),
    "keyed, disconnect cancels": replace(KEYED, disconnect_cancels=True),
    "keyed, fails open": replace(KEYED, fail_open=True),
    "keyed, fails open, can be asked": replace(KEYED, fail_open=True, lookup=Lookup(), trust_settle=True),
    "keyed, fails open, can be closed": replace(KEYED, fail_open=True, close=True),
    "keyed, can be asked": replace(KEYED, window_us=5, lookup=Lookup()),
    "keyed, can be asked, lagging": replace(KEYED, window_us=4, lookup=Lookup(lag_us=2)),
    "keyed, can be asked, prunes": replace(KEYED, window_us=4, lookup=Lookup(retention_us=5), trust_settle=True),
    "keyed, can be asked, not authoritative": replace(KEYED, window_us=4, lookup=Lookup(authoritative=False), trust_settle=True),
    "keyed, can be asked, removable unseen": replace(
        KEYED, window_us=4, lookup=Lookup(deletion=Deletion.INVISIBLE), trust_settle=True
    ),
    "keyed, can be closed": replace(KEYED, window_us=5, close=True),
    "keyed, can be closed, short window": replace(KEYED, window_us=3, close=True),
    "keyed, can be closed, forgets rejections": replace(FORGETS, window_us=5, close=True),
    "keyed, can be closed and asked": replace(KEYED, window_us=4, lookup=Lookup(), close=True),
    "keyed, can be closed and asked, prunes": replace(KEYED, window_us=6, lookup=Lookup(retention_us=4), close=True),
    "keyed, wanted for a while": replace(KEYED, valid_for_us=4),
    "keyed, can be closed, wanted for a while": replace(KEYED, close=True, valid_for_us=4),
    "keyed, requests not compared": replace(KEYED, mismatch_checked=False),
    "keyed, batch with one key": replace(KEYED, batch=Batch.ATOMIC),
    "keyed, batch with a key for each item": replace(KEYED, batch=Batch.PER_ITEM_KEY),
    "keyed, batch item by item, can be asked": replace(KEYED, batch=Batch.PER_ITEM_RESULT, lookup=Lookup(), window_us=5),
    "keyed, batch item by item, can be closed": replace(KEYED, batch=Batch.PER_ITEM_RESULT, close=True),
    "keyed, batch item by item": replace(KEYED, batch=Batch.PER_ITEM_RESULT),
    "keyed, batch item by item, forgets rejections": replace(FORGETS, batch=Batch.PER_ITEM_RESULT),
    "swallow": SWALLOW,
    "swallow, short window": replace(SWALLOW, window_us=3),
    "swallow, can be asked": replace(SWALLOW, window_us=3, lookup=Lookup()),
    "first-sent": FIRST_SENT,
    "first-sent, lagging": replace(FIRST_SENT, lookup=Lookup(lag_us=1)),
    "first-sent, cannot be asked": replace(FIRST_SENT, lookup=None),
    "first-sent, copies may act long": replace(FIRST_SENT, settle_window_us=7),
    "first-sent, prunes": replace(FIRST_SENT, lookup=Lookup(retention_us=8)),
    "co-transactional": COTX,
    "co-transactional, cannot be closed": replace(COTX, close=False),
    "co-transactional, windowed": replace(COTX, window_us=5),
    "named": NAMED,
    "named, trusting": replace(NAMED, trust_settle=True),
    "named, removable": replace(NAMED, lookup=Lookup(deletion=Deletion.VISIBLE)),
    "named, removable, lagging": replace(NAMED, lookup=Lookup(deletion=Deletion.VISIBLE, lag_us=1)),
    "named, removable unseen": replace(NAMED, lookup=Lookup(deletion=Deletion.INVISIBLE), trust_settle=True),
    "named, marker unreliable": replace(NAMED, lookup=Lookup(marker_reliable=False), trust_settle=True),
    "named, for ever": replace(NAMED, window_us=microseconds(FOR_EVER)),
    "named, for ever, present state": replace(
        NAMED,
        window_us=microseconds(FOR_EVER),
        replay_success=Replay.CURRENT,
        lookup=Lookup(original=False),
        stable_fields=STABLE,
    ),
    "named, removable, kept for a while": replace(NAMED, window_us=6, lookup=Lookup(deletion=Deletion.VISIBLE)),
    "named, removable unseen, kept for a while": replace(NAMED, window_us=6, lookup=Lookup(deletion=Deletion.INVISIBLE)),
    "named, compares and sets": replace(NAMED, compare_and_set=True, lookup=Lookup(deletion=Deletion.VISIBLE)),
    "named, compares and sets versions that do not come back": replace(
        NAMED, compare_and_set=True, window_us=microseconds(FOR_EVER), lookup=Lookup(deletion=Deletion.INVISIBLE)
    ),
    "named, can be closed": replace(NAMED, close=True),
    "prepared": PREPARED,
    "prepared, trusting": replace(PREPARED, trust_settle=True),
    "prepared, kept for a while": replace(PREPARED, window_us=6),
    "prepared, resolved unseen": replace(PREPARED, lookup=Lookup(deletion=Deletion.INVISIBLE), trust_settle=True),
    "probeable": PROBEABLE,
    "probeable, present state": replace(PROBEABLE, lookup=Lookup(original=False), stable_fields=STABLE),
    "probeable, present state without stable fields": replace(PROBEABLE, lookup=Lookup(original=False)),
    "probeable, lagging": replace(PROBEABLE, lookup=Lookup(lag_us=2)),
    "probeable, trusting": TRUSTING,
    "probeable, trusting, lagging": replace(TRUSTING, lookup=Lookup(lag_us=2)),
    "probeable, trusting, clocks that agree": replace(TRUSTING, clock_error_us=0),
    "probeable, trusting, prunes": replace(TRUSTING, lookup=Lookup(retention_us=7)),
    "probeable, trusting, not authoritative": replace(TRUSTING, lookup=Lookup(authoritative=False)),
    "probeable, trusting, removable": replace(TRUSTING, lookup=Lookup(deletion=Deletion.VISIBLE)),
    "probeable, trusting, removable unseen": replace(TRUSTING, lookup=Lookup(deletion=Deletion.INVISIBLE)),
    "probeable, can be closed": replace(PROBEABLE, close=True),
    "probeable, can be closed, prunes": replace(PROBEABLE, close=True, lookup=Lookup(retention_us=4)),
    "probeable, deadline": DEADLINE,
    "probeable, deadline, lagging": replace(DEADLINE, lookup=Lookup(lag_us=1)),
    "probeable, deadline, prunes": replace(DEADLINE, lookup=Lookup(retention_us=6)),
    "probeable, deadline, can be closed": replace(DEADLINE, close=True),
    "probeable, epoch": EPOCH,
    "probeable, epoch, lagging": replace(EPOCH, lookup=Lookup(lag_us=2)),
    "probeable, epoch, prunes": replace(EPOCH, lookup=Lookup(retention_us=6)),
    "probeable, disconnect cancels": replace(PROBEABLE, disconnect_cancels=True),
    "probeable, trusting, disconnect cancels": replace(TRUSTING, disconnect_cancels=True),
    "probeable, can be cancelled by key": replace(PROBEABLE, cancel_by_key=True),
    "probeable, trusting, can be cancelled by key": replace(TRUSTING, cancel_by_key=True),
    "probeable, trusting, can be cancelled by key, removable": replace(
        TRUSTING, cancel_by_key=True, lookup=Lookup(deletion=Deletion.VISIBLE)
    ),
    "probeable, trusting, can be cancelled by key, lagging": replace(TRUSTING, cancel_by_key=True, lookup=Lookup(lag_us=1)),
    "probeable, deadline, can be cancelled by key": replace(DEADLINE, cancel_by_key=True),
    "keyed, can be cancelled by key": replace(KEYED, cancel_by_key=True),
    "keyed, can be asked and cancelled by key": replace(KEYED, cancel_by_key=True, lookup=Lookup(deletion=Deletion.VISIBLE)),
    "probeable, wanted for a while": replace(TRUSTING, valid_for_us=6),
    "probeable, batch item by item": replace(PROBEABLE, batch=Batch.PER_ITEM_RESULT),
    "probeable, batch item by item, trusting": replace(TRUSTING, batch=Batch.PER_ITEM_RESULT),
    "probeable, batch item by item, trusting, lagging": replace(TRUSTING, batch=Batch.PER_ITEM_RESULT, lookup=Lookup(lag_us=2)),
    "probeable, batch item by item, deadline": replace(DEADLINE, batch=Batch.PER_ITEM_RESULT),
    "probeable, batch item by item, epoch": replace(EPOCH, batch=Batch.PER_ITEM_RESULT),
    "opaque": OPAQUE,
    "opaque, batch item by item": replace(OPAQUE, batch=Batch.PER_ITEM_RESULT),
}

LATER: Final[dict[str, tuple[Contract, Contract]]] = {
    "keyed, later found to fail open": (KEYED, replace(KEYED, fail_open=True)),
    "keyed, later found to have a short window": (KEYED, replace(KEYED, window_us=3)),
    "keyed, later said to have a longer window": (replace(KEYED, window_us=3), KEYED),
    "probeable, later found to lag": (TRUSTING, replace(TRUSTING, lookup=Lookup(lag_us=2))),
    "probeable, later said to be trusted": (PROBEABLE, TRUSTING),
}
"""Contracts that changed after the intent was written: the environment keeps to the weaker."""

TWO: Final = Allowance(claims=1, stalls=1)
SHORT: Final = 8
ALONE: Final = Allowance(claims=1, stalls=0)
FAILING: Final = ("keeps failures", "forgets failures", "resumes failures")
BUSY: Final = ("keyed", "keyed, can be asked", "probeable, trusting", "probeable, deadline", "co-transactional")
THREE: Final = (
    "keyed",
    "keyed, window of five",
    "keyed, forgets rejections",
    "probeable, trusting",
    "keyed, can be closed and asked",
    "opaque",
    "first-sent",
)
UPGRADED: Final = ("keyed", "keyed, requests not compared", "keyed, can be closed and asked")
WORD: Final = ("keyed", "probeable", "opaque")


def settings() -> Iterator[Setting]:
    """All of the bound, the same every time."""
    for name, contract in CONTRACTS.items():
        yield from _weathers(name, contract)
    for name, (pinned, later) in LATER.items():
        yield Setting(name=f"{name}: two workers", contracts=(pinned, later), actual=weaker(pinned, later), allowance=TWO)
    for name, contract, actual in LIES:
        yield Setting(name=f"lie, {name}", contracts=(contract,), actual=actual, lies=True, allowance=TWO)
    for name, contract in THEIRS.items():
        yield Setting(name=f"another request under our key, {name}", contracts=(contract,), theirs=True, allowance=TWO)


def _weathers(name: str, contract: Contract) -> Iterator[Setting]:
    fails = any(way in name for way in FAILING)
    for skew in (-1, 0, 1) if contract.kind is Kind.FIRST_SENT or contract.enforced is Enforced.DEADLINE else (0,):
        ahead = {-1: ", its clock behind", 0: "", 1: ", its clock ahead"}[skew]
        for weather, allowance, more in _allowances(name, contract):
            yield Setting(
                name=f"{name}{ahead}: {weather}", contracts=(contract,), allowance=allowance, fails=fails, skew=skew, **more
            )


def _allowances(name: str, contract: Contract) -> Iterator[tuple[str, Allowance, dict[str, Any]]]:
    lookup = contract.lookup
    yield "two workers", TWO, {}
    yield "requests that do nothing", ALONE._replace(unsent=1, turned=1, silent=1), {}
    yield "stock comes back", TWO._replace(stock=1), {"refusing": True}
    yield "no longer wanted", ALONE._replace(unwanted=1, unsent=1), {}
    yield "restored", ALONE._replace(restored=1), {}
    yield "another scope", ALONE._replace(scope=2), {"horizon": SHORT}
    if lookup is not None and lookup.deletion is not Deletion.IMPOSSIBLE:
        yield "somebody removes it", ALONE._replace(removed=1), {}
    if name == "keyed":  # its key covers both; where nothing does, A5 rules this out
        yield "doubled on its way", TWO._replace(doubled=1), {}
    if contract.kind is Kind.NAMED:
        yield "somebody takes the name", TWO._replace(taken=1, removed=1), {}
        yield "restored, and somebody takes the name", ALONE._replace(taken=1, restored=1), {}
    if name in BUSY:
        yield "busy", TWO, {"busy": True}
    if contract.cancel_by_key:
        yield "two workers, no longer wanted", TWO._replace(unwanted=1, silent=1), {}
    if name in THREE:
        yield "three workers", Allowance(claims=2, stalls=1), {"attempts": 3}
    if name in UPGRADED:
        yield "the code is upgraded", TWO._replace(upgraded=1), {}
    if name in WORD:
        yield "an operator speaks", ALONE._replace(word=1, unwanted=1, turned=1), {}
    if name == "keyed, can be asked, lagging":
        yield "one attempt", ALONE, {"attempts": 1}
    if name == "keyed, forgets rejections":
        lost = Allowance(claims=2, stalls=1, restored=1, stock=1)
        yield "restored, and stock comes back", lost, {"refusing": True, "horizon": SHORT}
    if contract.kind is Kind.OPAQUE:
        yield "restored, and no longer wanted", ALONE._replace(restored=1, unwanted=1), {}
        yield "with a probe", TWO, {"can_probe": True}


LIES: Final = (
    ("a shorter window", KEYED, replace(KEYED, window_us=3)),
    ("no key at all", KEYED, replace(KEYED, kind=Kind.OPAQUE)),
    ("copies act later", TRUSTING, replace(TRUSTING, settle_window_us=4)),
    ("the look-up lags", TRUSTING, replace(TRUSTING, lookup=Lookup(lag_us=3))),
    ("the look-up misses", PROBEABLE, replace(PROBEABLE, lookup=Lookup(authoritative=False))),
)
"""Environments that do not keep their contract: once is no longer promised, the rest is."""

_UNITS: Final = ("units",)
THEIRS: Final = {
    "checked": KEYED,
    "unchecked": replace(KEYED, mismatch_checked=False, stable_fields=_UNITS),
}
