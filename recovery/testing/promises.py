"""The promises I1 to I10, each as a function that looks for a violation in a world.

Owns what each promise means in terms of a journal and of what really happened. Uses nothing that the engine decided with, except for I3,
which judges again. Invariant: a function gives one sentence per violation, and none for a world that keeps its promise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Final

from recovery import codec
from recovery.core.contracts import Enforced, Kind
from recovery.core.entries import (
    ADOPTED,
    CHILD,
    AnswerKind,
    Decision,
    Intent,
    Opened,
    OutcomeKind,
    Override,
    Settled,
    Verb,
    Verdict,
    encode,
)
from recovery.core.history import EffectStep
from recovery.core.ids import ROOT, branch_of
from recovery.core.judgement import NAME_TAKEN
from recovery.core.mail import Mail, Open, Wanted, waits_in
from recovery.core.resting import GRAVEST_FIRST
from recovery.core.rows import Action
from recovery.core.steps import lies_in
from recovery.core.wording import counted
from recovery.ports import Message
from recovery.storage.reading import Whole
from recovery.testing.judging import judged_again
from recovery.testing.ledger import Claimed, Declined, Durable, Ended, Executed, Left
from recovery.testing.logical import is_ordered, repeated
from recovery.testing.worlds import World, attempts_in, observation_in

Problems = Iterator[str]

_NOTHING_DONE: Final = {AnswerKind.NOT_SENT, AnswerKind.TURNED_AWAY, AnswerKind.REFUSED}
_KEYLESS: Final = {Kind.NAMED, Kind.PREPARED, Kind.PROBEABLE, Kind.OPAQUE}


_NO_EFFECT = frozenset({"close", "cancel"})
"""Purposes of attempts that never carry the effect."""


def i1_once(world: World) -> Problems:
    """At most one applied effect per step, over forks and generations too unless an order says so; without a key, no new attempt before the earlier ones are proven without effect."""
    for key, times in world.executions().items():
        if times > 1:
            yield f"{key} was carried out {times} times"
    if any(map(is_ordered, world.runs.values())):
        yield from (str(happened) for happened in repeated(world.runs, world.executions()) if happened.too_often)
    for run_id, loaded in world.runs.items():
        for effect in loaded.history.effects:
            contract = loaded.contracts[effect.intent.contract]
            if contract.kind in _KEYLESS and not contract.keyed and not contract.trust_settle:
                yield from _unproven_attempts(run_id, effect, loaded)


def _unproven_attempts(run_id: str, effect: EffectStep, loaded: Whole) -> Problems:
    """Attempts that began while an earlier one might have acted, on the word of the journal and of late evidence alone."""
    enforced = loaded.contracts[effect.intent.contract].enforced is Enforced.DEADLINE
    heard_late = [noted.observation for noted in effect.observations if noted.seq is None]
    open_attempts: dict[int, int] = {}  # number -> its deadline
    for entry in loaded.entries:
        for attempt in attempts_in(entry):
            if attempt.step != effect.step or attempt.purpose in _NO_EFFECT:
                continue
            known = [late for late in heard_late if late.observed_at_us <= attempt.sent_at_us]
            still = set(open_attempts) - {late.attempt for late in known if late.answer.kind in _NOTHING_DONE}
            if still:
                yield f"{run_id}: attempt {attempt.number} of {effect.step} began while attempt {min(still)} might have acted"
            open_attempts[attempt.number] = attempt.send_until_us
        seen = observation_in(entry)
        if seen is None or seen.step != effect.step:
            continue
        if seen.answer.kind in _NOTHING_DONE and seen.attempt is not None:
            open_attempts.pop(seen.attempt, None)
        as_of = seen.answer.as_of_us if enforced and seen.answer.kind is AnswerKind.ABSENT else None
        if as_of is not None:  # the environment's own clock has passed their deadlines, and nothing is there
            open_attempts = {number: until for number, until in open_attempts.items() if until >= as_of}


def i2_same_outcome(world: World) -> Problems:
    """Every caller gets the first durable outcome, and a step's outcome is what the environment really said."""
    for run_id, loaded in world.runs.items():
        ended = loaded.history.ended
        for call in world.of(Ended):
            if call.run_id != run_id or call.exit != "settled":
                continue
            if ended is None:
                yield f"{run_id}: a caller got {call.value!r}, and the run has no durable outcome"
            elif codec.canonical(call.value) != codec.canonical(ended.value):
                yield f"{run_id}: a caller got {call.value!r}, and the durable outcome is {ended.value!r}"
        for effect in loaded.history.effects:
            if (
                effect.settled is not None
                and not effect.settled.heuristic
                and loaded.contracts[effect.intent.contract].kind is not Kind.READ
            ):
                yield from _untrue(world, run_id, effect, effect.settled)
        yield from _wrongly_adopted(world, run_id, loaded)


