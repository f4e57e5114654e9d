"""The machine: one run, from its history to its next outcome, as procedures over operations.

Owns the loop that judges an intent until it is settled, waits or parks. The same loop serves a first run (an intent without attempts:
send) and a recovery (an attempt without an answer: ask, re-send, wait or park). Knows nothing of threads, event loops, databases or
clocks. Invariants: an attempt is durable before its Send is asked for (I4); nothing is sent for a step whose replay differs from its
record.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final

from recovery.core import pacing
from recovery.core.compensation import own_effect
from recovery.core.contracts import Contract
from recovery.core.contradictions import records, taken_in, unopposed
from recovery.core.effect_errors import CompensationStuck, EffectInDoubt, Unresolved
from recovery.core.entries import (
    FIRED,
    FORMS,
    TIMER,
    Answered,
    Attempt,
    Decision,
    Entry,
    Intent,
    Observation,
    Override,
    Settled,
    Source,
    Status,
)
from recovery.core.errors import DeadlinePassed, RunUnsettled, TimerPending
from recovery.core.evidence import Situation
from recovery.core.execution import Execution
from recovery.core.execution import Unwind as Unwind
from recovery.core.history import EffectStep
from recovery.core.ids import Epoch, branch_of, digest_bytes, step_id
from recovery.core.inheriting import inherited, is_anew
from recovery.core.instants import iso
from recovery.core.judgement import Judgement, conclude
from recovery.core.kin import Kin
from recovery.core.mail import Mail
from recovery.core.misfits import asked_effect, other_meaning, other_request
from recovery.core.operations import Ask, Cancel, Close, HoldContract, Now, Op, Send, Sleep
from recovery.core.orders import check_wanted, heed, ordered
from recovery.core.ordinary import made_of, outright
from recovery.core.policy import Budget
from recovery.core.request import Request, holding
from recovery.core.resting import GOES_ON, Rest, RestsFor
from recovery.core.riding import may_ride
from recovery.core.rows import Action, ParkingReason
from recovery.core.straight import Straight
from recovery.core.timing import CANCELLING, CLOSING, possibly_sent
from recovery.core.trying import paced

SLEEPING: Final = "sleeping"
"""Why a run waits whose workflow asked for it."""

RETRYING: Final = "retrying"
"""Why a run waits that does something again which failed."""


@dataclass(slots=True)
class Machine(Execution):
    """The state of one run under one claim.

    deadline_us: until when this call may wait for named times; None: as long as it takes.
    horizon_us: how long after a crash a recovery is counted on, so that outcomes may ride until then; None: none does.
    contracts: those of the history's intents, by digest.
    restored: the database was declared restored after the run was opened.
    same_bytes: the code is of the version that opened the run; another one may make other bytes of the same arguments (A5).
    holds: contracts under which nothing is sent, by digest or name, as they were last read; asked for at each judgement.
    heard: orders about the run, as they were last read; those that its history has not taken in yet are, at its next step.
    requests: what the workflow asked for, by step; of one that is forgotten, or was only replayed, what it has in common with others of its effect.
    kin: its children. mail: what it waits for from outside.
    straight: whether ordinary steps go the one way of theirs (`ordinary`). Who only reads says no, and tests, which compare.
    tells: whether somebody is told what was concluded of each step; else `judgements` stays empty.
    """

    epoch: Epoch
    budget: Budget
    deadline_us: int | None
    horizon_us: int | None = None
    contracts: dict[str, Contract] = field(default_factory=dict)
    restored: bool = False
    same_bytes: bool = True
    holds: Callable[[], frozenset[str]] = frozenset
    heard: Callable[[], Sequence[Override]] = tuple
    tells: bool = True
    judgements: list[tuple[EffectStep, Judgement | None]] = field(default_factory=list)  # None: `KEPT`, with no judgement
    requests: dict[str, Request] = field(default_factory=dict)
    kin: Kin = field(default_factory=Kin)
    mail: Mail = field(default_factory=Mail)
    straight: ClassVar[bool] = True
    me: str = field(init=False, default="")  # the epoch, as it is written
    foreseen: Straight = field(init=False, default_factory=Straight)

    def __post_init__(self) -> None:
        Execution.__post_init__(self)  # super() does not work in a slotted dataclass
        self.me = str(self.epoch)
        self.memory.requests = self.requests

    @property
    def calls(self) -> dict[str, Any]:
        """The bound calls of the effects that the workflow has reached, and that are neither forgotten nor were only replayed, by step."""
        return {step: request.subject for step, request in self.requests.items() if request.subject is not None}

    def beyond(self, step: str, would: str, child: str = "") -> Unwind:  # noqa: ARG002  # for whoever tells them
        """Where a run that is only read ends: a step of it would do something now. child: for whose end it would wait."""
        return self.stop(RunUnsettled(run_id=self.history.run_id, status="read again", reason=""))

    # -- timers --------------------------------------------------------------------------------------------------------

    async def sleep(self, step: str, until_us: int | None, lasts_us: int, after: str = "") -> None:
        """Wait until a moment that is durable before the wait begins: `until_us`, or `lasts_us` from when it is first asked for. after: the
        failure that it is a pause after, noted with it.

        That it has come is noted with what builds on it. Raises Unwind where it is beyond what this call may wait for, and DeadlinePassed
        where the deadline of its scope comes first, or with it."""
        bound = self.scopes.bound(branch_of(step))
        recorded = self.history.steps.get(step)
        if recorded is not None:
            due_us = self.expected(step, recorded, TIMER).value
        else:
            now_us = await Now()
            due_us = now_us + lasts_us if until_us is None else until_us
            due_us = due_us if bound is None else min(due_us, bound.at_us)
            rest = _sleeps(due_us, after) if due_us > now_us else GOES_ON
            timer = Decision(step=step, fingerprint="", value=due_us, form=TIMER, at_us=now_us, error=after)
            await self.append(step, [timer], rest)
        if self.begin(FIRED, step, awaited=False) not in self.history.steps:
            await self._until(step, due_us)
        self.rests.pop(branch_of(step), None)
        await self.turn(step)
        if bound is not None and due_us >= bound.at_us:
            fate = "The wait ended with it"
            raise DeadlinePassed(run_id=self.history.run_id, step=step, deadline=bound.step, at=iso(bound.at_us), fate=fate)

    async def _until(self, step: str, due_us: int) -> None:
        timer = self.expected(step, self.history.steps[step], TIMER)
        branch, rest = branch_of(step), _sleeps(due_us, timer.error)
        while (now_us := await Now()) < due_us:
            self.rests[branch] = rest
            if self.deadline_us is not None and due_us > self.deadline_us:
                # Another branch wrote last that the run goes on: said again, for whoever lists what is due.
                if self.understated(branch, rest, now_us):
                    await self.append(step, [replace(timer, at_us=now_us)], rest)
                raise self.stop(TimerPending(run_id=self.history.run_id, step=step, next_look=iso(due_us)), branch)
            await self.flush()
            await Sleep(due_us, f"{step}: it sleeps", partial(ordered, self))
            await heed(self, step)
            check_wanted(self, step)
        self.noted.append(Decision(step=step_id(step, FIRED, 1), fingerprint="", value=None, form=FIRED, at_us=now_us))

    # -- effects -------------------------------------------------------------------------------------------------------

    def perform(self, step: str, request: Request) -> Coroutine[Op[Any], Any, Settled]:
        """The effect's first durable outcome: recorded, found, or made now. Raises Unwind where none can be had."""
        if step in self.history.steps or self.history.overrides or self._gates:
            return self._performed(step, request)
        self._asks(step, request)
        return outright(self, step, request)  # almost always

    def _asks(self, step: str, request: Request) -> None:
        """What the workflow asks for is kept."""
        self.contracts.setdefault(request.contract.digest, request.contract)
        self.requests[step] = request

    async def _performed(self, step: str, request: Request) -> Settled:
        """As `perform`, of what may be recorded, inherited, or to be returned in turn."""
        recorded = self.history.steps.get(step)
        its_own = isinstance(recorded, EffectStep) or (recorded is None and not self.history.overrides)
        given = None if its_own else await inherited(self, step, request)
        if given is None or own_effect(self.history, step) is not None:  # what an earlier generation did is undone with the rest
            self._asks(step, request)
        if given is not None:
            settled = given
        elif recorded is None or is_anew(recorded):
            settled = await outright(self, step, request)
        elif not isinstance(recorded, EffectStep):
            recorded_as = FORMS[recorded.decision.form]
            raise self.diverge(step, recorded_as, f"effect {request.effect}", asked_effect(step, request))
        elif (differs := other_meaning(recorded, request)) is not None:
            raise self.diverge(step, *differs, asked_effect(step, request))
        else:
            settled = await self.settle(request, recorded, None)
        if self._gates:
            await self.turn(settled.step)
        return settled

    async def settle(self, request: Request, effect: EffectStep, pending: Intent | Observation | None) -> Settled:
        """Judge, act, observe, until the step is settled. `pending` is known here and not durable yet."""
        if effect.settled is not None and effect.intent.fingerprint == request.fingerprint and unopposed(effect, effect.settled):
            if self.tells:
                self.judgements.append((effect, None))
            return effect.settled
        step = effect.step
        if effect.observations:
            await self.append(step, taken_in(effect))
        let_out, waited = request.rate is None, False
        while True:
            judgement = await self._judged(request, effect, pending, waited=waited)
            now_us = judgement.at_us
            if not let_out and pacing.concerns(judgement):
                let_out, waited = await pacing.let_out(self, request, effect, judgement, pending), True
                continue  # judged anew: time has passed
            let_out, waited = request.rate is None, False
            if self.tells:
                self.judgements.append((effect, judgement))
            match judgement.action:
                case Action.DIVERGE:
                    raise self.differs(effect, request)
                case Action.KEEP:
                    return await self._keep(effect, judgement)
                case _ if pacing.concerns(judgement):
                    pending = await self._attempt(request, effect, judgement, pending, now_us)
                case Action.ASK:
                    await self.append(step, [pending] if pending else [])
                    answer = await Ask(request.subject, effect.intent, str(self.epoch))
                    pending = await self._observed(step, answer, Source.PROBE, asked_at_us=now_us)
                case Action.WAIT:
                    await self._wait(request, effect, judgement, pending)
                    pending = None
                case Action.PARK:
                    await self._park(request, effect, judgement, pending)
                case _:
                    return await self._record(request, effect, judgement, pending)
            recorded = self.history.steps.get(step)
            if isinstance(recorded, EffectStep):
                effect = recorded

    async def _judged(
        self, request: Request, effect: EffectStep, pending: Intent | Observation | None, *, waited: bool
    ) -> Judgement:
        """What is to be made of a step now: in the moment in which it was asked for or answered, where nothing was waited for since."""
        fresh = pending if isinstance(pending, Observation) else None
        now_us = pending.at_us if isinstance(pending, Intent) else None if fresh is None else fresh.observed_at_us
        if self.heard():
            await heed(self, effect.step)
            now_us = None
        if isinstance(pending, Intent):
            check_wanted(self, effect.step)
        situation = self.situation(request, effect, await Now() if now_us is None or waited else now_us)
        judgement = self.foreseen.judge(effect, situation, fresh) if self.straight else None
        return conclude(effect, situation, fresh) if judgement is None else judgement

    def differs(self, effect: EffectStep, request: Request) -> Unwind:
        """The code asks for the same effect with another request."""
        return self.diverge(effect.step, *other_request(effect, request), asked_effect(effect.step, request))

    def situation(self, request: Request, effect: EffectStep, now_us: int) -> Situation:
        """What the step is judged in, as the workflow asks for it now."""
        pinned = self.contracts.get(effect.intent.contract, request.contract)
        same = pinned is request.contract or pinned == request.contract
        contracts = (pinned,) if same else (pinned, request.contract)
        ordered_about = bool(self.history.overrides)  # almost never
        return Situation(
            now_us=now_us,
            contracts=contracts,
            budget=self.budget,
            can_probe=request.can_probe,
            can_close=request.can_close,
            can_cancel=request.can_cancel,
            restored=self.restored,
            incarnation=self.epoch.incarnation,
            held=(ordered_about and self.history.held is not None) or holding(contracts, self.holds()),
            wanted=not ordered_about or self.history.cancelled is None or bool(request.undoes),
            scope_changed=effect.intent.scope != request.scope,
            replay_fingerprint=request.fingerprint,
            same_bytes=self.same_bytes and request.same_bytes,
        )

    async def _attempt(
        self, request: Request, effect: EffectStep, judgement: Judgement, pending: Intent | Observation | None, now_us: int
    ) -> Observation:
        """Make one attempt durable, then send, close or cancel; the answer comes back as an observation that is not durable yet."""
        if (stopped := self.steps.stopped_at(branch_of(effect.step))) is not None:
            raise stopped  # the workflow went on without this step and has ended
        assert judgement.next_look_us is not None, "what is sent names when its answer is overdue"
        attempt = Attempt(
            step=effect.step,
            number=len(effect.attempts) + 1,
            purpose=CANCELLING if judgement.cancels else judgement.action.value,
            sent_at_us=now_us,
            send_until_us=judgement.next_look_us,
            epoch=self.me,
        )
        if isinstance(pending, Intent):
            await self.append(effect.step, [request.intent(effect.step, pending.at_us, attempt)])
        else:
            await self.append(effect.step, [pending, attempt] if pending else [attempt])
        made = made_of(self, effect.step)
        answer = await self._leave(request, made, attempt)
        source = {CLOSING: Source.CLOSE, CANCELLING: Source.CANCEL}.get(attempt.purpose, Source.REPLY)
        reply = await self._observed(effect.step, answer, source, asked_at_us=now_us, attempt=attempt.number)
        return await paced(request.retry, made, reply)

    async def _leave(self, request: Request, effect: EffectStep, attempt: Attempt) -> Answered:
        """The attempt itself, durable by now."""
        if attempt.purpose == CLOSING:
            return await Close(request.subject, effect.intent, attempt)
        if attempt.purpose == CANCELLING:
            return await Cancel(request.subject, effect.intent, attempt)
        first_sent_us = attempt.sent_at_us if attempt.number == 1 else min(each.sent_at_us for each in possibly_sent(effect))
        return await Send(request.subject, effect.intent, attempt, first_sent_us, effect.heard)

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
            epoch=self.me,
        )

    async def _record(
        self, request: Request, effect: EffectStep, judgement: Judgement, pending: Intent | Observation | None
    ) -> Settled:
        """Make the step's outcome durable, in one row with the observation that it rests on: now, or with the run's next entries."""
        settled = judgement.settlement
        assert settled is not None
        rides = (
            self.horizon_us is not None
            and request.rides
            and not self.restored
            and may_ride(effect, settled, request.contract, judgement.timing, self.budget, self.horizon_us)
        )
        await self.append(settled.step, [pending, settled] if isinstance(pending, Intent) else [settled], rides=rides)
        return settled

    async def _keep(self, effect: EffectStep, judgement: Judgement) -> Settled:
        """The outcome stands; a contradiction is recorded once and changes nothing."""
        assert effect.settled is not None
        if judgement.news:
            await self.append(effect.step, partial(records, effect, judgement))
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
        await self.flush()
        await Sleep(judgement.next_look_us, f"{effect.step}: {judgement.reason.value}", partial(ordered, self))

    async def _park(self, request: Request, effect: EffectStep, judgement: Judgement, pending: Intent | Observation | None) -> None:
        if judgement.reason is ParkingReason.CONTRACT_BROKEN:
            await self._hold_contracts(request, effect, judgement)
        status = Status.HELD if judgement.reason is ParkingReason.HELD else Status.IN_DOUBT
        await self._conclude(effect, judgement, pending, status)
        about = self._about(request, effect, judgement.reason.value)
        doubt = EffectInDoubt(**about) if request.by_hand is None else CompensationStuck(**about, **request.by_hand)
        raise self.stop(doubt, branch_of(effect.step))

    async def _hold_contracts(self, request: Request, effect: EffectStep, judgement: Judgement) -> None:
        """Durable before the verdict. The token names the evidence, so that looking again does not hold what a person has released."""
        reason = f"run {self.history.run_id}, step {effect.step}: {judgement.reason.value}"
        for contract in sorted({effect.intent.contract, request.contract.digest}):
            seen = (self.history.run_id, effect.step, contract, *map(str, judgement.evidence))
            await HoldContract(contract, reason, judgement.at_us, digest_bytes(*(part.encode() for part in seen)))

    async def _conclude(
        self, effect: EffectStep, judgement: Judgement, pending: Intent | Observation | None, status: Status
    ) -> None:
        """Journal a verdict that settles nothing, once: looking again without news appends nothing (I7). Again where the run's row has come to
        say something else."""
        entries: list[Entry] = [pending] if pending else []
        rests_for = RestsFor.ENVIRONMENT if status is Status.WAITING else RestsFor.NOTHING
        rest = Rest(status, judgement.next_look_us, judgement.reason.value, rests_for)
        if judgement.news or entries or self.understated(branch_of(effect.step), rest, judgement.at_us):
            entries.append(judgement.recorded())
        await self.append(effect.step, entries, rest)

    def _about(self, request: Request, effect: EffectStep, reason: str) -> dict[str, str]:
        return {
            "run_id": self.history.run_id,
            "step": effect.step,
            "effect": request.effect,
            "key": effect.intent.key,
            "reason": reason,
        }


def _sleeps(due_us: int, after: str) -> Rest:
    return Rest(Status.WAITING, due_us, RETRYING if after else SLEEPING, RestsFor.TIME)
