"""Alike: rows that say what an earlier row of their run says, but for what changes from step to step, and are left unread.

Owns how such a row is told from its text, and what is kept of it: no more than what changes. Must not know rows, digests or databases. Invariant: a text is
taken for one that is alike only if it is what is written, to the last character, of an entry that has its step, key, fingerprint, arguments, times and value,
and all else of the one that it is like; so reading what is kept gives what reading the row would, and cannot fail. What is not told so is read at once, as ever.

Nearly every row of a long run is an intent with its first attempt, or a settlement with the reply that it rests on, and both are read only to replay a step
whose value alone is wanted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeAlias

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
OWN: Final = AT + FINGERPRINT
"""Where the key begins in what is kept of an intent."""
NO_SUCH: Final = (ValueError, StopIteration, RecursionError)
"""What is raised where a number, a digest or a JSON value belongs and something else stands."""
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

    def kept(self, step: str, text: str) -> str:
        """What such an intent says of its own: its time, fingerprint, key and arguments; "" for a text that is none."""
        key_at, at = self._key_at + len(step), len(text) - self._at - len(step)
        key_ends, behind, digits = text.find('"', key_at), at - len(self._behind), text[at : at + AT]
        arguments_at = key_ends + BETWEEN
        key, arguments = text[key_at:key_ends], text[arguments_at:behind]
        fingerprint = text[arguments_at - len(ARGUMENTS) - FINGERPRINT : arguments_at - len(ARGUMENTS)]
        try:
            at_us = int(digits)
            told = (
                text
                == f"{STEP}{step}{self._before}{key}{KEY_ENDS}{fingerprint}{ARGUMENTS}{arguments}{self._behind}{at_us}"
                f"{ATTEMPT}{step}{self._sent}{digits}{UNTIL}{at_us + self._lasts_us}{self._ends}"
                and len(bytes.fromhex(fingerprint)) * 2 == FINGERPRINT
                and "\\" not in key
                and key.isprintable()
                and _SCAN(text, arguments_at)[1] == behind
            )
        except NO_SUCH:
            return ""
        return f'{digits}{fingerprint}{key}"{arguments}' if told else ""

    def key(self, kept: str) -> str:
        return kept[OWN : kept.index('"', OWN)]

    def is_of(self, kept: str, key: str, arguments: str) -> bool:
        """Whether it has this key, and arguments of this text."""
        return kept[OWN:] == f'{key}"{arguments}'

    def read(self, step: str, kept: str) -> Intent:
        key, at_us, held = self.key(kept), int(kept[:AT]), self.pattern.attempt
        assert held is not None
        return replace(
            self.pattern,
            step=step,
            key=key,
            fingerprint=kept[AT:OWN],
            arguments=_SCAN(kept, OWN + len(key) + 1)[0],
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

    def kept(self, step: str, text: str) -> str:
        """What such a settlement says of its own: its time, that of its request, and its value; "" for a text that is none."""
        at = self._at + len(step)
        begins = ends = at + AT
        try:
            if text.startswith(VALUE, begins):
                ends = _SCAN(text, begins + len(VALUE))[1]
            asked_at = ends + len(self._reply) + len(step) + len(self._asked)
            digits, asked, value = text[at:begins], text[asked_at : asked_at + AT], text[begins:ends]
            written = (
                f"{STEP}{step}{self._before}{int(digits)}{value}{self._reply}{step}{self._asked}{int(asked)}"
                f"{OBSERVED}{digits}{self._answer}{value}{self._ends}"
            )
        except NO_SUCH:
            return ""
        return f"{digits}{asked}{value[len(VALUE) :]}" if text == written and len(asked) == AT else ""

    def value(self, kept: str) -> JSON:
        """The value alone: what a replay gives to the workflow."""
        return _SCAN(kept, 2 * AT)[0] if len(kept) > 2 * AT else None

    def read(self, step: str, kept: str) -> Settled:
        at_us, held = int(kept[:AT]), self.pattern.observation
        assert held is not None
        # The value twice, as reading the whole gives it: nobody changes one by changing the other.
        answer = replace(held.answer, value=self.value(kept))
        asked_at_us = int(kept[AT : 2 * AT])
        reply = replace(held, step=step, asked_at_us=asked_at_us, observed_at_us=at_us, answer=answer)
        return replace(self.pattern, step=step, at_us=at_us, value=self.value(kept), observation=reply)


Form: TypeAlias = Intents | Settlements


class Alike:
    """The forms that the rows of one run have had, each learnt from a row that was read, by the name of a step: in whatever branch, it is mostly one effect's."""

    def __init__(self) -> None:
        self._forms: dict[str, dict[str, Form]] = {}
        self._step = ""  # asked about last: an intent is mostly followed by its settlement
        self._of_step: dict[str, Form] | None = None
        self._learnt = 0
        self._latest = ""  # what was kept of the row with the highest time, with which it begins

    @property
    def latest_us(self) -> int:
        """The highest time in the rows that were found to be alike; 0 without any."""
        return int(self._latest[:AT] or 0)

    def told(self, kind: str, step: str, text: str) -> tuple[Form, str] | None:
        """What reads this row, if it is like one before, and what is to be kept of it for that."""
        if step != self._step:
            self._step, self._of_step = step, self._forms.get(_name(step))
        forms = self._of_step
        if forms is None or (form := forms.get(kind)) is None or ("$" in text and '"$' in text):
            return None
        kept = form.kept(step, text)
        if kept > self._latest:
            self._latest = kept
        return (form, kept) if kept else None

    def learn(self, step: str, text: str, entry: Entry) -> None:
        """A row was read. Whether others can be like it is seen by reading it once more in this way."""
        if self._learnt >= LEARNT_MAX or '"$' in text:
            return
        form: Form
        if isinstance(entry, Intent) and entry.attempt is not None:
            form = Intents(entry)
        elif isinstance(entry, Settled) and rests_on_its_reply(entry):
            form = Settlements(entry)
        else:
            return
        self._learnt += 1
        if (kept := form.kept(step, text)) and form.read(step, kept) == entry:
            self._forms.setdefault(_name(step), {})[kind_of(entry)] = form
            self._step = ""


def rests_on_its_reply(settled: Settled) -> bool:
    """Whether this settles a step that was attempted once, by the reply to that attempt alone."""
    return not settled.evidence and settled.observation is not None and settled.observation.attempt == 1


def _name(step: str) -> str:
    name = step[: step.rfind("#")]
    return name.rpartition("/")[2] if "/" in name else name


def _text(text: str) -> str:
    return texts.dumps(str(text))


_SCAN: Final = texts.SCAN
