"""Retention: which checkpoints may go, and how they go.

Owns the rule and the steps. Invariant: never retired are the newest of each kind, whatever is pinned, the one that was restored and the last
verified; and nothing is deleted before it has durably left the candidates, so that no half-deleted directory is ever chosen.

A name that is rejected is not counted and not retired: it goes into quarantine if it is damaged, and otherwise a person should look.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import Final

from recovery import logs
from recovery.checkpoint.files import remove_tree, shut_and_remove
from recovery.checkpoint.layout import TEMPORARY_NAME, Place, listed
from recovery.checkpoint.marks import Mark, Marks
from recovery.checkpoint.scanning import Candidate, Rejected
from recovery.core.errors import DefinitionError
from recovery.crashpoints import around

_log: Final = logs.logger("checkpoint")


@dataclass(frozen=True, slots=True)
class Keep:
    """How many stay: the `last` of each kind, and the newest `verified` of those that were read in full. Pins and the restored-from come on top."""

    last: int = 3
    verified: int = 1

    def __post_init__(self) -> None:
        if self.last < 1 or self.verified < 0:
            problem = "keeping fewer than one checkpoint would delete the one that was just saved"
            raise DefinitionError(what="Keep", name=f"last={self.last}", problem=problem, advice="Use last=1 or more.")


@dataclass(frozen=True, slots=True)
class Plan:
    """What stays and why, what goes, and what is no checkpoint any more. Newest first."""

    kept: dict[str, str] = field(default_factory=dict)
    retired: tuple[str, ...] = ()
    damaged: tuple[Rejected, ...] = ()
    unfinished: tuple[str, ...] = ()


def plan(found: Iterable[Candidate | Rejected], marks: Marks, keep: Keep) -> Plan:
    """Pure. `found`: newest first."""
    kept: dict[str, str] = {}
    retired: list[str] = []
    damaged: list[Rejected] = []
    unfinished: list[str] = []
    pinned, restored, of_verified = (marks.names(mark) for mark in (Mark.PINNED, Mark.RESTORED, Mark.VERIFIED))
    of_kind: Counter[str] = Counter()
    verified = 0
    for each in found:
        if isinstance(each, Rejected):
            if each.damaged:
                damaged.append(each)
            elif TEMPORARY_NAME.fullmatch(each.name):
                unfinished.append(each.name)
            continue
        name, kind = each.name, each.kind
        is_verified = name in of_verified
        reason = _why(name, pinned, restored, of_kind[kind] < keep.last, is_verified and verified < keep.verified)
        of_kind[kind] += 1
        verified += is_verified
        if reason:
            kept[name] = reason
        else:
            retired.append(name)
    return Plan(kept, tuple(retired), tuple(damaged), tuple(unfinished))


def _why(name: str, pinned: Set[str], restored: Set[str], is_last: bool, is_last_verified: bool) -> str:
    if name in pinned:
        return "pinned"
    if name in restored:
        return "restored from"
    if is_last:
        return "one of the last"
    return "last verified" if is_last_verified else ""


def carry_out(place: Place, planned: Plan) -> None:
    """Retire, put into quarantine and sweep what the plan says, and delete it. For the holder of the lease. Repeating it is safe."""
    empty_trash(place)  # first: what a power cut left there may have the name of what is to go there
    for each in planned.damaged:
        put_into_quarantine(place, each)
    retire(place, planned.retired)
    sweep(place, planned.unfinished)
    empty_trash(place)


def retire(place: Place, names: Iterable[str]) -> None:
    """Move them out of the candidates. Durable with the next sync of the directory of checkpoints: that of the next commit at the latest."""
    for name in names:
        with around("checkpoint.retire"):
            place.disk.rename(place.checkpoints / name, place.trash / name)


def sweep(place: Place, names: Iterable[str]) -> None:
    """Remove saves that were not committed."""
    if not (doomed := set(names)):
        return
    for name, is_directory in place.listed():
        if name in doomed:
            with around("checkpoint.remove"):
                if is_directory:
                    shut_and_remove(place.disk, place.checkpoints / name)
                else:
                    place.disk.unlink(place.checkpoints / name)


def put_into_quarantine(place: Place, each: Rejected) -> None:
    """Durable on return: it is no candidate any more, and nothing of it is lost."""
    _log.warning("a damaged checkpoint goes into quarantine", name=each.name, reason=each.reason, problem=each.problem)
    taken = {name for name, _ in listed(place.disk, place.quarantine)}
    target = next(name for name in (each.name, *(f"{each.name}.{n}" for n in range(1, len(taken) + 2))) if name not in taken)
    with around("checkpoint.quarantine"):
        place.disk.rename(place.checkpoints / each.name, place.quarantine / target)
        place.disk.sync_directory(place.quarantine)
        place.disk.sync_directory(place.checkpoints)


def empty_trash(place: Place, *, synced: bool = False) -> None:
    """Delete what has left the candidates. `synced`: since the last of it left them, their directory was synced."""
    left = listed(place.disk, place.trash)
    if left and not synced:
        with around("checkpoint.retire"):
            place.disk.sync_directory(place.checkpoints)
    for name, is_directory in left:
        with around("checkpoint.remove"):
            if is_directory:
                remove_tree(place.disk, place.trash / name)
            else:
                place.disk.unlink(place.trash / name)
