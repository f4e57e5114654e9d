"""`recover checkpoint list` and `inspect`: what they do.

Owns the two commands and their documents. Invariant: neither reads a tensor, changes anything, or makes a store that is not there.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from recovery.checkpoint import lease, marks
from recovery.checkpoint import state as states
from recovery.checkpoint.errors import CheckpointError, CheckpointInvalid
from recovery.checkpoint.kinds import RULES
from recovery.checkpoint.layout import listed
from recovery.checkpoint.manifest import STATE, digest
from recovery.checkpoint.marks import Mark, Marks
from recovery.checkpoint.reading import Directory
from recovery.checkpoint.scanning import Candidate, Rejected
from recovery.checkpoint.validating import require_digest
from recovery.cli import checkpoint_place
from recovery.cli.checkpoint_place import Found
from recovery.cli.output import Output
from recovery.console import checkpoint_inspect, checkpoint_store
from recovery.console.checkpoint_inspect import Inspected, State
from recovery.console.checkpoint_store import Listed
from recovery.core.errors import ExitCode

Document = dict[str, Any]

STATE_BYTES: Final = 4 << 20
"""A state document that is larger is not read for `inspect`."""


def list_all(output: Output, path: Path) -> ExitCode:
    """Raises NoStore, StoreRefused."""
    with checkpoint_place.refusals(path):
        store = checkpoint_place.store_at(path)
        found = store.scan()
        told = Listed(
            store=str(path),
            candidates=tuple(each for each in found if isinstance(each, Candidate)),
            rejected=tuple(each for each in found if isinstance(each, Rejected)),
            marks=marks.read(store.place),
            writing=lease.is_held(store.path),
            quarantine=tuple(name for name, _ in listed(store.place.disk, store.place.quarantine)),
        )
    output.answer(lambda: _list(told), lambda paper: checkpoint_store.listed(paper, told))
    return ExitCode.SETTLED


def inspect(output: Output, path: Path, name: str | None) -> ExitCode:
    """Raises NoStore, NotACandidate, NothingToRestore, StoreRefused, and what describing refuses."""
    with checkpoint_place.refusals(path):
        found = checkpoint_place.found_at(path, name)
        marked = Marks() if found.store is None else marks.read(found.store.place)
        told = Inspected(found.candidate, marks.borne(marked, found.candidate.name), _state(found), found.passed)
    output.answer(lambda: _inspected(told), lambda paper: checkpoint_inspect.inspected(paper, told))
    return ExitCode.CORRUPT if told.state.damaged else ExitCode.SETTLED


def _state(found: Found) -> State:
    """The state document, where reading it is cheap. What is wrong with it is told and not raised: the manifest stands."""
    candidate = found.candidate
    entry = next(entry for entry in candidate.manifest.files if entry.name == STATE)
    if entry.size > STATE_BYTES:
        return State(size=entry.size, unread="it is large; `recover checkpoint diff` and `verify` read it")
    try:
        data = Directory(found.place.disk, candidate.path, found.place.limits).state(entry)
        require_digest(entry, digest(data), candidate.name)
        return State(size=entry.size, value=states.from_bytes(data, found.place.limits), read=True)
    except CheckpointInvalid as error:
        return State(size=entry.size, unread=error.problem, damaged=True)
    except (CheckpointError, OSError) as error:
        return State(size=entry.size, unread=str(error))


def about(of: Candidate) -> Document:
    """One checkpoint, as every document shows it."""
    manifest = of.manifest
    return {
        "name": of.name,
        "id": manifest.id,
        "kind": manifest.kind.value,
        "sequence": manifest.sequence,
        "step": manifest.step,
        "parent": manifest.parent or None,
        "journal": None if manifest.journal is None else asdict(manifest.journal),
        "fingerprint": manifest.fingerprint or None,
        "writers": manifest.writers,
        "files": len(manifest.files),
        "tensors": len(manifest.tensors),
        "bytes": manifest.total_bytes,
    }


def rejected(of: Rejected) -> Document:
    return asdict(of)


def _list(of: Listed) -> Document:
    return {
        "store": of.store,
        "writing": of.writing,
        "checkpoints": [
            about(each) | {"newest": each.name in of.newest, "marks": _marks(marks.borne(of.marks, each.name))}
            for each in of.candidates
        ],
        "rejected": [rejected(each) for each in of.rejected],
        "quarantine": list(of.quarantine),
    }


def _inspected(of: Inspected) -> Document:
    manifest = of.candidate.manifest
    document = about(of.candidate) | {"path": str(of.candidate.path), "marks": _marks(of.marks), "schema": manifest.schema}
    return document | {
        "rule": {key: value for key, value in asdict(RULES[manifest.kind]).items() if key != "stored"},
        "files": [entry.document() for entry in manifest.files],
        "tensors": {name: _tensor(name, of) for name in manifest.tensors},
        "state": {"bytes": of.state.size, "read": of.state.read, "damaged": of.state.damaged, "problem": of.state.unread or None},
        "lifecycle": of.state.lifecycle,
        "passed_over": [rejected(each) for each in of.passed],
    }


def _tensor(name: str, of: Inspected) -> Document:
    tensor: Any = of.candidate.manifest.tensors[name].document()
    return {**tensor, "bytes": checkpoint_inspect.bytes_of(of.candidate.manifest.tensors[name])}


def _marks(of: tuple[Mark, ...]) -> list[str]:
    return [mark.value for mark in of]
