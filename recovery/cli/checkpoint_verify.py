"""`recover checkpoint verify`: what it does.

Owns that command, its document and its exit code. Invariant: it ends with 0 only if every checkpoint that it was asked about was read to the last byte and
is whole; marks are changed only when asked,
and what is damaged loses its mark.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from recovery.checkpoint.errors import NotACandidate
from recovery.checkpoint.examining import Damage, Examined, examine
from recovery.checkpoint.layout import Place
from recovery.checkpoint.scanning import Candidate, Rejected
from recovery.checkpoint.store import CheckpointStore
from recovery.cli import checkpoint_place
from recovery.cli.checkpoint_looking import about
from recovery.cli.output import Output
from recovery.console import checkpoint_verify as report
from recovery.console.checkpoint_verify import Judged, Verdict, Verified
from recovery.console.progress import read
from recovery.core.errors import ExitCode

Document = dict[str, Any]

_EXITS: Final = {Verdict.DAMAGED: ExitCode.CORRUPT, Verdict.UNREAD: ExitCode.UNRESOLVED}


@dataclass(frozen=True, slots=True)
class _Asked:
    place: Place
    store: CheckpointStore | None
    candidates: tuple[Candidate, ...]
    rejected: tuple[Rejected, ...]


def verify(output: Output, path: Path, name: str | None, *, every: bool, mark: bool) -> ExitCode:
    """0 whole, 6 damaged, 4 where something could not be read. Raises NoStore, NotACandidate, NothingToRestore, StoreBusy, StoreRefused."""
    with checkpoint_place.refusals(path):
        asked = _asked(path, name, every=every)
        if mark and asked.store is None:
            checkpoint_place.store_at(path)  # says that this is none
    before = time.monotonic()
    total = sum(each.manifest.total_bytes for each in asked.candidates)
    with read(f"verifying {path}", total) as tell:
        found = [examine(asked.place, each, tell) for each in asked.candidates]
    seconds = time.monotonic() - before
    if mark and asked.store is not None:
        with checkpoint_place.refusals(path, changing=True):
            for each in found:
                if each.whole or each.damage:
                    with suppress(NotACandidate):  # retention was quicker; there is nothing left to mark
                        asked.store.mark_verified(each.candidate.name, whole=each.whole)
    size = sum(each.candidate.manifest.total_bytes for each in found if not each.gone)
    told = Verified(str(path), _judged(found, asked.rejected), size, seconds, marked=mark)
    if name is not None and any(each.verdict is Verdict.GONE for each in told.judged):
        raise checkpoint_place.taken(name, path)
    code = next((_EXITS[verdict] for verdict in _EXITS if told.of(verdict)), ExitCode.SETTLED)
    output.answer(lambda: _document(told, code), lambda paper: report.verified(paper, told))
    return code


def _asked(path: Path, name: str | None, *, every: bool) -> _Asked:
    """One checkpoint; else the newest of each kind, or every one. What is none by its manifest is told without having been asked for."""
    if name is not None or not checkpoint_place.is_store(path):
        found = checkpoint_place.found_at(path, name)
        return _Asked(found.place, found.store, (found.candidate,), ())
    store = checkpoint_place.store_at(path)
    looked = store.scan()
    candidates = [each for each in looked if isinstance(each, Candidate)]
    rejected = [each for each in looked if isinstance(each, Rejected)]
    if not candidates and not any(each.damaged for each in rejected):
        raise checkpoint_place.nothing(store, rejected)
    if not every:
        candidates = list({each.kind: each for each in reversed(candidates)}.values())[::-1]
    return _Asked(store.place, store, tuple(candidates), tuple(rejected))


def _judged(found: Sequence[Examined], rejected: Sequence[Rejected]) -> tuple[Judged, ...]:
    judged = [Judged(each.candidate.name, _verdict(each), each.candidate, each.damage, each.unread) for each in found]
    for each in rejected:
        damage = (Damage(each.problem.partition(": ")[0], each.reason, each.problem.partition(": ")[2]),) if each.damaged else ()
        judged.append(Judged(each.name, _rejected(each), None, damage, "" if each.damaged else each.problem))
    return tuple(sorted(judged, key=lambda each: each.order))


def _verdict(of: Examined) -> Verdict:
    if of.whole:
        return Verdict.WHOLE
    return Verdict.GONE if of.gone else Verdict.DAMAGED if of.damage else Verdict.UNREAD


def _rejected(of: Rejected) -> Verdict:
    if of.damaged:
        return Verdict.DAMAGED
    return {"unfinished": Verdict.UNFINISHED, "name": Verdict.FOREIGN}.get(of.reason, Verdict.UNREAD)


def _document(of: Verified, code: ExitCode) -> Document:
    return {
        "path": of.path,
        "exit_code": int(code),
        "whole": len(of.of(Verdict.WHOLE)),
        "damaged": len(of.of(Verdict.DAMAGED)),
        "bytes": of.bytes,
        "seconds": of.seconds,
        "marked": of.marked,
        "checkpoints": [
            {
                "name": each.name,
                "verdict": each.verdict.value,
                "checkpoint": None if each.candidate is None else about(each.candidate),
                "damage": [asdict(one) for one in each.damage],
                "problem": each.problem or None,
            }
            for each in of.judged
        ],
    }
