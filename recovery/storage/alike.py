"""Alike: rows that say what an earlier row of their run says, but for what changes from step to step, and are left unread.

Owns how such a row is told from its text. Must not know rows, digests or databases. Invariant: a text is taken for one that is alike only if it is, to the
last character, what would be written of an entry that has its step, key, fingerprint, arguments, times and value, and all else of the one that it is like;
so reading it later gives what reading it now would, and cannot fail. What is not told so is read at once, as ever.

Nearly every row of a long run is an intent with its first attempt, or a settlement with the reply that it rests on, and both are read only to replay a step
whose value alone is wanted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from recovery import texts
from recovery.core.entries import JSON, Entry, Intent, Settled, kind_of

STEP: Final = '{"step":"'
KEY_ENDS: Final = '","fingerprint":"'
FINGERPRINT: Final = 64  # characters of a digest
ARGUMENTS: Final = '","arguments":'
VALUE: Final = ',"value":'
AT: Final = 16  # digits of a time between the years 2001 and 2286
LEARNT_MAX: Final = 256
"""Rows of one run that others are looked for to be like. To learn one takes as long as to read ten."""


class Intents:
    """The form of an intent whose first attempt is durable with it, and which says nothing of a deadline, of another step or of a policy."""

    def __init__(self, pattern: Intent) -> None:
        attempt = pattern.attempt
        assert attempt is not None
        self.pattern = pattern
        said = f'"effect":{_text(pattern.effect)},"environment":{_text(pattern.environment)},"scope":{_text(pattern.scope)}'
        self._before = f'",{said},"key":"'
        self._behind = f',"contract":{_text(pattern.contract)},"timeout_us":{pattern.timeout_us},"at_us":'
        self._attempt = ',"attempt":{"step":"'
        self._sent = f'","number":1,"purpose":{_text(attempt.purpose)},"sent_at_us":'
        self._until = ',"send_until_us":'
        self._ends = f',"epoch":{_text(attempt.epoch)}}}}}'
        known = (self._behind, self._attempt, self._sent, self._until, self._ends)
        self._size = sum(map(len, known)) + 3 * AT

    def latest(self, step: str, text: str) -> str:
        """The highest time in such an intent, as its digits; "" for a text that is none."""
        before = f"{STEP}{step}{self._before}"
        if not text.startswith(before):
            return ""
        key_at = len(before)
        key_ends = text.find(KEY_ENDS, key_at)
        begins = key_ends + len(KEY_ENDS) + FINGERPRINT
        behind = len(text) - self._size - len(step)
        at = behind + len(self._behind)
        sent = at + AT + len(self._attempt) + len(step) + len(self._sent)
        until = sent + AT + len(self._until)
        at_us, sent_us, until_us = text[at : at + AT], text[sent : sent + AT], text[until : until + AT]
        fits = (
            key_ends > 0
            and text.startswith(self._behind, behind)
            and text.startswith(f"{self._attempt}{step}{self._sent}", at + AT)
            and text.startswith(self._until, sent + AT)
            and text.endswith(self._ends)
            and text.startswith(ARGUMENTS, begins)
            and _is_word(text[begins - FINGERPRINT : begins])
            and _is_plain(text[key_at:key_ends])
            and _is_time(at_us)
            and _is_time(sent_us)
            and _is_time(until_us)
            and sent_us <= until_us
            and _ends_at(text, begins + len(ARGUMENTS)) == behind
        )
        return max(at_us, sent_us) if fits else ""

    def key(self, step: str, text: str) -> str:
        key_at = len(STEP) + len(step) + len(self._before)
        return text[key_at : text.index(KEY_ENDS, key_at)]

    def is_of(self, step: str, text: str, key: str, arguments: str) -> bool:
        """Whether it has this key, and arguments of this text."""
        begins = len(STEP) + len(step) + len(self._before) + len(key) + len(KEY_ENDS) + FINGERPRINT
        named = f"{key}{KEY_ENDS}"
        return (
            len(text) == begins + len(ARGUMENTS) + len(arguments) + self._size + len(step)
            and text.startswith(named, begins - len(named) - FINGERPRINT)
            and text.startswith(arguments, begins + len(ARGUMENTS))
        )

    def read(self, step: str, text: str) -> Intent:
        key_at = len(STEP) + len(step) + len(self._before)
        key_ends = text.index(KEY_ENDS, key_at)
        fingerprint_at = key_ends + len(KEY_ENDS)
        arguments, _ = _SCAN(text, fingerprint_at + FINGERPRINT + len(ARGUMENTS))
        at = len(text) - self._size - len(step) + len(self._behind)
        sent = at + AT + len(self._attempt) + len(step) + len(self._sent)
        until = sent + AT + len(self._until)
        assert self.pattern.attempt is not None
        attempt = replace(
            self.pattern.attempt, step=step, sent_at_us=int(text[sent : sent + AT]), send_until_us=int(text[until : until + AT])
        )
        return replace(
            self.pattern,
            step=step,
            key=text[key_at:key_ends],
            fingerprint=text[fingerprint_at : fingerprint_at + FINGERPRINT],
            arguments=arguments,
            at_us=int(text[at : at + AT]),
            attempt=attempt,
        )


class Settlements:
    """The form of a settlement that rests on the reply to its first attempt, which it holds, and whose value it repeats."""

    def __init__(self, pattern: Settled) -> None:
        reply = pattern.observation
        assert reply is not None
        self.pattern = pattern
        self._at = f'","outcome":{_text(pattern.outcome)},"at_us":'
        because = (
            f'"row":{_text(pattern.row)},"reason":{_text(pattern.reason)},"assumptions":{texts.dumps(list(pattern.assumptions))}'
        )
        self._reply = f',{because},"observation":{{"step":"'
        self._asked = f'","source":{_text(reply.source)},"asked_at_us":'
        self._observed = ',"observed_at_us":'
        self._answer = f',"answer":{{"kind":{_text(reply.answer.kind)}'
        self._ends = f'}},"attempt":{reply.attempt},"epoch":{_text(reply.epoch)}}}}}'

    def latest(self, step: str, text: str) -> str:
        """The highest time in such a settlement, as its digits; "" for a text that is none."""
        before = f"{STEP}{step}{self._at}"
        at = len(before)
        value_ends = at + AT
        if text.startswith(VALUE, value_ends):
            value_ends = _ends_at(text, value_ends + len(VALUE))
        reply = f"{self._reply}{step}{self._asked}"
        asked = value_ends + len(reply)
        observed = asked + AT + len(self._observed)
        rest = f"{self._answer}{text[at + AT : value_ends]}{self._ends}"
        at_us, asked_us, observed_us = text[at : at + AT], text[asked : asked + AT], text[observed : observed + AT]
        fits = (
            value_ends > 0
            and text.startswith(before)
            and text.startswith(reply, value_ends)
            and text.startswith(self._observed, asked + AT)
            and text.startswith(rest, observed + AT)
            and len(text) == observed + AT + len(rest)
            and _is_time(at_us)
            and _is_time(asked_us)
            and _is_time(observed_us)
        )
        return max(at_us, observed_us) if fits else ""

    def value(self, step: str, text: str) -> JSON:
        """The value alone: what a replay gives to the workflow."""
        begins = len(STEP) + len(step) + len(self._at) + AT
        return _SCAN(text, begins + len(VALUE))[0] if text.startswith(VALUE, begins) else None

    def read(self, step: str, text: str) -> Settled:
        at = len(STEP) + len(step) + len(self._at)
        value_ends = at + AT
        value = again = None
        if text.startswith(VALUE, value_ends):
            value_at = value_ends + len(VALUE)
            value, value_ends = _SCAN(text, value_at)
            again, _ = _SCAN(text, value_at)  # as reading the whole gives them: nobody changes one by changing the other
        asked = value_ends + len(self._reply) + len(step) + len(self._asked)
        observed = asked + AT + len(self._observed)
        held = self.pattern.observation
        assert held is not None
        reply = replace(
            held,
            step=step,
            asked_at_us=int(text[asked : asked + AT]),
            observed_at_us=int(text[observed : observed + AT]),
            answer=replace(held.answer, value=again),
        )
        return replace(self.pattern, step=step, at_us=int(text[at : at + AT]), value=value, observation=reply)


class Alike:
    """The forms that the rows of one run have had, each learnt from a row that was read."""

    def __init__(self) -> None:
        self._forms: dict[str, dict[str, Intents | Settlements]] = {"intent": {}, "settled": {}}
        self._learnt = 0
        self._latest = ""

    @property
    def latest_us(self) -> int:
        """The highest time in the rows that were found to be alike; 0 without any."""
        return int(self._latest or "0")

    def form_of(self, kind: str, step: str, text: str) -> Intents | Settlements | None:
        """What reads this row, if it is like one before."""
        forms = self._forms.get(kind)
        if not forms or (form := forms.get(_name(step))) is None or '"$' in text:
            return None
        latest = form.latest(step, text)
        if not latest:
            return None
        self._latest = max(self._latest, latest)
        return form

    def learn(self, step: str, text: str, entry: Entry) -> None:
        """A row was read. Whether others can be like it is seen by reading it once more in this way."""
        if self._learnt >= LEARNT_MAX or '"$' in text:
            return
        form: Intents | Settlements
        if isinstance(entry, Intent) and entry.attempt is not None:
            form = Intents(entry)
        elif isinstance(entry, Settled) and rests_on_its_reply(entry):
            form = Settlements(entry)
        else:
            return
        self._learnt += 1
        if form.latest(step, text) and form.read(step, text) == entry:
            self._forms[kind_of(entry)][_name(step)] = form


def rests_on_its_reply(settled: Settled) -> bool:
    """Whether this settles a step that was attempted once, by the reply to that attempt alone."""
    return not settled.evidence and settled.observation is not None and settled.observation.attempt == 1


def _name(step: str) -> str:
    return step[: step.rfind("#")]


def _text(text: str) -> str:
    return texts.dumps(str(text))


def _is_word(text: str) -> bool:
    return text.isalnum()


def _is_plain(text: str) -> bool:
    return '"' not in text and "\\" not in text and text.isprintable()


def _is_time(text: str) -> bool:
    return text.isdigit() and text.isascii() and text[0] != "0"


def _ends_at(text: str, begins: int) -> int:
    """Where the JSON that begins here ends; -1 where none does."""
    try:
        return _SCAN(text, begins)[1]
    except (StopIteration, ValueError, RecursionError):
        return -1


_SCAN: Final = texts.SCAN
