"""Execution: one run under one claim, as far as it does not concern what effects mean.

Owns which steps begin and end, what becomes durable with what, and how the run stands while some of its branches rest. Knows nothing of
verdicts, threads or tasks. Invariants: a branch's entries become durable in its own order, behind those of the branches that it was begun
from; one append at a time; after a stop no later step of its branch, nor of any that it was begun from, begins (I9).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from recovery.core.drawing import decided, drawn, read
from recovery.core.effect_errors import EffectInterrupted, KeyReused
from recovery.core.entries import BRANCHES, FIRED, FORMS, NOW, PATCHED, PUBLISHED, Decision, Entry, Status, latest_us, step_of
from recovery.core.errors import (
    DecisionFailed,
    Diverged,
    InvariantViolated,
    RecoveryError,
    ReplayError,
    StepInterrupted,
    UsageError,
)
from recovery.core.forgetting import Memory
from recovery.core.gathering import Gate, Gathering
from recovery.core.history import DecisionStep, EffectStep, History, Step
from recovery.core.ids import ROOT, branch_of, check_step_name, other_arguments, step_id
from recovery.core.misfits import Side, asked_decision, recorded_side
from recovery.core.operations import Append, Decided, Enter, Flush, Leave, Now, Op, Turn
from recovery.core.order_errors import RunCancelled
from recovery.core.orders import held_at_least, refusal
from recovery.core.resting import GOES_ON, Rest, Rests, says_less
from recovery.core.returning import recorded_orders
from recovery.core.scopes import Scopes
from recovery.core.steps import OutOfOrder, Steps, upwards
from recovery.core.steps import Unwind as Unwind
from recovery.core.unsaid import Unsaid, not_after


@dataclass(slots=True)
class Execution:
    """The steps of one run under one claim. `steps`: which of them may begin.

    stands, looks_us: how the run's row says that it stands, and when to look again, as it was loaded or last written; None: not known, and believed.
    memory: what it has behind it.
    unsaid: entries that become durable with the next ones that build on them, by branch: a decision that could not be made, a gather.
    """

    history: History
    stands: Status | None = field(default=None, kw_only=True)
    looks_us: int | None = field(default=None, kw_only=True)
    memory: Memory = field(default_factory=Memory, kw_only=True)
    steps: Steps = field(init=False)
    scopes: Scopes = field(init=False, default_factory=Scopes)
    _unsaid: Unsaid = field(init=False, default_factory=Unsaid)
    noted: list[Decision] = field(init=False, default_factory=list)  # what every branch may have seen, and nothing builds on yet
    rests: Rests = field(init=False, default_factory=Rests)
    _orders: dict[str, list[str]] | None = field(init=False, default=None)
    _gates: dict[str, Gate] = field(init=False, default_factory=dict)
    _patches: dict[str, bool] = field(init=False, default_factory=dict)
    _undoings: set[str] = field(init=False, default_factory=set)
    _branched: bool = field(init=False, default=False)
    _riding: bool = field(init=False, default=False)  # something may ride
    durable: int = field(init=False, default=0)  # how many entries of the history are durable for certain

    def __post_init__(self) -> None:
        assert not self.history.past, "who begins anew needs all of the history"
        self.steps = Steps.of(self.history.run_id, self.history.in_order, self.history.generation)
        self.durable = self.history.length

    @property
    def stopped(self) -> Unwind | None:
        """Why the run cannot go on now; the gravest, where several branches have stopped."""
        return self.steps.stopped_at(ROOT)

    def in_turn(self, step: str) -> bool:
        """Whether a step returns only when it is its turn, as recorded."""
        return bool(self._gates) and branch_of(step) in self._gates

    def passed(self, step: str) -> None:
        """`finish`, of a step that was given its recorded outcome, and is not `in_turn`."""
        self.steps.finish(branch_of(step))
        self.memory.pass_over(step, self.history, self.durable)

    # -- steps and branches --------------------------------------------------------------------------------------------

    def begin(self, name: str, branch: str = ROOT, *, awaited: bool = True, undoing: bool = False) -> str:
        """The identity of the step that starts now. Synchronous, so that identities do not depend on scheduling. undoing: no cancel stops it."""
        undoing = undoing or (bool(self._undoings) and self.undoes(branch))
        if self.history.overrides and (reason := refusal(self.history, self.steps.recorded_next(branch), undoing=undoing)):
            self.steps.check(branch)
            raise self.stop(reason, branch)
        try:
            return self.steps.begin(name, branch, awaited=awaited, despite=RunCancelled if undoing else None)
        except OutOfOrder as other:
            raise self._out_of_order(other) from None

    def begin_undoing(self, name: str, branch: str) -> str:
        """As `begin`, of an undoing that a cancel does not keep from beginning either."""
        step = self.begin(name, branch, undoing=True)
        self._undoings.add(step)
        return step

    def finish(self, step: str, error: BaseException | None = None) -> None:
        """The step's call has returned, or raised `error`."""
        branch = branch_of(step)
        self.steps.finish(branch)
        if branch in self._gates:
            self._gates[branch].leave(step)
        if error is None:
            self.memory.pass_by(step, self.history, self.durable)
            return
        if self.steps.stopped_at(branch) is not None:
            return
        recorded = self.history.steps.get(step)
        if isinstance(recorded, EffectStep) and recorded.settled is None:
            self.stop(error if isinstance(error, UsageError) else self.interrupted(recorded, type(error).__name__), branch)
        elif isinstance(error, ReplayError):
            self.stop(error)
        elif not isinstance(error, Exception):
            self.stop(StepInterrupted(run_id=self.history.run_id, step=step, reason=type(error).__name__), branch)
        elif recorded is None and not self._unsaid.of(step):
            reason = {"run_id": self.history.run_id, "step": step, "reason": type(error).__name__}
            self.steps.unrecorded[branch] = error if isinstance(error, RecoveryError) else StepInterrupted(**reason)
        if isinstance(error, Exception):
            self.memory.pass_by(step, self.history, self.durable)

    def branch(self, name: str, parent: str = ROOT) -> str:
        """A branch that begins now, and ends with the workflow at the latest."""
        path = self.begin(name, parent, awaited=False)
        self._note(path, BRANCHES, 1)
        self.scopes.inherit(path, parent)
        if parent in self._gates:
            self._gates[path] = self._gates[parent]
        return path

    def gather(self, name: str, count: int, parent: str = ROOT) -> Gathering:
        """Branches that begin now and are waited for together: a step of its own, until `joined`."""
        step = self.begin(name, parent)
        self._note(step, BRANCHES, count)
        gate = self._gates.get(parent)
        nested = gate is not None
        if gate is None:
            if self._orders is None:
                self._orders = recorded_orders(self.history)
            order = self._orders.get(step)
            gate = Gate(order) if order else None
        gathering = Gathering(step, count, gate, nested)
        if gate is not None:
            self._gates |= {gathering.path(number): gate for number in range(count)}
        gathering.open()
        return gathering

    def ended(self, gathering: Gathering, number: int) -> None:
        """A gather's branch has come to its end by itself. Raises Unwind if its record goes on."""
        if self.steps.stopped_at(gathering.path(number)) is None:
            self._check_replayed(gathering.path(number))

    def joined(self, gathering: Gathering) -> None:
        """Every branch of a gather has ended. Raises the Unwind of the one that stopped: nothing may follow on it (I9)."""
        gathering.close()
        self.finish(gathering.step)
        if (stopped := self.steps.stopped_at(gathering.step)) is not None:
            raise stopped

    def patched(self, name: str, branch: str = ROOT) -> bool:
        """Whether this run goes by changed code: asked for the first time, it does unless the asking branch's record goes on behind this place."""
        self.steps.check(branch)
        step = step_id(PATCHED, check_step_name(name), 1)  # of no branch: whichever asks first, the answer is the run's
        if name not in self._patches:
            self._patches[name] = step in self.history.steps or self.steps.recorded_next(branch) is None
            if self._patches[name] and step not in self.history.steps:
                self.noted.append(Decision(step=step, fingerprint="", value=None, form=PATCHED, at_us=0))
        return self._patches[name]

    def say(self, entry: Decision) -> None:
        """Durable with the next entries that build on its branch."""
        self._unsaid.say(entry)

    def _note(self, step: str, form: str, value: Any) -> None:
        """A fact about the workflow's code, which must be as it was recorded."""
        self._branched = self._branched or form == BRANCHES
        if (before := self.stated(step, form, lambda: value)) != value:
            raise self.diverge(step, f"{before} branches", f"{value} branches")

    def stated(self, step: str, form: str, value: Callable[[], Any]) -> Any:
        """What is recorded of the workflow itself, or `value` now: durable with whatever builds on it, since a replay would find it again."""
        recorded = self.history.steps.get(step)
        if recorded is not None:
            return self.expected(step, recorded, form).value
        said = Decision(step=step, fingerprint="", value=value(), form=form, at_us=0)
        self._unsaid.say(said)
        return said.value

    def undo(self, step: str) -> None:
        """An undoing begins: the steps below it return in turn with those of its branch, no deadline bounds them and no cancel stops them."""
        self._undoings.add(step)
        self.scopes.unbind(step)
        if (parent := branch_of(step)) in self._gates:
            self._gates[step] = self._gates[parent]

    def undoes(self, path: str) -> bool:
        """Whether a step or branch is an undoing, or part of one."""
        return bool(self._undoings) and not self._undoings.isdisjoint(upwards(path))

    def check_complete(self) -> None:
        """The workflow has ended: every step that it began must have ended before, and every recorded one must have been replayed.

        Raises Unwind. An outcome over an unsettled step would hide what that step may have done."""
        self._check_replayed(ROOT)
        for effect in self.history.unsettled:
            raise self.stop(self.interrupted(effect, "the workflow ended first"))
        self.steps.check_awaited()

    def _check_replayed(self, branch: str) -> None:
        try:
            self.steps.check_replayed(branch)
        except OutOfOrder as missing:
            raise self._out_of_order(missing) from None

    def interrupted(self, effect: EffectStep, reason: str) -> EffectInterrupted:
        intent = effect.intent
        about = {"run_id": self.history.run_id, "step": effect.step, "effect": intent.effect, "key": intent.key}
        return EffectInterrupted(**about, reason=reason)

    def unsaid(self, at_us: int, branch: str = ROOT) -> list[Decision]:
        """What becomes durable at a time with the next entries of a branch: it was begun from some of it, and may build on the rest."""
        return [replace(entry, at_us=entry.at_us or at_us) for entry in (*self._unsaid.before(branch), *self.noted)]

    def leaves_open(self, error: Exception) -> bool:
        """Whether a later try can still end this run: the code was wrong and nothing happened, or a decision could not be made this time."""
        if isinstance(error, DecisionFailed):
            return any(entry.step == error.step for entry in self.unsaid(0))
        return isinstance(error, UsageError | ReplayError)

    def stop(self, error: RecoveryError, branch: str | None = None) -> Unwind:
        """Poison a branch and where it was begun from, or the whole run: nothing may begin there after this."""
        return self.steps.stop(error, branch)

    def diverge(self, step: str, recorded: str, attempted: str, asked: Side | None = None, *, at: str = "") -> Unwind:
        """Stop the whole run: its code asks for something else than is recorded. asked: that, whole. at: the step that is recorded here,
        where that is another one."""
        there = self.history.steps.get(at or step)
        sides = {"recorded": recorded_side(there) if there else {"is": recorded}, "attempted": asked or {"is": attempted}}
        seq = there.seq if there else self.history.length
        about = {"run_id": self.history.run_id, "seq": seq, "step": step}
        return self.stop(Diverged(**about, recorded=recorded, attempted=attempted, sides=sides))

    def _out_of_order(self, found: OutOfOrder) -> Unwind:
        return self.diverge(found.step, f"step {found.at}", found.attempted, at=found.at)

    async def turn(self, step: str) -> None:
        """Let a step of a gather return when all have that were completed before it, when it was recorded."""
        gate = self._gates.get(branch_of(step))
        if gate is not None and (waiting := gate.arrive(step)) is not None:
            await Turn(waiting)

    # -- decisions -----------------------------------------------------------------------------------------------------

    async def decide(self, step: str, fingerprint: str, subject: Any) -> Decision:
        """The recorded decision, or a new one, durable before it is returned.

        A failure is kept back until something builds on it: a run that ends with it is left open, and may decide again."""
        if step not in self.history.steps:
            await self.flush()
        return await self.chosen(step, fingerprint, "", partial(decided, subject))

    async def draw(self, step: str, form: str) -> Decision:
        """The recorded reading of the clock or random number, or a new one, durable before it is returned."""
        return await self.chosen(step, "", form, read if form == NOW else drawn)

    async def chosen(
        self, step: str, fingerprint: str, form: str, choose: Callable[[], Coroutine[Op[Any], Any, Decided]]
    ) -> Decision:
        """What is recorded, or what `choose` gives now."""
        recorded = self.history.steps.get(step)
        if recorded is None:
            decided = await choose()
            value = self.history.without_secrets(decided.value) if decided.error else decided.value  # an exception's message
            entry = Decision(step=step, fingerprint=fingerprint, value=value, error=decided.error, form=form, at_us=await Now())
            if entry.error and not decided.final:
                self.say(entry)
            else:
                await self.append(step, [entry])
        else:
            entry = self.expected(step, recorded, form)
            if other_arguments(entry.fingerprint, fingerprint):
                asked = asked_decision(step, form, fingerprint)
                raise self.diverge(
                    step, f"a decision from arguments {entry.fingerprint[:12]}", f"one from {fingerprint[:12]}", asked
                )
        await self.turn(step)
        return entry

    def expected(self, step: str, recorded: Step, form: str) -> Decision:
        """What is recorded, if it is a decision of this form. Raises Unwind."""
        if not isinstance(recorded, DecisionStep):
            raise self.diverge(step, f"effect {recorded.intent.effect}", FORMS[form], asked_decision(step, form))
        if recorded.decision.form != form:
            raise self.diverge(step, FORMS[recorded.decision.form], FORMS[form], asked_decision(step, form))
        return recorded.decision

    # -- what becomes durable ----------------------------------------------------------------------------------------

    async def append(
        self,
        step: str,
        wanted: Sequence[Entry] | Callable[[int], Sequence[Entry]],
        rest: Rest = GOES_ON,
        *,
        rides: bool = False,
    ) -> None:
        """Make entries of one step durable, with what they build on. A function: of how many entries will stand before them.

        rides: with the run's next entries, where its row stays as it is until then."""
        if not wanted:
            return
        if self._branched:
            await Enter()
        try:
            branch = branch_of(step)
            unsaid = self.unsaid(await Now(), branch) if self._unsaid or self.noted else []
            entries = wanted(self.history.length + len(unsaid)) if callable(wanted) else wanted
            if not entries:
                return
            if unsaid:
                unsaid = not_after(unsaid, min(map(latest_us, entries)))
            standing = held_at_least(self.history, entries, self.rests.standing(branch, rest))
            rides = rides and self.stands is standing.status is Status.RUNNING
            await self._stored((*unsaid, *entries), standing, rides)
            self._were_said(unsaid)
        finally:
            if self._branched:
                await Leave()

    def _were_said(self, unsaid: Sequence[Decision]) -> None:
        """What was to become durable with something else has."""
        for said in unsaid:
            if said.form in {FIRED, PATCHED}:
                del self.noted[0]
            else:
                self._unsaid.said(said)
        self.memory.leave([said.step for said in unsaid if said.form == PUBLISHED])

    def write(self, entry: Entry, *, rides: bool = False) -> Coroutine[Op[Any], Any, None]:
        """As `append`, of one entry of a run that goes on. Nearly always nothing else becomes durable with it, and nobody else appends."""
        if self._branched or self._unsaid or self.noted or self.rests or self.history.overrides:
            return self.append(step_of(entry), [entry], rides=rides)
        return self._stored((entry,), GOES_ON, rides and self.stands is Status.RUNNING)

    async def _stored(self, entries: tuple[Entry, ...], standing: Rest, rides: bool) -> None:
        """Raises Unwind, and KeyReused: nothing was written and nothing will be sent; the run may end with it, and take no later step."""
        try:
            await Append(entries, *standing, False, rides)
        except KeyReused:
            raise
        except Exception as error:
            raise self._refused(error) from error
        self._riding = rides
        self.stands, self.looks_us = standing.status, standing.next_look_us
        for entry in entries:
            self.history.add(entry)
        if not rides:
            self.durable = self.history.length

    async def flush(self) -> None:
        """Make durable what rides: nothing waits, chooses or leaves on top of it. Raises Unwind."""
        if not self._riding:
            return
        if self._branched:
            await Enter()
        try:
            await Flush()
            self._riding = False
            self.durable = self.history.length
        except Exception as error:
            raise self._refused(error) from error
        finally:
            if self._branched:
                await Leave()

    def _refused(self, error: Exception) -> Unwind | InvariantViolated:
        """What becomes of the run where nothing was made durable."""
        if isinstance(error, RecoveryError):
            return self.stop(error)
        return InvariantViolated(f"run {self.history.run_id}: an append failed in a way that no store may")  # our bug, told as one

    def understated(self, branch: str, rest: Rest, now_us: int | None = None) -> bool:
        """Whether the run's row says less than that this branch rests like this: what was taken in before it wrote that the run goes on, or whoever
        wrote that died before the verdict. Nobody who lists the runs in doubt, or those that are due, would find it.

        now_us: it also asks whether the row names another next look: a later one, or one that has passed and for which somebody would come in vain."""
        return says_less(self.stands, self.looks_us, self.rests.standing(branch, rest), now_us)
