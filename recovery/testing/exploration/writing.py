"""Writing: a history as the text of a scenario, which `recover replay` plays.

Owns the YAML of what the explorer finds. Must not know how it was found. Invariant: reading the text gives the scenario that was written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import Enum
from typing import Any, Final

import yaml
from pydantic import BaseModel, TypeAdapter

from recovery.core.showing import MARKED, is_secret
from recovery.testing.moves import Came, Move, Recover, Resume, Run
from recovery.testing.scenario import Scenario

_TIMELINE: Final[TypeAdapter[list[Any]]] = TypeAdapter(list[Move])

_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


def scenario_of(subject: Scenario, timeline: Sequence[Move], *, name: str, story: str) -> Scenario:
    """The subject with another timeline, and nothing expected but the promises."""
    found = subject.model_copy(update={"timeline": list(timeline), "name": name, "story": story, "expect": {}})
    return Scenario.model_validate(plain(found))


def expecting_no_divergence(timeline: tuple[Move, ...]) -> tuple[Move, ...]:
    """With what is a divergence in code that does not change said as an expectation, of the last call that ends: it should have settled."""
    for at, move in reversed(list(enumerate(timeline))):
        if isinstance(move, Run | Recover | Resume) and move.pause is None and move.kill is None:
            return (
                *timeline[:at],
                move.model_copy(update={"expect": Came.model_validate({"exit": "settled"})}),
                *timeline[at + 1 :],
            )
    return timeline


def written(scenario: Scenario) -> str:
    """The text of a file."""
    body: dict[str, Any] = plain(scenario)
    text: str = yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
    return text


def moves_of(said: Sequence[Mapping[str, Any]]) -> tuple[Move, ...]:
    """The moves that `plain` made."""
    return tuple(_TIMELINE.validate_python(said))


def duration_text(lasts: timedelta) -> str:
    """As scenarios write it. Raises ValueError for what is no whole number of milliseconds."""
    left, microseconds = divmod(lasts // timedelta(microseconds=1), 1_000)
    if microseconds or left < 0:
        raise ValueError(f"{lasts!r} has no text")
    parts = []
    for unit, length in _UNITS:
        many, left = divmod(left, length)
        parts += [f"{many}{unit}"] if many else []
    return "".join(parts) or "0s"


def plain(value: Any) -> Any:
    """As it stands in a file: what was not said stays unsaid."""
    match value:
        case BaseModel():
            fields, verb = type(value).model_fields, type(value).__name__.lower()
            said = ((name, getattr(value, name)) for name in fields if name in value.model_fields_set or fields[name].is_required())
            shown = {fields[name].alias or name: plain(item) for name, item in said if item is not None}
            return {verb: shown[verb], **shown} if verb in shown else shown  # the verb of a move is its first word
        case timedelta():
            return duration_text(value)
        case Enum():
            return value.value
        case dict() if is_secret(value):
            return {MARKED: "<secret>"}  # a file that people keep and send around
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
        case _:
            return value
