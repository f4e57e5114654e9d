"""Hindsight: what becomes known about a run outside its fence, and what a settled run still records.

Owns `observe`, which keeps a push, `record`, which journals contradictions of a run that is settled as a whole, and `reread`, which binds
its calls again. Procedures over operations. Invariants: an outcome never changes here; without new evidence a settled run is neither claimed nor appended to.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from recovery.claims import World, claim, load, visit
from recovery.core.contradictions import news
from recovery.core.entries import Answered, AnswerKind, Observation, Source
from recovery.core.errors import FencedOut, LeaseUnavailable, NotObservable, RunNotFound
from recovery.core.findings import open_items
from recovery.core.history import EffectStep
from recovery.core.ids import Epoch, check_run_id
from recovery.core.judgement import CONTRADICTED
from recovery.core.machine import Unwind
from recovery.core.operations import Append, Execute, Now, Use
from recovery.core.policy import Budget
from recovery.core.rereading import Rereading
from recovery.crashpoints import around
from recovery.definitions.effect import Bound
from recovery.definitions.workflow import Workflow
from recovery.ports import Journal
from recovery.storage.reading import Loaded, read
from recovery.storage.resting import late_item, sealing_of
from recovery.storage.writer import OUTSIDE, writer_of

TELLING: Final = frozenset(
    {
        AnswerKind.FOUND,
        AnswerKind.REFUSED,
        AnswerKind.GONE,
        AnswerKind.CLOSED,
        AnswerKind.MISMATCH,
        AnswerKind.FOREIGN,
        AnswerKind.UNSTORABLE,
    }
)
"""Answers that state a fact without having been asked for; so does that of a batch whose every item is decided. Absence and silence mean something only as answers to a question."""


async def observe(run_id: str, step: str, answered: Answered, source: Source) -> bool:
    """Keep what somebody was told about a step, outside the fence; it is judged at the next load. False: it was known already.

    Durable on return; safe to repeat. Raises RunNotFound and NotObservable.
    """
    if source not in OUTSIDE:
        raise NotObservable(
            run_id=run_id, step=step, problem=f"{source.value} is no source from outside", advice="Use push or late."
        )
    decided = answered.kind is AnswerKind.ITEMS and not open_items(answered)
    if answered.kind not in TELLING and not decided:
        raise NotObservable(
            run_id=run_id, step=step, problem=f"{answered.kind.value} is no fact without a question ({answered.detail or 'no detail'})",
            advice="Observe Found, Refused, Gone, Closed, Mismatch or Foreign, and a batch with its effect, when every item is decided.",
        )  # fmt: skip
    loaded = await Use(lambda journal: _loaded(journal, run_id))
    effect = loaded.history.known(step)
    if not isinstance(effect, EffectStep):
        raise NotObservable(
            run_id=run_id, step=step, problem="the run has no effect at that step", advice=f"See `recover show {run_id}`."
        )
    if any((noted.observation.source, noted.answer) == (source, answered) for noted in effect.observations):
        return False
    now_us = await Now()
    epoch = loaded.run.epoch
    observation = Observation(
        step=step, source=source, asked_at_us=now_us, observed_at_us=now_us, answer=answered, epoch=str(epoch)
    )
    await keep(run_id, epoch, observation)
    return True


async def reread(workflow: Workflow[..., Any], loaded: Loaded, budget: Budget) -> dict[str, Bound[Any]]:
    """The calls of a run's settled effects, bound by its workflow as it is today; fewer where its code no longer asks for them."""
    machine = Rereading(
        history=loaded.history, epoch=loaded.run.epoch, budget=budget, deadline_us=0, contracts=dict(loaded.contracts)
    )
    with suppress(Unwind, BaseExceptionGroup):
        await Execute(workflow, loaded.opened.input, machine, None)
    return machine.calls


async def keep(run_id: str, epoch: Epoch, observation: Observation) -> None:
    """Keep one observation outside the fence. Durable on return."""
    sealing = await Use(lambda journal: sealing_of(journal, run_id))
    item = late_item(run_id, epoch, observation.observed_at_us, observation, sealing)
    with around("evidence"):
        await Use(lambda journal: journal.add_evidence(item))


async def record(world: World, seen: Loaded) -> Loaded:
    """A settled run with its contradictions recorded, each once; the run as it was where there is nothing new.

    The claim does not wait for anybody: nothing of a settled run can be taken from its owner. Who loses the race leaves it to the winner.
    """
    world.raise_mark(seen.highest_us)
    if not news(seen.history, seen.contracts, await Now()):
        return seen

    async def write(loaded: Loaded) -> None:
        run, entries = loaded.run, news(loaded.history, loaded.contracts, await Now())
        if entries:
            with suppress(FencedOut):
                await writer_of(loaded, world.token).commit(Append(tuple(entries), run.status, None, CONTRADICTED, keeps_look=True))

    claimed = await claim(world, seen.run)
    if claimed is not None:
        with suppress(LeaseUnavailable):
            await visit(world, claimed, write)
    return await load(seen.run.run_id)


def _loaded(journal: Journal, run_id: str) -> Loaded:
    if journal.find(check_run_id(run_id)) is None:
        raise RunNotFound(run_id=run_id, database=journal.url)
    return read(journal, run_id)
