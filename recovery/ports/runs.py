"""The one mutable row of a run, and who holds it: what nearly every method of a journal takes or gives.

Owns these two records. Knows no method. Invariant: a row is what was read; the table may have moved on.
"""

from __future__ import annotations

from dataclasses import dataclass

from recovery.core.entries import Status
from recovery.core.ids import Epoch
from recovery.core.resting import RestsFor
from recovery.core.values import value


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a run: a fresh random token per claim, and a process that can be proven dead on the same boot of one host."""

    token: str
    host: str = ""
    boot_id: str = ""
    pid_namespace: str = ""
    pid: int = 0
    process_start: int = 0  # clock ticks after boot, from the kernel: a reused pid has another

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}" if self.pid else f"worker {self.token[:8]}"


@value(frozen=True, slots=True)
class RunRow:
    """The one mutable row of a run."""

    run_id: str
    workflow: str
    status: Status
    reason: str  # of being held, or what a waiting run waits for; "" otherwise. For people
    input_digest: str
    epoch: Epoch
    owner: Owner | None  # None: released
    lease_counter: int
    lease_term_us: int
    head: int
    head_digest: str
    created_at_us: int
    updated_at_us: int
    next_look_us: int | None = None
    queue: str = ""
    priority: int = 0
    crashes: int = 0  # how often in a row it was claimed from an owner who had not let it go
    rests_for: RestsFor = RestsFor.NOTHING  # what kind of thing it waits for, as the append said that it waits
