"""Promises, asked of every state: the ground truth is the judge.

Owns what counts as a violation. Knows of the core only entries and the names of rows; what was proven or not is never taken from its
facts. Invariant: `check_state` and `check_stretch` raise Violated with the promise's name, or return.
"""

from __future__ import annotations

from typing import Final

from recovery.core.contracts import Deletion, Kind, Replay
from recovery.core.entries import AnswerKind, Attempt, Observation, OutcomeKind, Settled, Source
from recovery.core.history import EffectStep
from tests.model.environment import Fields, executions, items_applied
from tests.model.states import Stage, State, happened
from tests.model.workers import TIMEOUT, Stretch, Violated

FALSE_ALARMS: Final = {"duplicate", "absence-contradicted", "key-mismatch", "receipt-mismatch"}
"""Rows which say that a contract is not kept."""

NOTHING_TOLD: Final = {AnswerKind.UNREACHABLE, AnswerKind.TURNED_AWAY, AnswerKind.NOT_SENT, AnswerKind.IN_FLIGHT}
ROUNDS_MAX: Final = 40


def check_state(stage: Stage, state: State) -> None:
    """I1 and I3, in every state: also long after the settlement."""
    contract = stage.environment.contract
    times = executions(state.world)
    if stage.setting.honest and contract.kind is not Kind.READ and times > 1:
        raise Violated(f"I1: applied {times} times")
    step = stage.workers.journals.step(state.journal)
    if step is not None and step.settled is not None and not step.settled.heuristic:
        _check_truth(stage, state, step.settled)


def _check_truth(stage: Stage, state: State, settled: Settled) -> None:
    world, kind = state.world, stage.environment.contract.kind
    if kind is Kind.READ:
        return  # nothing to contradict: a read changes nothing
    if settled.outcome is OutcomeKind.MIXED:
        told = [item["kind"] == AnswerKind.FOUND.value for item in settled.value]
        if told != list(items_applied(world)):
            raise Violated(f"I3: settled as {told}, and the items are {items_applied(world)}")
        return
    if happened(settled.outcome) != bool(executions(world)) and (stage.setting.honest or happened(settled.outcome)):
        raise Violated(f"I3: settled as {settled.outcome.value} by {settled.row}, and it was applied {executions(world)} times")
    if settled.outcome is not OutcomeKind.APPLIED or not stage.setting.honest:
        return
    expected = Fields(id=1) if settled.reconstructed else Fields(id=1, units=2, state=0)
    if settled.value != expected:
        raise Violated(f"I2: the first reply was {dict(expected)}, and the outcome is {settled.value}")


def check_stretch(stage: Stage, before: State, after: State, stretch: Stretch) -> None:
    """I2, I4 (in the stretch itself), I7, and what no verdict may say or do in an honest world."""
    step = stage.workers.journals.step(stretch.journal)
    assert step is not None
    setting, now = stage.setting, before.now
    kept = setting.honest and not before.flags.upgraded  # with other bytes, A5 does not hold
    if kept and (wrong := FALSE_ALARMS & set(stretch.rows)):
        raise Violated(f"I3: {min(wrong)} is concluded, and the contract is kept")
    if kept and "contradicted" in stretch.rows and step.settled is not None and not step.settled.heuristic:
        raise Violated("I3: an outcome is called contradicted, and the contract is kept")
    if stretch.ends == "send":
        _check_licence(stage, before, step, stretch)
    if after.left.claims == before.left.claims:
        _check_spinning(before, stretch, now)
    _check_unanswered(step, stretch, now)
    if stretch.ends in {"park", "sleep", "settled"}:
        _check_second_look(stage, before, stretch)
    if stretch.ends == "park":
        _check_doubt(stage, before, step, stretch)
    if stretch.ends == "settled" and step.settled is not None and step.settled.heuristic:
        _check_word(before, step)


def _check_licence(stage: Stage, before: State, step: EffectStep, stretch: Stretch) -> None:
    """Rule 1: still wanted, and the same bytes where nobody would notice others."""
    contract = stage.environment.contract
    if not before.flags.wanted or (contract.valid_for_us is not None and before.now >= step.intent.at_us + contract.valid_for_us):
        raise Violated("rule 1: sends what nobody wants any more")
    assert stretch.attempt is not None
    if stretch.attempt.purpose == "resend" and before.flags.upgraded and not contract.mismatch_checked:
        raise Violated("rule 1: sends other bytes under the same key, and nobody compares")


