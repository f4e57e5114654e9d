"""Judging a journal on what is left of a disk: what the shipped code reads there, held against what was acknowledged.

Owns the facts that a record tells, the reading, and the questions. Must not know how a disk loses things. Invariant: nothing is asked of the disk's bytes, but
only of what the shipped code makes of them.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from recovery import Engine
from recovery.clocks import SystemClock
from recovery.core.entries import Intent
from recovery.core.errors import RecoveryError
from recovery.ports import Journal
from recovery.storage import open_journal
from recovery.storage.reading import read
from recovery.storage.sqlite_library import LIBRARY
from tests.crash.worker import Hurried
from tests.power import story
from tests.power.laying import laid_out
from tests.power.model import Tree
from tests.power.programs import JOURNAL, LONG, NOTE
from tests.power.record import Said


@dataclass
class Facts:
    """What the program had asked, heard and done by some moment."""

    begun: bool = False
    namespace: str = ""
    appends: dict[str, list[tuple[int, list[str]]]] = field(default_factory=dict)  # asked for: behind which entry, digests
    heads: dict[str, tuple[int, str]] = field(default_factory=dict)  # acknowledged: the entry, its digest
    epochs: dict[str, tuple[int, int]] = field(default_factory=dict)  # claims that were acknowledged
    landed: list[str] = field(default_factory=list)
    returned: set[str] = field(default_factory=set)

    def hear(self, said: Said) -> None:
        match said.what:
            case {"begin": _}:
                self.begun = True
            case {"created": namespace}:
                self.namespace = namespace
            case {"asked": run_id, "behind": head, "rows": digests}:
                self.appends.setdefault(run_id, []).append((head, digests))
            case {"done": run_id, "head": head, "digest": digest}:
                self.heads[run_id] = (head, digest)
            case {"claimed": run_id, "epoch": [incarnation, number]}:
                self.epochs[run_id] = (incarnation, number)
            case {"landed": key}:
                self.landed.append(key)
            case {"returned": run_id}:
                self.returned.add(run_id)


@dataclass(frozen=True)
class Run:
    digests: tuple[str, ...]
    epoch: tuple[int, int]
    status: str
    intents: frozenset[str]


@dataclass(frozen=True)
class Reading:
    """What the shipped code makes of a disk. absent: no journal. wrong: it refused what is there."""

    absent: bool = False
    wrong: str = ""
    namespace: str = ""
    runs: tuple[tuple[str, Run], ...] = ()

    def digest(self) -> bytes:
        return blake2b(repr(self).encode(), digest_size=16).digest()


class Reader:
    """Reads laid-out disks with the shipped code, once for each content that SQLite finds there: nobody but SQLite opens the files."""

    def __init__(self) -> None:
        self._read: dict[bytes, Reading] = {}

    def read(self, tree: Tree) -> Reading:
        if JOURNAL not in tree:
            return Reading(absent=True)
        with laid_out(tree) as disk:
            found = _content(disk / JOURNAL)
        if found not in self._read:
            with laid_out(tree) as disk:
                self._read[found] = _read(disk / JOURNAL)
        return self._read[found]


def _content(path: Path) -> bytes:
    """A digest of every row of every table, and of whether all indexes agree with them; of SQLite's complaint where it refuses."""
    digest = blake2b(digest_size=16)
    with closing(LIBRARY.connect(path)) as connection:
        try:
            digest.update(repr(connection.execute("PRAGMA integrity_check").fetchall()).encode())
            for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                digest.update(repr((table, connection.execute(f'SELECT * FROM "{table}"').fetchall())).encode())
        except LIBRARY.Error as error:
            digest.update(repr(error).encode())
    return digest.digest()


def _read(path: Path) -> Reading:
    journal = open_journal(f"sqlite:///{path}")
    try:
        if broken := integrity(path):
            return Reading(wrong=f"its file is damaged: {broken}")
        return Reading(namespace=journal.namespace(), runs=tuple((row.run_id, _run(journal, row.run_id)) for row in journal.runs()))
    except RecoveryError as error:
        return Reading(wrong=f"{type(error).__name__}: {error}")
    finally:
        journal.close()


