"""Kin: what a run knows of its children while it executes, and what it needs from whoever can store and run them.

Owns the values that pass between a parent's steps and its children's runs. Knows no store, no workflow and no driver: `Family` is carried out
above. Invariant: a run id is held by one start of this execution, from before anything is asked about it.
"""

# pyright: reportReturnType=false
# The body of a protocol's method is its docstring; mypy checks those who implement it.

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from recovery.core.entries import JSON, Decision, Settled
from recovery.core.errors import RecoveryError
from recovery.core.gathering import Waiting
from recovery.core.ids import RUN_ID_LENGTH_MAX, digest_bytes
from recovery.core.operations import Op

DEPTH_MAX: Final = 16
"""How many runs may stand above one. Each is executed inside its parent's step, on the same stack where the colour is `def`."""


@dataclass(frozen=True, slots=True)
class NewChild:
    """A run that is to be started by a step of another one. `depth`: how many runs are above it."""

    run_id: str
    workflow: str
    version: str
    input: JSON
    input_digest: str
    parent: str
    step: str
    depth: int
    detached: bool

    def recorded(self, at_us: int, form: str) -> Decision:
        """What the parent writes down before anything of the child is stored (I10)."""
        value = {"run_id": self.run_id, "workflow": self.workflow, "detached": self.detached}
        return Decision(step=self.step, fingerprint=self.input_digest, value=value, form=form, at_us=at_us)


@dataclass(frozen=True, slots=True)
class Ended:
    """A child has settled. `entry`: the number, in its journal, of the entry that says so, which is what the adoption rests on."""

    settled: Settled
    entry: int


@dataclass(frozen=True, slots=True)
class Open:
    """A child has no outcome. `error`: why not, as the child's own recovery says it; `next_look_us`: when to look again."""

    error: RecoveryError
    next_look_us: int | None = None


class Family(Protocol):
    """Whoever stores and runs children: procedures over operations."""

    def check(self, child: NewChild) -> Coroutine[Op[Any], Any, None]:
        """Raises UsageError where the child cannot be started. Changes nothing."""

    def store(self, child: NewChild) -> Coroutine[Op[Any], Any, None]:
        """Store the child's run, if it is not there. Durable on return; safe to repeat. Raises ChildRefused where another run has its id."""

    def bring(self, run_id: str, until_us: int | None) -> Coroutine[Op[Any], Any, Ended | Open]:
        """Bring a child as far as it can be brought by then, or say what stands in the way. None: as long as it takes."""

    def ended(self, run_id: str) -> Coroutine[Op[Any], Any, Ended | None]:
        """The child's outcome, if it has one. Changes nothing."""


@dataclass(slots=True)
class Kin:
    """The children of one execution. `family`: None where a run is only read, and nothing may be stored or run.

    started: by run id, since this execution has come to them. busy: children that a step of this execution is bringing on, and who waits for it.
    """

    depth: int = 0
    family: Family | None = None
    started: dict[str, NewChild] = field(default_factory=dict)
    busy: dict[str, list[Waiting]] = field(default_factory=dict)


def child_run_id(parent: str, step: str) -> str:
    """The run id of a child that is given none: its parent's and its step's names, and a digest of both, since names are cut and folded."""
    digest = digest_bytes(b"recovery-child-1", parent.encode(), step.encode())[:16]
    name = step.rpartition("/")[2].rpartition("#")[0]
    return f"{parent}:{name}"[: RUN_ID_LENGTH_MAX - 17] + f"-{digest}"
