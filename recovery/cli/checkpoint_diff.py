"""`recover checkpoint diff`: what it does.

Owns that command, its document and its exit code. Invariant: two checkpoints are compared only after every byte of both was verified, and 0 says that they
are equal in every bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from recovery.checkpoint import state as states
from recovery.checkpoint.contrasting import Leaf, Tensor, contrast, work_bytes
from recovery.checkpoint.errors import CheckpointInvalid, StoreRefused
from recovery.checkpoint.examining import examine
from recovery.checkpoint.manifest import STATE, TensorEntry
from recovery.checkpoint.reading import Directory
from recovery.checkpoint.tensors import Tensors
from recovery.checkpoint.ulp import Difference
from recovery.cli import checkpoint_place
from recovery.cli.checkpoint_looking import about
from recovery.cli.checkpoint_place import Found
from recovery.cli.output import Output
from recovery.console import checkpoint_diff as report
from recovery.console.checkpoint_diff import Contrasted
from recovery.console.progress import read
from recovery.core.errors import ExitCode

Document = dict[str, Any]


def diff(output: Output, a: Path, b: Path) -> ExitCode:
    """0 equal, 1 different. Raises NoStore, NotACandidate, NothingToRestore, CheckpointInvalid, StoreRefused."""
    with checkpoint_place.refusals(a):
        one = checkpoint_place.found_at(a)
    with checkpoint_place.refusals(b):
        other = checkpoint_place.found_at(b)
    manifests = one.candidate.manifest, other.candidate.manifest
    total = sum(manifest.total_bytes for manifest in manifests) + work_bytes(*manifests)
    with read("comparing", total) as tell, checkpoint_place.refusals(a):
        for found in (one, other):
            _require_whole(found, tell)
        with _tensors(one) as left, _tensors(other) as right:
            told = Contrasted(one.candidate, other.candidate, contrast(left, right, (_state(one), _state(other)), tell))
    output.answer(lambda: _document(told), lambda paper: report.contrasted(paper, told))
    return ExitCode.SETTLED if told.contrast.equal else ExitCode.FAILED


def _require_whole(found: Found, tell: Callable[[int], None]) -> None:
    examined = examine(found.place, found.candidate, tell)
    name, store = found.candidate.name, found.candidate.path.parent
    if examined.gone:
        raise checkpoint_place.taken(name, store)
    if examined.damage:
        first = examined.damage[0]
        raise CheckpointInvalid(where=first.where, problem=first.problem, reason=first.reason)
    if examined.unread:
        raise StoreRefused(store=str(store), where=name, problem=examined.unread, fate="Nothing was compared or changed.")


def _tensors(found: Found) -> Tensors:
    return Tensors(found.place.disk, found.candidate.path, found.candidate.manifest, found.place.limits)


def _state(found: Found) -> Any:
    entry = next(entry for entry in found.candidate.manifest.files if entry.name == STATE)
    return states.from_bytes(Directory(found.place.disk, found.candidate.path, found.place.limits).state(entry), found.place.limits)


def _document(of: Contrasted) -> Document:
    found = of.contrast
    return {
        "equal": found.equal,
        "a": about(of.a) | {"path": str(of.a.path)},
        "b": about(of.b) | {"path": str(of.b.path)},
        "kind": None if found.kinds is None else list(found.kinds),
        "state": [_leaf(leaf) for leaf in found.state if not leaf.of_lifecycle],
        "lifecycle": [_leaf(leaf) for leaf in found.state if leaf.of_lifecycle],
        "tensors": [_tensor(tensor) for tensor in found.different],
        "compared": {"fields": found.fields, "tensors": found.tensors},
    }


def _leaf(of: Leaf) -> Document:
    return {
        "path": of.path,
        "change": of.change,
        "a": of.a,
        "b": of.b,
        "ulps": of.ulps,
        "lengths": None if of.lengths is None else list(of.lengths),
        "values": None if of.difference is None else _difference(of.difference),
    }


def _tensor(of: Tensor) -> Document:
    return {
        "name": of.name,
        "change": of.change,
        "a": _entry(of.a),
        "b": _entry(of.b),
        "values": None if of.difference is None else _difference(of.difference),
    }


def _entry(of: TensorEntry | None) -> Document | None:
    return None if of is None else {"dtype": of.dtype, "shape": list(of.shape)}


def _difference(of: Difference) -> Document:
    return {
        "differ": of.count,
        "first": list(of.index),
        "a": of.expected,
        "b": of.found,
        **{name: value for name, value in asdict(of).items() if name in {"ulps", "ulps_max"}},
    }
