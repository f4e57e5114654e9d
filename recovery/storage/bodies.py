"""Bodies: an entry as the JSON text that its row holds.

Owns the short way to the text of the two entries that each effect writes: from their fields at once, without the JSON in between, which took longer than
the text itself. Knows nothing of rows. Invariant: `body_of(entry)` is `dumps(encode(entry))`, to the byte, for every entry.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from recovery.core.entries import Answered, Attempt, Entry, Intent, Observation, Settled, encode
from recovery.texts import dumps

LISTS_KEPT: Final = 256  # of assumptions: those of a verdict table with named windows

_quoted: Final[Callable[[str], str]] = json.encoder.encode_basestring  # what `dumps` makes of a text


def body_of(entry: Entry) -> str:
    """The entry's body as JSON text."""
    write = _WRITERS.get(type(entry))
    return dumps(encode(entry)) if write is None else write(entry)


def _intent(entry: Intent) -> str:
    quoted, attempt = _quoted, entry.attempt
    said = (
        f'{{"step":{quoted(entry.step)},"effect":{quoted(entry.effect)},"environment":{quoted(entry.environment)},"scope":{quoted(entry.scope)}'
        f',"key":{quoted(entry.key)},"fingerprint":{quoted(entry.fingerprint)},"arguments":{dumps(entry.arguments)}'
        f',"contract":{quoted(entry.contract)},"timeout_us":{entry.timeout_us},"at_us":{entry.at_us}'
    )
    if attempt is not None:
        said = f'{said},"attempt":{_attempt(attempt)}'
    if entry.valid_until_us is not None:
        said = f'{said},"valid_until_us":{entry.valid_until_us}'
    if entry.undoes:
        said = f'{said},"undoes":{quoted(entry.undoes)}'
    if entry.deadline_us is not None:
        said = f'{said},"deadline_us":{entry.deadline_us}'
    if entry.attempts_max is not None:
        said = f'{said},"attempts_max":{entry.attempts_max}'
    if entry.attempts_until_us is not None:
        said = f'{said},"attempts_until_us":{entry.attempts_until_us}'
    return said + "}"


def _attempt(entry: Attempt) -> str:
    quoted = _quoted
    return (
        f'{{"step":{quoted(entry.step)},"number":{entry.number},"purpose":{quoted(entry.purpose)},"sent_at_us":{entry.sent_at_us}'
        f',"send_until_us":{entry.send_until_us},"epoch":{quoted(entry.epoch)}}}'
    )


def _settled(entry: Settled) -> str:
    quoted, observation = _quoted, entry.observation
    said = f'{{"step":{quoted(entry.step)},"outcome":{quoted(entry.outcome)},"at_us":{entry.at_us}'
    value = ""
    if entry.value is not None:
        value = dumps(entry.value)
        said = f'{said},"value":{value}'
    if entry.error:
        said = f'{said},"error":{quoted(entry.error)}'
    if entry.reconstructed:
        said += ',"reconstructed":true'
    if entry.heuristic:
        said += ',"heuristic":true'
    if entry.row:
        said = f'{said},"row":{quoted(entry.row)}'
    if entry.reason:
        said = f'{said},"reason":{quoted(entry.reason)}'
    if entry.assumptions:
        said = f'{said},"assumptions":{_listed(entry.assumptions)}'
    if entry.evidence:
        said = f'{said},"evidence":{dumps(entry.evidence)}'
    if observation is not None:
        known = value if observation.answer.value is entry.value else ""
        said = f'{said},"observation":{_observation(observation, known)}'
    return said + "}"


@lru_cache(maxsize=LISTS_KEPT)
def _listed(assumptions: tuple[str, ...]) -> str:
    return dumps(assumptions)


def _observation(entry: Observation, value: str = "") -> str:
    """value: that of the answer as text, where it is known."""
    quoted = _quoted
    said = (
        f'{{"step":{quoted(entry.step)},"source":{quoted(entry.source)},"asked_at_us":{entry.asked_at_us},"observed_at_us":{entry.observed_at_us}'
        f',"answer":{_answered(entry.answer, value)}'
    )
    if entry.attempt is not None:
        said = f'{said},"attempt":{entry.attempt}'
    if entry.epoch:
        said = f'{said},"epoch":{quoted(entry.epoch)}'
    if entry.pause_us is not None:
        said = f'{said},"pause_us":{entry.pause_us}'
    if entry.gives_up:
        said += ',"gives_up":true'
    if entry.by_operator:
        said += ',"by_operator":true'
    return said + "}"


def _answered(entry: Answered, value: str) -> str:
    quoted = _quoted
    said = f'{{"kind":{quoted(entry.kind)}'
    if entry.value is not None:
        said = f'{said},"value":{value or dumps(entry.value)}'
    for name, text in (("error", entry.error), ("fingerprint", entry.fingerprint), ("receipt", entry.receipt)):
        if text:
            said = f'{said},"{name}":{quoted(text)}'
    if not entry.original:
        said += ',"original":false'
    if entry.as_of_us is not None:
        said = f'{said},"as_of_us":{entry.as_of_us}'
    if entry.raised:
        said = f'{said},"raised":{quoted(entry.raised)}'
    if entry.retry_after_us is not None:
        said = f'{said},"retry_after_us":{entry.retry_after_us}'
    for name, text in (("detail", entry.detail), ("cause", entry.cause)):
        if text:
            said = f'{said},"{name}":{quoted(text)}'
    return said + "}"


_WRITERS: Final[dict[type, Callable[[Any], str]]] = {Intent: _intent, Settled: _settled}
