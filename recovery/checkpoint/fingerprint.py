"""Digests of content, and the fingerprint of a runtime.

Owns which hash checkpoints use (BLAKE3, and no other) and what a runtime is made of where the last bit of an update depends on it. Must not
know checkpoints. Invariant: the same parts give the same fingerprint, on every machine.

A fingerprint is an identifier and no signature: whoever can write a checkpoint can write any fingerprint into it. It answers "would this
runtime compute the same bits?" among people who trust each other, and proves nothing to anybody else.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
from blake3 import blake3

LENGTH: Final = 12
"""Hex characters of a fingerprint: short enough to read aloud, long enough to tell the runtimes of one project apart."""

THREADS: Final = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
"""The variables by which linear-algebra libraries are told their number of threads, and so the order in which they add."""


def digest_of(document: Any) -> str:
    """64 hex characters over a JSON document. Floats and integers count exactly: 1 and 1.0 differ. Raises ValueError for NaN."""
    return str(blake3(_ENCODER.encode(document).encode()).hexdigest())


def digest_of_array(values: np.ndarray[Any, np.dtype[Any]]) -> str:
    """64 hex characters over type, shape and elements in C order, little endian."""
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    head = json.dumps(["".join(little.dtype.names or [little.dtype.str]), list(values.shape)]).encode()
    return str(blake3(head + b"\0").update(np.ascontiguousarray(little).tobytes()).hexdigest())


def digest_of_group(arrays: Mapping[str, np.ndarray[Any, np.dtype[Any]]], group: str) -> str:
    """64 hex characters over the arrays named GROUP/..., by name and content: what a lifecycle record keeps of a reference."""
    return digest_of({name: digest_of_array(values) for name, values in arrays.items() if name.partition("/")[0] == group})


_ENCODER: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a runtime is made of. `str()` is the identifier: 12 hex characters. No signature."""

    parts: Mapping[str, str]

    def __str__(self) -> str:
        return digest_of(dict(self.parts))[:LENGTH]

    def differences(self, other: Fingerprint) -> dict[str, tuple[str, str]]:
        """Each part that differs, with its value here and there ("" where it is missing)."""
        names = sorted({*self.parts, *other.parts})
        pairs = {name: (self.parts.get(name, ""), other.parts.get(name, "")) for name in names}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def fingerprint(code: Iterable[ModuleType | Path] = ()) -> Fingerprint:
    """The fingerprint of this process. `code`: the modules or files that make an update what it is. Raises OSError for one that cannot be read."""
    build: dict[str, Any] = np.show_config(mode="dicts")  # type: ignore[assignment]
    blas = build.get("Build Dependencies", {}).get("blas", {})
    return Fingerprint(
        {
            "interpreter": f"{platform.python_implementation()} {platform.python_version()}",
            "numpy": np.__version__,
            "blas": f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip(),
            "threads": _threads(),
            "byte order": sys.byteorder,
            # numpy picks its loops, and with them the last bit of exp, tanh and the like, by what the processor offers.
            "instructions": " ".join(sorted(build.get("SIMD Extensions", {}).get("found", []))) or "baseline",
            "platform": f"{platform.system()} {platform.machine()} {' '.join(platform.libc_ver())}".strip(),
            "code": _code(code),
        }
    )


def _threads() -> str:
    told = [f"{name}={os.environ[name]}" for name in THREADS if name in os.environ]
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return " ".join(told) or f"default of {available}"


def _code(code: Iterable[ModuleType | Path]) -> str:
    found = sorted(_source(each) for each in code)
    return digest_of(found) if found else ""


def _source(of: ModuleType | Path) -> tuple[str, str]:
    """The name without its directory, which differs between machines, and the digest of the text."""
    path = Path(str(of.__file__)) if isinstance(of, ModuleType) else of
    name = of.__name__ if isinstance(of, ModuleType) else of.name
    return name, str(blake3(path.read_bytes()).hexdigest())
