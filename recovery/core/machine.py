"""The machine: one run, from its history to its next outcome, as procedures over operations.

Owns step identity, replay, and the loop that judges an intent until it is settled, waits or parks. The same loop serves a first
run (an intent without attempts: send) and a recovery (an attempt without an answer: ask, re-send, wait or park). Knows nothing of
threads, event loops, databases or clocks. Invariants: an attempt is durable before its Send is asked for (I4); nothing is sent for a
step whose replay differs from its record; after a stop no further step of the run begins (I9).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from recovery.core.contracts import Contract
from recovery.core.contradictions import records, taken_in
from recovery.core.entries import (
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
    ConcurrentStep,
    Diverged,
    EffectInDoubt,
    EffectInterrupted,
    InvariantViolated,
    KeyReused,
    RecoveryError,
    ReplayError,
    StepInterrupted,
    StepNotAwaited,
    Unresolved,
    UsageError,
)
from recovery.core.evidence import Situation
from recovery.core.history import DecisionStep, EffectStep, History, Step
from recovery.core.ids import ROOT, Epoch, check_step_name, digest_bytes, step_id
from recovery.core.instants import iso
from recovery.core.judgement import Judgement, conclude
from recovery.core.operations import Append, Ask, Cancel, Close, Decide, HoldContract, Now, Send, Sleep
from recovery.core.policy import Budget
from recovery.core.request import Request, holding
from recovery.core.rows import Action, ParkingReason
from recovery.core.timing import CANCELLING, CLOSING, possibly_sent


class Unwind(BaseException):
    """Leaves a workflow that must not go on. Not an Exception, so that `except Exception` cannot swallow doubt; the machine
    remembers it too, so that whoever swallows it all the same raises it again with the next step."""

    def __init__(self, error: RecoveryError) -> None:
        self.error = error
        super().__init__(str(error))


@dataclass(slots=True)
class Machine:
    """The state of one run under one claim.

    deadline_us: until when this call may wait for named times; None: as long as it takes.
    contracts: those of the history's intents, by digest.
    restored: the database was declared restored after the run was opened.
    same_bytes: the code is of the version that opened the run; another one may make other bytes of the same arguments (A5).
    holds: contracts under which nothing is sent, by digest or name, as they were last read; asked for at each judgement.
    unrecorded: why a step ended and left no entry. The workflow may end with that, but no later step may follow: its record would stand
    where a replay expects this one.
    requests: what the workflow asked for, by step.
    failed: a decision that could not be made, not durable yet.
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
    stopped: Unwind | None = None
    unrecorded: RecoveryError | None = None
    requests: dict[str, Request] = field(default_factory=dict)
    failed: Decision | None = None
    _recorded: dict[str, list[str]] = field(default_factory=dict)
    _positions: Counter[str] = field(default_factory=Counter)
    _occurrences: Counter[tuple[str, str]] = field(default_factory=Counter)
    _under_way: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        recorded = defaultdict(list)
        for step in self.history.steps:
            recorded[step.rpartition("/")[0]].append(step)
        self._recorded = dict(recorded)

    @property
    def calls(self) -> dict[str, Any]:
        """The bound calls of the effects that the workflow has reached, by step."""
        return {step: request.subject for step, request in self.requests.items()}

    # -- step identity -------------------------------------------------------------------------------------------------

    def begin(self, name: str, parent: str = ROOT) -> str:
        """The identity of the step that starts now. Synchronous, so that identities do not depend on scheduling."""
        if self.stopped is not None:
            raise self.stopped
        if self.unrecorded is not None:
            raise self.stop(self.unrecorded)
        check_step_name(name)
        if parent in self._under_way:
            raise ConcurrentStep(run_id=self.history.run_id, step=name, other=self._under_way[parent])
        step = step_id(parent, name, self._occurrences[parent, name] + 1)
        recorded = self._recorded.get(parent, [])
        position = self._positions[parent]
        if position < len(recorded) and recorded[position] != step:
            raise self.diverge(step, f"step {recorded[position]}", f"step {step}")
        self._occurrences[parent, name] += 1
        self._positions[parent] += 1
        self._under_way[parent] = step
        return step

    def finish(self, step: str, error: BaseException | None = None) -> None:
        """The step's call has returned, or raised `error`."""
        self._under_way.pop(step.rpartition("/")[0], None)
        if error is None or self.stopped is not None:
            return
        recorded = self.history.steps.get(step)
        if isinstance(recorded, EffectStep) and recorded.settled is None:
            self.stop(error if isinstance(error, UsageError) else self._interrupted(recorded, type(error).__name__))
        elif isinstance(error, ReplayError):
            self.stop(error)
        elif not isinstance(error, Exception):
            self.stop(StepInterrupted(run_id=self.history.run_id, step=step, reason=type(error).__name__))
        elif recorded is None and not (self.failed and self.failed.step == step):
            reason = {"run_id": self.history.run_id, "step": step, "reason": type(error).__name__}
            self.unrecorded = error if isinstance(error, RecoveryError) else StepInterrupted(**reason)

    def check_complete(self) -> None:
        """The workflow has ended: every step that it began must have ended before, and every recorded one must have been replayed.

        Raises Unwind. An outcome over an unsettled step would hide what that step may have done."""
        for parent, recorded in self._recorded.items():
            if self._positions[parent] < len(recorded):
                missing = recorded[self._positions[parent]]
                raise self.diverge(missing, f"step {missing}", "the end of the workflow")
        for effect in self.history.unsettled:
            raise self.stop(self._interrupted(effect, "the workflow ended first"))
        for step in self._under_way.values():
            raise self.stop(StepNotAwaited(run_id=self.history.run_id, step=step))

    def _interrupted(self, effect: EffectStep, reason: str) -> EffectInterrupted:
        intent = effect.intent
        about = {"run_id": self.history.run_id, "step": effect.step, "effect": intent.effect, "key": intent.key}
        return EffectInterrupted(**about, reason=reason)

    def unsaid(self) -> list[Decision]:
        """The failed decision that was caught, until it is durable with what builds on it."""
        return [self.failed] if self.failed is not None else []

    def stop(self, error: RecoveryError) -> Unwind:
        """Poison the run: nothing may begin after this."""
        if self.stopped is None:
            self.stopped = Unwind(error)
        return self.stopped

    def diverge(self, step: str, recorded: str, attempted: str) -> Unwind:
        return self.stop(Diverged(run_id=self.history.run_id, step=step, recorded=recorded, attempted=attempted))

    # -- decisions -----------------------------------------------------------------------------------------------------

    async def decide(self, step: str, fingerprint: str, subject: Any) -> Decision:
        """The recorded decision, or a new one, durable before it is returned.

        A failure is kept back until something builds on it: a run that ends with it is left open, and may decide again."""
        recorded = self.history.steps.get(step)
        if recorded is None:
            decided = await Decide(subject)
            entry = Decision(step=step, fingerprint=fingerprint, value=decided.value, error=decided.error, at_us=await Now())
            if entry.error:
                self.failed = entry
            else:
                await self._append([entry])
            return entry
        if not isinstance(recorded, DecisionStep):
            raise self.diverge(step, f"effect {recorded.intent.effect}", "a decision")
        before = recorded.decision.fingerprint
        if before and fingerprint and before != fingerprint:
            raise self.diverge(step, f"a decision from arguments {before[:12]}", f"one from {fingerprint[:12]}")
        return recorded.decision

    # -- effects -------------------------------------------------------------------------------------------------------

    async def perform(self, step: str, request: Request) -> Settled:
        """The effect's first durable outcome: recorded, found, or made now. Raises Unwind where none can be had."""
        recorded = self.history.steps.get(step)
        self.contracts.setdefault(request.contract.digest, request.contract)
        self.requests[step] = request
        if recorded is None:
            draft = EffectStep(seq=0, intent=request.intent(step, await Now()))
            return await self._settle(request, draft, draft.intent)
        if not isinstance(recorded, EffectStep):
            raise self.diverge(step, "a decision", f"effect {request.effect}")
        intent = recorded.intent
        for what in ("effect", "environment", "key"):
            if getattr(intent, what) != getattr(request, what):
                raise self.diverge(step, f"{what} {getattr(intent, what)}", f"{what} {getattr(request, what)}")
        return await self._settle(request, recorded, None)

    async def _settle(self, request: Request, effect: EffectStep, pending: Intent | Observation | None) -> Settled:
        """Judge, act, observe, until the step is settled. `pending` is known here and not durable yet."""
        step = effect.step
        await self._append(taken_in(effect))
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
                    await self._append([pending] if pending else [])
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
        if self.stopped is not None:
            raise self.stopped  # the workflow went on without this step and has ended
        attempt = Attempt(
            step=effect.step,
            number=len(effect.attempts) + 1,
            purpose=CANCELLING if judgement.cancels else judgement.action.value,
            sent_at_us=now_us,
            send_until_us=now_us + effect.intent.timeout_us,
            epoch=str(self.epoch),
        )
        if isinstance(pending, Intent):
            await self._append([replace(pending, attempt=attempt)])
        else:
            await self._append([pending, attempt] if pending else [attempt])
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
        await self._append([pending, settled] if isinstance(pending, Intent) else [settled])
        return settled

    async def _keep(self, effect: EffectStep, judgement: Judgement) -> Settled:
        """The outcome stands; a contradiction is recorded once and changes nothing."""
        assert effect.settled is not None
        if judgement.news:
            await self._append(records(effect, judgement, self.history.length))
        return effect.settled

    async def _wait(self, request: Request, effect: EffectStep, judgement: Judgement, pending: Intent | Observation | None) -> None:
        """Wait for the named time, or leave the run to a later look if this call may not wait that long."""
        assert judgement.next_look_us is not None
        await self._conclude(judgement, pending, Status.WAITING)
        if self.deadline_us is not None and judgement.next_look_us > self.deadline_us:
            raise self.stop(
                Unresolved(**self._about(request, effect, judgement.reason.value), next_look=iso(judgement.next_look_us))
            )
        await Sleep(judgement.next_look_us, f"{effect.step}: {judgement.reason.value}")

    async def _park(self, request: Request, effect: EffectStep, judgement: Judgement, pending: Intent | Observation | None) -> None:
        if judgement.reason is ParkingReason.CONTRACT_BROKEN:
            await self._hold_contracts(request, effect, judgement)
        status = Status.HELD if judgement.reason is ParkingReason.HELD else Status.IN_DOUBT
        await self._conclude(judgement, pending, status)
        raise self.stop(EffectInDoubt(**self._about(request, effect, judgement.reason.value)))

    async def _hold_contracts(self, request: Request, effect: EffectStep, judgement: Judgement) -> None:
        """Durable before the verdict. The token names the evidence, so that looking again does not hold what a person has released."""
        reason = f"run {self.history.run_id}, step {effect.step}: {judgement.reason.value}"
        for contract in sorted({effect.intent.contract, request.contract.digest}):
            seen = (self.history.run_id, effect.step, contract, *map(str, judgement.evidence))
            await HoldContract(contract, reason, judgement.at_us, digest_bytes(*(part.encode() for part in seen)))

    async def _conclude(self, judgement: Judgement, pending: Intent | Observation | None, status: Status) -> None:
        """Journal a verdict that settles nothing, once: looking again without news appends nothing (I7)."""
        entries: list[Entry] = [pending] if pending else []
        if judgement.news or entries:
            entries.append(judgement.recorded())
        await self._append(entries, status, judgement.next_look_us, judgement.reason.value)

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
        entries: list[Any],
        status: Status = Status.RUNNING,
        next_look_us: int | None = None,
        reason: str = "",
    ) -> None:
        if not entries:
            return
        entries = [*self.unsaid(), *entries]
        try:
            await Append(tuple(entries), status, next_look_us, reason)
        except KeyReused:
            raise  # nothing was written and nothing will be sent; the run may end with it, and take no later step
        except RecoveryError as error:
            raise self.stop(error) from error
        except Exception as error:  # no store may fail so: our bug, told as one
            raise InvariantViolated(f"run {self.history.run_id}: an append failed in a way that no store may") from error
        self.failed = None
        for entry in entries:
            self.history.add(entry)
