"""Fingerprints of runtimes: identifiers, and no signatures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from recovery.checkpoint import fingerprint as module
from recovery.checkpoint import reference
from recovery.checkpoint.fingerprint import Fingerprint, digest_of, digest_of_array, fingerprint


def test_it_is_twelve_hex_characters_and_the_same_again() -> None:
    found = fingerprint([reference])
    assert len(str(found)) == 12
    assert int(str(found), 16) >= 0
    assert str(found) == str(fingerprint([reference]))


def test_every_part_counts() -> None:
    parts = dict(fingerprint([reference]).parts)
    assert parts.keys() == {"interpreter", "numpy", "blas", "threads", "byte order", "instructions", "platform", "code"}
    whole = str(Fingerprint(parts))
    assert all(str(Fingerprint({**parts, name: "another"})) != whole for name in parts)


def test_the_number_of_threads_is_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint()
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "97")
    assert fingerprint().differences(before) == {"threads": ("OPENBLAS_NUM_THREADS=97", before.parts["threads"])}


def test_the_code_is_a_part_wherever_it_lies(tmp_path: Path) -> None:
    for name, text in (("one", "x = 1\n"), ("two", "x = 1\n"), ("three", "x = 2\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "trainer.py").write_text(text)
    one, two, three = (str(fingerprint([tmp_path / name / "trainer.py"])) for name in ("one", "two", "three"))
    assert one == two != three
    assert fingerprint([module]).parts["code"] != fingerprint([reference]).parts["code"]


def test_it_is_documented_as_no_signature() -> None:
    assert "no signature" in (module.__doc__ or "")


def test_digests_are_exact() -> None:
    assert digest_of({"a": 1, "b": 2.5}) == digest_of({"b": 2.5, "a": 1})
    assert len({digest_of(value) for value in (1, 1.0, True, "1", [1], None)}) == 6
    assert digest_of(json.loads(json.dumps(0.1))) == digest_of(0.1)
    with pytest.raises(ValueError, match="not JSON compliant"):
        digest_of(float("nan"))


def test_digests_of_arrays_are_those_of_type_shape_and_bits() -> None:
    values = np.array([[0.0, 1.0], [2.0, 3.0]])
    others = [
        values.reshape(4),
        values.astype(np.float32),
        values.T,
        np.array([[-0.0, 1.0], [2.0, 3.0]]),
        values.astype(np.int64),
    ]
    assert len({digest_of_array(each) for each in (values, *others)}) == 6
    assert digest_of_array(values) == digest_of_array(values.astype(">f8")) == digest_of_array(np.asfortranarray(values))
