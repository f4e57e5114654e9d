"""Replaying: the way of a step that is recorded as its code asks for it, which is nearly every step of a run that is taken over.

Owns when a step can be given its recorded outcome at once, without a request, a procedure or a judgement. Does no I/O. Invariants: what it answers is what the
procedure of every step (`Session.attempt`) would, and the machine is left as that would leave it; wherever it does not answer, nothing has changed, and that
procedure is asked.

That procedure compares a recorded decision's form and fingerprint, and an effect's name, environment, key and fingerprint, with what is asked for, and heeds
nothing else of a settled step that nothing speaks against. Name and environment are compared once for all steps of a form. An effect's fingerprint is made of
its name and of the arguments as they are stored: where both are the same text, so is it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from recovery import texts
from recovery.core.entries import OutcomeKind
from recovery.core.errors import DefinitionError, ValueUnreadable
from recovery.core.forgetting import in_common
from recovery.core.history import DecisionStep, EffectStep
from recovery.core.ids import derive_key
from recovery.core.recorded import Asking, Unread
from recovery.core.request import Request
from recovery.definitions.deciding import Deciding
from recovery.definitions.effect import Bound, Effect
from recovery.definitions.registry import check_complete
from recovery.definitions.run import Applied

if TYPE_CHECKING:
    from recovery.drivers.session import Session


@dataclass(slots=True)
class Replays:
    """What is asked for as the forms of a run's intents say, by form: the requests of one effect, but for what differs from step to step. It is told of its
    session and does not keep it: each settled run would be a circle that only a garbage collection ends."""

    _known: dict[int, tuple[Asking, Request]] = field(default_factory=dict)

    def given(self, session: Session, step: str, bound: Bound[Any], key: str | None) -> Applied[Any] | None:
        """The recorded value of a step that has just begun, and has ended by that; None where it is to be asked for in the way of every step."""
        machine = session.machine
        recorded = machine.history.steps.get(step)
        if not isinstance(recorded, EffectStep) or (unread := recorded.unread) is None or (giving := unread.giving) is None:
            return None
        try:
            if _disturbed(session, step) or (alike := self._asked(session, step, unread, bound, key)) is None:
                return None
            value = bound.effect.decode_value(giving.value(unread.given))
        except ValueUnreadable:
            return None
        except BaseException as error:  # an interrupted step has ended, too; raised again
            machine.finish(step, error)
            raise
        machine.requests[step] = alike
        if machine.tells:
            machine.judgements.append((recorded, None))
        machine.passed(step)
        return Applied(value)

    @staticmethod
    def decided(session: Session, step: str, deciding: Deciding) -> Applied[Any] | None:
        """The same of a decision that has just begun: one of a function that was made from these very arguments, by the same versions of their models."""
        machine = session.machine
        recorded = machine.history.steps.get(step)
        if not isinstance(recorded, DecisionStep) or deciding.retry is not None or _disturbed(session, step):
            return None
        decision = recorded.decision
        if decision.form or decision.error or decision.fingerprint != deciding.fingerprint:
            return None
        try:
            value = deciding.decode(decision.value)
        except ValueUnreadable:
            return None
        except BaseException as error:  # an interrupted step has ended, too; raised again
            machine.finish(step, error)
            raise
        machine.finish(step)
        return Applied(value)

    def _asked(self, session: Session, step: str, unread: Unread, bound: Bound[Any], key: str | None) -> Request | None:
        """What the request of a step has in common with others, if it is asked for as it is recorded."""
        effect, asking = bound.effect, unread.asking
        known = self._known.get(id(asking))
        if known is None or known[1].definition is not effect:
            if not _asks_for(asking, effect):
                return None
            known = self._known[id(asking)] = (asking, in_common(session.request(step, bound, key)))
            session.machine.contracts.setdefault(effect.contract.digest, effect.contract)
        history = session.machine.history
        name = derive_key(session.namespace, history.run_id, history.places.key_name(step)) if key is None else key
        as_recorded = (
            isinstance(name, str)
            and len(name) <= effect.contract.key_length_max
            and bound.retry is None
            and unread.giving is not None
            and unread.giving.pattern.outcome is OutcomeKind.APPLIED
            and asking.is_of(unread.asked, name, texts.dumps(bound.stored))
        )
        return known[1] if as_recorded else None


def _disturbed(session: Session, step: str) -> bool:
    """Whether something is going on that a step has to heed, or somebody wants no step to go the short way."""
    machine = session.machine
    mail = machine.mail
    return bool(
        not machine.straight
        or machine.history.overrides
        or machine.in_turn(step)
        or mail.approved
        or mail.used
        or session.stretches.open
        or machine.heard()
    )


def _asks_for(asking: Asking, effect: Effect[..., Any]) -> bool:
    """Whether this effect is the one of these intents, and can be asked for at all. A scope that is a function is asked each time."""
    pattern, environment = asking.pattern, effect.environment
    if pattern.effect != effect.name or pattern.environment != environment.name or not isinstance(environment.scope, str):
        return False
    try:
        check_complete(effect)
    except DefinitionError:
        return False
    return True
