"""Durations as a user states them.

Owns the one refusal of what is none. Knows nothing of what they bound. Invariant: a number of seconds, which is what one types first, is refused where it is
stated and in words: compared later on it would end in an error that names nothing, and inside of a workflow that error would be the run's final outcome.
"""

from __future__ import annotations

from datetime import timedelta

from recovery.core.errors import DefinitionError
from recovery.core.wording import of_type


def stated(given: object, what: str, name: str, said: str = "it") -> timedelta:
    """The duration. said: what it is called in the sentence. Raises DefinitionError."""
    if isinstance(given, timedelta):
        return given
    problem = f"{said} is {of_type(given)}, not a timedelta"
    raise DefinitionError(what=what, name=name, problem=problem, advice="Pass one, such as timedelta(seconds=30).")