def _wrongly_adopted(world: World, run_id: str, loaded: Whole) -> Problems:
    """What a parent adopted is the entry that settled its child, as it stands there."""
    for entry in loaded.entries:
        if not isinstance(entry, Decision) or entry.form != ADOPTED:
            continue
        child = entry.value["run_id"]
        there = world.runs.get(child)
        ended = None if there is None else there.history.ended
        if ended is None or encode(ended) != entry.value["settled"]:
            yield f"{run_id}: {entry.step} adopted {entry.value['settled']!r}, and child {child} came to {ended!r}"


def _untrue(world: World, run_id: str, effect: EffectStep, settled: Settled) -> Problems:
    key = effect.intent.key
    done = [event.value for event in world.of(Executed) if event.key == key]
    declined = [event.value for event in world.of(Declined) if event.key == key]
    about = f"{run_id}: {effect.step} is settled as {settled.outcome.value}"
    match settled.outcome:
        case OutcomeKind.APPLIED if settled.reconstructed:
            if not done or any(done[0].get(name) != value for name, value in settled.value.items()):
                yield f"{about}, reconstructed as {settled.value!r}; the environment did {done!r}"
        case OutcomeKind.APPLIED:
            if not done or codec.canonical(settled.value) != codec.canonical(done[0]):
                yield f"{about} with {settled.value!r}; the environment did {done!r}"
        case OutcomeKind.APPLIED_WITHOUT_VALUE:
            if not done:
                yield f"{about}; the environment did nothing under {key}"
        case OutcomeKind.MIXED:
            yield from _untrue_items(world, about, key, settled.value)
        case OutcomeKind.REJECTED if settled.error == NAME_TAKEN:
            if done:
                yield f"{about}, its name taken; the environment did {done!r}"
        case OutcomeKind.REJECTED:
            if done or settled.value not in declined:
                yield f"{about} with {settled.value!r}; the environment declined {declined!r} and did {done!r}"
        case _:
            if done:
                yield f"{about}; the environment did {done!r}"


def _untrue_items(world: World, about: str, key: str, items: list[dict[str, Any]]) -> Problems:
    for number, item in enumerate(items):
        done = [event.value for event in world.of(Executed) if event.key == f"{key}/{number}"]
        declined = [event.value for event in world.of(Declined) if event.key == f"{key}/{number}"]
        happened = item["kind"] == AnswerKind.FOUND
        if item["value"] not in (done if happened else declined) or (done and not happened):
            yield f"{about}, item {number} {item['kind']} with {item['value']!r}; the environment did {done!r} and declined {declined!r}"


def i3_proof(world: World) -> Problems:
    """Every settled outcome names its evidence, its row and its assumptions, and judging again gives the same row."""
    for run_id, loaded in world.runs.items():
        for effect in loaded.history.effects:
            settled = effect.settled
            if settled is None:
                continue
            never_left = not effect.attempts and settled.outcome is OutcomeKind.NOT_EXECUTED  # which the journal itself proves (I4)
            if not settled.evidence and settled.observation is None and not never_left:
                yield f"{run_id}: {effect.step} is settled by {settled.row or 'no row'} without any evidence"
        yield from judged_again(world, loaded)


