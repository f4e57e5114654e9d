"""Who may work on a run, and which one a worker takes next.

Owns the promises of claims and leases, of what is due, and of the limits of queues and rates. Knows no entry. Invariant: of all
who claim what they saw, one gets it.
"""

# pyright: reportReturnType=false
# The body of a protocol's method is its docstring; mypy checks those who implement it.
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from recovery.core.ids import Epoch
from recovery.core.limits import Queue, Rate
from recovery.ports.runs import Owner, RunRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which due runs a worker takes.

    limit: how many. queues, workflows: None takes all. passed_over: runs that it does not want now. limits: of queues.
    """

    now_us: int
    limit: int
    queues: tuple[str, ...] | None = None
    workflows: tuple[str, ...] | None = None
    passed_over: frozenset[str] = frozenset()
    limits: tuple[Queue, ...] = ()


@dataclass(frozen=True, slots=True)
class Due:
    """Runs that are due, and when the next of the others will be, or its queue lets one begin; None: none of them says."""

    runs: tuple[RunRow, ...]
    next_due_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What stands in one queue.

    due: how many runs nobody has and could go on now, the first of them since `due_since_us`; later: how many do so from a time
    on that they name, the first of them at `next_due_us`; at_work: how many somebody has, alive or not.
    """

    queue: str
    due: int = 0
    later: int = 0
    at_work: int = 0
    due_since_us: int | None = None
    next_due_us: int | None = None


class Claiming(Protocol):
    """Runs as work that somebody takes, keeps and gives up."""

    def claim(self, seen: RunRow, owner: Owner, *, lease_term_us: int, at_us: int) -> RunRow | None:
        """Compare-and-set on (epoch, lease counter, owner) of `seen`: epoch n+1 (or (incarnation, 1) if the incarnation rose),
        the new owner, counter 0. Durable on return. None if somebody was faster, or if the run was forgotten. A repeat with the
        same owner token returns the row. Load only after it has returned, in a new transaction: its owner may have settled it
        since it was seen. Does not change the status, nor lower `updated_at_us`, which is for people: a clock is lifted to times
        in the chain, and never to this one."""

    def claim_many(self, seen: Sequence[RunRow], owner: Owner, *, lease_term_us: int, at_us: int) -> list[RunRow]:
        """`claim` of each, for one owner token and in one transaction. Durable on return. Left out is whose row has moved since
        it was seen, or cannot be read, and a run that another claimant has its hands on just now. A call whose answer was lost
        returns what it has claimed when it repeats itself."""

    def renew(self, run_id: str, owner: str, epoch: Epoch) -> bool:
        """Raise the lease counter. False if this owner no longer holds the run at this epoch."""

    def release(self, run_id: str, owner: str, epoch: Epoch, due_us: int | None = None) -> bool:
        """Give the run up (owner becomes None, status stays). A repeat returns True and changes nothing: nobody else can have
        released this epoch. False if somebody else has it, or has claimed it since. due_us: work broke off, and a run that rests
        is due from then on."""

    def due(self, wanted: Wanted) -> Due:
        """The runs that nobody has and that can go on now: queued, let go before their end, or with a next look that has passed.
        A higher priority first, then what has been due for longest. Read committed; changes nothing, and costs what it returns
        and how many pairs of queue and priority there are, however many runs wait or are settled. A row that cannot be read is
        left out. Of a queue with limits only as many as it has room for: it holds as many as somebody has of its runs, and what
        has begun counts for its rate."""

    def claim_due(self, wanted: Wanted, owner: Owner, *, lease_term_us: int) -> Due:
        """`claim` of those that `due` would return, in one transaction, for one owner token. Durable on return. A run that
        another claimant has its hands on is passed over; claimants of one limited queue wait for each other, so that together
        they keep its limits. A call whose answer was lost returns what it has claimed when it repeats itself; what one that
        raised has claimed is among `owned`."""

    def owned(self, after: tuple[str, str] = ("", ""), limit: int = 1000) -> list[RunRow]:
        """The runs that can go on and have an owner, alive or not, by queue and run id, those behind `after`; read committed."""

    def standing(self, now_us: int) -> list[Standing]:
        """Each queue in which a run stands that can go on, by name; read committed. Costs how many such runs there are, however
        many are settled or wait for a person."""

    def take(self, subject: str, rate: Rate, now_us: int) -> int | None:
        """Take one of a rate, whose takers all say the same subject. None: it is taken, durable on return. Else it may be asked
        again then; each who is put off is told a later time."""

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Until what is returned is called, call `wake`, in any thread, when a run may have become due by what was written
        through this journal and, on PostgreSQL, by whomever. No I/O in the caller's thread. In vain or not at all, too: whoever
        listens looks now and then."""
