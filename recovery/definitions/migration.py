"""Migrations: what the recorded steps of one version of a workflow are to another one.

Owns the form in which a user's function says so. Knows no journal: the function is given identities and gives identities. Invariant: the same
identities give the same answer, which is what is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Migrated:
    """The recorded steps of a run in the order in which the new code asks for them.

    steps: what the new code calls each (`ship#1`), with the identity under which it is recorded; None leaves room for a step that is not
    recorded and may be done although others behind it are. What was recorded inside of a step (the branches of a gather) goes with it.
    dropped: recorded steps that the new code does not know. Their effects stay done, and nobody undoes them.
    """

    steps: Mapping[str, str | None]
    dropped: Sequence[str] = ()


Migration: TypeAlias = Callable[[Sequence[str]], Migrated]
"""Given the recorded identities, in order."""
