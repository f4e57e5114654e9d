"""Signalling: what is said to a run from outside, and whether it is taken.

Owns `signal`, one answer to one wait, and `send`, one more message of a topic. Procedures over operations. Invariants: a message never moves the run's head, so
that whoever works on the run goes on; the first answer to a wait is the only one, and whoever comes later is told so; what can be known to be refused
later is refused here.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from recovery import codec
from recovery.claims import World, load
from recovery.core.entries import ANSWER, JSON, Decision
from recovery.core.errors import RecoveryError, RunNotFound, SignalRefused
from recovery.core.history import History
from recovery.core.ids import check_run_id, check_step_name, digest_bytes, of_generation, step_id
from recovery.core.instants import iso
from recovery.core.mail import LAPSE, NOTE, SIGNAL, Known, slot_of, waits_in
from recovery.core.operations import Now, Use
from recovery.core.showing import MARKED, Veiled, shown
from recovery.crashpoints import around
from recovery.definitions.wait import FINGERPRINT_MIN
from recovery.operators.rehearsal import rehearsed
from recovery.ports import Delivered, Message, RunRow, SlotTaken
from recovery.storage.reading import Loaded

_SEE = "See what is waited for with `recover waits {}`."


@dataclass(frozen=True, slots=True, kw_only=True)
class Signalled:
    """What a run was told. step: the wait that it answers, "" for a message of a topic. waited_for: the run had reached that wait.

    repeated: the very same was said before. at_us: when it was said first, in microseconds since the Unix epoch.
    """

    run_id: str
    name: str
    step: str
    value: JSON
    by: str
    at_us: int
    number: int
    waited_for: bool
    repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What somebody says. about: the fingerprint of the call that it approves, or its beginning; valid_until_us: how long it stands."""

    value: JSON
    by: str
    about: str = ""
    valid_until_us: int | None = None
    token: str = ""

    @property
    def body(self) -> str:
        said = {"value": self.value, "about": self.about, "valid_until_us": self.valid_until_us}
        return codec.dumps({name: item for name, item in said.items() if name == "value" or item})


async def signal(world: World, run_id: str, name: str, word: Word) -> Signalled:
    """Answer a wait, by its name or its step. Durable on return; safe to repeat. Raises RunNotFound, SignalRefused, and ValueNotStorable for
    what does not fit the schema, where the workflow is known here."""
    loaded = await load(check_run_id(run_id))
    known = _wait_called(loaded.history, name)
    step = name if "#" in name else of_generation(step_id("", check_step_name(name), 1), loaded.history.generation)
    slot, now_us = step, await Now()
    if known is not None:
        step, slot = known.step, slot_of(loaded.history, known.step)
    token = word.token or digest_bytes(*(part.encode() for part in (run_id, slot, word.by, word.body)))
    message = Message(
        run_id=run_id, kind=SIGNAL, name=step.rpartition("/")[2].rpartition("#")[0], slot=slot, body=word.body, by=word.by, at_us=now_us, token=token
    )  # fmt: skip
    secret = known is not None and bool(known.wait.value.get("secret"))
    if (before := await Use(lambda journal: _said_before(journal.inbox(run_id), word, slot, token))) is not None:
        return _signalled(word, step, before, waited_for=known is not None, repeated=True, secret=secret)
    _check_open(loaded, message, known)
    if known is not None:
        await _check_fits(world, loaded, message, known)
    return await _delivered(message, word, step, waited_for=known is not None, secret=secret)


async def send(world: World, run_id: str, topic: str, word: Word) -> Signalled:
    """One more message of a topic, behind all earlier ones. Durable on return; a repeat with the same token is the same message.
    Raises RunNotFound, SignalRefused."""
    check_run_id(run_id)
    token = word.token or world.token()
    message = Message(
        run_id=run_id, kind=NOTE, name=check_step_name(topic), body=word.body, by=word.by, at_us=await Now(), token=token
    )
    if word.token and (before := await Use(lambda journal: _with_token(journal.inbox(run_id), token))) is not None:
        return _signalled(word, "", before, waited_for=False, repeated=True)
    return await _delivered(message, word, "", waited_for=False)


def _wait_called(history: History, name: str) -> Known | None:
    """The wait that a name or a step means; None if the run has not reached it. Raises SignalRefused where that is not clear, or another kind of step."""
    run_id, waits = history.run_id, waits_in(history)
    if "#" in name:
        found = [known for known in waits if known.step == name]
        if not found and name in history.steps:
            raise _refused(run_id, name, "that step waits for nothing", _SEE.format(run_id))
    else:
        found = [known for known in waits if known.wait.value["name"] == name]
        found = [known for known in found if known.ended is None] or found[-1:]
    if any(known.wait.value["queue"] for known in found):
        raise _refused(
            run_id,
            name,
            "it is a topic, whose messages wait in line",
            f"Send one with `recover send {run_id} {found[0].wait.value['name']}`.",
        )
    if len(found) > 1:
        steps = ", ".join(known.step for known in found)
        raise _refused(run_id, name, f"several waits have that name: {steps}", "Name one of these steps instead.")
    return found[0] if found else None


