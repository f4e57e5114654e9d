"""Awaiting: what open runs wait for from outside, for whoever may answer.

Owns that list. Procedures over operations. Invariants: it is read from verified journals, but for the inbox, whose unread answers are told as such; it claims and changes
nothing; one run that cannot be read hides no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from recovery import logs
from recovery.core.entries import JSON, UNFIT, Status
from recovery.core.errors import RecoveryError
from recovery.core.history import DecisionStep, History
from recovery.core.ids import branch_of, check_run_id
from recovery.core.mail import LAPSE, NOTE, Known, slot_of, told_with, waits_in
from recovery.core.operations import Use
from recovery.ports import Journal, Message, RunRow
from recovery.storage.listing import log_damaged, readable
from recovery.storage.reading import Loaded, read

OPEN: Final = tuple(status for status in Status if not status.settled)
_PAGE: Final = 500

_log: Final = logs.logger("waits")


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """One open wait. queue: of a topic, whose messages `send` gives; else of one answer, which `signal` gives.

    type: the answer's, by name. by: who may answer; empty for anybody. about: the fingerprint of the call that is to be approved, with its effect and arguments; ""
    for none. since_us, until_us: in microseconds since the Unix epoch. unfit: what was said and did not fit, and why. said_by: who has answered already, where the run has
    not taken it in yet; "" for nobody.
    """

    run_id: str
    workflow: str
    step: str
    name: str
    queue: bool
    type: str
    by: tuple[str, ...]
    about: str
    effect: str
    arguments: JSON
    since_us: int
    until_us: int | None
    unfit: tuple[str, ...]
    said_by: str

    @property
    def command(self) -> str:
        """The one that answers it."""
        return told_with(self.run_id, self.step, self.name, queue=self.queue, fingerprint=self.about)


async def waits(run_id: str | None = None) -> tuple[Awaited, ...]:
    """What one run waits for, or all open ones, by run id and in the order of their steps. Raises RunNotFound, JournalCorrupt for the one."""
    if run_id is not None:
        return await Use(lambda journal: _of(journal, read(journal, check_run_id(run_id))))
    found: list[Awaited] = []
    for row in await _open_runs():
        try:
            found += await Use(lambda journal, row=row: _of(journal, read(journal, row.run_id)))  # type: ignore[misc]  # bound now
        except RecoveryError as error:  # told by `recover doubt` and `recover show`
            _log.warning("the waits of a run cannot be read", run_id=row.run_id, problem=type(error).__name__)
    return tuple(found)


async def awaited_by(loaded: Loaded) -> tuple[Awaited, ...]:
    """The same of a run that was just read."""
    return await Use(lambda journal: _of(journal, loaded))


async def _open_runs() -> list[RunRow]:
    """Every run that is not settled, page by page."""
    found: list[RunRow] = []
    while True:
        after = found[-1].run_id if found else ""
        page = await Use(lambda journal, after=after: readable(journal, log_damaged, statuses=OPEN, limit=_PAGE, after=after))  # type: ignore[misc]  # bound now
        found += page
        if len(page) < _PAGE:
            return found


def _of(journal: Journal, loaded: Loaded) -> tuple[Awaited, ...]:
    if loaded.run.status.settled:
        return ()
    known = [wait for wait in waits_in(loaded.history) if wait.ended is None]
    inbox = journal.inbox(loaded.run.run_id) if known else []
    return tuple(_awaited(loaded, wait, inbox) for wait in known)


def _awaited(loaded: Loaded, known: Known, inbox: Sequence[Message]) -> Awaited:
    value: dict[str, Any] = known.wait.value
    about = value.get("about") or {}
    return Awaited(
        run_id=loaded.run.run_id,
        workflow=loaded.run.workflow,
        step=known.step,
        name=value["name"],
        queue=value["queue"],
        type=value.get("type", ""),
        by=tuple(value.get("by", ())),
        about=known.wait.fingerprint,
        effect=about.get("effect", ""),
        arguments=about.get("arguments"),
        since_us=known.wait.at_us,
        until_us=value["until_us"],
        unfit=tuple(_unfit(loaded.history, known.step)),
        said_by=_said_by(loaded.history, known, inbox),
    )


def _unfit(history: History, step: str) -> list[str]:
    notes = (note.decision for note in history.steps.values() if isinstance(note, DecisionStep) and note.decision.form == UNFIT)
    return [f"by {note.value['by']}: {note.value['problem']}" for note in notes if branch_of(note.step) == step]


def _said_by(history: History, known: Known, inbox: Sequence[Message]) -> str:
    if known.wait.value["queue"]:
        said = (m for m in inbox if (m.kind, m.name) == (NOTE, known.wait.value["name"]) and m.number not in history.heard)
    else:
        slot = slot_of(history, known.step)
        said = (m for m in inbox if m.slot == slot and m.kind != LAPSE)
    return next((message.by for message in said), "")
