"""The header of a safetensors file: written as the safetensors library writes it, and checked before it is believed.

Owns the one place where offsets are counted. Must not know manifests or disks. Invariant: what `read_header` accepts describes tensors that fill
the rest of the file without gap or overlap, in exact integers, of dtypes that are known, under names that occur once.

The format: eight bytes of length, little endian; that many bytes of JSON, padded with spaces to a multiple of eight; the tensors. Tests compare
`write_header` byte by byte with the library, which itself cannot be used for writing here: it makes a file of its own with mode 0600, copies
nothing into a digest on the way, and syncs nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from types import MappingProxyType
from typing import Any, Final

from recovery.checkpoint import strict
from recovery.checkpoint.errors import CheckpointError, CheckpointInvalid
from recovery.checkpoint.limits import Limits, at_most

PREFIX: Final = 8  # bytes

WIDTHS: Final[dict[str, int]] = {
    "U64": 8, "I64": 8, "F64": 8, "C64": 8, "F32": 4, "U32": 4, "I32": 4, "BF16": 2, "F16": 2, "U16": 2, "I16": 2,
    "F8_E4M3": 1, "F8_E5M2": 1, "I8": 1, "U8": 1, "BOOL": 1,
}  # fmt: skip
"""dtype -> bytes of one element, in the order in which the library lays them out: widest first, so that all are aligned."""

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ORDER: Final = {dtype: place for place, dtype in enumerate(WIDTHS)}
_NAME: Final = re.compile(r"[A-Za-z0-9._/:+@\[\]-]{1,512}")
_KNOWN_BYTES: Final = 1 << 16  # of a header that is worth keeping; reading a larger one is little beside reading what it describes
_SIZE_END: Final = 1 << 63
_ENTRY: Final = frozenset({"dtype", "shape", "data_offsets"})


@dataclass(frozen=True, slots=True)
class Placed:
    """One tensor in a file. `begin` and `end` count from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def require_tensor_name(name: Any, *, where: str) -> str:
    """`name` if a tensor may be called so. Raises CheckpointInvalid(reason="name")."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == "__metadata__":
        problem = f"{str(name)[:60]!r} is no name of a tensor; use 1 to 512 of letters, digits and ._/:+@[]-"
        raise CheckpointInvalid(where=where, problem=problem, reason="name")
    return name


def bytes_of(dtype: Any, shape: tuple[int, ...], *, where: str) -> int:
    """The size of a tensor. Raises CheckpointInvalid(reason="dtype") if the dtype is not on the list."""
    if not isinstance(dtype, str) or dtype not in WIDTHS:
        raise CheckpointInvalid(where=where, problem=f"{str(dtype)[:20]!r} is no dtype that is allowed", reason="dtype")
    return prod(shape) * WIDTHS[dtype]


def require_shape(found: Any, rank_max: int, *, where: str) -> tuple[int, ...]:
    """`found` as a shape or offset. Raises CheckpointInvalid(reason="shape") or LimitExceeded."""
    whole = isinstance(found, list)
    for size in found if whole else ():
        whole = whole and type(size) is int and 0 <= size < _SIZE_END
    if not whole:
        raise CheckpointInvalid(where=where, problem="a shape or offset is no list of whole numbers from 0 to 2^63", reason="shape")
    if len(found) > rank_max:
        at_most(len(found), rank_max, where=where, what="a rank")
    return tuple(found)


def write_header(tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> tuple[bytes, list[str]]:
    """(the first bytes of the file, names in the order of their data) for name -> (dtype, shape)."""
    order = sorted(tensors, key=lambda name: (_ORDER[tensors[name][0]], name))
    entries: dict[str, Any] = {}
    at = 0
    for name in order:
        dtype, shape = tensors[name]
        end = at + prod(shape) * WIDTHS[dtype]
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = _ENCODER.encode(entries).encode()
    text += b" " * (-len(text) % PREFIX)
    return len(text).to_bytes(PREFIX, "little") + text, order


def header_length(prefix: bytes, file_bytes: int, limits: Limits, *, where: str) -> int:
    """How many bytes of JSON follow the prefix. Raises before any of them is read."""
    if len(prefix) != PREFIX:
        raise CheckpointInvalid(where=where, problem=f"it ends after {len(prefix)} bytes", reason="header")
    length = int.from_bytes(prefix, "little")
    at_most(length, limits.header_bytes, where=where, what="the length of its header")
    if PREFIX + length > file_bytes:
        raise CheckpointInvalid(where=where, problem=f"its header would take {length} bytes of {file_bytes}", reason="header")
    return length


def read_header(text: bytes, data_bytes: int, limits: Limits, *, where: str) -> Mapping[str, Placed]:
    """The tensors of a file whose header is `text` and whose data takes `data_bytes`, in the order of their data."""
    if len(text) > _KNOWN_BYTES:
        return _read(text, data_bytes, limits, where)
    try:
        return _known(text, data_bytes, limits)
    except CheckpointError:
        return _read(text, data_bytes, limits, where)  # which says where


@lru_cache(maxsize=4)
def _known(text: bytes, data_bytes: int, limits: Limits) -> Mapping[str, Placed]:
    """The same header for as long as a run saves the same tensors. One that is refused is not kept."""
    return MappingProxyType(_read(text, data_bytes, limits, ""))


def _read(text: bytes, data_bytes: int, limits: Limits, where: str) -> dict[str, Placed]:
    found = strict.read(text, bytes_max=limits.header_bytes, depth_max=3, where=where)
    if not isinstance(found, dict):
        raise CheckpointInvalid(where=where, problem="its header is not an object", reason="header")
    at_most(len(found), limits.tensors, where=where, what="the number of its tensors")
    placed = {require_tensor_name(name, where=where): _placed(entry, limits, f"{where}, {name}") for name, entry in found.items()}
    at = 0
    for name, tensor in sorted(placed.items(), key=lambda item: (item[1].begin, item[1].end)):
        if tensor.begin != at:
            problem = f"between bytes {min(at, tensor.begin)} and {max(at, tensor.begin)} there is a gap or an overlap"
            raise CheckpointInvalid(where=f"{where}, {name}", problem=problem, reason="header")
        at = tensor.end
    if at != data_bytes:
        raise CheckpointInvalid(where=where, problem=f"its tensors take {at} bytes and {data_bytes} are there", reason="header")
    return dict(sorted(placed.items(), key=lambda item: (item[1].begin, item[1].end)))


def _placed(entry: Any, limits: Limits, where: str) -> Placed:
    fields = strict.is_object(entry, _ENTRY, where=where)
    shape = require_shape(fields["shape"], limits.rank, where=where)
    size = bytes_of(fields["dtype"], shape, where=where)
    begin, end = _offsets(fields["data_offsets"], where)
    if end - begin != size:
        raise CheckpointInvalid(
            where=where, problem=f"its shape needs {size} bytes and its offsets span {end - begin}", reason="header"
        )
    return Placed(fields["dtype"], shape, begin, end)


def _offsets(found: Any, where: str) -> tuple[int, int]:
    if not isinstance(found, list) or len(found) != 2 or any(type(at) is not int or at < 0 for at in found) or found[0] > found[1]:
        raise CheckpointInvalid(where=where, problem="its offsets are not two rising whole numbers", reason="header")
    return found[0], found[1]
