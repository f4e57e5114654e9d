"""`recover checkpoint gc`, `pin` and `unpin`: what they do.

Owns the three commands and their documents. Invariant: a dry run changes nothing, and nothing is retired that retention must keep.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from recovery.checkpoint import lease, marks
from recovery.checkpoint.marks import Mark
from recovery.checkpoint.retention import Keep
from recovery.checkpoint.scanning import Candidate
from recovery.cli import checkpoint_place
from recovery.cli.checkpoint_looking import rejected
from recovery.cli.output import Output
from recovery.console import checkpoint_store as report
from recovery.console.checkpoint_store import Collected
from recovery.core.errors import ExitCode

Document = dict[str, Any]


def gc(output: Output, path: Path, *, dry_run: bool, keep: Keep) -> ExitCode:
    """Raises NoStore, StoreBusy, StoreRefused."""
    with checkpoint_place.refusals(path, changing=not dry_run):
        store = checkpoint_place.store_at(path, keep=keep)
        sizes = {each.name: each.manifest.total_bytes for each in store.scan() if isinstance(each, Candidate)}
        writing = lease.is_held(store.path)
        planned = store.gc(dry_run=dry_run)
    told = Collected(store=str(path), keep=keep, plan=planned, dry_run=dry_run, writing=writing, sizes=sizes)
    output.answer(lambda: _collected(told), lambda paper: report.collected(paper, told))
    return ExitCode.SETTLED


def pin(output: Output, path: Path, name: str, *, pinned: bool) -> ExitCode:
    """Raises NoStore, NotACandidate, StoreBusy, StoreRefused."""
    with checkpoint_place.refusals(path, changing=True):
        store = checkpoint_place.store_at(path)
        before = marks.read(store.place).names(Mark.PINNED)
        # What was pinned and is no longer there can be unpinned all the same.
        there = [each for each, _ in store.place.listed()]
        name = checkpoint_place.resolved(store, name, there if pinned else sorted({*there, *before}))
        (store.pin if pinned else store.unpin)(name)
    changed = (name in before) is not pinned
    document = {"store": str(path), "name": name, "pinned": pinned, "changed": changed}
    output.answer(lambda: document, lambda _paper: report.pinned(name, pinned=pinned, changed=changed))
    return ExitCode.SETTLED


def _collected(of: Collected) -> Document:
    return {
        "store": of.store,
        "dry_run": of.dry_run,
        "writing": of.writing,
        "keep": asdict(of.keep),
        "kept": of.plan.kept,
        "retired": list(of.plan.retired),
        "damaged": [rejected(each) for each in of.plan.damaged],
        "unfinished": list(of.plan.unfinished),
        "bytes": of.freed,
    }
