"""Judging again: every recorded verdict against the evidence that stood before it.

Owns the replay of `conclude` over a journal's prefixes. Knows nothing of what really happened. Invariant: what it compares is the row that
the journal names with the row that the same evidence gives now.
"""

from __future__ import annotations

from collections.abc import Iterator

from recovery.core.entries import Entry, Observation, Settled, Verdict
from recovery.core.history import EffectStep, Noted, fold
from recovery.core.ids import ROOT
from recovery.core.judgement import conclude
from recovery.core.rows import Action
from recovery.core.timing import Situation
from recovery.core.verdicts import ROW_BY_NAME
from recovery.storage.reading import Whole
from recovery.testing.worlds import World


def judged_again(world: World, loaded: Whole) -> Iterator[str]:
    """A sentence per verdict or settlement that its own evidence does not give. What gave none is added to `world.proven`, with everything
    that this depends on, and is not judged another time: an entry's digest stands for everything before it, too."""
    late = [item for noted in loaded.history.effects for item in noted.observations if item.seq is None]
    about = (tuple(loaded.late), loaded.restored, world.scopes, tuple(sorted(loaded.contracts)))
    for seq, row in enumerate(loaded.rows, start=1):
        judged = (row.digest, about)
        if world.proven is not None and judged in world.proven:
            continue
        problems = list(_misjudged(world, loaded, seq, late))
        yield from problems
        if world.proven is not None and not problems:
            world.proven.add(judged)


def _misjudged(world: World, loaded: Whole, seq: int, late: list[Noted]) -> Iterator[str]:
    entry = loaded.entries[seq - 1]
    if not isinstance(entry, Verdict | Settled) or entry.step == ROOT or _of_the_run(entry):
        return
    if isinstance(entry, Settled) and entry.heuristic:
        return  # a person's word, which needs no row to license it
    about = f"{loaded.run.run_id}: entry {seq} settles or judges {entry.step} by {entry.row or 'no row'}"
    if entry.row not in ROW_BY_NAME:
        yield f"{about}, which is no row"
        return
    if missing := set(ROW_BY_NAME[entry.row].assumes) - set(entry.assumptions):
        yield f"{about} without naming {', '.join(sorted(missing))}"
    # A superseded worker may have added evidence while this was judged, so both readings are right.
    # What is judged since a restore is judged as restored, which the entry itself does not say; and a cancel may have been taken in by another
    # branch while this was judged.
    knowing: list[list[Observation]] = [[], [noted.observation for noted in late]] if late else [[]]
    wishes = {False, loaded.history.cancelled is not None}
    readings = [(known, restored, wanted) for known in knowing for restored in {False, loaded.restored} for wanted in wishes]
    if not any(entry.row == _row(world, loaded, entry, seq, *reading) for reading in readings):
        yield f"{about}, and judging again gives {_row(world, loaded, entry, seq, *readings[0])}"


def _of_the_run(entry: Verdict | Settled) -> bool:
    return isinstance(entry, Verdict) and entry.action == Action.DIVERGE


def _row(
    world: World, loaded: Whole, entry: Verdict | Settled, seq: int, late: list[Observation], restored: bool, wanted: bool
) -> str:
    before: list[Entry] = loaded.entries[: seq - 1]
    history = fold(loaded.run.run_id, before, late)
    step = history.steps[entry.step]
    assert isinstance(step, EffectStep)
    askable = world.effects[step.intent.effect]
    situation = Situation(
        now_us=entry.at_us,
        contracts=(loaded.contracts[step.intent.contract],),
        budget=world.budget,
        can_probe=askable.can_probe,
        can_close=askable.can_close,
        can_cancel=askable.can_cancel,
        restored=restored,
        held=history.held is not None,
        wanted=wanted or history.cancelled is None or bool(step.intent.undoes),
        incarnation=loaded.rows[seq - 1].epoch.incarnation,
        scope_changed=entry.row == "scope-changed" and bool(world.scopes - {step.intent.scope}),
    )
    return conclude(step, situation, entry.observation if isinstance(entry, Settled) else None).row.name
