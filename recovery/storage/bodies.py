"""Bodies: an entry as the JSON text that its row holds.

Owns the short way to the text of the two entries that an ordinary effect writes: from their fields at once, without the JSON in between, which took longer
than the text itself. Knows nothing of rows. Invariant: `body_of(entry)` is `dumps(encode(entry))`, to the byte, for every entry: what is not ordinary
takes that way.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from recovery.core.entries import JSON, Answered, Entry, Intent, Observation, Settled, encode
from recovery.texts import dumps

REASONS_KEPT: Final = 256  # of settlements: those of a verdict table, with the windows that contracts name

_quoted: Final[Callable[[str], str]] = json.encoder.encode_basestring  # what `dumps` makes of a text


def body_of(entry: Entry) -> str:
    """The entry's body as JSON text."""
    kind = type(entry)
    if kind is Intent:
        return _intent(entry)  # type: ignore[arg-type]  # it is one
    if kind is Settled and entry.observation is not None:  # type: ignore[union-attr]  # it is one
        return _settled(entry, entry.observation)  # type: ignore[arg-type, union-attr]  # it is one
    return dumps(encode(entry))


def _intent(entry: Intent) -> str:
    quoted, attempt, step = _quoted, entry.attempt, _quoted(entry.step)
    tried = "" if attempt is None else (
        f',"attempt":{{"step":{step if attempt.step == entry.step else quoted(attempt.step)},"number":{attempt.number}'
        f',"purpose":{quoted(attempt.purpose)},"sent_at_us":{attempt.sent_at_us},"send_until_us":{attempt.send_until_us}'
        f',"epoch":{quoted(attempt.epoch)}}}'
    )  # fmt: skip
    return (
        f'{{"step":{step},"effect":{quoted(entry.effect)},"environment":{quoted(entry.environment)},"scope":{quoted(entry.scope)}'
        f',"key":{quoted(entry.key)},"fingerprint":{quoted(entry.fingerprint)},"arguments":{dumps(entry.arguments)}'
        f',"contract":{quoted(entry.contract)},"timeout_us":{entry.timeout_us},"at_us":{entry.at_us}{tried}{_bounds(entry)}}}'
    )


def _bounds(entry: Intent) -> str:
    """What few intents say: how long they are wanted and tried, and what they undo."""
    until, deadline, most, last = entry.valid_until_us, entry.deadline_us, entry.attempts_max, entry.attempts_until_us
    said = "" if until is None else f',"valid_until_us":{until}'
    if entry.undoes:
        said += f',"undoes":{_quoted(entry.undoes)}'
    if deadline is not None:
        said += f',"deadline_us":{deadline}'
    if most is not None:
        said += f',"attempts_max":{most}'
    return said if last is None else f'{said},"attempts_until_us":{last}'


def _settled(entry: Settled, reply: Observation) -> str:
    answer = reply.answer
    if entry.error or entry.reconstructed or entry.heuristic or entry.evidence or answer.value is not entry.value:
        return dumps(encode(entry))
    if reply.step != entry.step or reply.pause_us is not None or reply.gives_up or reply.by_operator or not _is_bare(answer):
        return dumps(encode(entry))
    quoted, step, stored, attempt = _quoted, _quoted(entry.step), entry.value, reply.attempt
    value = "" if stored is None else f',"value":{_text(stored)}'
    by = "" if attempt is None else f',"attempt":{attempt}'
    if reply.epoch:
        by = f'{by},"epoch":{quoted(reply.epoch)}'
    return (
        f'{{"step":{step},"outcome":{quoted(entry.outcome)},"at_us":{entry.at_us}{value}{_why(entry.row, entry.reason, entry.assumptions)}'
        f',"observation":{{"step":{step},"source":{quoted(reply.source)},"asked_at_us":{reply.asked_at_us}'
        f',"observed_at_us":{reply.observed_at_us},"answer":{{"kind":{quoted(answer.kind)}{value}}}{by}}}}}'
    )


def _is_bare(answer: Answered) -> bool:
    """Whether it says nothing but what came and of what kind it is."""
    if answer.error or answer.fingerprint or answer.receipt or answer.raised or answer.detail or answer.cause:
        return False
    return answer.original and answer.as_of_us is None and answer.retry_after_us is None


def _text(stored: JSON) -> str:
    return str(stored) if type(stored) is int else dumps(stored)


@lru_cache(maxsize=REASONS_KEPT)
def _why(row: str, reason: str, assumptions: tuple[str, ...]) -> str:
    said = f',"row":{_quoted(row)}' if row else ""
    if reason:
        said += f',"reason":{_quoted(reason)}'
    return f'{said},"assumptions":{dumps(assumptions)}' if assumptions else said
