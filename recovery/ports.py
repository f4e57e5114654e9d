"""Ports: what the drivers and the reconciler need from the outside, as small protocols.

Owns the promises that every storage and every clock makes; the conformance suite tests them. A port method says when its effect is durable, what
a concurrent caller sees, which errors it raises and whether it is safe to repeat."""

# pyright: reportReturnType=false
# The body of a protocol's method is its docstring; mypy checks those who implement it.
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from recovery.core.chain import Row
from recovery.core.entries import Status
from recovery.core.ids import Epoch
from recovery.core.limits import Queue, Rate
from recovery.core.values import value
from recovery.several import Several
from recovery.vaults import Vault


class Clock(Protocol):
    """Two readings. Neither is ever read by the core: drivers feed what they read."""

    def wall_us(self) -> int:
        """Microseconds since the Unix epoch: what windows and recorded times are measured in. Never goes back in one process."""

    def boot_us(self) -> int:
        """Microseconds on a clock that goes on in suspend and never steps (CLOCK_BOOTTIME): what durations are measured in."""

    def asks(self) -> bool:
        """Whether the next `wall_us` does I/O (asks a database); the async driver then reads it outside its event loop."""

    def raise_mark(self, at_us: int) -> None:
        """Never read a wall time below `at_us` from now on: the highest time of a journal that was just loaded."""

    def skip(self, seconds: float) -> bool:
        """A virtual clock moves on by itself and returns True; a real one returns False, and the driver waits."""


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
    reason: str  # of being held; "" otherwise
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


@dataclass(frozen=True, slots=True)
class Payload:
    """A value that is too large for a row, as it is stored. `digest`: of the bytes, by which rows refer to them."""

    digest: str
    body: bytes


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run and its first row, stored together. `head`/`head_digest` are those of `rows`."""

    run_id: str
    workflow: str
    input_digest: str
    status: Status
    owner: Owner
    lease_term_us: int
    at_us: int
    rows: tuple[Row, ...]
    payloads: tuple[Payload, ...] = ()  # what the rows refer to; stored with them or not at all
    queue: str = ""
    priority: int = 0
    next_look_us: int | None = None
    let_go: bool = False  # stored without an owner


@value(frozen=True, slots=True)
class KeyClaim:
    """One idempotency key that an append takes. (environment, scope, key) has one fingerprint and one owner step for ever."""

    environment: str
    scope: str
    key: str
    fingerprint: str
    step: str


@value(frozen=True, slots=True)
class Append:
    """One compare-and-set on a run's head. The retry of an append is the same append, token included."""

    run_id: str
    owner: str  # the owner's token
    epoch: Epoch
    head: int  # what it is based on
    rows: tuple[Row, ...]  # at least one; seq head+1, head+2, ... ; all with the same token
    status: Status
    at_us: int
    next_look_us: int | None = None
    reason: str = ""
    keys: tuple[KeyClaim, ...] = ()
    contracts: tuple[tuple[str, str], ...] = ()  # (digest, canonical JSON)
    payloads: tuple[Payload, ...] = ()  # what the rows refer to
    words: tuple[Message, ...] = ()  # to other runs, each told with the rows or not at all, if it rests: who does not, needs none
    keeps_look: bool = False  # the run's next look stays what the row says at the commit, `next_look_us` is of no meaning


@value(frozen=True, slots=True)
class Appended:
    """All rows of the member are durable."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """Nothing of the member was written: epoch, owner or head is no longer the writer's. `run` is what is there now."""

    run: RunRow | None


@dataclass(frozen=True, slots=True)
class KeyTaken:
    """Nothing of the member was written: the key belongs to another step, or to another request of the same step."""

    key: KeyClaim
    owner_run: str
    owner_step: str
    fingerprint: str


AppendResult = Appended | Fenced | KeyTaken


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a superseded worker knew: kept outside the fence, never thrown away. `body` is an encoded entry as JSON text."""

    run_id: str
    step: str
    epoch: Epoch
    at_us: int
    kind: str
    body: str


@dataclass(frozen=True, slots=True)
class Hold:
    """One word about what contracts may do: hold (nothing is sent under them) or release. `subject`: a contract's digest or its name."""

    subject: str
    held: bool
    by: str
    reason: str
    at_us: int
    token: str  # one per word, kept over retries; derived from the evidence where no person says it


