"""Planted bugs: fourteen ways in which an engine may be almost right, each a patch to the shipped modules.

Owns the bugs. Knows nothing of histories: what the explorer is pointed at is in `standard`, the same for each bug. Invariant: where nothing
goes wrong at the wrong moment, an engine with one of these does what it should.
"""

from __future__ import annotations

from textwrap import indent
from types import ModuleType
from typing import Final

from recovery.core import machine, timing
from recovery.core.execution import Execution
from recovery.core.machine import Machine
from recovery.definitions.effect import Bound
from recovery.storage.memory import MemoryJournal
from recovery.storage.writer import Writer
from tests.explorer.editing import edited
from tests.model.planted import CHANGES, Change, Patch, everywhere

_TABLE: Final = {change.name: change.patches for change in CHANGES}


def bug(name: str, *patches: Patch) -> Change:
    return Change(name=name, patches=patches)


def _edit(owner: type | ModuleType, name: str, *changes: tuple[str, str]) -> Patch:
    return owner, name, edited(getattr(owner, name), *changes)


_DURABLE = """\
    if isinstance(pending, Intent):
        await self.append(effect.step, [request.intent(effect.step, pending.at_us, attempt)])
    else:
        await self.append(effect.step, [pending, attempt] if pending else [attempt])
"""
_LEAVES = """\
    made = made_of(self, effect.step)
    answer = await self._leave(request, made, attempt)
"""
_LEAVES_FIRST = """\
    made = replace(effect, attempts=(*effect.attempts, attempt))
    answer = await self._leave(request, made, attempt)
"""

_WRITES_AND_SENDS = """\
    await machine.write(intent)
    made = made_of(machine, step)
    answer = await Send(request.subject, intent, attempt, now_us, made.heard)
"""
_SENDS_AND_WRITES = """\
    answer = await Send(request.subject, intent, attempt, now_us)
    await machine.write(intent)
    made = made_of(machine, step)
"""
_SENDS = "    answer = await Send("
_TOLD_BEFORE = """\
    from recovery.core.entries import Answered, AnswerKind
    early = Answered(kind=AnswerKind.TURNED_AWAY, detail="not heard yet")
    told = Observation(step=step, source=Source.REPLY, asked_at_us=now_us, observed_at_us=await Now(), answer=early, attempt=1, epoch=me)
    await machine.append(step, [told])
"""

_UNWRITTEN = """\
    if judgement.action is Action.RESEND:
        attempt = replace(attempt, number=len(effect.attempts), epoch=effect.attempts[-1].epoch)
        await self.append(effect.step, [pending] if pending else [])
    else:
"""

_COMMITS = """\
    with around(bracket_of(wanted)):
        result = await Commit(append)
"""
_LOOKS_FIRST = """\
    seen = await Use(lambda journal: journal.find(self.run_id))
    with around(bracket_of(wanted)):
        result = Fenced(seen) if seen.epoch != self.epoch else await Commit(append)
"""
_WRITES_AGAIN = """\
    from recovery.core.errors import StoreUnavailable
    with around(bracket_of(wanted)):
        try:
            result = await Commit(append)
        except StoreUnavailable:
            there = await Use(lambda journal: journal.find(self.run_id))
            self.head, self.digest, self.finished = there.head, there.head_digest, False
            append = self.prepare(wanted, at_us)
            result = await Commit(append)
"""

_KEYED = "self.effect.fn(call,"
_MINTED = "self.effect.fn(replace(call, key=call.key if call.attempt == 1 else f'{call.key}-{call.attempt}'),"

_FENCE = """\
    held = self._held(member.run_id, member.owner, member.epoch)
    if held is None or held.row.head != member.head:
        return Fenced(there.row)
"""
_HEAD_ONLY = """\
    if there.row.head != member.head:
        return Fenced(there.row)
"""
_REBASED = """\
    from recovery.core.chain import chained
    previous, rows = there.row.head_digest, []
    for seq, row in enumerate(member.rows, there.row.head + 1):
        rows.append(chained(previous, seq, row.kind, row.step, row.body, row.epoch, row.token))
        previous = rows[-1].digest
    member = replace(member, head=there.row.head, rows=tuple(rows))
    last = rows[-1]
"""