def _check_open(loaded: Loaded, message: Message, known: Known | None) -> None:
    """Raises SignalRefused where the answer is known to come too late, or from the wrong person, or about another call."""
    run, wait = loaded.run, known.wait if known else None
    if run.status.settled:
        raise _refused(
            run.run_id, message.name, f"the run is {run.status.value}", f"See how it ended with `recover show {run.run_id}`."
        )
    if known is not None and known.ended is not None:
        raise _refused(run.run_id, message.name, _ended(known.ended), _SEE.format(run.run_id))
    if wait is None:
        return
    until_us, by = wait.value["until_us"], wait.value.get("by")
    if until_us is not None and message.at_us >= until_us:
        raise _refused(run.run_id, message.name, f"the time for it ended at {iso(until_us)}", _SEE.format(run.run_id))
    if by and message.by not in by:
        raise _refused(run.run_id, message.name, f"{message.by!r} may not answer", f"It is to be answered by {', '.join(by)}.")
    about = codec.loads(message.body).get("about", "")
    if wait.fingerprint and not (len(about) >= FINGERPRINT_MIN and wait.fingerprint.startswith(about)):
        named = f"it names {about[:12]!r}" if about else "it names none"
        problem = f"it must name the call that it approves, {wait.fingerprint[:12]}, and {named}"
        advice = f"Look at the call with `recover waits {run.run_id}`, and name its fingerprint with --about."
        raise _refused(run.run_id, message.name, problem, advice)


async def _check_fits(world: World, loaded: Loaded, message: Message, known: Known) -> None:
    """Raises what the wait's own schema says, where the workflow is known here; elsewhere the run says it when it takes the answer in."""
    workflow = world.workflows.of(loaded.run.workflow, loaded.opened.version)
    if workflow is None:
        return
    machine = None
    with suppress(RecoveryError):  # code that no longer fits its journal: the run itself will say so
        machine = await rehearsed(world, loaded, workflow)
    if machine is not None and known.step in machine.mail.waits:
        machine.mail.waits[known.step].wanted.read(message)


async def _delivered(message: Message, word: Word, step: str, *, waited_for: bool, secret: bool = False) -> Signalled:
    with around("deliver"):
        came = await Use(lambda journal: journal.deliver(message))
    if isinstance(came, Delivered):
        repeated = came.message != replace(message, number=came.message.number)
        return _signalled(word, step, came.message, waited_for=waited_for, repeated=repeated, secret=secret)
    if isinstance(came, SlotTaken):
        raise _refused(message.run_id, message.name, _first(came.first, secret=secret), _SEE.format(message.run_id))
    if came.run is None:
        raise RunNotFound(run_id=message.run_id, database=await Use(lambda journal: journal.url))
    raise _over(message, came.run)


def _over(message: Message, run: RunRow) -> SignalRefused:
    return _refused(
        run.run_id, message.name, f"the run is {run.status.value}", f"See how it ended with `recover show {run.run_id}`."
    )


def _said_before(inbox: list[Message], word: Word, slot: str, token: str) -> Message | None:
    """The same answer by the same person to the same wait: whoever did not hear that it was taken says it once more."""
    mine = (message for message in inbox if message.kind == SIGNAL and message.slot == slot)
    return next((m for m in mine if m.token == token or (not word.token and (m.by, m.body) == (word.by, word.body))), None)


def _with_token(inbox: list[Message], token: str) -> Message | None:
    return next((message for message in inbox if message.token == token), None)


def _signalled(word: Word, step: str, stored: Message, *, waited_for: bool, repeated: bool, secret: bool = False) -> Signalled:
    return Signalled(
        run_id=stored.run_id,
        name=stored.name,
        step=step,
        value=Veiled({MARKED: word.value}) if secret else word.value,
        by=stored.by,
        at_us=stored.at_us,
        number=stored.number,
        waited_for=waited_for,
        repeated=repeated,
    )


def _ended(ended: Decision) -> str:
    if ended.form != ANSWER:
        return f"the time for it ended at {iso(ended.value)}"
    value = ended.value
    return f"it was answered by {value['by']} at {iso(value['at_us'])} with {codec.dumps(shown(value['value']))}"


def _first(first: Message, *, secret: bool) -> str:
    if first.kind == LAPSE:
        return f"the time for it ended, as the run noted at {iso(first.at_us)}"
    value = Veiled({MARKED: ""}) if secret else _value(first.body)
    return f"it was answered by {first.by} at {iso(first.at_us)} with {codec.dumps(shown(value))}"


def _value(body: str) -> Any:
    with suppress(ValueError, AttributeError):
        return codec.loads(body).get("value")
    return body


def _refused(run_id: str, name: str, problem: str, advice: str) -> SignalRefused:
    return SignalRefused(run_id=run_id, what=f"what was said to {name!r}", problem=problem, advice=advice)