def i4_write_ahead(world: World) -> Problems:
    """An attempt is durable, as it leaves, before its first byte; a sending again is an attempt of its own."""
    unsent: Counter[tuple[str, str, int]] = Counter()
    durable: dict[tuple[str, str, int], tuple[str, str]] = {}
    intents: dict[tuple[str, str], Intent] = {}
    for event in world.events:
        if isinstance(event, Durable):
            for entry in event.entries:
                if isinstance(entry, Intent):
                    intents[event.run_id, entry.step] = entry
                for attempt in attempts_in(entry):
                    durable[event.run_id, attempt.step, attempt.number] = (attempt.epoch, attempt.purpose)
                    unsent[event.run_id, attempt.step, attempt.number] += 1
        elif isinstance(event, Left):
            about = f"{event.run_id}: attempt {event.attempt} of {event.step} left {event.process}"
            which = (event.run_id, event.step, event.attempt)
            epoch, _ = durable.get(which, ("", ""))
            unsent[which] -= 1
            intent = intents.get((event.run_id, event.step))
            if intent is None or not epoch:
                yield f"{about} before it was durable"
            elif epoch != event.epoch:
                yield f"{about} with epoch {event.epoch}, and is recorded with {epoch}"
            elif unsent[which] < 0:
                yield f"{about} more often than it is recorded"
            elif (intent.key, intent.fingerprint) != (event.key, event.fingerprint) or (
                event.purpose == "send" and dict(intent.arguments) != event.arguments
            ):
                yield f"{about} with another key or request than its intent's"


def i5_one_meaning(world: World) -> Problems:
    """One key has one fingerprint and one owning step, in the journal and on the wire."""
    owners: dict[tuple[str, str, str], tuple[str, str, str]] = {}
    for run_id, intent in world.intents():
        place, meaning = (intent.environment, intent.scope, intent.key), (intent.fingerprint, run_id, intent.step)
        if owners.setdefault(place, meaning) != meaning:
            yield f"{intent.key} belongs to {owners[place][1]} {owners[place][2]} and to {run_id} {intent.step}"
    meant: dict[str, tuple[str, str]] = {}
    for sent in world.of(Left):
        if meant.setdefault(sent.key, (sent.fingerprint, sent.run_id)) != (sent.fingerprint, sent.run_id):
            yield f"{sent.key} was sent with two meanings"
    for run_id, loaded in world.runs.items():
        for step in loaded.history.effects:
            keys = {sent.key for sent in world.of(Left) if sent.step == step.step and sent.run_id == run_id}
            if keys - {step.intent.key}:
                yield f"{run_id}: {step.step} was sent under {sorted(keys)}, and its key is {step.intent.key}"


def i6_fence(world: World) -> Problems:
    """No superseded writer's append is in the journal, and the journal is what was acknowledged."""
    claimed: dict[str, tuple[int, ...]] = {}
    acknowledged: dict[str, int] = {}
    for event in world.events:
        if isinstance(event, Claimed):
            claimed[event.run_id] = max(claimed.get(event.run_id, (0, 0)), _epoch(event.epoch))
        elif isinstance(event, Durable):
            acknowledged[event.run_id] = event.first_seq + len(event.entries) - 1
            if _epoch(event.epoch) < claimed.get(event.run_id, (0, 0)):
                yield f"{event.run_id}: entry {event.first_seq} was appended at epoch {event.epoch} after a claim at a later one"
    for run_id, loaded in world.runs.items():
        rows = loaded.rows
        for before, after in pairwise(rows):
            if after.epoch < before.epoch:
                yield f"{run_id}: entry {after.seq} of epoch {after.epoch} stands behind one of epoch {before.epoch}"
        if acknowledged.get(run_id, len(rows)) != len(rows):
            yield f"{run_id}: {acknowledged[run_id]} entries were acknowledged and {len(rows)} are there"


