"""Truth: which contracts cannot be true, and why.

Owns the list of refusals. Knows nothing of how a contract is stated or judged. Invariant: a refusal names one field and the reason, and what
passes `check` contradicts neither itself nor what its class means. It can still be false of the environment: only whoever states it knows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final

from recovery.core.errors import DefinitionError
from recovery.core.terms import (
    FOR_EVER,
    NAMES,
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
from recovery.core.typed import misfit

KEYED: Final = frozenset({Kind.KEYED, Kind.SWALLOW, Kind.FIRST_SENT, Kind.COTRANSACTIONAL})
"""Classes with a key store."""

CLOSABLE: Final = KEYED - {Kind.SWALLOW} | NAMES
ASKED: Final = frozenset({Kind.PROBEABLE}) | NAMES
_KEY_STORE: Final = frozenset({Kind.KEYED, Kind.SWALLOW, Kind.FIRST_SENT})
"""Classes whose key store is apart from the effect, so that it can be down on its own."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One way not to be true. `field`: what to change. `when`: whether a contract is false in this way."""

    field: str
    when: Callable[[Contract], bool]
    reason: str
    advice: str


def check(contract: Contract) -> Contract:
    """The contract, if it can be true. Raises DefinitionError naming the first field that cannot, and why."""
    if (odd := misfit(contract)) is not None:
        raise refused(contract.kind, contract.name, *odd)
    for refusal in REFUSALS:
        if refusal.when(contract):
            raise refused(contract.kind, contract.name, refusal.field, refusal.reason, refusal.advice)
    return contract


def refused(kind: Kind, name: str, field: str, reason: str, advice: str) -> DefinitionError:
    called = name if isinstance(name, str) and name.isprintable() else ""
    return DefinitionError(what="contract", name=called or str(kind), problem=f"{field}: {reason}", advice=advice)


def _stated(contract: Contract, name: str) -> bool:
    """Whether somebody chose this value, rather than the default."""
    return name not in contract.unstated and getattr(contract, name) != _DEFAULTS[name]


def _final(lookup: Lookup | None) -> bool:
    return lookup is not None and lookup.authoritative and lookup.marker_reliable and lookup.deletion is not Deletion.INVISIBLE


def _retention_too_short(contract: Contract) -> bool:
    kept = contract.lookup.retention_us if contract.lookup is not None else None
    return kept is not None and kept <= contract.settle_window_us + contract.clock_error_us


def _other_than_kind(contract: Contract) -> bool:
    """Whether a read states anything that only an effect can have."""
    allowed = {"kind", "name", "version", "unstated", "valid_for_us", "settle_window_us", "clock_error_us"}
    return any(getattr(contract, name) != default for name, default in _DEFAULTS.items() if name not in allowed)


_DEFAULTS: Final = {item.name: item.default for item in fields(Contract)}
_NO_KEY: Final = "this class has no key"
_TWICE: Final = "Leave it out, or state the class that is true."

