"""Names and digests: stable for ever, apart where they must be."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.errors import InvalidName
from recovery.core.ids import (
    KEY_LENGTH_MAX,
    Epoch,
    check_key,
    check_run_id,
    check_step_name,
    derive_key,
    digest_bytes,
    step_id,
)


@pytest.mark.parametrize("name", ["a", "incident-7", "A.b_c:d-9", "x" * 128])
def test_run_ids_that_are_ones(name: str) -> None:
    assert check_run_id(name) == name


@pytest.mark.parametrize("name", ["", "x" * 129, "a b", "a/b", "é", "a\n", "a#1"])
def test_run_ids_that_are_none(name: str) -> None:
    with pytest.raises(InvalidName, match="run id"):
        check_run_id(name)


@pytest.mark.parametrize("name", ["", "x" * 65, "a/b", "a#1", "a\n"])
def test_step_names_that_are_none(name: str) -> None:
    """A slash or hash in a name would make two steps look like one."""
    with pytest.raises(InvalidName, match="step name"):
        check_step_name(name)


@pytest.mark.parametrize("key", ["k", "a b/c#1", "x" * KEY_LENGTH_MAX])
def test_keys_that_are_ones(key: str) -> None:
    assert check_key(key) == key


@pytest.mark.parametrize("key", ["", "x" * (KEY_LENGTH_MAX + 1), "é", "a\nb", "a\x7f"])
def test_keys_that_are_none(key: str) -> None:
    with pytest.raises(InvalidName, match="idempotency key"):
        check_key(key)


def test_steps_are_named_by_place_and_occurrence() -> None:
    assert step_id("", "reserve", 1) == "reserve#1"
    assert step_id("left#1", "reserve", 2) == "left#1/reserve#2"


NAMES = st.from_regex(r"[A-Za-z0-9._:-]{1,6}", fullmatch=True)


@given(st.tuples(NAMES, NAMES, st.integers(1, 30)), st.tuples(NAMES, NAMES, st.integers(1, 30)))
def test_two_places_never_share_a_step(a: tuple[str, str, int], b: tuple[str, str, int]) -> None:
    assert (step_id(*a) == step_id(*b)) == (a == b)


@given(st.lists(st.binary(max_size=4), max_size=4), st.lists(st.binary(max_size=4), max_size=4))
def test_digests_keep_parts_apart(a: list[bytes], b: list[bytes]) -> None:
    assert (digest_bytes(*a) == digest_bytes(*b)) == (a == b)


def test_digests_and_keys_are_the_same_on_every_machine() -> None:
    """Literal values: a change would orphan every key that an environment remembers."""
    assert digest_bytes(b"ab", b"c") == "9b29c83bca563845c8445a09a80da00b8193336d231891003eb004de0b9b1b5e"
    assert derive_key("n", "run-1", "reserve#1") == "7ee4c718-1a16-89fa-8f91-6c7257fac491"


@pytest.mark.parametrize(
    ("namespace", "run_id", "step", "generation"),
    [("m", "run-1", "a#1", 0), ("n", "run-2", "a#1", 0), ("n", "run-1", "a#2", 0), ("n", "run-1", "a#1", 1)],
)
def test_each_part_of_an_effects_identity_changes_its_key(namespace: str, run_id: str, step: str, generation: int) -> None:
    assert derive_key(namespace, run_id, step, generation) != derive_key("n", "run-1", "a#1")


@given(st.text(max_size=5), NAMES, NAMES, st.integers(0, 9))
def test_derived_keys_fit_every_carrier(namespace: str, run_id: str, step: str, generation: int) -> None:
    key = derive_key(namespace, run_id, step, generation)
    assert check_key(key) == key
    assert len(key) == 36
    assert (UUID(key).version, UUID(key).variant) == (8, "specified in RFC 4122")


def test_epochs_rise_with_the_claim_and_with_the_restore_above_it() -> None:
    assert sorted([Epoch(1, 1), Epoch(0, 9), Epoch(0, 10)]) == [Epoch(0, 9), Epoch(0, 10), Epoch(1, 1)]
    assert str(Epoch(2, 3)) == "2.3"