def i7_idempotent_recovery(world: World) -> Problems:
    """Without news, a second recovery appends and sends nothing."""
    for again in world.again:
        if again.before != again.after:
            entries, left = (after - before for before, after in zip(again.before, again.after, strict=True))
            yield f"{again.run_id}: a second recovery without news appended {counted(entries, 'entry', 'entries')} and sent {counted(left, 'request')}"


def i8_it_ends(world: World) -> Problems:
    """A recovery keeps to its budgets and leaves every intent settled, or with a verdict that says what comes next."""
    sending_us = max((effect.timeout_us for effect in world.effects.values()), default=0) * world.budget.attempts
    for call in world.of(Ended):
        if call.budget_us is not None and call.took_us > call.budget_us + sending_us:
            yield f"{call.run_id}: {call.verb} by {call.process} took {call.took_us} us of virtual time; its budget is {call.budget_us}"
    for run_id, loaded in world.runs.items():
        yield from _overlooked(world, loaded, world.inboxes.get(run_id, ()))
        for effect in loaded.history.effects:
            free = {AnswerKind.NOT_SENT, AnswerKind.IN_FLIGHT}  # it never left, or met a copy at work, which time bounds
            unspent = {noted.observation.attempt for noted in effect.observations if noted.answer.kind in free}
            sent = sum(attempt.purpose not in _NO_EFFECT and attempt.number not in unspent for attempt in effect.attempts)
            busy = sum(
                noted.observation.attempt is None
                and noted.answer.kind is AnswerKind.IN_FLIGHT
                and not noted.observation.by_operator
                for noted in effect.observations
            )
            if sent > world.budget.attempts or effect.probes - busy > world.budget.probes:
                yield f"{run_id}: {effect.step} had {sent} attempts and {effect.probes - busy} probes"
        if _last_call_recovered(world, run_id):
            yield from _left_hanging(run_id, loaded)


def _overlooked(world: World, loaded: Whole, inbox: Sequence[Message]) -> Problems:
    """A run that was let go is due where its answer has come, or the end of a child that it waits for: else nobody who looks for what is due would go on
    with it. One that has an owner is looked at when that is gone, and one that a person holds, when it is released."""
    run, history, mail = loaded.run, loaded.history, Mail()
    mail.arrived(inbox)
    if run.status not in GRAVEST_FIRST or run.owner is not None or history.held is not None:
        return
    for known in waits_in(history):
        value = known.wait.value
        wanted = Wanted(name=value["name"], queue=value["queue"], read=lambda _message: {})
        message = mail.next(history, Open(known.wait, wanted)) if known.ended is None else None
        if message is not None and (run.next_look_us is None or run.next_look_us > message.at_us):
            yield f"{run.run_id}: {known.step} is answered in message {message.number}, and the run is not due"
    for step, said in history.awaited.items():
        child = world.runs.get(said.value["run_id"])
        if step in history.steps or child is None or child.history.ended is None:
            continue
        if run.next_look_us is None or run.next_look_us > child.run.updated_at_us:
            yield f"{run.run_id}: {step} waits for child {child.run.run_id}, which has settled, and the run is not due"


def _left_hanging(run_id: str, loaded: Whole) -> Problems:
    if loaded.history.divergence is not None:
        return
    for effect in loaded.history.unsettled:
        last = effect.verdicts[-1] if effect.verdicts else None
        if last is None or (last.action != Action.PARK and last.next_look_us is None):
            yield f"{run_id}: {effect.step} was left without a verdict that says what comes next"


