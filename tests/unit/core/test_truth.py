"""What cannot be true is refused where it is stated, naming the field and the reason; what is merely weak is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest

from recovery import contracts
from recovery.contracts import (
    FOR_EVER,
    UNPUBLISHED,
    AfterWindow,
    Batch,
    Contract,
    CoTransactional,
    Deletion,
    Enforced,
    FirstSent,
    Keyed,
    Kind,
    Lookup,
    Named,
    Opaque,
    Prepared,
    Probeable,
    Read,
    Remembers,
    Replay,
    Swallow,
    WindowStart,
)
from recovery.core.errors import DefinitionError
from recovery.core.truth import REFUSALS, check
from tests.unit.core.test_contracts import other_than

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
US = timedelta(microseconds=1)
UNSEEN = Lookup(deletion=Deletion.INVISIBLE)


def made(kind: Kind, **values: Any) -> Callable[[], Contract]:
    """A contract built by hand, checked as it is where an effect is defined with it."""
    return lambda: check(Contract(kind=kind, **values))


REFUSED: list[tuple[str, str, Callable[[], Contract]]] = [
    ("version", "smaller than 1", lambda: Keyed(window=DAY, version=0)),
    ("settle_window_us", "negative", lambda: Opaque(settle_window=-US)),
    ("clock_error_us", "negative", lambda: Probeable(clock_error=-US)),
    ("window", "not a duration", lambda: Keyed(window=None)),  # type: ignore[arg-type]
    ("window", "not a duration", lambda: FirstSent(window=UNPUBLISHED)),  # type: ignore[arg-type]
    ("window_us", "not longer than zero", lambda: Keyed(window=timedelta(0))),
    ("window_us", "not longer than zero", lambda: Named(window=-US)),
    ("window_us", "longer than a century", lambda: CoTransactional(window=FOR_EVER + US)),
    ("valid_for_us", "not longer than zero", lambda: Read(valid_for=timedelta(0))),
    ("key_length_max", "no room", lambda: Swallow(window=DAY, key_length_max=0)),
    ("lookup.lag_us", "negative", lambda: Probeable(lookup=Lookup(lag_us=-1))),
    ("lookup.retention_us", "not longer than zero", lambda: Probeable(lookup=Lookup(retention_us=0))),
    ("stable_fields", "empty or stands there twice", lambda: Keyed(window=DAY, stable_fields=("id", "id"))),
    ("stable_fields", "empty or stands there twice", lambda: Keyed(window=DAY, stable_fields=("",))),
    ("kind", "a read changes nothing", made(Kind.READ, window_us=1)),
    ("kind", "a read changes nothing", made(Kind.READ, trust_settle=True)),
    ("window_us", "has no key", made(Kind.PROBEABLE, window_us=10, lookup=Lookup())),
    ("window_us", "has no key", made(Kind.OPAQUE, window_us=10)),
    ("window_us", "needs one", made(Kind.FIRST_SENT, after_window=AfterWindow.REJECTS)),
    ("window_us", "needs one", made(Kind.COTRANSACTIONAL)),
    ("lookup", "nothing to ask", made(Kind.OPAQUE, lookup=Lookup())),
    ("lookup", "there is nothing to ask", made(Kind.PROBEABLE)),
    ("lookup", "there is nothing to ask", made(Kind.NAMED)),
    ("lookup", "there is nothing to ask", made(Kind.PREPARED)),
    ("close", "no key that the environment could refuse", made(Kind.PROBEABLE, lookup=Lookup(), close=True)),
    ("close", "no key that the environment could refuse", made(Kind.SWALLOW, window_us=10**12, close=True)),
    ("cancel_by_key", "no key to cancel by", made(Kind.OPAQUE, cancel_by_key=True)),
    ("compare_and_set", "only a named object", made(Kind.KEYED, compare_and_set=True)),
    ("lookup.deletion", "set again by others", lambda: Named(compare_and_set=True, lookup=Lookup())),
    ("after_window", "refuses what comes after", made(Kind.FIRST_SENT, window_us=10**12)),
    ("window_starts", "counts from the time that each request carries",
     made(Kind.FIRST_SENT, window_us=10**12, after_window=AfterWindow.REJECTS, window_starts=WindowStart.COMPLETED)),
    ("replay_success", "deduplicates nothing", lambda: Keyed(window=DAY, replay=Replay.REEXECUTES)),
    ("replay_success", "deduplicates nothing", lambda: Keyed(window=DAY, replay=Replay.INDETERMINATE)),
    ("stable_fields", "tells no value", made(Kind.SWALLOW, window_us=10**12, stable_fields=("id",))),
    ("shown_once", "tells no value", made(Kind.SWALLOW, window_us=10**12, shown_once=True)),
    ("replay", "shown only once", lambda: Keyed(window=DAY, shown_once=True, replay=Replay.ORIGINAL)),
    ("fail_open", "no key store of its own", made(Kind.COTRANSACTIONAL, window_us=10**12, fail_open=True)),
    ("fail_open", "no key store of its own", made(Kind.PROBEABLE, lookup=Lookup(), fail_open=True)),
    ("close", "bars nothing and proves nothing", lambda: Keyed(window=DAY, close=True, fail_open=True)),
    ("replay_failure", "would execute it twice", lambda: Keyed(window=DAY, fail_open=True, remembers=Remembers.RESUMED)),
    ("enforced", "enforces nothing", made(Kind.KEYED, window_us=10**12, fail_open=True, enforced=Enforced.EPOCH, lookup=Lookup())),
    ("clock_error_us", "whether the window is over", lambda: Keyed(window=MINUTE, clock_error=MINUTE)),
    ("settle_window_us", "after their key is forgotten", lambda: Keyed(window=MINUTE, settle_window=MINUTE)),
    ("lookup.retention_us", "before the last copy", lambda: Probeable(lookup=Lookup(retention_us=1_202_000_000))),
    (
        "lookup.lag_us", "before it shows",
        lambda: Probeable(settle_window=US, clock_error=US, lookup=Lookup(lag_us=10, retention_us=10)),
    ),
    ("close", "is not a close", lambda: Keyed(window=DAY, close=True, cancel_by_key=True)),
    ("trust_settle", "needs no trust", made(Kind.KEYED, window_us=10**12, trust_settle=True)),
    ("trust_settle", "needs no trust", lambda: Named(lookup=Lookup(), trust_settle=True)),
    ("trust_settle", "never show that nothing is there", lambda: Named(trust_settle=True)),
    ("trust_settle", "never show that nothing is there", lambda: Probeable(trust_settle=True, lookup=Lookup(authoritative=False))),
    ("trust_settle", "leaves no receipt", lambda: Probeable(trust_settle=True, disconnect_cancels=True)),
    ("enforced", "only together with a look-up", lambda: Probeable(enforced=Enforced.EPOCH, lookup=UNSEEN)),
    ("enforced", "only together with a look-up", lambda: CoTransactional(enforced=Enforced.DEADLINE)),
    ("batch", "have no keys", lambda: Probeable(batch=Batch.PER_ITEM_KEY)),
    ("batch", "have no keys", lambda: Opaque(batch=Batch.ATOMIC)),
    ("enforced", "half-way leaves no receipt", lambda: Probeable(enforced=Enforced.EPOCH, disconnect_cancels=True)),
    ("batch", "tells no results", lambda: Swallow(window=DAY, batch=Batch.PER_ITEM_RESULT)),
    ("remembers", "stated twice", lambda: Keyed(window=DAY, remembers=Remembers.ALL, remembers_rejections=True)),
]  # fmt: skip


@pytest.mark.parametrize(("field", "reason", "build"), REFUSED, ids=[f"{field}: {reason}" for field, reason, _ in REFUSED])
def test_what_cannot_be_true_is_refused(field: str, reason: str, build: Callable[[], Contract]) -> None:
    with pytest.raises(DefinitionError) as refused:
        build()
    assert refused.value.fields["problem"].startswith(f"{field}: ")
    assert reason in refused.value.fields["problem"]
    assert str(refused.value).startswith("contract ")


MISFITS: list[tuple[str, str, Callable[[], Contract]]] = [
    ("lookup.deletion", "'invisible' is not one of Deletion", lambda: Probeable(lookup=Lookup(deletion="invisible"))),  # type: ignore[arg-type]
    ("lookup.authoritative", "'no' is not True or False", lambda: Probeable(lookup=Lookup(authoritative="no"))),  # type: ignore[arg-type]
    ("lookup.lag_us", "1.5 is not a duration", lambda: Probeable(lookup=Lookup(lag_us=1.5))),  # type: ignore[arg-type]
    ("lookup.lag_us", "longer than a thousand years", lambda: Probeable(lookup=Lookup(lag_us=10**20))),
    ("lookup.retention_us", "not a duration or None", lambda: Probeable(lookup=Lookup(retention_us=DAY))),  # type: ignore[arg-type]
    ("lookup", "True is not a Lookup or None", lambda: Named(lookup=True)),  # type: ignore[arg-type]
    ("replay_success", "'current' is not one of Replay", lambda: Keyed(window=DAY, replay="current")),  # type: ignore[arg-type]
    ("batch", "'atomic' is not one of Batch", lambda: Keyed(window=DAY, batch="atomic")),  # type: ignore[arg-type]
    ("fail_open", "'no' is not True or False", lambda: Keyed(window=DAY, fail_open="no")),  # type: ignore[arg-type]
    ("close", "1 is not True or False", lambda: CoTransactional(close=1)),  # type: ignore[arg-type]
    ("settle_window_us", "not a duration", lambda: Opaque(settle_window=5)),  # type: ignore[arg-type]
    ("clock_error_us", "not a duration", lambda: Keyed(window=DAY, clock_error="2s")),  # type: ignore[arg-type]
    ("key_length_max", "True is not a whole number", lambda: Keyed(window=DAY, key_length_max=True)),
    ("version", "'1' is not a whole number", lambda: Read(version="1")),  # type: ignore[arg-type]
    ("name", "None is not a text", lambda: Read(name=None)),  # type: ignore[arg-type]
    ("name", "printable characters", lambda: Read(name="pay\x1b[2J")),
    ("name", "printable characters", lambda: Read(name="x" * 201)),
    ("stable_fields", "'id' is not a tuple of names", lambda: Keyed(window=DAY, stable_fields="id")),  # type: ignore[arg-type]
    ("stable_fields", "not a tuple of names", lambda: Keyed(window=DAY, stable_fields=(1,))),  # type: ignore[arg-type]
    ("kind", "'keyed' is not one of Kind", lambda: made("keyed", window_us=10**12)()),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("field", "reason", "build"), MISFITS, ids=[f"{field}: {reason}" for field, reason, _ in MISFITS])
def test_what_only_looks_like_a_value_is_refused(field: str, reason: str, build: Callable[[], Contract]) -> None:
    """A text equals a member of a StrEnum and is not one: `deletion="invisible"` would be read as "nobody can delete", and absence as proof."""
    with pytest.raises(DefinitionError) as refused:
        build()
    assert refused.value.fields["problem"].startswith(f"{field}: ")
    assert reason in refused.value.fields["problem"]
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("item", [*fields(Contract), *fields(Lookup)], ids=lambda item: item.name)
def test_no_field_takes_a_value_of_another_type(item: Any) -> None:
    contract = Keyed(window=DAY, lookup=Lookup())
    odd = object()
    spoilt = (
        replace(contract, lookup=replace(Lookup(), **{item.name: odd}))
        if item in fields(Lookup)
        else replace(contract, **{item.name: odd})
    )
    with pytest.raises(DefinitionError, match=item.name):
        check(spoilt)


def test_every_refusal_is_tested() -> None:
    told = {(field, part) for field, part, _ in REFUSED}
    missing = [r for r in REFUSALS if not any(r.field == field and part in r.reason for field, part in told)]
    assert missing == []


def test_a_refusal_names_a_field_that_exists() -> None:
    names = {item.name for item in fields(Contract)} | {f"lookup.{item.name}" for item in fields(Lookup)}
    assert {refusal.field for refusal in REFUSALS} <= names


LEGAL: list[Callable[[], Contract]] = [
    lambda: Keyed(window=UNPUBLISHED),
    lambda: Keyed(window=timedelta(minutes=5)),  # shorter than the default settle window: the first attempt only
    lambda: Keyed(window=MINUTE, settle_window=MINUTE - US),
    lambda: Keyed(window=MINUTE, clock_error=MINUTE - US),
    lambda: Keyed(window=DAY, fail_open=True),  # parks after a crash
    lambda: Keyed(window=DAY, cancel_by_key=True, lookup=Lookup(lag_us=1)),
    lambda: Keyed(window=DAY, replay=Replay.CURRENT, stable_fields=("id",)),
    lambda: Keyed(window=DAY, shown_once=True),
    lambda: Keyed(window=DAY, batch=Batch.PER_ITEM_KEY),
    lambda: Swallow(window=timedelta(minutes=5)),
    lambda: Swallow(window=UNPUBLISHED),
    lambda: FirstSent(window=timedelta(minutes=5), lookup=Lookup()),
    lambda: Named(),
    lambda: Named(lookup=Lookup(deletion=Deletion.VISIBLE), trust_settle=True),
    lambda: Named(compare_and_set=True, window=FOR_EVER),
    lambda: Prepared(lookup=Lookup(deletion=Deletion.VISIBLE)),
    lambda: CoTransactional(close=True),
    lambda: Probeable(lookup=Lookup(retention_us=1_202_000_001)),
    lambda: Probeable(batch=Batch.PER_ITEM_RESULT),
    lambda: Opaque(disconnect_cancels=True),
    lambda: Read(valid_for=MINUTE),
]


@pytest.mark.parametrize("build", LEGAL)
def test_what_is_weak_is_legal(build: Callable[[], Contract]) -> None:
    contract = build()
    assert check(contract) is contract
    assert Contract.from_json(contract.to_json()) == contract


# -- constructors ----------------------------------------------------------------------------------------------------------

PLAIN: dict[Kind, Callable[..., Contract]] = {
    Kind.READ: Read,
    Kind.KEYED: lambda **given: Keyed(window=DAY, **given),
    Kind.SWALLOW: lambda **given: Swallow(window=DAY, **given),
    Kind.FIRST_SENT: lambda **given: FirstSent(window=DAY, **given),
    Kind.NAMED: Named,
    Kind.COTRANSACTIONAL: CoTransactional,
    Kind.PREPARED: Prepared,
    Kind.PROBEABLE: Probeable,
    Kind.OPAQUE: Opaque,
}


@pytest.mark.parametrize("kind", Kind)
def test_every_class_has_a_constructor_that_is_named_for_it(kind: Kind) -> None:
    contract = PLAIN[kind]()
    assert contract.kind is kind
    assert contract == replace(contract, name="", version=1)


@pytest.mark.parametrize("kind", Kind)
def test_whatever_is_unstated_is_named(kind: Kind) -> None:
    """Each field is either stated by the arguments or told to be a default; `valid_for` tells both apart."""
    plain, bounded = PLAIN[kind](), PLAIN[kind](valid_for=DAY)
    stated = {item.name for item in fields(Contract)} - set(plain.unstated) - {"kind", "name", "version", "unstated"}
    assert stated <= {"window_us", "after_window", "key_carrier"}
    assert set(plain.unstated) - set(bounded.unstated) == {"valid_for_us"}


def test_a_name_that_cannot_be_freed_deduplicates_for_ever() -> None:
    assert Named(lookup=Lookup()).keyed
    assert Named(lookup=Lookup()).window_us == contracts.microseconds(FOR_EVER)
    assert "window_us" in Named(lookup=Lookup()).unstated


@pytest.mark.parametrize("deletion", [Deletion.VISIBLE, Deletion.INVISIBLE])
def test_a_name_that_can_be_freed_does_not(deletion: Deletion) -> None:
    assert not Named(lookup=Lookup(deletion=deletion)).keyed
    assert Named(lookup=Lookup(deletion=deletion), window=DAY).keyed


def test_a_name_without_a_reliable_marker_is_never_sent_again() -> None:
    assert not Named(lookup=Lookup(marker_reliable=False)).keyed


@pytest.mark.parametrize(
    ("remembers", "rejection", "failure"),
    [
        (Remembers.ALL, Replay.ORIGINAL, Replay.INDETERMINATE),
        (Remembers.REJECTIONS, Replay.ORIGINAL, Replay.REEXECUTES),
        (Remembers.SUCCESSES, Replay.REEXECUTES, Replay.REEXECUTES),
        (Remembers.RESUMED, Replay.REEXECUTES, Replay.RESUMES),
    ],
)
def test_what_a_key_remembers(remembers: Remembers, rejection: Replay, failure: Replay) -> None:
    contract = Keyed(window=DAY, remembers=remembers)
    assert (contract.replay_rejection, contract.replay_failure) == (rejection, failure)
    assert not {"replay_rejection", "replay_failure"} & set(contract.unstated)


def test_an_unpublished_window_is_stated_and_licenses_nothing() -> None:
    contract = Keyed(window=UNPUBLISHED)
    assert contract.window_us is None
    assert "window_us" not in contract.unstated


def test_a_read_may_say_nothing_but_how_long_it_is_wanted() -> None:
    """Every other field of a contract is refused on a read."""
    plain = Read()
    allowed = {"kind", "name", "version", "unstated", "valid_for_us", "settle_window_us", "clock_error_us"}
    for item in fields(Contract):
        if item.name not in allowed:
            value = Lookup() if item.name == "lookup" else other_than(getattr(plain, item.name))
            with pytest.raises(DefinitionError):
                check(replace(plain, **{item.name: value}))
