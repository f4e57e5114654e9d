"""The checkpoint store on the disk: programs, what is read of what is left, and what is asked of it.

Owns the facts, the reading and the questions about checkpoints; `judging` has those about journals. Invariant: what is read is read by the shipped code, in full.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from recovery.checkpoint import marks
from recovery.checkpoint.errors import CheckpointError, NothingToRestore
from recovery.checkpoint.marks import Mark
from recovery.checkpoint.retention import Keep
from recovery.checkpoint.scanning import Rejected
from recovery.checkpoint.store import CheckpointStore
from tests.power.laying import laid_out
from tests.power.model import Tree
from tests.power.record import Said
from tests.unit.checkpoint.making import same, small

STORE: Final = "run"
DEADLINE: Final = timedelta(minutes=5)
Say = Callable[[dict[str, Any]], None]


class Nothing:
    def swap(self, new: object) -> None: ...


# -- programs ----------------------------------------------------------------------------------------------------------


def save(store: CheckpointStore, say: Say, step: int) -> str:
    say({"saving": step})
    name = store.save(small(step)).name
    say({"saved": step})
    return name


def saved(disk: Path, say: Say, **options: Any) -> None:
    """A store's first creation, and saves of which each retires the one before."""
    store = CheckpointStore(disk / STORE, keep=Keep(last=1, verified=0), **options)
    say({"begin": True})
    for step in (1, 2, 3):
        save(store, say, step)


def directories(disk: Path, say: Say) -> None:
    """`saved`, of checkpoints that are not packed."""
    saved(disk, say, packed_bytes=0)


def marked(disk: Path, say: Say) -> None:
    """Pins, the restored-from and the verified; a damaged one that goes into quarantine; retention by order. The pinned one and the last are directories."""
    store = CheckpointStore(disk / STORE)
    names = [CheckpointStore(disk / STORE, packed_bytes=0).save(small(1)).name, *(store.save(small(step)).name for step in (2, 3))]
    store.pin(names[0])
    say({"marked": "pinned", "name": names[0]})
    store = CheckpointStore(disk / STORE, keep=Keep(last=1))
    with (store.place.checkpoints / names[1]).open("wb") as packed:
        os.fsync(packed.fileno())
    say({"damaged": names[1]})
    newest = store.latest("weights")
    say({"saved": 3})
    say({"begin": True})
    store.restore(newest, build=lambda checkpoint: checkpoint, into=Nothing())
    say({"marked": "restored", "name": newest.name})
    store.verify(newest.name)
    say({"marked": "verified", "name": newest.name})
    save(store, say, 4)
    say({"quarantined": names[1]})
    save(CheckpointStore(disk / STORE, keep=Keep(last=1), packed_bytes=0), say, 5)
    say({"unpinning": names[0]})
    store.unpin(names[0])
    store.gc()


def shards(disk: Path, say: Say) -> None:
    """A save of two writers over one that is there."""
    store = CheckpointStore(disk / STORE, keep=Keep(last=1))
    store.save(small(1))
    say({"saved": 1})
    say({"begin": True})
    say({"saving": 2})
    arrays = small(2).arrays
    with store.sharded(kind="weights", writers=2, deadline=DEADLINE, state=small(2).values, step=2) as session:
        for index in (0, 1):
            with session.writer(index) as writer:
                for name in sorted(arrays)[index::2]:
                    writer.put(name, arrays[name])
    say({"saved": 2})


PROGRAMS: Final[dict[str, Callable[[Path, Say], None]]] = {each.__name__: each for each in (saved, directories, marked, shards)}


# -- judging -----------------------------------------------------------------------------------------------------------


