"""Manifests and headers: what is written is read back the same, and anything else is an error of ours, soon and in bounded memory."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import safetensors
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.checkpoint import strict
from recovery.checkpoint.admitting import admit, require_sound
from recovery.checkpoint.errors import CheckpointError, CheckpointInvalid, LimitExceeded
from recovery.checkpoint.header import WIDTHS, read_header, write_header
from recovery.checkpoint.kinds import Kind
from recovery.checkpoint.limits import Limits
from recovery.checkpoint.manifest import STATE, FileEntry, JournalPosition, Manifest, Slice, TensorEntry
from recovery.checkpoint.shards import DTYPES
from tests.unit.checkpoint.forging import identified

LIMITS = Limits()

names = st.from_regex(r"[A-Za-z0-9._/:+@\[\]-]{1,20}", fullmatch=True)
dtypes = st.sampled_from(sorted(WIDTHS))
shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)
tensors = st.dictionaries(names, st.tuples(dtypes, shapes), max_size=6)
LIBRARY = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
"""What the library calls formats that numpy has no name for."""

digests = st.binary(min_size=32, max_size=32).map(bytes.hex)


def size_of(dtype: str, shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=object)) * WIDTHS[dtype]


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    held = draw(tensors)
    entries, sizes = {}, {"a.safetensors": 8, "b.safetensors": 8}
    for name, (dtype, shape) in held.items():
        cut = draw(st.integers(0, shape[0])) if shape else 0
        parts = [(0, shape[:1] and (cut,))] if not shape else [(0, (cut,)), (cut, (shape[0] - cut,))]
        slices = []
        for file, (at, first) in zip(sizes, parts, strict=False):
            extent = (*first, *shape[1:])
            slices.append(Slice(file, name, (at, *[0] * len(shape[1:])) if shape else (), extent))
            sizes[file] += size_of(dtype, extent)
        entries[name] = TensorEntry(dtype, shape, tuple(slices))
    files = [FileEntry(file, size + draw(st.integers(0, 9)), draw(digests)) for file, size in sizes.items()]
    return Manifest(
        kind=draw(st.sampled_from([Kind.LEARNING, Kind.WEIGHTS, Kind.INFERENCE_KV])),
        sequence=draw(st.integers(1, 10**12)),
        step=draw(st.integers(0, 2**53 - 1)),
        parent=draw(st.just("") | digests),
        writers=draw(st.integers(1, 9)),
        files=(*files, FileEntry(STATE, draw(st.integers(0, 99)), draw(digests))),
        tensors=entries,
        journal=draw(
            st.none()
            | st.builds(JournalPosition, st.from_regex(r"[A-Za-z0-9._:-]{1,9}", fullmatch=True), st.integers(0, 9), digests)
        ),
        fingerprint=draw(st.sampled_from(["", "0123456789ab"])),
    )


@settings(max_examples=60)
@given(manifests())
def test_a_manifest_is_read_as_it_was_written(manifest: Manifest) -> None:
    read = admit(manifest.to_bytes(), LIMITS, where="m")
    assert (read, read.id, read.name) == (manifest, manifest.id, manifest.name)
    assert manifest.to_bytes() == strict.canonical(manifest.document())


UNSOUND = {
    "sequence": 0,
    "step": -1,
    "parent": "0" * 63,
    "writers": 0,
    "fingerprint": "not hexadecimal",
    "journal": JournalPosition("a run", 0, "0" * 64),
    "files": (FileEntry(STATE, 2, "0" * 64), FileEntry(STATE, 2, "0" * 64)),
    "kind": Kind.JOURNAL,
    "tensors": {"w": TensorEntry("F64", (2,), (Slice("s", "w", (0,), (1,)),))},
}


@pytest.mark.parametrize("field", UNSOUND)
def test_what_could_not_be_read_is_not_written(field: str) -> None:
    """One set of rules: of bytes that are read, and of a manifest that is about to be written."""
    sound = Manifest(Kind.WEIGHTS, 1, 0, "", 1, (FileEntry("s", 99, "0" * 64), FileEntry(STATE, 2, "0" * 64)), {})
    require_sound(sound, LIMITS, where="m")
    unsound = replace(sound, **{field: UNSOUND[field]})
    refusals = []
    for judge in (lambda: require_sound(unsound, LIMITS, where="m"), lambda: admit(unsound.to_bytes(), LIMITS, where="m")):
        with pytest.raises(CheckpointError) as caught:
            judge()
        refusals.append(str(caught.value))
    assert refusals[0] == refusals[1]


@settings(max_examples=60)
@given(manifests(), st.data())
def test_a_manifest_that_was_edited_is_refused(manifest: Manifest, data: st.DataObject) -> None:
    """An editor who also puts the id right still has to get everything else right."""
    document = manifest.document()
    key = data.draw(st.sampled_from(sorted(document)))
    new = data.draw(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2) | st.just({})
    )
    changed = document | {key: new}
    for edited in (changed, identified(changed)):
        text = strict.canonical(edited)
        if text == manifest.to_bytes():
            continue
        try:
            other = admit(text, LIMITS, where="m")
        except CheckpointError:
            continue
        assert other.to_bytes() == text  # another valid manifest, under another identity
        assert other.id != manifest.id


@settings(max_examples=60)
@given(manifests(), st.data())
def test_a_manifest_with_a_changed_byte_is_refused(manifest: Manifest, data: st.DataObject) -> None:
    text = bytearray(manifest.to_bytes())
    at = data.draw(st.integers(0, len(text) - 1))
    text[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CheckpointError):
        admit(bytes(text), LIMITS, where="m")


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.binary(max_size=200) | junk.map(lambda value: json.dumps(value).encode()))
def test_anything_else_is_no_manifest(text: bytes) -> None:
    with pytest.raises(CheckpointError):
        admit(text, LIMITS, where="m")


@settings(max_examples=60)
@given(tensors)
def test_headers_are_written_as_the_library_writes_them(held: dict[str, tuple[str, tuple[int, ...]]]) -> None:
    arrays = {name: np.zeros(shape, DTYPES[dtype]) for name, (dtype, shape) in held.items()}
    library = safetensors.serialize(
        {
            name: safetensors.TensorSpec(
                dtype=LIBRARY.get(held[name][0], array.dtype.name),
                shape=array.shape,
                data_ptr=array.ctypes.data,
                data_len=array.nbytes,
            )
            for name, array in arrays.items()
        }
    )
    header, order = write_header(held)
    assert library == header + b"".join(arrays[name].tobytes() for name in order)


@settings(max_examples=60)
@given(tensors)
def test_a_header_is_read_as_it_was_written(held: dict[str, tuple[str, tuple[int, ...]]]) -> None:
    header, order = write_header(held)
    placed = read_header(header[8:], sum(size_of(*each) for each in held.values()), LIMITS, where="h")
    assert {name: (tensor.dtype, tensor.shape) for name, tensor in placed.items()} == held
    assert [name for name in placed if size_of(*held[name])] == [name for name in order if size_of(*held[name])]


entries = st.fixed_dictionaries(
    {
        "dtype": dtypes | st.sampled_from(["F33", "BF16", ""]) | junk,
        "shape": st.lists(st.integers(-1, 2**70), max_size=3) | junk,
        "data_offsets": st.lists(st.integers(-1, 2**70), max_size=3) | junk,
    }
)


@settings(max_examples=60)
@given(st.dictionaries(names | st.just("__metadata__"), entries | junk, max_size=4), st.integers(0, 2**70))
def test_any_header_is_read_or_refused(header: dict[str, Any], data_bytes: int) -> None:
    """And what is read fills the data exactly."""
    try:
        placed = read_header(json.dumps(header).encode(), data_bytes, LIMITS, where="h")
    except CheckpointError:
        return
    assert sum(size_of(tensor.dtype, tensor.shape) for tensor in placed.values()) == data_bytes


@pytest.mark.parametrize(
    ("offsets", "problem"),
    [
        ([[0, 8], [16, 24]], "gap or an overlap"),
        ([[0, 8], [4, 12]], "gap or an overlap"),
        ([[0, 8], [0, 8]], "gap or an overlap"),
        ([[8, 16], [16, 24]], "gap or an overlap"),
        ([[0, 8], [8, 16]], "24 are there"),
    ],
)
def test_tensors_fill_a_file_without_gap_or_overlap(offsets: list[list[int]], problem: str) -> None:
    header = {f"t{n}": {"dtype": "F64", "shape": [1], "data_offsets": each} for n, each in enumerate(offsets)}
    with pytest.raises(CheckpointInvalid, match=problem):
        read_header(json.dumps(header).encode(), 24, LIMITS, where="h")


LIMITED = {
    "manifest_bytes": Limits(manifest_bytes=100),
    "files": Limits(files=1),
    "tensors": Limits(tensors=0),
    "slices": Limits(slices=1),
    "slices_of_one": Limits(slices_of_one=1),
    "rank": Limits(rank=1),
    "total_bytes": Limits(total_bytes=20),
    "depth": Limits(depth=2),
}


@pytest.mark.parametrize("field", LIMITED)
def test_each_limit_is_kept(field: str) -> None:
    parts = (Slice("s", "a", (0, 0), (1, 2)), Slice("s", "b", (1, 0), (1, 2)))
    manifest = Manifest(
        Kind.WEIGHTS,
        1,
        0,
        "",
        1,
        (FileEntry("s", 99, "0" * 64), FileEntry(STATE, 2, "0" * 64)),
        {"a": TensorEntry("F64", (2, 2), parts)},
    )
    assert admit(manifest.to_bytes(), LIMITS, where="m") == manifest
    with pytest.raises(LimitExceeded):
        admit(manifest.to_bytes(), LIMITED[field], where="m")
    require_sound(manifest, LIMITS, where="m")
    for _ in range(2):  # what was found within some limits is not within others, and what was refused is refused again
        with pytest.raises(LimitExceeded):
            require_sound(manifest, LIMITED[field], where="m")


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"a":1}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":1e999}',
        b"{",
        b"",
        b"\xff",
        b"{} {}",
        b"9" * 5000,
        b'{"a":\x01}',
    ],
)
def test_json_with_two_meanings_or_none_is_refused(text: bytes) -> None:
    with pytest.raises(CheckpointInvalid) as caught:
        strict.read(text, bytes_max=1 << 20, depth_max=8, where="x")
    assert caught.value.reason == "json"


@pytest.mark.parametrize("text", [b"[" * 9 + b"]" * 9, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 50_000 + b"1" + b"}" * 50_000])
def test_nesting_is_bounded(text: bytes) -> None:
    with pytest.raises(LimitExceeded):
        strict.read(text, bytes_max=1 << 20, depth_max=8, where="x")
    assert strict.read(b"[" * 8 + b"]" * 8, bytes_max=1 << 20, depth_max=8, where="x")


@settings(max_examples=50)
@given(
    st.dictionaries(
        st.text(st.characters(codec="ascii"), max_size=4), st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=4), max_size=4
    )
)
def test_the_canonical_form_is_that_of_rfc_8785(document: dict[str, Any]) -> None:
    import rfc8785

    try:
        expected = rfc8785.dumps(document)
    except rfc8785.CanonicalizationError:
        return  # a lone surrogate
    assert strict.canonical(document) == expected