_LEAVING = "    if attempt.purpose == CLOSING:\n"
_TOLD = """\
    from recovery.core.entries import AnswerKind
    early = Answered(kind=AnswerKind.TURNED_AWAY, detail="not heard yet")
    told = await self._observed(attempt.step, early, Source.REPLY, asked_at_us=attempt.sent_at_us, attempt=attempt.number)
    await self.append(attempt.step, [told])
"""

_STOPS = "    return self.steps.stop(error, branch)\n"
_POISONS = "    if self.steps.stopped_at(branch) is not None:\n"
_LETS_GO = "    if type(error).__name__ == 'EffectInDoubt' or self.steps.stopped_at(branch) is not None:\n"
_SWALLOWED = """\
    if type(error).__name__ == "EffectInDoubt":
        return error
"""

_CARRIES = "    if self.aboard:\n        entries ="
_LEAVES_BEHIND = "    if self.aboard and not (wanted.entries and isinstance(wanted.entries[-1], Intent)):\n        entries ="
_COMMITS_ALL = "        await self._commit(whole)\n"
_KEEPS_THE_REST = (
    "        left = self.aboard if whole is wanted else []\n        await self._commit(whole)\n        self.aboard = left\n"
)

BUGS: Final = (
    bug(
        "attempt written after the send",
        _edit(Machine, "_attempt", (_DURABLE + _LEAVES, _LEAVES_FIRST + _DURABLE)), _edit(machine, "outright", (_WRITES_AND_SENDS, _SENDS_AND_WRITES)),
    ),
    bug("a re-send that is not journaled", _edit(Machine, "_attempt", (_DURABLE, _UNWRITTEN + indent(_DURABLE, "    ")))),
    bug(
        "observation before the reply",
        _edit(Machine, "_leave", (_LEAVING, _TOLD + _LEAVING)), _edit(machine, "outright", (_SENDS, _TOLD_BEFORE + _SENDS)),
    ),
    bug("key per attempt", _edit(Bound, "invoke", (_KEYED, _MINTED))),
    bug(
        "epoch checked before instead of at the commit",
        _edit(Writer, "_commit", (_COMMITS, _LOOKS_FIRST)),
        _edit(MemoryJournal, "_append_one", (_FENCE, _HEAD_ONLY)),
    ),
    bug("`not_after` counted from the last send", *_TABLE["not_after counted from the last sending"]),
    bug("absence judged by the time of judging", *_TABLE["absence judged by when it is judged"]),
    bug("absence trusted inside the settle window", *everywhere("quiet_after", edited(timing.quiet_after, (" + contract.settle_window_us", "")))),
    bug("a forgotten rejection settled before quiet", *_TABLE["15: a forgotten rejection settles before quiet"]),
    bug("lease treated as permission", _edit(MemoryJournal, "_append_one", (_FENCE, _REBASED))),
    bug("lost commit acknowledgement treated as failure", _edit(Writer, "_commit", (_COMMITS, _WRITES_AGAIN))),
    bug("an epoch carried but not raised", *_TABLE["32: an epoch that nobody raised bars attempts"]),
    bug(
        "a swallowed doubt",
        _edit(Execution, "stop", (_STOPS, _SWALLOWED + _STOPS)), _edit(Execution, "finish", (_POISONS, _LETS_GO)),
    ),
    bug("intent 2 durable without observation 1", _edit(Writer, "commit", (_CARRIES, _LEAVES_BEHIND), (_COMMITS_ALL, _KEEPS_THE_REST))),
)  # fmt: skip
"""In the order of the issue that asks for them."""