def integrity(path: Path) -> str:
    """SQLite's own complaint about the file, or ""."""
    with closing(LIBRARY.connect(path)) as connection:
        try:
            found = [text for (text,) in connection.execute("PRAGMA integrity_check")]
        except LIBRARY.Error as error:
            return str(error)
    return "" if found == ["ok"] else "; ".join(found)


def intents(journal: Journal, run_id: str) -> frozenset[str]:
    """The keys under which something may have been sent."""
    return frozenset(entry.key for entry in read(journal, run_id).entries if isinstance(entry, Intent))


def _run(journal: Journal, run_id: str) -> Run:
    loaded = read(journal, run_id)
    for entry in loaded.entries:
        if isinstance(entry, Intent) and entry.key:
            owner = journal.key_owner(entry.environment, entry.scope, entry.key)
            assert owner == (run_id, entry.step, entry.fingerprint), f"the key {entry.key} is {owner}'s"
    keys = frozenset(entry.key for entry in loaded.entries if isinstance(entry, Intent))
    epoch = loaded.run.epoch
    return Run(tuple(row.digest for row in loaded.rows), (epoch.incarnation, epoch.n), loaded.run.status.value, keys)


def wrong_with(reading: Reading, facts: Facts) -> str:
    """What breaks a promise, or "". Reading a run has verified its chain, its status and its keys already."""
    if reading.wrong:
        return reading.wrong
    if reading.absent:
        return "the journal was acknowledged, and is gone" if facts.namespace else ""
    if facts.namespace and reading.namespace != facts.namespace:
        return "it has another namespace than was acknowledged"
    runs = dict(reading.runs)
    for run_id, run in runs.items():
        if not _whole(run, facts.appends.get(run_id, [])) and run_id in facts.appends:
            return f"{run_id}: half an append is visible"
    for run_id, (head, digest) in facts.heads.items():
        if run_id not in runs or runs[run_id].digests[head - 1 : head] != (digest,):
            return f"{run_id}: an acknowledged append is gone"
    for run_id, epoch in facts.epochs.items():
        if runs[run_id].epoch < epoch:
            return f"{run_id}: an acknowledged claim is gone"
    intents: set[str] = set().union(*(run.intents for run in runs.values()))
    for key in facts.landed:
        if key not in intents:
            return f"{key} has landed without a durable intent"
    for run_id in facts.returned:
        if runs[run_id].status != "completed":
            return f"{run_id} has returned its outcome, and is {runs[run_id].status}"
    return ""


def _whole(run: Run, appends: list[tuple[int, list[str]]]) -> bool:
    """Whether its rows are whole appends, byte for byte, and no part of a further one. One whose commit failed may be there, or another in its place."""
    at = 0
    while at < len(run.digests):
        there = (len(rows) for head, rows in appends if head == at and run.digests[at : at + len(rows)] == tuple(rows))
        length = next(there, 0)
        if not length:
            return False
        at += length
    return True


def recovered_wrongly(tree: Tree, facts: Facts) -> str:
    """Run every run that was ever asked for, as its caller would after the power is back. What breaks a promise, or ""."""
    story.world = story.World(landed=list(facts.landed))
    with laid_out(tree) as disk, closing(open_journal(f"sqlite:///{disk / JOURNAL}")) as journal:
        engine = Engine(journal, workflows=[story.errand], clock=Hurried(SystemClock()))
        for run_id, note in _callers(facts):
            if problem := story.wrong_with(engine.run(run_id, story.errand, 2, note), run_id):
                return problem
        engine.close()
    return ""


def _callers(facts: Facts) -> list[tuple[str, Any]]:
    return [(run_id, NOTE if run_id == LONG else "") for run_id in facts.appends]
