"""The machine: one run, from its history to its next outcome, as procedures over operations.

Owns step identity, replay, and the loop that judges an intent until it is settled, waits or parks. The same loop serves a first
run (an intent without attempts: send) and a recovery (an attempt without an answer: ask, re-send, wait or park). Knows nothing of
threads, event loops, databases or clocks. Invariants: an attempt is durable before its Send is asked for (I4); nothing is sent for a
step whose replay differs from its record; after a stop no further step of the run begins (I9).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple

from recovery.core.contracts import Contract
from recovery.core.contradictions import records, taken_in
from recovery.core.entries import (
    BRANCHES,
    FORMS,
    NOW,
    Answered,
    Attempt,
    Decision,
    Entry,
    Intent,
    Observation,
    Settled,
    Source,
    Status,
)
from recovery.core.errors import (
    Diverged,
    EffectInDoubt,
    EffectInterrupted,
    InvariantViolated,
    KeyReused,
    RecoveryError,
    ReplayError,
    StepInterrupted,
    Unresolved,
    UsageError,
)
from recovery.core.evidence import Situation
from recovery.core.gathering import Gate, Gathering
from recovery.core.history import DecisionStep, EffectStep, History, Step
from recovery.core.ids import ROOT, Epoch, digest_bytes
from recovery.core.instants import iso
from recovery.core.judgement import Judgement, conclude
from recovery.core.operations import (
    Append,
    Ask,
    Cancel,
    Close,
    Decide,
    Decided,
    Draw,
    Enter,
    HoldContract,
    Leave,
    Now,
    Op,
    Send,
    Sleep,
    Turn,
)
from recovery.core.policy import Budget
from recovery.core.request import Request, holding
from recovery.core.rows import Action, ParkingReason
from recovery.core.steps import OutOfOrder, Steps, branch_of, lies_in, upwards
from recovery.core.steps import Unwind as Unwind
from recovery.core.timing import CANCELLING, CLOSING, possibly_sent


class _Rest(NamedTuple):
    """How a run stands while a branch of it does not go on."""

    status: Status
    next_look_us: int | None
    reason: str


_GRAVEST_FIRST: Final = (Status.IN_DOUBT, Status.HELD, Status.WAITING)


@dataclass(slots=True)
class Machine:
    """The state of one run under one claim.

    deadline_us: until when this call may wait for named times; None: as long as it takes.
    contracts: those of the history's intents, by digest.
    restored: the database was declared restored after the run was opened.
    same_bytes: the code is of the version that opened the run; another one may make other bytes of the same arguments (A5).
    holds: contracts under which nothing is sent, by digest or name, as they were last read; asked for at each judgement.
    requests: what the workflow asked for, by step.
    unsaid: entries that become durable with the next ones that build on them, by branch: a decision that could not be made, a gather.
    """

    history: History
    epoch: Epoch
    budget: Budget
    deadline_us: int | None
    contracts: dict[str, Contract] = field(default_factory=dict)
    restored: bool = False
    same_bytes: bool = True
    holds: Callable[[], frozenset[str]] = frozenset
    judgements: list[tuple[EffectStep, Judgement]] = field(default_factory=list)
    requests: dict[str, Request] = field(default_factory=dict)
    steps: Steps = field(init=False)
    _unsaid: dict[str, list[Decision]] = field(default_factory=dict)
    _rests: dict[str, _Rest] = field(default_factory=dict)
    _gates: dict[str, Gate] = field(default_factory=dict)
    _branched: bool = False

    def __post_init__(self) -> None:
        self.steps = Steps.of(self.history.run_id, self.history.steps)

    @property
    def calls(self) -> dict[str, Any]:
        """The bound calls of the effects that the workflow has reached, by step."""
        return {step: request.subject for step, request in self.requests.items()}

    @property
    def stopped(self) -> Unwind | None:
        """Why the run cannot go on now; the gravest, where several branches have stopped."""
        return self.steps.stopped_at(ROOT)

    # -- steps and branches --------------------------------------------------------------------------------------------

    def begin(self, name: str, branch: str = ROOT, *, awaited: bool = True) -> str:
        """The identity of the step that starts now. Synchronous, so that identities do not depend on scheduling."""
        try:
            return self.steps.begin(name, branch, awaited=awaited)
        except OutOfOrder as other:
            raise self.diverge(other.step, other.recorded, other.attempted) from None

    def finish(self, step: str, error: BaseException | None = None) -> None:
        """The step's call has returned, or raised `error`."""
        branch = branch_of(step)
        self.steps.finish(step)
        if branch in self._gates:
            self._gates[branch].leave(step)
        if error is None or self.steps.stopped_at(branch) is not None:
            return
        recorded = self.history.steps.get(step)
        if isinstance(recorded, EffectStep) and recorded.settled is None:
            self.stop(error if isinstance(error, UsageError) else self._interrupted(recorded, type(error).__name__), branch)
        elif isinstance(error, ReplayError):
            self.stop(error)
        elif not isinstance(error, Exception):
            self.stop(StepInterrupted(run_id=self.history.run_id, step=step, reason=type(error).__name__), branch)
        elif recorded is None and not any(entry.step == step for entry in self._unsaid.get(branch, [])):
            reason = {"run_id": self.history.run_id, "step": step, "reason": type(error).__name__}
            self.steps.unrecorded[branch] = error if isinstance(error, RecoveryError) else StepInterrupted(**reason)

    def branch(self, name: str, parent: str = ROOT) -> str:
        """A branch that begins now, and ends with the workflow at the latest."""
        path = self.begin(name, parent, awaited=False)
        self._note(path, BRANCHES, 1)
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
            order = [done for done in self.history.completed if lies_in(done, step)]
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

    def _note(self, step: str, form: str, value: Any) -> None:
        """A fact about the workflow itself: durable with whatever builds on it, since a replay would find it again."""
        recorded = self.history.steps.get(step)
        if recorded is None:
            self._branched = True
            noted = Decision(step=step, fingerprint="", value=value, form=form, at_us=0)
            self._unsaid.setdefault(branch_of(step), []).append(noted)
            return
        self._branched = True
        decision = self._decision(step, recorded, form)
        if decision.value != value:
            raise self.diverge(step, f"{decision.value} branches", f"{value} branches")

    def check_complete(self) -> None:
        """The workflow has ended: every step that it began must have ended before, and every recorded one must have been replayed.

        Raises Unwind. An outcome over an unsettled step would hide what that step may have done."""
        self._check_replayed(ROOT)
        for effect in self.history.unsettled:
            raise self.stop(self._interrupted(effect, "the workflow ended first"))
        self.steps.check_awaited()

    def _check_replayed(self, branch: str) -> None:
        try:
            self.steps.check_replayed(branch)
        except OutOfOrder as missing:
            raise self.diverge(missing.step, missing.recorded, missing.attempted) from None

    def _interrupted(self, effect: EffectStep, reason: str) -> EffectInterrupted:
        intent = effect.intent
        about = {"run_id": self.history.run_id, "step": effect.step, "effect": intent.effect, "key": intent.key}
        return EffectInterrupted(**about, reason=reason)

    def unsaid(self, branch: str = ROOT) -> list[Decision]:
        """What becomes durable with the next entries of a branch: it was begun from some of it, and may build on the rest."""
        paths = list(upwards(branch))[::-1] + [path for path in self._unsaid if path != branch and lies_in(path, branch)]
        return [entry for path in paths for entry in self._unsaid.get(path, [])]

    def stop(self, error: RecoveryError, branch: str | None = None) -> Unwind:
        """Poison a branch and where it was begun from, or the whole run: nothing may begin there after this."""
        return self.steps.stop(error, branch)

    def diverge(self, step: str, recorded: str, attempted: str) -> Unwind:
        return self.stop(Diverged(run_id=self.history.run_id, step=step, recorded=recorded, attempted=attempted))

    async def _turn(self, step: str) -> None:
        """Let a step of a gather return when all have that were completed before it, when it was recorded."""
        gate = self._gates.get(branch_of(step))
        if gate is not None and (waiting := gate.arrive(step)) is not None:
            await Turn(waiting)

    # -- decisions -----------------------------------------------------------------------------------------------------

    async def decide(self, step: str, fingerprint: str, subject: Any) -> Decision:
        """The recorded decision, or a new one, durable before it is returned.

        A failure is kept back until something builds on it: a run that ends with it is left open, and may decide again."""
        return await self.chosen(step, fingerprint, "", partial(_decided, subject))

    async def draw(self, step: str, form: str) -> Decision:
        """The recorded reading of the clock or random number, or a new one, durable before it is returned."""
        return await self.chosen(step, "", form, _read if form == NOW else _drawn)

    async def chosen(
        self, step: str, fingerprint: str, form: str, choose: Callable[[], Coroutine[Op[Any], Any, Decided]]
    ) -> Decision:
        """What is recorded, or what `choose` gives now."""
        recorded = self.history.steps.get(step)
        if recorded is None:
            decided = await choose()
            entry = Decision(
                step=step, fingerprint=fingerprint, value=decided.value, error=decided.error, form=form, at_us=await Now()
            )
            if entry.error:
                self._unsaid.setdefault(branch_of(step), []).append(entry)
            else:
                await self._append(step, [entry])
        else:
            entry = self._decision(step, recorded, form)
            if entry.fingerprint and fingerprint and entry.fingerprint != fingerprint:
                raise self.diverge(step, f"a decision from arguments {entry.fingerprint[:12]}", f"one from {fingerprint[:12]}")
        await self._turn(step)
        return entry

    def _decision(self, step: str, recorded: Step, form: str) -> Decision:
        """What is recorded, if it is a decision of this form. Raises Unwind."""
        if not isinstance(recorded, DecisionStep):
            raise self.diverge(step, f"effect {recorded.intent.effect}", FORMS[form])
        if recorded.decision.form != form:
            raise self.diverge(step, FORMS[recorded.decision.form], FORMS[form])
        return recorded.decision

    # -- effects -------------------------------------------------------------------------------------------------------

    async def perform(self, step: str, request: Request) -> Settled:
        """The effect's first durable outcome: recorded, found, or made now. Raises Unwind where none can be had."""
        recorded = self.history.steps.get(step)
        self.contracts.setdefault(request.contract.digest, request.contract)
        self.requests[step] = request
        if recorded is None:
            draft = EffectStep(seq=0, intent=request.intent(step, await Now()))
            return await self._returned(await self._settle(request, draft, draft.intent))
        if not isinstance(recorded, EffectStep):
            raise self.diverge(step, FORMS[recorded.decision.form], f"effect {request.effect}")
        intent = recorded.intent
        for what in ("effect", "environment", "key"):
            if getattr(intent, what) != getattr(request, what):
                raise self.diverge(step, f"{what} {getattr(intent, what)}", f"{what} {getattr(request, what)}")
        return await self._returned(await self._settle(request, recorded, None))

    async def _returned(self, settled: Settled) -> Settled:
        await self._turn(settled.step)
        return settled

    async def _settle(self, request: Request, effect: EffectStep, pending: Intent | Observation | None) -> Settled:
        """Judge, act, observe, until the step is settled. `pending` is known here and not durable yet."""
        step = effect.step
        await self._append(step, taken_in(effect))
        while True:
            now_us = await Now()
            fresh = pending if isinstance(pending, Observation) else None
            judgement = conclude(effect, self.situation(request, effect, now_us), fresh)
            self.judgements.append((effect, judgement))
            match judgement.action:
                case Action.DIVERGE:
                    before, after = effect.intent.fingerprint[:12], request.fingerprint[:12]
                    raise self.diverge(step, f"a request with fingerprint {before}", f"one with {after}")
                case Action.KEEP:
                    return await self._keep(effect, judgement)
                case Action.SEND | Action.RESEND | Action.CLOSE:
                    pending = await self._attempt(request, effect, judgement, pending, now_us)
                case Action.ASK if judgement.cancels:
                    pending = await self._attempt(request, effect, judgement, pending, now_us)
                case Action.ASK:
                    await self._append(step, [pending] if pending else [])
                    answer = await Ask(request.subject, effect.intent, str(self.epoch))
                    pending = await self._observed(step, answer, Source.PROBE, asked_at_us=now_us)
                case Action.WAIT:
                    await self._wait(request, effect, judgement, pending)
                    pending = None
                case Action.PARK:
                    await self._park(request, effect, judgement, pending)
                case _:
                    return await self._record(judgement, pending)
            recorded = self.history.steps.get(step)
            if isinstance(recorded, EffectStep):
                effect = recorded

    def situation(self, request: Request, effect: EffectStep, now_us: int) -> Situation:
        """What the step is judged in, as the workflow asks for it now."""
        pinned = self.contracts.get(effect.intent.contract, request.contract)
        contracts = (pinned,) if pinned == request.contract else (pinned, request.contract)
        return Situation(
            now_us=now_us,
            contracts=contracts,
            budget=self.budget,
            can_probe=request.can_probe,
            can_close=request.can_close,
            can_cancel=request.can_cancel,
            restored=self.restored,
            incarnation=self.epoch.incarnation,
            held=holding(contracts, self.holds()),
            scope_changed=effect.intent.scope != request.scope,
            replay_fingerprint=request.fingerprint,
            same_bytes=self.same_bytes,
        )

    async def _attempt(
        self, request: Request, effect: EffectStep, judgement: Judgement, pending: Intent | Observation | None, now_us: int
    ) -> Observation:
        """Make one attempt durable, then send, close or cancel; the answer comes back as an observation that is not durable yet."""
        if (stopped := self.steps.stopped_at(branch_of(effect.step))) is not None:
            raise stopped  # the workflow went on without this step and has ended
        attempt = Attempt(
            step=effect.step,
            number=len(effect.attempts) + 1,
            purpose=CANCELLING if judgement.cancels else judgement.action.value,
            sent_at_us=now_us,
            send_until_us=now_us + effect.intent.timeout_us,
            epoch=str(self.epoch),
        )
        if isinstance(pending, Intent):
            await self._append(effect.step, [replace(pending, attempt=attempt)])
        else:
            await self._append(effect.step, [pending, attempt] if pending else [attempt])
        answer = await self._leave(request, self.history.steps[effect.step], attempt)
        source = {CLOSING: Source.CLOSE, CANCELLING: Source.CANCEL}.get(attempt.purpose, Source.REPLY)
        return await self._observed(effect.step, answer, source, asked_at_us=now_us, attempt=attempt.number)

    async def _leave(self, request: Request, effect: Step, attempt: Attempt) -> Answered:
        """The attempt itself, durable by now."""
        assert isinstance(effect, EffectStep)
        if attempt.purpose == CLOSING:
            return await Close(request.subject, effect.intent, attempt)
        if attempt.purpose == CANCELLING:
            return await Cancel(request.subject, effect.intent, attempt)
        first_sent_us = min(each.sent_at_us for each in possibly_sent(effect))
        return await Send(request.subject, effect.intent, attempt, first_sent_us)

    async def _observed(
        self, step: str, answer: Answered, source: Source, *, asked_at_us: int, attempt: int | None = None
    ) -> Observation:
        return Observation(
            step=step,
            source=source,
            asked_at_us=asked_at_us,
            observed_at_us=await Now(),
            answer=answer,
            attempt=attempt,
            epoch=str(self.epoch),
        )

    async def _record(self, judgement: Judgement, pending: Intent | Observation | None) -> Settled:
        """Make the step's outcome durable, in one row with the observation that it rests on."""
        settled = judgement.settlement
        assert settled is not None
        await self._append(settled.step, [pending, settled] if isinstance(pending, Intent) else [settled])
        return settled

    async def _keep(self, effect: EffectStep, judgement: Judgement) -> Settled:
        """The outcome stands; a contradiction is recorded once and changes nothing."""
        assert effect.settled is not None
        if judgement.news:
            await self._append(effect.step, partial(records, effect, judgement))
        return effect.settled

    async def _wait(self, request: Request, effect: EffectStep, judgement: Judgement, pending: Intent | Observation | None) -> None:
        """Wait for the named time, or leave the run to a later look if this call may not wait that long."""
        assert judgement.next_look_us is not None
        await self._conclude(effect, judgement, pending, Status.WAITING)
        if self.deadline_us is not None and judgement.next_look_us > self.deadline_us:
            raise self.stop(
                Unresolved(**self._about(request, effect, judgement.reason.value), next_look=iso(judgement.next_look_us)),
                branch_of(effect.step),
            )
        await Sleep(judgement.next_look_us, f"{effect.step}: {judgement.reason.value}")

    async def _park(self, request: Request, effect: EffectStep, judgement: Judgement, pending: Intent | Observation | None) -> None:
        if judgement.reason is ParkingReason.CONTRACT_BROKEN:
            await self._hold_contracts(request, effect, judgement)
        status = Status.HELD if judgement.reason is ParkingReason.HELD else Status.IN_DOUBT
        await self._conclude(effect, judgement, pending, status)
        raise self.stop(EffectInDoubt(**self._about(request, effect, judgement.reason.value)), branch_of(effect.step))

    async def _hold_contracts(self, request: Request, effect: EffectStep, judgement: Judgement) -> None:
        """Durable before the verdict. The token names the evidence, so that looking again does not hold what a person has released."""
        reason = f"run {self.history.run_id}, step {effect.step}: {judgement.reason.value}"
        for contract in sorted({effect.intent.contract, request.contract.digest}):
            seen = (self.history.run_id, effect.step, contract, *map(str, judgement.evidence))
            await HoldContract(contract, reason, judgement.at_us, digest_bytes(*(part.encode() for part in seen)))

    async def _conclude(
        self, effect: EffectStep, judgement: Judgement, pending: Intent | Observation | None, status: Status
    ) -> None:
        """Journal a verdict that settles nothing, once: looking again without news appends nothing (I7)."""
        entries: list[Entry] = [pending] if pending else []
        if judgement.news or entries:
            entries.append(judgement.recorded())
        await self._append(effect.step, entries, status, judgement.next_look_us, judgement.reason.value)

    def _about(self, request: Request, effect: EffectStep, reason: str) -> dict[str, str]:
        return {
            "run_id": self.history.run_id,
            "step": effect.step,
            "effect": request.effect,
            "key": effect.intent.key,
            "reason": reason,
        }

    async def _append(
        self,
        step: str,
        wanted: Sequence[Entry] | Callable[[int], Sequence[Entry]],
        status: Status = Status.RUNNING,
        next_look_us: int | None = None,
        reason: str = "",
    ) -> None:
        """Make entries of one step durable, with what they build on. A function: of how many entries will stand before them."""
        if not wanted:
            return
        if self._branched:
            await Enter()
        try:
            branch = branch_of(step)
            unsaid = self.unsaid(branch)
            entries = wanted(self.history.length + len(unsaid)) if callable(wanted) else wanted
            try:
                await Append((*unsaid, *entries), *self._standing(branch, _Rest(status, next_look_us, reason)))
            except KeyReused:
                raise  # nothing was written and nothing will be sent; the run may end with it, and take no later step
            except RecoveryError as error:
                raise self.stop(error) from error
            except Exception as error:  # no store may fail so: our bug, told as one
                raise InvariantViolated(f"run {self.history.run_id}: an append failed in a way that no store may") from error
            for said in unsaid:
                self._unsaid[branch_of(said.step)].remove(said)
            for durable in (*unsaid, *entries):
                self.history.add(durable)
        finally:
            if self._branched:
                await Leave()

    def _standing(self, branch: str, rest: _Rest) -> _Rest:
        """How the run stands while one branch goes on or rests: as the gravest rest of any, with the next look of the earliest."""
        if rest.status is Status.RUNNING:
            self._rests.pop(branch, None)
        else:
            self._rests[branch] = rest
        if not self._rests:
            return rest
        gravest = next(rest for status in _GRAVEST_FIRST for rest in self._rests.values() if rest.status is status)
        looks = [rest.next_look_us for rest in self._rests.values() if rest.next_look_us is not None]
        return gravest._replace(next_look_us=min(looks, default=None))


async def _decided(subject: Any) -> Decided:
    return await Decide(subject)


async def _read() -> Decided:
    """Microseconds since the Unix epoch."""
    return Decided(await Now())


async def _drawn() -> Decided:
    """128 bits, in hex: more than JSON's numbers hold."""
    return Decided(f"{await Draw():032x}")
