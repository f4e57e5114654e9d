"""Sessions: how a workflow's calls become procedures of the machine. Everything here serves both colours.

Owns the way from a bound call to a request, and from a settlement to a value or a raised error. Does no I/O. Invariant: a value passes
through its codec on the first run too, so that a first run equals its replay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from recovery.core import again
from recovery.core.compensation import Compensated
from recovery.core.contracts import microseconds
from recovery.core.durations import stated
from recovery.core.effect_errors import NotExecuted, OutcomeUnavailable, RetriesExhausted
from recovery.core.entries import DEADLINE, NOW, RANDOM, Decision, OutcomeKind, Settled
from recovery.core.entries import UUID as UUID_FORM
from recovery.core.errors import DeadlinePassed, DecisionFailed, DefinitionError, InvalidName, ValueUnreadable
from recovery.core.history import EffectStep
from recovery.core.ids import branch_of, check_key, check_step_name, derive_key
from recovery.core.inheriting import renewed
from recovery.core.instants import EARLIEST_US, instant_us, iso, moment
from recovery.core.machine import Machine
from recovery.core.mail import sooner
from recovery.core.operations import Decided, Now
from recovery.core.publishing import publish
from recovery.core.request import Request
from recovery.core.scopes import Limit
from recovery.core.timing import effect_attempts
from recovery.core.trying import given_up
from recovery.core.waiting import answered
from recovery.definitions.deadline import Deadline
from recovery.definitions.deciding import Deciding
from recovery.definitions.effect import Bound
from recovery.definitions.registry import check_complete
from recovery.definitions.run import Applied, Rejected
from recovery.definitions.speaking import spoken
from recovery.definitions.wait import Wait
from recovery.drivers.reading import fingerprint_of, read_in, reading
from recovery.drivers.replaying import Replays
from recovery.drivers.undoing import Stretches, Undoing
from recovery.drivers.wanting import Wanting
from recovery.logs import logger


class Nap(NamedTuple):
    """How long a workflow sleeps: until a moment, or for a while from when it is first asked for."""

    until_us: int | None
    lasts_us: int

    @classmethod
    def until(cls, at: datetime, call: str = "run.sleep_until") -> Nap:
        """Raises DefinitionError."""
        if not isinstance(at, datetime) or at.tzinfo is None:  # a number or a text has none either
            raise DefinitionError(
                what="call", name=call, problem="its moment has no time zone",
                advice="Pass one that has, such as datetime(2030, 1, 1, tzinfo=UTC).",
            )  # fmt: skip
        return cls(instant_us(at), 0)

    @classmethod
    def lasting(cls, duration: timedelta, call: str = "run.sleep") -> Nap:
        """Raises DefinitionError."""
        return cls(None, microseconds(stated(duration, "call", call)))

    @classmethod
    def to(cls, at: timedelta | datetime) -> Nap:
        """Raises DefinitionError."""
        return cls.lasting(at) if isinstance(at, timedelta) else cls.until(at, "run.deadline")

    async def ends(self) -> Decided:
        """When it does, as it is first asked for."""
        return Decided(max(EARLIEST_US, await Now() + self.lasts_us) if self.until_us is None else self.until_us)


@dataclass(frozen=True, slots=True)
class Session:
    """One run's calls, waiting to be driven."""

    machine: Machine
    namespace: str
    stretches: Stretches = field(init=False)
    replays: Replays = field(init=False, default_factory=Replays)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stretches", Stretches(self.machine))

    @property
    def run_id(self) -> str:
        return self.machine.history.run_id

    def request(self, step: str, bound: Bound[Any], key: str | None) -> Request:
        """What would be written into a new intent for this call. Raises InvalidName, and DefinitionError for an effect that lacks a body
        which its contract relies on."""
        effect, machine, asked = bound.effect, self.machine, bound.fingerprint
        scope = machine.scopes.bound(branch_of(step))
        if not effect.complete:
            check_complete(effect)
        if key is not None and not renewed(machine, step, effect.name, effect.environment.name, asked):
            name = check_key(key)
        else:
            name = derive_key(self.namespace, machine.history.run_id, machine.history.places.key_name(step))
        if len(name) > (limit := effect.contract.key_length_max):
            rule = f"at most {limit} characters, as the contract of {effect.name!r} says of its carrier: pass key= to perform"
            raise InvalidName(what="idempotency key", name=name, rule=rule)
        until_us, approved_us = bound.valid_until_us, machine.mail.approval_of(step, asked)
        until_us = until_us if approved_us is None else sooner(until_us, approved_us)
        return Request(
            effect=effect.name,
            environment=effect.environment.name,
            scope=effect.environment.current_scope(),
            key=name,
            fingerprint=(known_as := fingerprint_of(machine, step, bound) if step in machine.history.steps else asked),
            same_bytes=known_as == asked,
            arguments=bound.stored,
            contract=effect.contract,
            timeout_us=effect.timeout_us,
            can_probe=effect.probe_body is not None,
            can_close=effect.close_body is not None,
            subject=bound,
            definition=effect,
            valid_until_us=until_us,
            can_cancel=effect.cancel_body is not None,
            deadline_us=None if scope is None else scope.at_us,
            retry=bound.retry,
            rides=effect.riding,
            rate=effect.environment.rate,
        )

    async def now(self, step: str) -> datetime:
        return moment((await self.machine.draw(step, NOW)).value)

    async def sleep(self, step: str, nap: Nap) -> None:
        await self.machine.sleep(step, nap.until_us, nap.lasts_us)

    async def deadline(self, step: str, nap: Nap) -> Deadline:
        limit = Limit(step, (await self.machine.chosen(step, "", DEADLINE, nap.ends)).value)
        scopes, branch = self.machine.scopes, branch_of(step)
        return Deadline(moment(limit.at_us), partial(scopes.enter, branch, limit), partial(scopes.leave, branch, limit))

    async def wait(self, step: str, wait: Wait[Any]) -> Any:
        """The answer, decoded. Raises WaitLapsed."""
        return wait.value(self.run_id, step, await answered(self.machine, step, wait.wanted))

    def publish(self, branch: str, name: str, value: Any) -> None:
        """Raises ValueNotStorable, InvalidName."""
        publish(self.machine, check_step_name(name), spoken(f"publication {name!r}", value), branch)

    def line(self, branch: str, level: int, event: str, fields: dict[str, Any]) -> Callable[[], None] | None:
        """What is to be said in the log; None for nothing, in a replay."""
        replays = self.machine.steps.recorded_next(branch) is not None
        if self.machine.mail.dry or replays:
            return None
        step = self.machine.steps.latest.get(branch, "")
        return partial(logger("run").write, level, event, {"run_id": self.run_id, "step": step, **fields})

    async def random(self, step: str) -> float:
        """53 bits of what was drawn: every float in [0, 1) that is a multiple of 2**-53 is as likely."""
        return (self._bits(await self.machine.draw(step, RANDOM)) >> 75) / (1 << 53)

    async def uuid(self, step: str) -> UUID:
        """Version 4 (RFC 9562 section 5.4)."""
        return UUID(int=self._bits(await self.machine.draw(step, UUID_FORM)), version=4)

    @staticmethod
    def _bits(drawn: Decision) -> int:
        return int(drawn.value, 16)

    async def decide(self, step: str, deciding: Deciding) -> Any:
        """The decision's value, decoded."""
        if deciding.retry is None:
            return self._decided(deciding, await self.machine.decide(step, deciding.fingerprint, deciding))
        return self._decided(deciding, await again.decided(self.machine, step, deciding.fingerprint, deciding, deciding.retry))

    def _decided(self, deciding: Deciding, decision: Decision) -> Any:
        if decision.error:
            raise DecisionFailed(run_id=self.run_id, step=decision.step, error=decision.error, message=decision.value)
        with reading(self.machine, decision.step):
            return deciding.decode(decision.value)

    async def perform(self, step: str, bound: Bound[Any], key: str | None) -> Any:
        """The effect's value, or the error that its outcome stands for."""
        if _is_wanted_again(bound):
            outcome = await self.attempt(step, bound, key)
        else:
            request = self._reached(step, bound, key)
            outcome = self.outcome(step, bound, request.key, await self.machine.perform(step, request))
        if isinstance(outcome, Rejected):
            raise outcome.error
        return outcome.value

    async def attempt(self, step: str, bound: Bound[Any], key: str | None) -> Applied[Any] | Rejected:
        if bound.retry is None or not _is_wanted_again(bound):
            request = self._reached(step, bound, key)
            return self.outcome(step, bound, request.key, await self.machine.perform(step, request))
        self.stretches.check(step, bound.effect)
        wanted = Wanting(bound, bound.retry, key, self.request)
        settled = await again.performed(self.machine, step, bound.retry, wanted.request, wanted.cause_of)
        return self.outcome(settled.step, bound, wanted.keys[settled.step], settled)

    def _reached(self, step: str, bound: Bound[Any], key: str | None) -> Request:
        self.stretches.check(step, bound.effect)
        return self.request(step, bound, key)

    async def compensate(self, step: str, reached: Sequence[str]) -> Compensated:
        """Undo what has been applied of the effects at these steps."""
        return await Undoing(self.machine, self.namespace, self.request).run(step, reached)

    def outcome(self, step: str, bound: Bound[Any], key: str, settled: Settled) -> Applied[Any] | Rejected:
        """What a settlement means to the workflow. Raises NotExecuted and OutcomeUnavailable."""
        effect = bound.effect
        try:
            if settled.outcome is OutcomeKind.APPLIED or settled.outcome is OutcomeKind.MIXED:
                return Applied(effect.decode_value(settled.value))
            if settled.outcome is OutcomeKind.REJECTED:
                return Rejected(effect.decode_rejection(settled.error, settled.value))
        except ValueUnreadable as error:
            raise read_in(self.machine, settled.step, error) from error
        about = {"run_id": self.run_id, "step": step, "effect": effect.name, "key": key, "reason": settled.reason or settled.row}
        match settled.outcome:
            case OutcomeKind.APPLIED_WITHOUT_VALUE:
                if effect.accepts_none:
                    return Applied(None)
                raise OutcomeUnavailable(**about)
            case _:
                raise self._passed(step, settled) or self._exhausted(settled, about) or NotExecuted(**about)

    def _exhausted(self, settled: Settled, about: dict[str, str]) -> RetriesExhausted | None:
        """What a settlement as not executed means that came because a retry policy had enough."""
        recorded = self.machine.history.steps.get(settled.step)
        if not isinstance(recorded, EffectStep):
            return None
        contract = self.machine.contracts[recorded.intent.contract]
        if not given_up(recorded, contract, settled.at_us):
            return None
        last = recorded.observations[-1].answer if recorded.observations else None
        said = "nothing was heard" if last is None else last.detail or last.kind.value
        return RetriesExhausted(**about, tries=len(effect_attempts(recorded)), last=said)

    def _passed(self, step: str, settled: Settled) -> DeadlinePassed | None:
        """What a settlement as not executed means that came with the deadline of its scope."""
        recorded, limit = self.machine.history.steps.get(step), self.machine.scopes.bound(branch_of(step))
        at_us = recorded.intent.deadline_us if isinstance(recorded, EffectStep) else None
        if at_us is None or settled.at_us < at_us:
            return None
        named = limit.step if limit is not None else "of its scope"
        fate = f"The effect was proven not executed ({settled.reason})"
        return DeadlinePassed(run_id=self.run_id, step=step, deadline=named, at=iso(at_us), fate=fate)


def _is_wanted_again(bound: Bound[Any]) -> bool:
    """Whether a rejection may be followed by a further effect."""
    return bound.retry is not None and bool(bound.retry.rejections)
