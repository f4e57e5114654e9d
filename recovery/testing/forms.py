"""Forms: what the small things in a scenario file may look like.

Owns durations, names and the choice of a mapping's kind by the verb it carries. Knows nothing of what they are for. Invariant: whatever
is not understood is refused, never guessed.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, StringConstraints

from recovery.core.instants import duration_of


class Strict(BaseModel):
    """Fields that nobody declared are refused; instances do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


def duration(value: Any) -> Any:
    """A `timedelta` out of "500ms", "30s", "20m", "25h", "7d" or a sum such as "1h30m"."""
    if isinstance(value, timedelta):
        return value
    return duration_of(value if isinstance(value, str) else "")


Duration = Annotated[timedelta, BeforeValidator(duration, json_schema_input_type=str)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:-]{1,64}$")]
RunId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:-]{1,128}$")]


def by_verb(*verbs: str) -> Discriminator:
    """Tells the members of a union by the one key that only they have."""

    def verb_of(value: Any) -> str | None:
        if isinstance(value, BaseModel):
            return type(value).__name__.lower()
        found = [verb for verb in verbs if isinstance(value, dict) and verb in value]
        return found[0] if found else None

    return Discriminator(verb_of, custom_error_type="no_verb", custom_error_message=f"it has none of: {', '.join(verbs)}")