REFUSALS: Final = (
    # numbers that are none
    Refusal("version", lambda c: c.version < 1, "it is smaller than 1", "Count versions of a contract from 1."),
    Refusal("settle_window_us", lambda c: c.settle_window_us < 0, "it is negative", "A duration is zero or longer."),
    Refusal("clock_error_us", lambda c: c.clock_error_us < 0, "it is negative", "A duration is zero or longer."),
    Refusal(
        "window_us", lambda c: c.window_us is not None and c.window_us <= 0,
        "it is not longer than zero", "State how long the environment remembers a key, or contracts.UNPUBLISHED.",
    ),
    Refusal(
        "window_us", lambda c: c.window_us is not None and c.window_us > microseconds(FOR_EVER),
        "it is longer than a century", "State contracts.FOR_EVER.",
    ),
    Refusal(
        "valid_for_us", lambda c: c.valid_for_us is not None and c.valid_for_us <= 0,
        "it is not longer than zero", "State how long an intent stays wanted, or leave it out.",
    ),
    Refusal("key_length_max", lambda c: c.key_length_max < 1, "it leaves no room for a key", "State the carrier's limit in characters."),
    Refusal("lookup.lag_us", lambda c: c.lookup is not None and c.lookup.lag_us < 0, "it is negative", "A duration is zero or longer."),
    Refusal(
        "lookup.retention_us", lambda c: c.lookup is not None and c.lookup.retention_us is not None and c.lookup.retention_us <= 0,
        "it is not longer than zero", "State how long a receipt stays visible, or None if nothing removes it.",
    ),
    Refusal(
        "stable_fields", lambda c: not all(c.stable_fields) or len(set(c.stable_fields)) < len(c.stable_fields),
        "a name is empty or stands there twice", "Name each stable field once.",
    ),
    # what a class cannot have
    Refusal(
        "kind", lambda c: c.kind is Kind.READ and _other_than_kind(c),
        "a read changes nothing, so it has no key, no receipt and nothing to settle", "State valid_for alone, or another class.",
    ),
    Refusal("window_us", lambda c: c.kind in {Kind.PROBEABLE, Kind.OPAQUE} and c.window_us is not None, _NO_KEY, "State Keyed if it has one."),
    Refusal(
        "window_us", lambda c: c.kind in {Kind.FIRST_SENT, Kind.COTRANSACTIONAL} and c.window_us is None,
        "this class needs one: its promise is about what happens after it", "State how long the environment keeps it.",
    ),
    Refusal(
        "lookup", lambda c: c.kind is Kind.OPAQUE and c.lookup is not None,
        "an opaque environment has nothing to ask", "State Probeable if an effect can be found.",
    ),
    Refusal(
        "lookup", lambda c: c.kind in ASKED and c.lookup is None,
        "this class is recovered by asking, and there is nothing to ask", "State a look-up, or Opaque.",
    ),
    Refusal(
        "close", lambda c: c.close and c.kind not in CLOSABLE,
        "there is no key that the environment could refuse for ever", _TWICE,
    ),
    Refusal(
        "cancel_by_key", lambda c: c.cancel_by_key and c.kind is Kind.OPAQUE,
        "there is no key to cancel by", _TWICE,
    ),
    Refusal(
        "compare_and_set", lambda c: c.compare_and_set and c.kind is not Kind.NAMED,
        "only a named object is compared and set", "State Named.",
    ),
    Refusal(
        "lookup.deletion", lambda c: c.compare_and_set and c.lookup is not None and c.lookup.deletion is Deletion.IMPOSSIBLE,
        "what is set can be set again by others, and then ours is gone", "State VISIBLE if a history shows ours, else INVISIBLE.",
    ),
    Refusal(
        "after_window", lambda c: c.kind is Kind.FIRST_SENT and c.after_window is not AfterWindow.REJECTS,
        "a first-sent fence refuses what comes after the window", "State Keyed if a late copy is executed.",
    ),
    Refusal(
        "window_starts", lambda c: c.kind is Kind.FIRST_SENT and c.window_starts is not WindowStart.FIRST_SEEN,
        "a first-sent fence counts from the time that each request carries, and one that counts later would refuse later than is concluded",
        "Leave it out, or state Keyed.",
    ),
    Refusal(
        "replay_success", lambda c: c.kind in KEYED and c.replay_success not in {Replay.ORIGINAL, Replay.CURRENT},
        "a key that does not remember its success deduplicates nothing", "State Probeable or Opaque.",
    ),
    Refusal(
        "stable_fields", lambda c: c.kind is Kind.SWALLOW and bool(c.stable_fields),
        "a store that swallows duplicates tells no value", _TWICE,
    ),
    Refusal("shown_once", lambda c: c.kind is Kind.SWALLOW and c.shown_once, "a store that swallows duplicates tells no value", _TWICE),
    # fail-open stores
    Refusal(
        "fail_open", lambda c: c.fail_open and c.kind not in _KEY_STORE,
        "this class has no key store of its own that could be down", _TWICE,
    ),
    Refusal(
        "close", lambda c: c.close and c.fail_open,
        "a refusal in a store that fails open bars nothing and proves nothing", "Leave the close out, or state fail_open=False if that is true.",
    ),
    Refusal(
        "replay_failure", lambda c: c.fail_open and c.replay_failure is Replay.RESUMES,
        "carrying failed work on means sending it again, and a store that fails open would execute it twice", "State what it forgets.",
    ),
    Refusal(
        "enforced", lambda c: c.fail_open and c.enforced is not Enforced.NOTHING,
        "a store that fails open enforces nothing while it is down", "Leave `enforced` out.",
    ),
    # times that contradict each other
    Refusal(
        "clock_error_us", lambda c: c.window_us is not None and c.clock_error_us >= c.window_us,
        "it is not shorter than the window, so nobody could tell whether the window is over", "State a smaller error, or UNPUBLISHED.",
    ),
    Refusal(
        "settle_window_us",
        lambda c: c.window_us is not None and _stated(c, "settle_window_us") and c.settle_window_us >= c.window_us,
        "copies would act after their key is forgotten, so the window protects nothing",
        "State a shorter settle window if that is true; left unstated, a window this short licenses the first attempt only.",
    ),
    Refusal(
        "lookup.retention_us", _retention_too_short,
        "receipts would be gone before the last copy has acted, so looking for one proves nothing",
        "State a longer retention, or a shorter settle window if that is true.",
    ),
    Refusal(
        "lookup.lag_us",
        lambda c: c.lookup is not None and c.lookup.retention_us is not None and c.lookup.lag_us >= c.lookup.retention_us,
        "a receipt could be removed before it shows", "State a lag that is shorter than the retention.",
    ),
    # proofs that are none
    Refusal(
        "close", lambda c: c.close and c.cancel_by_key,
        "a cancel leaves no tombstone, so a late copy still acts: it is not a close", "State the one that is true.",
    ),
    Refusal(
        "trust_settle", lambda c: c.trust_settle and c.keyed,
        "a key is re-sent inside its window and needs no trust", "Leave it out.",
    ),
    Refusal(
        "trust_settle", lambda c: c.trust_settle and not _final(c.lookup),
        "this look-up can never show that nothing is there, so there is nothing to trust",
        "State a look-up that is authoritative, with a reliable marker and no invisible deletion.",
    ),
    Refusal(
        "trust_settle", lambda c: c.trust_settle and c.disconnect_cancels,
        "work that is cut off half-way leaves no receipt of what it did", "Leave it out.",
    ),
    Refusal(
        "enforced", lambda c: c.enforced is not Enforced.NOTHING and not _final(c.lookup),
        "refusing late copies proves an absence only together with a look-up that sees every receipt",
        "State such a look-up, or leave `enforced` out.",
    ),
    Refusal(
        "enforced", lambda c: c.enforced is not Enforced.NOTHING and c.disconnect_cancels and not c.keyed,
        "work that is cut off half-way leaves no receipt of what it did, so no absence is a proof", "Leave `enforced` out.",
    ),
    # batches
    Refusal(
        "batch", lambda c: c.batch is Batch.PER_ITEM_RESULT and c.kind is Kind.SWALLOW,
        "a store that swallows duplicates tells no results", _TWICE,
    ),
    Refusal(
        "batch", lambda c: c.batch in {Batch.PER_ITEM_KEY, Batch.ATOMIC} and not c.keyed,
        "its items have no keys", "State a class with a key, or Batch.PER_ITEM_RESULT.",
    ),
)  # fmt: skip
"""In the order in which they are looked at; the first one that holds is told."""