def _last_call_recovered(world: World, run_id: str) -> bool:
    """Whether the last that happened to the run is a recovery that came to its end."""
    about = [event for event in world.events if isinstance(event, Claimed | Ended) and event.run_id == run_id]
    last = about[-1] if about else None
    looked = {"StoreUnavailable", "RunUnsettled"}  # it could do nothing, or somebody else is at work
    if not isinstance(last, Ended) or last.verb not in {"run", "recover"}:  # who gives an order may find that others are at work
        return False
    return last.exit in {"in_doubt", "unresolved"} and last.error not in looked


def i9_doubt_stops(world: World) -> Problems:
    """After an effect in doubt no later step of its branch starts, nor one that its branch was begun from, and the run does not end."""
    for run_id, loaded in world.runs.items():
        doubtful: set[str] = set()
        for entry in loaded.entries:
            if isinstance(entry, Verdict):
                (doubtful.add if entry.action == Action.PARK else doubtful.discard)(entry.step)
            elif isinstance(entry, Settled) and entry.step != ROOT:
                doubtful.discard(entry.step)
            elif isinstance(entry, Override) and entry.verb is Verb.RESTART:
                doubtful.clear()  # whoever ordered the new generation said what is to become of what the old one left
            elif isinstance(entry, Intent | Decision) or (isinstance(entry, Settled) and entry.step == ROOT):
                depended = [step for step in sorted(doubtful) if lies_in(branch_of(step), branch_of(entry.step))]
                if depended:
                    yield f"{run_id}: {entry.step or 'the end of the run'} came while {depended[0]} was in doubt"


def i10_output_commit(world: World) -> Problems:
    """An effect leaves only after every earlier step that it can depend on is durable; an outcome only after the run's end is; a child is stored
    only after its start is."""
    open_steps: dict[str, list[str]] = {}
    ended: set[str] = set()
    started: set[tuple[str, str, str]] = set()
    for event in world.events:
        if isinstance(event, Durable):
            for entry in event.entries:
                if isinstance(entry, Decision) and entry.form == CHILD:
                    started.add((event.run_id, entry.step, entry.value["run_id"]))
                elif isinstance(entry, Opened) and entry.parent and (entry.parent, entry.parent_step, event.run_id) not in started:
                    yield f"{event.run_id}: stored before its start at {entry.parent} {entry.parent_step} was durable"
                elif isinstance(entry, Intent):
                    open_steps.setdefault(event.run_id, []).append(entry.step)
                elif isinstance(entry, Override) and entry.verb is Verb.RESTART:
                    open_steps.pop(event.run_id, None)
                elif isinstance(entry, Settled) and entry.step == ROOT:
                    ended.add(event.run_id)
                elif isinstance(entry, Settled) and entry.step in open_steps.get(event.run_id, []):
                    open_steps[event.run_id].remove(entry.step)
        elif isinstance(event, Left):
            branch = branch_of(event.step)
            earlier = [step for step in open_steps.get(event.run_id, []) if step != event.step and lies_in(branch_of(step), branch)]
            if earlier:
                yield f"{event.run_id}: {event.step} left while {earlier[0]} was not settled"
        elif isinstance(event, Ended) and event.exit in {"settled", "failed"} and event.run_id not in ended:
            yield f"{event.run_id}: {event.verb} by {event.process} gave an outcome before it was durable"


@cache  # there are a handful, and each is looked at in every state
def _epoch(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


PROMISES: Final[dict[str, Callable[[World], Problems]]] = {
    "I1": i1_once,
    "I2": i2_same_outcome,
    "I3": i3_proof,
    "I4": i4_write_ahead,
    "I5": i5_one_meaning,
    "I6": i6_fence,
    "I7": i7_idempotent_recovery,
    "I8": i8_it_ends,
    "I9": i9_doubt_stops,
    "I10": i10_output_commit,
}


def broken(world: World, exempt: frozenset[str] = frozenset()) -> list[str]:
    """Every violation, with the name of its promise."""
    return [f"{name}: {problem}" for name, check in PROMISES.items() if name not in exempt for problem in check(world)]
