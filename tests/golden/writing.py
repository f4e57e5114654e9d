"""Writing golden journals: every kind of entry and every form of decision, as today's code records them.

Owns the plays. `make golden` writes the next directory once and never again; what is in one is frozen by its list of digests.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from contextlib import suppress
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from recovery import AsyncEngine, Budget, Engine, Found, NewKey, Status
from recovery.core.entries import ENTRY_FORMAT, FORMS, KINDS, Decision, OutcomeKind, encode, kind_of
from recovery.core.errors import RecoveryError
from recovery.storage.exported import exported
from recovery.storage.reading import read
from recovery.storage.schema import VERSION
from recovery.testing import ManualClock

HERE = Path(__file__).parent
DATABASE, MANIFEST, DIGESTS, WORKFLOWS = "runs.sqlite", "manifest.json", "digests.txt", "workflows.py"

PATIENT = Budget(max_wait=timedelta(days=1))


def directories() -> list[Path]:
    return sorted(path for path in HERE.iterdir() if path.name.startswith("format"))


def code_of(directory: Path) -> Any:
    return import_module(f"tests.golden.{directory.name}.workflows")


def text_of(directory: Path, run_id: str) -> Path:
    """Where a run's text is: a colon is no letter of a file's name everywhere."""
    return directory / f"{run_id.replace(':', '_')}.journal"


def digests(directory: Path) -> dict[str, str]:
    """Of every file of a directory but the list itself."""
    files = sorted(path for path in directory.iterdir() if path.is_file() and path.name != DIGESTS)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def write(directory: Path) -> None:
    """Record the workflows of a directory. Raises FileExistsError where that was done, AssertionError where something is not covered."""
    if (directory / DIGESTS).exists():
        raise FileExistsError(f"{directory} is written; golden journals are never changed. Begin the next one.")
    code, database = code_of(directory), directory / DATABASE
    clock = ManualClock()
    asyncio.run(_play_async(code, f"sqlite:///{database}", clock))
    with Engine(f"sqlite:///{database}", workflows=code.SYNC, clock=clock, budget=PATIENT) as engine:
        _play(code, engine, clock)
        runs = [info.run_id for info in engine.list()]
        missing = _missing(engine, runs)
        assert not missing, f"not covered: {', '.join(missing)}"
        for run_id in runs:
            text_of(directory, run_id).write_text(exported(engine.journal, run_id), encoding="utf-8")
        manifest = {"entry_format": ENTRY_FORMAT, "schema": VERSION, "runs": {run_id: _told(engine, run_id) for run_id in runs}}
        receipts = {key: made.model_dump(mode="json") for key, made in code.World.receipts.items()}
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    for left in directory.glob(f"{DATABASE}-*"):
        left.unlink()
    for left in directory.glob(f"{DATABASE}.*"):
        left.unlink()
    (directory / MANIFEST).write_text(
        json.dumps(manifest | {"receipts": receipts}, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )
    (directory / DIGESTS).write_text(
        "".join(f"{digest}  {name}\n" for name, digest in digests(directory).items()), encoding="utf-8"
    )


def _told(engine: Engine, run_id: str) -> dict[str, Any]:
    loaded = read(engine.journal, run_id)
    ended = loaded.history.ended
    return {
        "workflow": loaded.run.workflow,
        "version": loaded.history.version,
        "status": loaded.run.status.value,
        "head_digest": loaded.run.head_digest,
        "outcome": None if ended is None else encode(ended),
    }


def _missing(engine: Engine, runs: list[str]) -> list[str]:
    entries = [entry for run_id in runs for entry in engine.history(run_id)]
    kinds = {kind_of(entry) for entry in entries}
    forms = {entry.form for entry in entries if isinstance(entry, Decision)}
    late = any(engine.journal.evidence(run_id) for run_id in runs)
    return sorted({*KINDS} - kinds) + sorted({*FORMS} - forms) + ([] if late else ["late evidence"])


async def _play_async(code: Any, url: str, clock: ManualClock) -> None:
    async with AsyncEngine(url, workflows=code.ASYNC, clock=clock, budget=PATIENT) as engine:
        await engine.run("awaited", code.awaited, "a")


def _play(code: Any, engine: Engine, clock: ManualClock) -> None:
    world = code.World
    world.turns_away = 1
    engine.run("plain", code.plain, "a")
    engine.observe("plain", "reserve#1", Found(code.Booking(number=99, sku="a")), effect=code.reserve)
    engine.recover("plain")
    with suppress(RecoveryError):
        engine.run("undone", code.undone)
    engine.run("parent", code.parent)
    _asked(code, Engine(engine.journal, workflows=code.SYNC, clock=clock, budget=Budget(max_wait=timedelta(0))), clock)
    _doubted(code, engine)
    with suppress(code.Killed):
        engine.run("moved", code.unmoved)
    engine.change_version("moved", by="ann", reason="the second comes first")
    engine.recover("moved")
    _begun_again(code, engine)
    world.dies = True
    with suppress(code.Killed):
        engine.run("open", code.plain, "c")


def _begun_again(code: Any, engine: Engine) -> None:
    """A fork that inherits, does anew and is forbidden; and a second generation."""
    engine.run("several", code.several)
    who = {"by": "ann", "reason": "b is wanted twice"}
    engine.fork("several", "forked", at="of-c#1", policies={"of-b#1": NewKey("another one")}, **who)
    engine.recover("forked")
    code.World.ends = False
    with suppress(code.Killed):
        engine.run("restarted", code.several)
    engine.restart("restarted", "of-c#1", policies={"of-c#1": NewKey("another one")}, **who)
    engine.recover("restarted")


def _asked(code: Any, engine: Engine, clock: ManualClock) -> None:
    with suppress(RecoveryError):
        engine.run("waiting", code.waiting)
    for answer in ("red", 7):
        with suppress(RecoveryError):
            Engine(engine.journal, clock=clock).signal(
                "asking", "colour", answer, by="ann"
            )  # knows no workflow, so it cannot refuse
        engine.recover("asking")
    clock.advance(timedelta(minutes=2))
    engine.recover("asking")
    engine.recover("waiting")
    with suppress(RecoveryError):
        engine.run("impatient", code.impatient)
    clock.advance(timedelta(minutes=6))
    engine.recover("impatient")


def _doubted(code: Any, engine: Engine) -> None:
    code.World.dies = True
    with suppress(code.Killed):
        engine.run("notifying", code.notifying, "ann@example.org")
    engine.recover("notifying")
    engine.hold("notifying", by="ann", reason="I look")
    engine.release("notifying", by="ann", reason="I have looked")
    assert engine.recover("notifying").status is Status.IN_DOUBT
    engine.resolve(
        "notifying", "mail#1", OutcomeKind.APPLIED_WITHOUT_VALUE, evidence="the mail's log", by="ann", reason="it is there"
    )
    engine.recover("notifying")