def _check_spinning(before: State, stretch: Stretch, now: int) -> None:
    """I7: without news or a passed time nothing is tried again."""
    owner = before.owner
    if owner is None or owner.phase != stretch.ends or owner.asked != now or owner.phase == "sleep":
        return
    if owner.phase == "ask" or owner.reply is None or owner.reply.kind in NOTHING_TOLD:
        raise Violated(f"I7: tries to {stretch.ends} again in the very moment of the last answer")


def _check_unanswered(step: EffectStep, stretch: Stretch, now: int) -> None:
    """I7: a re-send or close that may still be answered is not followed by another."""
    if stretch.ends not in {"send", "close", "cancel"} or stretch.attempt is None or stretch.attempt.purpose == "send":
        return
    for attempt in step.attempts[:-1]:
        if attempt.purpose != "send" and not _replies_to(step, attempt) and now < attempt.send_until_us:
            raise Violated(f"I7: attempt {attempt.number} may still be answered, and another {stretch.ends} follows")


def _check_second_look(stage: Stage, before: State, stretch: Stretch) -> None:
    again = stage.workers.stretch(stretch.journal, None, before.now, before.flags)
    if stage.workers.journals.all[stretch.journal].late:  # taken into the chain, or recorded against the outcome, once
        stretch, again = again, stage.workers.stretch(again.journal, None, before.now, before.flags)
    if again.appended or again.ends != stretch.ends or again.until != stretch.until:
        raise Violated(f"I7: looking again appends {again.appended} entries and ends in {again.ends}, by {', '.join(again.rows)}")
    step = stage.workers.journals.step(stretch.journal)
    if stretch.ends == "settled" and step is not None and (again.settled != step.settled or stretch.settled != step.settled):
        raise Violated("I2: looking again gives another outcome")


def _check_doubt(stage: Stage, before: State, step: EffectStep, stretch: Stretch) -> None:
    """I2: no doubt where the outcome is told; rulings: a restored step is asked about before a person is."""
    contract, setting = stage.workers.contracts[-1], stage.setting
    if not setting.honest or before.flags.upgraded or len(stage.workers.contracts) > 1:
        return
    for noted in step.observations:
        told, source = noted.answer, noted.observation.source
        if told.kind is AnswerKind.FOUND and source is not Source.OPERATOR and isinstance(told.value, dict):
            alone = not before.flags.incarnation and all(
                attempt.sent_at_us > noted.observation.observed_at_us for attempt in step.attempts[1:]
            )
            lost = (
                source is Source.LATE and noted.observation.attempt is None
            )  # of an attempt that a backup has lost, or of a question
            first = alone or (not lost and (contract.replay_success is Replay.ORIGINAL and not contract.shown_once))
            if (first and told.value.get("state") == 0) or (contract.stable_fields and not contract.shown_once):
                raise Violated(f"I2: parks by {stretch.rows[-1]}, and the outcome is told")
        if told.kind is AnswerKind.GONE and source is not Source.OPERATOR:
            raise Violated(f"I2: parks by {stretch.rows[-1]}, and it is known to have happened")
    asked = any(noted.observation.source is Source.PROBE for noted in step.observations)
    if stretch.rows[-1] == "restored-park" and stage.workers.can_probe and not asked:
        raise Violated("ruling on restored journals: a person is called, and the environment was never asked")


def _check_word(before: State, step: EffectStep) -> None:
    """Authority: an operator's word fills gaps and never overrides a proof."""
    harmless = {AnswerKind.NOT_SENT, AnswerKind.TURNED_AWAY}
    proven = all(_said(step, attempt) & harmless and _said(step, attempt) <= harmless for attempt in step.attempts)
    if proven and not before.flags.wanted and not before.flags.incarnation and step.settled is not None:
        raise Violated(f"authority: nothing was sent, by proof, and an operator's word makes it {step.settled.outcome.value}")


def _replies_to(step: EffectStep, attempt: Attempt) -> list[Observation]:
    return [noted.observation for noted in step.observations if noted.observation.attempt == attempt.number]


def _said(step: EffectStep, attempt: Attempt) -> set[AnswerKind]:
    return {reply.answer.kind for reply in _replies_to(step, attempt)}


# -- that it ends ------------------------------------------------------------------------------------------------------


