"""The journal beside a training run's checkpoints: where it stood, what came later, and which commits it has heard of.

Owns the reading of a run for that purpose. Must not know arrays or directories. Invariant: every answer comes from a verified chain, and a position is
believed only if the chain has that very digest there; a journal of another life, a shorter one and a changed one are refused.

A commit is a run of its own, `RUN.checkpoint-NAME`, whose input and outcome say which checkpoint it is. So it needs no entry of a new kind, never moves
the head of a run that somebody works on, and saying it twice returns the first record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from recovery.checkpoint.continuing import LaterEffect
from recovery.checkpoint.errors import PositionUnknown
from recovery.checkpoint.lifecycle import Look
from recovery.checkpoint.manifest import JournalPosition, Manifest, digest
from recovery.core.chain import genesis
from recovery.core.entries import OutcomeKind, Settled
from recovery.core.errors import DefinitionError, RunNotFound
from recovery.core.history import EffectStep
from recovery.core.ids import check_run_id
from recovery.core.rows import Action
from recovery.core.terms import Kind as Class
from recovery.definitions.run import Run
from recovery.definitions.workflow import workflow
from recovery.engine.asynchronous import AsyncEngine
from recovery.engine.sync import Engine
from recovery.storage.reading import Whole, read

_RUN_ID_MAX: Final = 128

_NOT_SEEN: Final = frozenset({OutcomeKind.NOT_EXECUTED, OutcomeKind.REJECTED})
"""Outcomes of an evaluation that showed nobody anything."""


@dataclass(frozen=True)
class CommittedCheckpoint:
    """The record that a checkpoint exists. `run_id`: of the training run; `position`: of its journal, as the manifest says."""

    run_id: str
    name: str
    id: str
    kind: str
    sequence: int
    step: int
    position: int


@workflow(name="checkpoint-committed")
def checkpoint_committed(run: Run, said: CommittedCheckpoint) -> CommittedCheckpoint:  # noqa: ARG001  # the input is the record
    """Nothing to do: what it is told is durable before it is called."""
    return said


class RunJournal:
    """A `JournalLink` to one run of an engine of either colour. Its methods read and write the database in the calling thread.

    evaluates: effects that look at a final test set, by name, with the argument that names the set. Such an effect counts as a look from its intent
    on, unless it is proven that it did not happen.
    """

    def __init__(self, engine: Engine | AsyncEngine, run_id: str, *, evaluates: Mapping[str, str] | None = None) -> None:
        self.run_id = check_run_id(run_id)
        self._engine = engine
        self._recorder = engine if isinstance(engine, Engine) else Engine(engine.journal, clock=engine.clock)
        self._evaluates = dict(evaluates or {})

    def position(self) -> JournalPosition:
        """Where the journal stands, verified; 0 entries for a run that has not begun. To be taken before the state is captured."""
        loaded = self._load()
        if loaded is None:
            return JournalPosition(self.run_id, 0, genesis(self._engine.journal.namespace(), self.run_id))
        return JournalPosition(self.run_id, loaded.run.head, loaded.run.head_digest)

    def after(self, position: JournalPosition) -> tuple[LaterEffect, ...]:
        """The keyed effects that had no outcome at `position`, in the order of their intents. Reads change nothing and are left out.

        Raises PositionUnknown, JournalCorrupt, RunForgotten, and what the store raises.
        """
        if position.run_id != self.run_id:
            raise self._unknown(position, f"this is the journal of run {self.run_id!r}")
        loaded = self._load()
        self._require_known(position, loaded)
        if loaded is None:
            return ()
        settled = {
            entry.step for entry in loaded.entries[: position.position] if isinstance(entry, Settled)
        }  # the entries' order is that of their rows
        return tuple(
            _told(step)
            for step in loaded.history.effects
            if step.step not in settled and loaded.contracts[step.intent.contract].kind is not Class.READ
        )

    def looks(self) -> Iterable[Look]:
        """The looks at final test sets that happened or may have happened. Raises what reading a run raises, and DefinitionError for an argument that does not exist."""
        loaded = self._load()
        for step in loaded.history.effects if loaded is not None else ():
            argument = self._evaluates.get(step.intent.effect)
            if argument is None:
                continue
            if argument not in step.intent.arguments:
                problem = (
                    f"effect {step.intent.effect} has no argument of that name; it has {', '.join(step.intent.arguments) or 'none'}"
                )
                advice = "Name the argument that says which test set is looked at."
                raise DefinitionError(what="evaluates: the argument", name=argument, problem=problem, advice=advice)
            if not (step.settled is not None and step.settled.outcome in _NOT_SEEN):
                yield Look(str(step.intent.arguments[argument]), step.intent.key)

    def record(self, manifest: Manifest) -> None:
        """Say that a checkpoint is committed: what `CheckpointStore.save(record=...)` wants. Durable on return; repeating it changes nothing."""
        said = CommittedCheckpoint(
            run_id=self.run_id,
            name=manifest.name,
            id=manifest.id,
            kind=manifest.kind.value,
            sequence=manifest.sequence,
            step=manifest.step,
            position=manifest.journal.position if manifest.journal is not None else 0,
        )
        self._recorder.run(self._record_id(manifest.name), checkpoint_committed, said)

    def heard_of(self, manifest: Manifest) -> bool:
        """Whether the commit of a checkpoint is recorded."""
        row = self._engine.journal.find(self._record_id(manifest.name))
        return row is not None and row.status.settled

    def _record_id(self, name: str) -> str:
        suffix = f".checkpoint-{name}"
        if len(self.run_id) + len(suffix) <= _RUN_ID_MAX:
            return self.run_id + suffix
        return f"{self.run_id[:64]}.{digest(self.run_id.encode())[:12]}{suffix}"

    def _load(self) -> Whole | None:
        try:
            return read(self._engine.journal, self.run_id)
        except RunNotFound:
            return None

    def _require_known(self, position: JournalPosition, loaded: Whole | None) -> None:
        """The chain has this digest at this place. A chain commits to everything before it, so that one comparison is enough."""
        rows = loaded.rows if loaded is not None else []
        if position.position > len(rows):
            raise self._unknown(position, f"there are {len(rows)}: it is older than the checkpoint, or not its journal")
        start = genesis(self._engine.journal.namespace(), self.run_id)
        found = rows[position.position - 1].digest if position.position else start
        if found != position.digest:
            raise self._unknown(position, "these are others: it is the journal of another life of the run, or of another database")

    def _unknown(self, position: JournalPosition, problem: str) -> PositionUnknown:
        return PositionUnknown(run_id=position.run_id, position=position.position, problem=problem)


def _told(step: EffectStep) -> LaterEffect:
    intent, settled = step.intent, step.settled
    parked = step.verdicts[-1] if settled is None and step.verdicts and step.verdicts[-1].action == Action.PARK else None
    result: dict[str, Any] = {}
    if settled is not None:
        result = {"outcome": settled.outcome.value, "value": settled.value, "error": settled.error}
    return LaterEffect(
        step=step.step,
        effect=intent.effect,
        environment=intent.environment,
        scope=intent.scope,
        key=intent.key,
        arguments=intent.arguments,
        doubt=parked.reason if parked is not None else "",
        **result,
    )
