"""Contracts: stored whole, by digest; defaults named; what cannot be true refused."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import timedelta
from enum import Enum

import pytest
from hypothesis import given

from recovery.core.contracts import Contract, Keyed, Kind, Lookup, Opaque, Probeable, Replay, microseconds
from recovery.core.errors import DefinitionError
from tests.unit.core.test_trust import CONTRACTS

DAY = timedelta(hours=24)


@given(CONTRACTS)
def test_a_contract_survives_storage(contract: Contract) -> None:
    again = Contract.from_json(json.loads(json.dumps(contract.to_json())))
    assert again == contract
    assert again.digest == contract.digest
    for item in fields(Contract):
        assert type(getattr(again, item.name)) is type(getattr(contract, item.name))


@given(CONTRACTS, CONTRACTS)
def test_a_digest_stands_for_the_whole_contract(a: Contract, b: Contract) -> None:
    assert (a.digest == b.digest) == (a == b)


def test_every_field_is_stored_and_changes_the_digest() -> None:
    """A later default must never change a stored contract, so each field is written out."""
    base = replace(Keyed(window=DAY), lookup=Lookup())
    assert set(base.to_json()) == {item.name for item in fields(Contract)}
    for item in fields(Contract):
        assert replace(base, **{item.name: other_than(getattr(base, item.name))}).digest != base.digest, item.name
    for item in fields(Lookup):
        changed = replace(Lookup(), **{item.name: other_than(getattr(Lookup(), item.name))})
        assert replace(base, lookup=changed).digest != base.digest, item.name


def other_than(value: object) -> object:
    """Some other value of the same type."""
    if isinstance(value, Enum):
        return next(member for member in type(value) if member is not value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, tuple):
        return (*value, "x")
    return None if value is not None else 1


def test_what_was_left_to_a_default_is_named() -> None:
    plain = Keyed(window=DAY)
    assert {"settle_window_us", "fail_open", "lock_outlives_execution", "failures_effect_free"} <= set(plain.unstated)
    assert "window_us" not in plain.unstated
    stated = Keyed(window=DAY, settle_window=timedelta(minutes=20), fail_open=False)
    assert stated == plain
    assert not {"settle_window_us", "fail_open"} & set(stated.unstated)


def test_a_default_that_is_stated_is_still_stated_after_storage() -> None:
    stated = Keyed(window=DAY, fail_open=False)
    assert Contract.from_json(stated.to_json()).unstated == stated.unstated


@pytest.mark.parametrize("window", [timedelta(0), timedelta(seconds=-1)])
def test_a_window_of_no_length_is_refused(window: timedelta) -> None:
    with pytest.raises(DefinitionError, match="longer than zero"):
        Keyed(window=window)


@pytest.mark.parametrize("build", [Probeable, Opaque, lambda **given: Keyed(window=DAY, **given)])
def test_a_negative_duration_is_refused(build) -> None:
    with pytest.raises(DefinitionError, match="settle_window_us: it is negative"):
        build(settle_window=timedelta(microseconds=-1))
    assert build(settle_window=timedelta(0)).settle_window_us == 0


def test_a_negative_clock_error_is_refused() -> None:
    with pytest.raises(DefinitionError, match="clock_error_us: it is negative"):
        Keyed(window=DAY, clock_error=timedelta(microseconds=-1))


def test_the_shortest_window_is_legal() -> None:
    assert Keyed(window=timedelta(microseconds=1), clock_error=timedelta(0)).window_us == 1


def test_only_some_kinds_keep_two_sendings_from_acting_twice() -> None:
    keyed = {kind for kind in Kind if Contract(kind=kind).keyed}
    assert keyed == {Kind.KEYED, Kind.SWALLOW, Kind.FIRST_SENT, Kind.COTRANSACTIONAL}


def test_builders_say_what_they_are_named_for() -> None:
    assert (Keyed(window=DAY).kind, Probeable().kind, Opaque().kind) == (Kind.KEYED, Kind.PROBEABLE, Kind.OPAQUE)
    assert Probeable().lookup == Lookup()
    assert Keyed(window=DAY).lookup is Opaque().lookup is None
    forgetful = Keyed(window=DAY, remembers_rejections=False)
    assert forgetful.replay_rejection is Replay.REEXECUTES
    assert Keyed(window=DAY, remembers_rejections=True).replay_rejection is Replay.ORIGINAL


def test_durations_are_whole_microseconds() -> None:
    assert microseconds(timedelta(seconds=1, microseconds=1)) == 1_000_001
    assert microseconds(timedelta(days=365_000)) == 365_000 * 86_400 * 10**6
    assert microseconds(timedelta.max) == 365_000 * 86_400 * 10**6, "for ever still is a time with a name"


@pytest.mark.parametrize("where", ["contract", "look-up"])
def test_a_field_from_a_newer_version_is_refused_since_it_may_lower_trust(where: str) -> None:
    body = Probeable().to_json()
    (body if where == "contract" else body["lookup"])["only_on_weekdays"] = True
    with pytest.raises(ValueError, match=f"'only_on_weekdays' of a {where}"):
        Contract.from_json(body)


def test_a_contract_that_was_stored_before_a_field_existed_reads_as_that_fields_default() -> None:
    """A default never promises more than what was stored: adding a field must not raise trust in old contracts."""
    old = Keyed(window=DAY).to_json()
    for name in ("compare_and_set", "valid_for_us"):
        del old[name]
    assert Contract.from_json(old) == Keyed(window=DAY)
