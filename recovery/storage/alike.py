"""Alike: rows that say what an earlier row of their run says, but for what changes from step to step, and are left unread.

Owns how such a row is told from its text. Must not know rows, digests or databases. Invariant: a text is taken for one that is alike only if it is what is
written, to the last character, of an entry that has its step, key, fingerprint, arguments, time and value, and all else of the one that it is like; so
reading it later gives what reading it now would, and cannot fail. What is not told so is read at once, as ever.

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
BETWEEN: Final = len(KEY_ENDS) + FINGERPRINT + len(ARGUMENTS)
"""Characters between the end of the key and the arguments."""
VALUE: Final = ',"value":'
ATTEMPT: Final = ',"attempt":{"step":"'
UNTIL: Final = ',"send_until_us":'
OBSERVED: Final = ',"observed_at_us":'
AT: Final = 16  # digits of a time between the years 2001 and 2286, in microseconds
LEARNT_MAX: Final = 256
"""Rows of one run that others are looked for to be like. To learn one takes as long as to read ten."""


class Intents:
    """The form of an intent whose first attempt is durable with it and begins at its time, and which says nothing of a deadline, of another step or of a
    policy."""

    def __init__(self, pattern: Intent) -> None:
        attempt = pattern.attempt
        assert attempt is not None
        self.pattern = pattern
        self._lasts_us = attempt.send_until_us - attempt.sent_at_us
        said = f'"effect":{_text(pattern.effect)},"environment":{_text(pattern.environment)},"scope":{_text(pattern.scope)}'
        self._before = f'",{said},"key":"'
        self._behind = f',"contract":{_text(pattern.contract)},"timeout_us":{pattern.timeout_us},"at_us":'
        self._sent = f'","number":1,"purpose":{_text(attempt.purpose)},"sent_at_us":'
        self._ends = f',"epoch":{_text(attempt.epoch)}}}}}'
        self._key_at = len(STEP) + len(self._before)
        self._at = len(ATTEMPT) + len(self._sent) + len(UNTIL) + len(self._ends) + 3 * AT  # how far from the end, but for the step

    def latest_us(self, step: str, text: str) -> int:
        """The highest time in such an intent; 0 for a text that is none."""
        key_at, at = self._key_at + len(step), len(text) - self._at - len(step)
        key_ends, behind, digits = text.find('"', key_at), at - len(self._behind), text[at : at + AT]
        arguments_at = key_ends + BETWEEN
        key, fingerprint = text[key_at:key_ends], text[arguments_at - len(ARGUMENTS) - FINGERPRINT : arguments_at - len(ARGUMENTS)]
        if not digits.isdecimal():
            return 0
        at_us = int(digits)
        written = (
            f"{STEP}{step}{self._before}{key}{KEY_ENDS}{fingerprint}{ARGUMENTS}{text[arguments_at:behind]}{self._behind}{at_us}"
            f"{ATTEMPT}{step}{self._sent}{at_us}{UNTIL}{at_us + self._lasts_us}{self._ends}"
        )
        told = text == written and "\\" not in key and key.isprintable() and fingerprint.isalnum()
        return at_us if told and _ends_at(text, arguments_at) == behind else 0

    def key(self, step: str, text: str) -> str:
        key_at = self._key_at + len(step)
        return text[key_at : text.index('"', key_at)]

    def is_of(self, step: str, text: str, key: str, arguments: str) -> bool:
        """Whether it has this key, and arguments of this text."""
        key_at, behind = self._key_at + len(step), len(text) - self._at - len(step) - len(self._behind)
        arguments_at = key_at + len(key) + BETWEEN
        return text.startswith(f'{key}"', key_at) and text[arguments_at:behind] == arguments

    def read(self, step: str, text: str) -> Intent:
        key = self.key(step, text)
        arguments_at = self._key_at + len(step) + len(key) + BETWEEN
        arguments, _ = _SCAN(text, arguments_at)
        at = len(text) - self._at - len(step)
        at_us = int(text[at : at + AT])
        held = self.pattern.attempt
        assert held is not None
        return replace(
            self.pattern,
            step=step,
            key=key,
            fingerprint=text[arguments_at - len(ARGUMENTS) - FINGERPRINT : arguments_at - len(ARGUMENTS)],
            arguments=arguments,
            at_us=at_us,
            attempt=replace(held, step=step, sent_at_us=at_us, send_until_us=at_us + self._lasts_us),
        )


class Settlements:
    """The form of a settlement that rests on the reply to its first attempt, which it holds, whose time is its own, and whose value it repeats."""

    def __init__(self, pattern: Settled) -> None:
        reply = pattern.observation
        assert reply is not None
        self.pattern = pattern
        self._before = f'","outcome":{_text(pattern.outcome)},"at_us":'
        because = (
            f'"row":{_text(pattern.row)},"reason":{_text(pattern.reason)},"assumptions":{texts.dumps(list(pattern.assumptions))}'
        )
        self._reply = f',{because},"observation":{{"step":"'
        self._asked = f'","source":{_text(reply.source)},"asked_at_us":'
        self._answer = f',"answer":{{"kind":{_text(reply.answer.kind)}'
        self._ends = f'}},"attempt":{reply.attempt},"epoch":{_text(reply.epoch)}}}}}'
        self._at = len(STEP) + len(self._before)

    def latest_us(self, step: str, text: str) -> int:
        """The highest time in such a settlement; 0 for a text that is none."""
        at = self._at + len(step)
        begins = ends = at + AT
        if text.startswith(VALUE, begins):
            ends = _ends_at(text, begins + len(VALUE))
        asked = ends + len(self._reply) + len(step) + len(self._asked)
        digits, asked_digits, value = text[at:begins], text[asked : asked + AT], text[begins:ends]
        if not (digits.isdecimal() and asked_digits.isdecimal()):
            return 0
        at_us = int(digits)
        written = f"{STEP}{step}{self._before}{at_us}{value}{self._reply}{step}{self._asked}{int(asked_digits)}{OBSERVED}{at_us}{self._answer}{value}{self._ends}"
        return at_us if text == written else 0

    def value(self, step: str, text: str) -> JSON:
        """The value alone: what a replay gives to the workflow."""
        begins = self._at + len(step) + AT
        return _SCAN(text, begins + len(VALUE))[0] if text.startswith(VALUE, begins) else None

    def read(self, step: str, text: str) -> Settled:
        at = self._at + len(step)
        ends = at + AT
        value = again = None
        if text.startswith(VALUE, ends):
            value_at = ends + len(VALUE)
            value, ends = _SCAN(text, value_at)
            again, _ = _SCAN(text, value_at)  # as reading the whole gives them: nobody changes one by changing the other
        asked, at_us = ends + len(self._reply) + len(step) + len(self._asked), int(text[at : at + AT])
        held = self.pattern.observation
        assert held is not None
        reply = replace(
            held,
            step=step,
            asked_at_us=int(text[asked : asked + AT]),
            observed_at_us=at_us,
            answer=replace(held.answer, value=again),
        )
        return replace(self.pattern, step=step, at_us=at_us, value=value, observation=reply)


class Alike:
    """The forms that the rows of one run have had, each learnt from a row that was read, by the name of a step: in whatever branch, it is mostly one effect's."""

    def __init__(self) -> None:
        self._forms: dict[str, dict[str, Intents | Settlements]] = {"intent": {}, "settled": {}}
        self._learnt = 0
        self.latest_us = 0
        """The highest time in the rows that were found to be alike; 0 without any."""

    def form_of(self, kind: str, step: str, text: str) -> Intents | Settlements | None:
        """What reads this row, if it is like one before."""
        forms = self._forms.get(kind)
        if not forms or (form := forms.get(_name(step))) is None or '"$' in text:
            return None
        latest_us = form.latest_us(step, text)
        if not latest_us:
            return None
        if latest_us > self.latest_us:
            self.latest_us = latest_us
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
        if form.latest_us(step, text) and form.read(step, text) == entry:
            self._forms[kind_of(entry)][_name(step)] = form


def rests_on_its_reply(settled: Settled) -> bool:
    """Whether this settles a step that was attempted once, by the reply to that attempt alone."""
    return not settled.evidence and settled.observation is not None and settled.observation.attempt == 1


def _name(step: str) -> str:
    name = step[: step.rfind("#")]
    return name.rpartition("/")[2] if "/" in name else name


def _text(text: str) -> str:
    return texts.dumps(str(text))


def _ends_at(text: str, begins: int) -> int:
    """Where the JSON that begins here ends; -1 where none does."""
    try:
        return _SCAN(text, begins)[1]
    except (StopIteration, ValueError, RecursionError):
        return -1


_SCAN: Final = texts.SCAN