def check_calm(stage: Stage, state: State) -> str:
    """I8: from here on nothing fails and no copy is late. Recovery must end, and find what is there to be found."""
    if state.flags.scope != "here":
        return ""
    start = state._replace(world=state.world._replace(copies=()), owner=None, old=None)
    calm, rows = start, list[str]()
    for _ in range(ROUNDS_MAX):
        stretch = stage.look(calm) if calm.owner is None else _answer(stage, calm)
        rows += stretch.rows
        calm = stage.enter(calm._replace(owner=None), stretch)
        if stretch.ends in {"settled", "park"}:
            check_state(stage, calm)
            _check_found(stage, start, calm, stretch, rows)
            return stretch.ends
        if stretch.ends == "sleep":
            calm = calm._replace(now=stretch.until, owner=None)
        elif stretch.ends in {"send", "close", "cancel"}:
            copy = calm.world.copies[-1]
            _, world, reply = stage.environment.land(calm.world, copy, calm.now)[0]
            assert calm.owner is not None
            calm = calm._replace(world=world, owner=calm.owner._replace(reply=reply))
    raise Violated(f"I8: does not end in {ROUNDS_MAX} rounds of calm: {', '.join(rows[-8:])}")


def _answer(stage: Stage, calm: State) -> Stretch:
    assert calm.owner is not None
    owner = calm.owner
    reply = owner.reply if owner.reply is not None else stage.environment.look(calm.world, calm.now, calm.flags.epoch)[-1][2]
    _, _, stretch = stage._answered(calm, owner, reply, calm.left)
    return stretch


def _check_found(stage: Stage, start: State, calm: State, stretch: Stretch, rows: list[str]) -> None:
    """Doubt is allowed only where nothing could have ended it."""
    if stretch.ends != "park" or not stage.setting.honest or len(stage.workers.contracts) > 1 or start.flags.incarnation:
        return
    contract, step = stage.environment.contract, stage.workers.journals.step(start.journal)
    if step is None or stage.environment.batched or start.flags.upgraded:
        return
    _check_unsent(stage, start, step, rows)
    lookup = contract.lookup
    seen = lookup is not None and lookup.authoritative and lookup.retention_us is None and lookup.marker_reliable
    visible = seen and lookup is not None and lookup.deletion is not Deletion.INVISIBLE
    whole = lookup is not None and not contract.shown_once and (lookup.original or bool(contract.stable_fields))
    events = start.world.events
    if visible and whole and events and events[-1][1] == "ours" and step.probes < stage.setting.probes and stage.workers.can_probe:
        raise Violated(f"liveness: it happened and can be seen, and recovery ends in doubt: {', '.join(rows)}")
    if start.flags.wanted and not start.world.refusing and _licensed(stage, start, step):
        raise Violated(f"liveness: the key may be sent again, and recovery ends in doubt: {', '.join(rows)}")


def _check_unsent(stage: Stage, start: State, step: EffectStep, rows: list[str]) -> None:
    harmless = {AnswerKind.NOT_SENT, AnswerKind.TURNED_AWAY}
    proven = all(_said(step, attempt) and _said(step, attempt) <= harmless for attempt in step.attempts)
    left = sum(AnswerKind.NOT_SENT not in _said(step, attempt) for attempt in step.attempts) < stage.setting.attempts
    told = any(noted.observation.attempt is None for noted in step.observations)
    if proven and left and not told and not start.world.refusing and not start.world.events:
        raise Violated(f"liveness: nothing was done, by proof, and recovery ends in doubt: {', '.join(rows)}")


def _licensed(stage: Stage, start: State, step: EffectStep) -> bool:
    """Rule 1, read again for plain keyed contracts; the key has answered nothing that spoils it."""
    contract = stage.environment.contract
    plain = contract.kind is Kind.KEYED and contract.replay_success is Replay.ORIGINAL and not contract.shown_once
    safe = not contract.fail_open and contract.lock_outlives_execution and contract.failures_effect_free and contract.window_us
    told = {noted.answer.kind for noted in step.observations} - NOTHING_TOLD
    if not plain or not safe or contract.replay_failure is Replay.INDETERMINATE or told or not step.attempts:
        return False
    sends = [a for a in step.attempts if AnswerKind.NOT_SENT not in _said(step, a)]
    t0 = min((attempt.sent_at_us for attempt in sends), default=start.now)
    pause = max((noted.observation.observed_at_us + 2 for noted in step.observations), default=0)
    due = max([start.now, pause, *(attempt.send_until_us for attempt in step.attempts if attempt.purpose != "send")])
    if contract.valid_for_us is not None and due >= step.intent.at_us + contract.valid_for_us:
        return False
    latest = due + TIMEOUT + contract.settle_window_us + contract.clock_error_us
    return latest < t0 + (contract.window_us or 0) and len(sends) < stage.setting.attempts and not contract.close
