"""Continuing: what a restore must know of the effects that came after the state it brought back.

Owns the refusal to send an effect again before it is known what became of it. Must not know journals or stores. Invariant: restoring a state undoes no
receipt. An effect that a journal records after the state's position is adopted or reconciled, and never merely repeated; where no journal was asked,
nothing is known, and nothing may be sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from recovery.checkpoint.errors import EffectsUnreconciled
from recovery.checkpoint.lifecycle import Exposure, ExposureRecord, exposure_from
from recovery.checkpoint.manifest import JournalPosition, Manifest
from recovery.checkpoint.validating import Checkpoint

NAMED: int = 5
"""How many keys an error names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterEffect:
    """A keyed effect that had no outcome yet where the state was captured.

    arguments, value: as the journal stores them. outcome: applied, rejected, ..., or "" while there is none. doubt: why it is in doubt, or "".
    """

    step: str
    effect: str
    environment: str
    scope: str
    key: str
    arguments: Any
    outcome: str = ""
    value: Any = None
    error: str = ""
    doubt: str = ""

    @property
    def settled(self) -> bool:
        return self.outcome != ""


class JournalLink(ExposureRecord, Protocol):
    """The journal beside a run's checkpoints."""

    def after(self, position: JournalPosition) -> tuple[LaterEffect, ...]:
        """What had no outcome at `position`, in the order of the journal. Raises PositionUnknown and what reading a run raises."""
        ...

    def record(self, manifest: Manifest) -> None:
        """Say that a checkpoint is committed. Durable on return; repeating it changes nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore brought back, and what it must not repeat. effects: None where no journal was asked."""

    checkpoint: Checkpoint
    effects: tuple[LaterEffect, ...] | None

    @property
    def unreconciled(self) -> tuple[LaterEffect, ...]:
        """Those without an outcome. Empty where no journal was asked; then nothing is known of them."""
        return tuple(each for each in self.effects or () if not each.settled)

    def require_reconciled(self) -> None:
        """Raise EffectsUnreconciled unless every later effect has an outcome."""
        position = self.checkpoint.manifest.journal
        if position is None:
            return
        if self.effects is None:
            raise EffectsUnreconciled(run_id=position.run_id, what="no journal was asked what came after the restored checkpoint")
        if open_ones := self.unreconciled:
            keys = ", ".join(each.key for each in open_ones[:NAMED])
            more = f" and {len(open_ones) - NAMED} more" if len(open_ones) > NAMED else ""
            what = f"{len(open_ones)} effects after the restored checkpoint have no outcome yet ({keys}{more})"
            raise EffectsUnreconciled(run_id=position.run_id, what=what)

    def before_sending(self, key: str, *, environment: str = "") -> LaterEffect | None:
        """Ask before an effect is sent outside of the run's own workflow: None if it may be; otherwise it happened, and this is its outcome to adopt.

        environment: "" for any. Raises EffectsUnreconciled while any later effect has no outcome.
        """
        self.require_reconciled()
        return next((each for each in self.effects or () if each.key == key and environment in {"", each.environment}), None)

    def asked_again(self, journal: JournalLink) -> Restored:
        """The same state, with what the journal says by now."""
        position = self.checkpoint.manifest.journal
        return replace(self, effects=() if position is None else journal.after(position))


def exposed(checkpoint: Checkpoint, journal: JournalLink | None) -> Checkpoint:
    """The checkpoint with every look at a final test set that the journal knows of: no restore takes one back."""
    state = checkpoint.state
    if journal is None or not isinstance(state, Mapping) or not isinstance(state.get("lifecycle"), Mapping):
        return checkpoint
    lifecycle = state["lifecycle"]
    merged = Exposure.from_json(lifecycle.get("exposure")).merge(exposure_from(journal))
    return replace(checkpoint, state={**state, "lifecycle": {**lifecycle, "exposure": merged.to_json()}})


def later(checkpoint: Checkpoint, journal: JournalLink | None) -> tuple[LaterEffect, ...] | None:
    """What `Restored` is told. The commit is recorded where a crash came before that."""
    position = checkpoint.manifest.journal
    if position is None:
        return ()
    if journal is None:
        return None
    effects = journal.after(position)  # first: a journal that does not know the position is another run's, and is told nothing
    journal.record(checkpoint.manifest)
    return effects