@dataclass
class Facts:
    begun: bool = False
    saving: int = 0
    saved: int = 0
    damaged: set[str] = field(default_factory=set)
    quarantined: set[str] = field(default_factory=set)
    marks: set[tuple[str, str]] = field(default_factory=set)

    def hear(self, said: Said) -> None:
        match said.what:
            case {"begin": _}:
                self.begun = True
            case {"saving": step}:
                self.saving = step
            case {"saved": step}:
                self.saved = step
            case {"damaged": name}:
                self.damaged.add(name)
            case {"quarantined": name}:
                self.quarantined.add(name)
            case {"marked": mark, "name": name}:
                self.marks.add((mark, name))
            case {"unpinning": name}:
                self.marks.discard(("pinned", name))


@dataclass(frozen=True)
class Reading:
    """What the shipped code makes of a store. step: of the newest that is whole, 0 if there is none. wrong: of what is chosen."""

    step: int
    wrong: str
    whole: frozenset[str]
    damaged: frozenset[str]
    quarantine: frozenset[str]
    marks: frozenset[tuple[str, str]]


def read(tree: Tree) -> Reading:
    with laid_out(tree) as disk:
        store = CheckpointStore(disk / STORE)
        step, wrong = 0, ""
        try:
            loaded, _ = store.load_latest("weights")
        except NothingToRestore as error:
            wrong = str(error) if "damaged" in str(error) else ""
        except CheckpointError as error:
            wrong = f"{type(error).__name__}: {error}"
        else:
            step = loaded.manifest.step
            if not same(loaded.arrays, small(step).arrays) or loaded.state != small(step).values:
                wrong = f"step {step} is not what was saved"
        found = store.scan()
        there = marks.read(store.place)
        quarantine = store.place.quarantine
        return Reading(
            step,
            wrong,
            frozenset(each.name for each in found if not isinstance(each, Rejected)),
            frozenset(each.name for each in found if isinstance(each, Rejected) and each.damaged),
            frozenset(path.name for path in quarantine.iterdir()) if quarantine.is_dir() else frozenset(),
            frozenset((mark.value, name) for mark in Mark for name in there.names(mark)),
        )


def wrong_with(reading: Reading, facts: Facts) -> str:
    """What breaks a promise, or "": the newest is the last that was acknowledged, or the one under way."""
    if reading.wrong:
        return reading.wrong
    if reading.step not in {facts.saved, facts.saving, max(facts.saving, facts.saved)}:
        return f"step {reading.step} is the newest, {facts.saved} was acknowledged and {facts.saving} under way"
    if reading.step < facts.saved:
        return f"step {facts.saved} was acknowledged, and {reading.step} is the newest"
    if broken := reading.damaged - facts.damaged:
        return f"damaged among the checkpoints: {sorted(broken)}"
    if lost := facts.damaged - reading.damaged - reading.quarantine:
        return f"neither among the checkpoints nor in quarantine: {sorted(lost)}"
    if back := facts.quarantined - reading.quarantine:
        return f"not in quarantine: {sorted(back)}"
    if gone := facts.marks - reading.marks:
        return f"acknowledged marks are gone: {sorted(gone)}"
    unheld = {name for _, name in facts.marks if name not in reading.whole}
    return f"marked, and retired: {sorted(unheld)}" if unheld - {name for mark, name in facts.marks if mark == "verified"} else ""


def recovered_wrongly(tree: Tree, facts: Facts) -> str:
    """Save on from there. What breaks a promise, or ""."""
    with laid_out(tree) as disk:
        store = CheckpointStore(disk / STORE, keep=Keep(last=2))
        name = store.save(small(7)).name
        loaded, passed = CheckpointStore(disk / STORE).load_latest("weights")
        if (loaded.manifest.step, passed) != (7, ()) or not same(loaded.arrays, small(7).arrays):
            return f"after a further save {loaded.manifest.step} is the newest ({passed})"
        left = [path.name for path in store.place.checkpoints.iterdir() if path.name.startswith(".tmp-")]
        for mark, marked_name in facts.marks:
            if mark != "verified" and not (store.place.checkpoints / marked_name).exists():
                return f"{marked_name} is {mark}, and was retired"
        assert name in store.names()
    return f"left over: {left}" if left else ""