@dataclass(frozen=True, slots=True)
class Stub:
    """What stays of a forgotten run beside its row: who forgot it, why, and what its outcome was, as a digest."""

    run_id: str
    outcome_digest: str
    by: str
    reason: str
    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Something said to a run from outside of its journal: a signal, an order, the end of a child. Which messages a run has taken in is said by its
    own entries, never by the inbox.

    slot: at most one message of a run has it, and the first one wins; "" for as many as come.
    """

    run_id: str
    kind: str
    body: str  # JSON text
    at_us: int
    token: str  # one per message, kept over retries
    name: str = ""
    slot: str = ""
    by: str = ""
    number: int = 0  # given by the store: 1, 2, 3, ... within a run


@dataclass(frozen=True, slots=True)
class Delivered:
    """The message is in the inbox, with its number: from now on, or since an earlier call."""

    message: Message


@dataclass(frozen=True, slots=True)
class SlotTaken:
    """Nothing was written: another message came first."""

    first: Message


@dataclass(frozen=True, slots=True)
class NotOpen:
    """Nothing was written: the run is settled, or there is none."""

    run: RunRow | None


Delivery = Delivered | SlotTaken | NotOpen


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which due runs a worker takes. queues, workflows: None takes all; passed_over: runs that it does not want now; limit: how many; limits: of queues."""

    now_us: int
    limit: int
    queues: tuple[str, ...] | None = None
    workflows: tuple[str, ...] | None = None
    passed_over: frozenset[str] = frozenset()
    limits: tuple[Queue, ...] = ()


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The one row of a schedule: its ticks up to `through_us` are dealt with; `last_run` stands for the last that began a run."""

    name: str
    revision: int  # 1, and one more with each change
    cron: str
    timezone: str
    through_us: int
    next_us: int | None  # the next tick, as whoever has moved it on last has counted
    last_run: str = ""
    last_tick_us: int = 0
    paused: bool = False
    by: str = ""  # who has paused or resumed it, and why
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Due:
    """Runs that are due, and when the next of the others will be, or its queue lets one begin; None: none of them says."""

    runs: tuple[RunRow, ...]
    next_due_us: int | None


class Journal(Several, Protocol):
    """A store of runs. Synchronous; safe for several threads; the async driver calls it from a thread of its own.

    Every method may raise StoreUnavailable (whether a write is stored is then unknown; all writes here are safe to repeat as they stand),
    SchemaMismatch (not migrated, or newer than this code) and StoreUrlError."""

    url: str  # for people, without password
    vault: Vault | None  # what messages and late evidence are encrypted by, and rows by whoever chains them; None: nothing is

    def namespace(self) -> str:
        """The database's random name, fixed at its creation and kept in backups. Goes into keys and chains, so that asking for it is the first step of writing: it creates an SQLite file that is not there."""

    def incarnation(self) -> int:
        """The first half of every new epoch: 0, and higher with each declaration that the database was restored."""

    def raise_incarnation(self, seen: int, to: int) -> int:
        """Compare-and-set from `seen` to `to`; durable on return. Returns what holds now: `to`, or what somebody else has declared
        meanwhile. A repeat changes nothing. Runs take it over with their next claim, not before. Raises ValueError unless it rises."""

    def open_run(self, new: NewRun) -> RunRow | None:
        """Store a new run owned by its opener at epoch (incarnation, 1). Durable on return. None if the run id is taken by
        somebody else; a repeat of the same call (same owner token) returns the row; one that is let go returns None then. Nothing else is written."""

    def find(self, run_id: str) -> RunRow | None:
        """The run row, read committed. None if there is none; never creates a database."""

    def runs(
        self, *, statuses: Sequence[Status] | None = None, reason: str | None = None, limit: int = 1000, after: str = ""
    ) -> list[RunRow]:
        """Run rows ordered by run id, those behind `after`; costs what it returns, but for a `reason`, which is looked for in all of them."""

    def claim(self, seen: RunRow, owner: Owner, *, lease_term_us: int, at_us: int) -> RunRow | None:
        """Compare-and-set on (epoch, lease counter, owner) of `seen`: epoch n+1 (or (incarnation, 1) if the incarnation rose), the new owner, counter 0. Durable on
        return. None if somebody was faster, or if the run was forgotten. A repeat with the same owner token returns the row. Load only after it has returned, in a new transaction: its owner may have
        settled it since it was seen. Does not change the status, nor lower `updated_at_us`, which is for people: a clock is lifted to times in the chain, and never to this one."""

    def due(self, wanted: Wanted) -> Due:
        """The runs that nobody has and that can go on now: queued, let go before their end, or with a next look that has passed. A higher
        priority first, then what has been due for longest. Read committed; changes nothing, and costs what it returns and how many pairs of queue
        and priority there are, however many runs wait or are settled. A row that cannot be read is left out. Of a queue with limits only as many as it has room for: it holds as many as somebody has of its runs, and what has begun counts for its rate."""

    def claim_due(self, wanted: Wanted, owner: Owner, *, lease_term_us: int) -> Due:
        """`claim` of those that `due` would return, in one transaction, for one owner token. Durable on return. A run that another claimant has its
        hands on is passed over; claimants of one limited queue wait for each other, so that together they keep its limits. A call whose answer was lost returns what it has claimed when it repeats itself; what one that raised has claimed is among `owned`."""

    def take(self, subject: str, rate: Rate, now_us: int) -> int | None:
        """Take one of a rate, whose takers all say the same subject. None: it is taken, durable on return. Else it may be asked again then; each who is put off is told a later time."""

    def schedules(self) -> list[Scheduled]:
        """All schedules by name, read committed."""

    def keep_schedule(self, row: Scheduled) -> bool:
        """Compare-and-set on the revision before this one; the first one is stored where there is none. Durable on return. False: somebody else has changed it, or a call whose answer was lost has."""

    def owned(self, after: tuple[str, str] = ("", ""), limit: int = 1000) -> list[RunRow]:
        """The runs that can go on and have an owner, alive or not, ordered by queue and run id, those behind `after`; read committed."""

    def renew(self, run_id: str, owner: str, epoch: Epoch) -> bool:
        """Raise the lease counter. False if this owner no longer holds the run at this epoch."""

    def release(self, run_id: str, owner: str, epoch: Epoch, due_us: int | None = None) -> bool:
        """Give the run up (owner becomes None, status stays). A repeat returns True and changes nothing: nobody else can have released this epoch. False if somebody else has it, or has claimed it since. due_us: work broke off, and a run that rests is due from then on."""

    def load(self, run_id: str) -> tuple[RunRow, list[Row], dict[str, str]] | None:
        """The run row, all its journal rows in order, and its contracts by digest (JSON text), as one consistent snapshot."""

    def first_rows(self, run_ids: Sequence[str]) -> dict[str, Row]:
        """The first row of each of these runs, read committed; not verified. A run that is not there, or was forgotten, is left out."""

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        """Each member is all or nothing, and independent of the others; all are durable on return. One result per member.

        A repeat of an Appended member returns Appended again (its token and digest are where its last row belongs, at the head or
        below what was appended since) and writes nothing. Claims of the same key by the same run and step with the same fingerprint
        succeed again. A KeyTaken member leaves no key row behind. Words are delivered with the rows, as `deliver` does: a run that says at the
        same time that it rests comes before, and is told, or after, and its writer then finds what the rows say."""

    def payloads(self, digests: Sequence[str]) -> dict[str, bytes]:
        """What is stored under these digests, read committed; not verified. One that is not there is left out. Bytes are stored once, however many runs refer to them, and go with the last of those that is forgotten."""

    def key_owner(self, environment: str, scope: str, key: str) -> tuple[str, str, str] | None:
        """(run id, step, fingerprint) that owns the key, or None."""

    def add_evidence(self, evidence: Evidence) -> None:
        """Keep one item outside the fence. Durable on return. An identical item (all fields but at_us) is kept once."""

    def evidence(self, run_id: str) -> list[Evidence]:
        """What `add_evidence` kept for a run, oldest first."""

    def deliver(self, message: Message) -> Delivery:
        """Put a message into its run's inbox. Durable on return, and read by whoever asks for the inbox after that. It never moves the head. The next look of a run that rests (in doubt, held or waiting: another branch may wait for this) comes forward to the message's time: who
        appends that it rests and then reads the inbox misses nothing. A repeat (same run and token) is Delivered again, whatever came since."""

    def inbox(self, run_id: str, after: int = 0) -> list[Message]:
        """The messages of a run behind a number, in the order of their numbers; read committed. None ever comes in below one that was read."""

    def add_hold(self, hold: Hold) -> None:
        """Keep one word about a contract, behind all earlier ones. Durable on return; who loads a run after that sees it, who has loaded one before does not. A repeat (same token) changes nothing, even if other words about the subject were kept since."""

    def holds(self) -> list[Hold]:
        """The last word about each subject that is held now, oldest first; read committed."""

    def forget(self, seen: RunRow, stub: Stub) -> bool:
        """Compare-and-set on (epoch, head, settled status) of `seen`: remove the run's entries, contract links, evidence and inbox, and keep the stub, all or nothing.
        Durable on return. The run row stays, unowned and at a further epoch, so that its id is never used again and an append of its last owner is fenced; its keys stay
        taken. False if the run moved or is not settled. A repeat returns True and changes nothing."""

    def stub(self, run_id: str) -> Stub | None:
        """What `forget` kept, or None if the run was not forgotten. Read committed."""

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Until what is returned is called, call `wake`, in any thread, when a run may have become due by what was written through this journal and, on PostgreSQL, by whomever. No I/O in the caller's thread. In vain or not at all, too: whoever listens looks now and then."""

    def now_us(self) -> int:
        """The database's own clock, in microseconds since the Unix epoch (for SQLite and memory: this host's)."""

    def close(self) -> None:
        """Give up connections. Safe to repeat; a later call on the store opens them again."""
