"""Entries: what a journal holds, as typed values and as plain JSON.

Owns the eight kinds of entries and their stored form. Knows nothing of digests, storage or rules. Invariant: decode(encode(e))
== e, and an unknown field or kind is refused, never dropped. Times are whole microseconds since the Unix epoch.

On the happy path one effect is two rows: an intent with its first attempt, and a settlement with the observation it rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import StrEnum
from functools import partial
from operator import attrgetter
from typing import Any, Final, TypeAlias

from recovery.core.values import value

JSON: TypeAlias = Any  # values that `codec` produced: None, bool, int, float, str, list and dict with string keys

ENTRY_FORMAT: Final = 1
"""Raised whenever an older reader could misunderstand a newer row; an older reader then refuses (exit 2)."""


class Status(StrEnum):
    """What a run is doing. Orphaned is derived: running, and its owner is dead or its lease has ended."""

    QUEUED = "queued"  # stored, and nobody has started it
    RUNNING = "running"  # a worker has it, or had it when it died
    WAITING = "waiting"  # for a named time, or for something from outside
    IN_DOUBT = "in_doubt"  # an effect may have happened, and a person must look
    HELD = "held"  # stopped on purpose; its reason says by what
    DIVERGED = "diverged"  # its code asked for other steps than its journal records
    COMPLETED = "completed"  # settled with the value it returned
    FAILED = "failed"  # settled with a failure of its own
    CANCELLED = "cancelled"  # settled because nobody wants it any more

    @property
    def settled(self) -> bool:
        return self in {Status.COMPLETED, Status.FAILED, Status.CANCELLED}


class AnswerKind(StrEnum):
    """What came back from the environment, from a reply or from a probe."""

    FOUND = "found"  # it happened; `value` is its outcome
    REFUSED = "refused"  # a declared rejection; `value` is the error's fields, `error` its name
    ABSENT = "absent"  # nothing under this key as of `as_of_us`
    IN_FLIGHT = "in_flight"  # a copy is being worked on
    GONE = "gone"  # it happened, and its object has been removed since
    FOREIGN = "foreign"  # the name is taken by somebody else
    MISMATCH = "mismatch"  # the key answers for another request
    CLOSED = "closed"  # the key is refused for ever
    EXPIRED = "expired"  # the receipt's retention is over, or the key's window
    INDETERMINATE = "indeterminate"  # a remembered failure that says nothing about the effect
    UNREACHABLE = "unreachable"  # no answer: it might have happened
    TURNED_AWAY = "turned_away"  # this request did nothing, and nothing is said about earlier ones (401, 429, effect-free 5xx)
    NOT_SENT = "not_sent"  # proof that this request never left
    ACCEPTED = "accepted"  # taken by a store that swallows duplicates; no value
    ITEMS = "items"  # a batch, item by item
    UNSTORABLE = "unstorable"  # it happened, and its value cannot be stored


class Source(StrEnum):
    """Where an observation came from, strongest authority first."""

    PROBE = "probe"  # an answer to a read-only question
    CLOSE = "close"  # an answer to a tombstone
    CANCEL = "cancel"  # an answer to a cancel by key, which proves what a probe would
    REPLY = "reply"  # an attempt's own reply, or its silence
    LATE = "late"  # a superseded worker's reply, or one that came after settlement
    PUSH = "push"  # told by the environment, signed
    OPERATOR = "operator"  # told by a person


class OutcomeKind(StrEnum):
    APPLIED = "applied"  # it happened, with its value
    APPLIED_WITHOUT_VALUE = "applied_without_value"  # it happened; its value is gone or was never told
    REJECTED = "rejected"  # the environment refused it with a declared error
    NOT_EXECUTED = "not_executed"  # proven: it did not and will not happen under this key
    MIXED = "mixed"  # a batch, item by item
    FAILED = "failed"  # only a run's own outcome
    CANCELLED = "cancelled"  # only a run's own outcome: nobody wants it any more


@value(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer in its stored form. `original`: this is the first reply, not the object's present state."""

    kind: AnswerKind
    value: JSON = None
    error: str = ""
    fingerprint: str = ""  # "" where the environment does not tell
    receipt: str = ""  # the receipt's own id, "" where it has none
    original: bool = True
    as_of_us: int | None = None
    raised: str = ""  # the epoch below which the environment refuses every copy from this answer on; "" where it raised none
    retry_after_us: int | None = None  # a duration
    detail: str = ""  # for people, bounded, without secrets
    cause: str = ""  # the class under which the effect's retry policy knows this failure; "" for none


@value(frozen=True, slots=True)
class Attempt:
    """One sending of an intent, durable before its first byte. `purpose`: send, resend, close or cancel."""

    step: str
    number: int  # from 1
    purpose: str
    sent_at_us: int
    send_until_us: int  # the sender gives up then; a copy may act until send_until + settle window
    epoch: str


@value(frozen=True, slots=True)
class Observation:
    step: str
    source: Source
    asked_at_us: int
    observed_at_us: int
    answer: Answered
    attempt: int | None = None  # whose reply this is; None for a probe
    epoch: str = ""
    pause_us: int | None = None  # how long after this the next attempt is made, as the retry policy drew it
    gives_up: bool = False  # the retry policy makes no attempt after this
    by_operator: bool = False  # a person had it asked: it tells what any answer tells, and costs the run's own recovery nothing


@value(frozen=True, slots=True, kw_only=True)
class Verdict:
    step: str
    row: str  # the name of the row that matched
    action: str
    reason: str
    at_us: int
    assumptions: tuple[str, ...] = ()
    next_look_us: int | None = None
    evidence: tuple[int, ...] = ()  # sequence numbers of what contradicts a recorded outcome


@value(frozen=True, slots=True)
class Settled:
    """The first durable outcome of a step, or of the run itself (step ""). Final."""

    step: str
    outcome: OutcomeKind
    at_us: int
    value: JSON = None  # the value, or a rejection's fields, or a failure's description
    error: str = ""  # the stable name of a rejection or failure
    reconstructed: bool = False
    heuristic: bool = False
    row: str = ""
    reason: str = ""
    assumptions: tuple[str, ...] = ()
    evidence: tuple[int, ...] = ()  # sequence numbers of earlier entries; the observation below is evidence too
    observation: Observation | None = None  # settled in the same row


@value(frozen=True, slots=True, kw_only=True)
class Opened:
    workflow: str
    version: str
    input: JSON
    input_digest: str
    at_us: int
    format: int = ENTRY_FORMAT
    parent: str = ""  # the run that started this one; "" for a run that nobody started but its caller
    parent_step: str = ""  # where it did
    depth: int = 0  # how many runs are above it
    detached: bool = False  # its parent neither waits for it nor takes it along when it is cancelled
    forked_from: str = ""  # the run whose prefix this one takes over; "" for a run that begins at its beginning
    forked_at: str = ""  # that run's first step that is not taken over; "": it had no later one
    forked_head: str = ""  # the digest of that run's head then


BRANCHES: Final = "branches"
NOW: Final = "now"
RANDOM: Final = "random"
UUID: Final = "uuid"
TIMER: Final = "timer"
FIRED: Final = "fired"
PATCHED: Final = "patched"
INHERITED: Final = "inherited"
ANEW: Final = "anew"
FORBIDDEN: Final = "forbidden"
UNDOING: Final = "undoing"
DEADLINE: Final = "deadline"
CHILD: Final = "child"
AWAITED: Final = "awaited"
ADOPTED: Final = "adopted"
OVERDUE: Final = "overdue"
WAIT: Final = "wait"
ANSWER: Final = "answer"
LAPSED: Final = "lapsed"
UNFIT: Final = "unfit"
PUBLISHED: Final = "published"

FORMS: Final = {
    "": "a decision", BRANCHES: "branches", NOW: "a reading of the clock", RANDOM: "a random number", UUID: "a random UUID",
    TIMER: "a timer",
    FIRED: "the end of a timer",
    PATCHED: "a patch",
    INHERITED: "an inherited effect",
    ANEW: "an effect that is done anew",
    FORBIDDEN: "an effect that is not to be done again",
    UNDOING: "an undoing",
    DEADLINE: "a deadline",
    CHILD: "the start of a child",
    AWAITED: "a wait for a child",
    ADOPTED: "the outcome of a child",
    OVERDUE: "the end of a wait for a child",
    WAIT: "a wait for an answer",
    ANSWER: "an answer",
    LAPSED: "the end of a wait that nobody answered",
    UNFIT: "an answer that does not fit",
    PUBLISHED: "a publication",
}  # fmt: skip
"""What a decision can be, for people: a function's choice, or a fact that the run itself draws or notes."""


@value(frozen=True, slots=True, kw_only=True)
class Decision:
    step: str
    fingerprint: str  # of the arguments it was made from
    value: JSON
    at_us: int
    error: str = ""  # a declared error of the deciding function, with its fields in `value`
    form: str = ""  # one of FORMS


@value(frozen=True, slots=True)
class Intent:
    step: str
    effect: str
    environment: str
    scope: str
    key: str
    fingerprint: str
    arguments: JSON
    contract: str  # digest; the contract itself is stored once
    timeout_us: int
    at_us: int
    attempt: Attempt | None = None
    valid_until_us: int | None = None  # no longer wanted from then on; None: wanted until somebody cancels it
    undoes: str = ""  # the step whose effect this one undoes; "" for an effect of its own
    deadline_us: int | None = None  # of the scope that it was begun in: no attempt of it may last longer
    attempts_max: int | None = None  # of its retry policy; None: as the engine's budget says
    attempts_until_us: int | None = None  # of its retry policy: no attempt begins from then on


class Verb(StrEnum):
    """What a person may do against the ordinary course. None of them makes a new key."""

    HOLD = "hold"  # the run sends nothing until it is released
    RELEASE = "release"  # it may go on
    FENCE = "fence"  # its epoch was raised, so that its last worker can append nothing more
    REDRIVE = "redrive"  # one attempt more under the same key than the budget allows
    RESOLVE = "resolve"  # the outcome of a step, by a person's word
    CLOSE = "close"  # the step's key was to be closed
    ACKNOWLEDGE = "acknowledge"  # what speaks against a settled step was seen to; its outcome stands
    CANCEL = "cancel"  # nobody wants the run any more: nothing new begins, what is open is settled, and the run ends as cancelled
    PAUSE = "pause"  # the run begins nothing new until it is resumed; what is under way is not lost
    RESUME = "resume"  # it may go on
    MOVE = "move"  # it goes by another version of its workflow from here on, which knows its settled steps under the names that are said
    FORK = "fork"  # the run was made from another one's prefix, on these terms
    RESTART = "restart"  # a new generation begins at a step; what was recorded from there on is superseded, on these terms


@value(frozen=True, slots=True, kw_only=True)
class Override:
    """What a person ordered, and why; the run itself is step ""."""

    step: str
    verb: Verb
    by: str
    at_us: int
    reason: str = ""
    grounds: str = ""  # what it rests on: a text or a file, bounded
    grounds_digest: str = ""  # of the whole
    attempts: int | None = None  # redrive: how many attempts may be spent in all
    evidence: tuple[int, ...] = ()  # acknowledge: sequence numbers of what was seen to
    version: str = ""  # move: which one
    steps: JSON = None  # move: [[its new identity, its recorded one or null where room is left for it], ...] in the new order
    dropped: tuple[str, ...] = ()  # move: recorded steps that the new code does not know
    epoch: str = ""  # move: the writer's; what came from earlier epochs speaks of the old names
    from_step: str = ""  # restart: the first step that is superseded
    terms: JSON = None  # fork, restart: what is to become of each earlier effect
    message: int | None = None  # the number of the inbox's message that it was taken from; None: written by whoever ordered it


Entry: TypeAlias = Opened | Decision | Intent | Attempt | Observation | Verdict | Settled | Override

KINDS: Final[dict[str, type[Entry]]] = {
    "opened": Opened,
    "decision": Decision,
    "intent": Intent,
    "attempt": Attempt,
    "observation": Observation,
    "verdict": Verdict,
    "settled": Settled,
    "override": Override,
}
_NAMES: Final = {kind: name for name, kind in KINDS.items()}
_NESTED: Final[dict[str, type]] = {"attempt": Attempt, "observation": Observation, "answer": Answered}
"""Where they are objects: an observation's attempt is a number."""
_ENUMS: Final[dict[tuple[type, str], type[StrEnum]]] = {
    (Answered, "kind"): AnswerKind,
    (Observation, "source"): Source,
    (Settled, "outcome"): OutcomeKind,
    (Override, "verb"): Verb,
}
_TUPLES: Final = {"assumptions", "evidence", "dropped"}

_INSIDE: Final = frozenset({Attempt, Observation, Answered})  # entries that others hold
_CLASSES: Final = frozenset({*KINDS.values(), *_INSIDE})
_FIELDS: Final[dict[type, tuple[Callable[[Any], tuple[Any, ...]], tuple[tuple[str, Any], ...]]]] = {
    cls: (attrgetter(*(item.name for item in fields(cls))), tuple((item.name, item.default) for item in fields(cls)))
    for cls in _CLASSES
}
"""By class: what reads all its fields at once, and their names and defaults."""


def kind_of(entry: Entry) -> str:
    return _NAMES[type(entry)]


def step_of(entry: Entry) -> str:
    """The step an entry belongs to; the run itself is step ""."""
    return "" if isinstance(entry, Opened) else entry.step


def latest_us(entry: Entry) -> int:
    """The highest time at which something of this entry had happened. Deadlines and next looks lie ahead and do not count."""
    match entry:
        case Attempt():
            return entry.sent_at_us
        case Observation():
            return entry.observed_at_us
        case Intent():
            return max(entry.at_us, entry.attempt.sent_at_us if entry.attempt is not None else 0)
        case Settled():
            return max(entry.at_us, entry.observation.observed_at_us if entry.observation is not None else 0)
        case _:
            return entry.at_us


def encode(entry: Entry | Answered) -> dict[str, JSON]:
    """The entry's body as plain JSON. Defaults are left out; the step is stored beside the body."""
    values, names = _FIELDS[type(entry)]
    body: dict[str, JSON] = {}
    for (name, default), held in zip(names, values(entry), strict=True):
        if held is default or (held == default and type(held) is type(default)):
            continue
        kind = type(held)
        body[name] = (
            held if kind is str or kind is int else encode(held) if kind in _INSIDE else list(held) if kind is tuple else held
        )
    return body


def decode(kind: str, body: Mapping[str, JSON]) -> Entry:
    """The entry that `encode` wrote. Raises ValueError on a kind or field that this version does not know."""
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}")
    return _decode(KINDS[kind], body)  # type: ignore[no-any-return]  # KINDS holds entries only


def _decode(cls: type, body: Mapping[str, JSON]) -> Any:
    values = dict(body)
    try:
        for name, read in _READINGS[cls]:
            if name in values:
                values[name] = read(values[name])
        return cls(**values)
    except KeyError as error:
        raise ValueError(f"unknown value {error}") from error
    except TypeError as error:
        unknown = body.keys() - {item.name for item in fields(cls)}
        raise ValueError(f"unknown field {min(unknown)!r}" if unknown else str(error)) from error


def _nested(cls: type, value: JSON) -> Any:
    return _decode(cls, value) if isinstance(value, dict) else value


def _reading(cls: type, name: str) -> Callable[[JSON], Any] | None:
    """How a field is read from its JSON; None: it is what it is."""
    if name in _NESTED:
        return partial(_nested, _NESTED[name])
    if (members := _ENUMS.get((cls, name))) is not None:
        return {member.value: member for member in members}.__getitem__  # a quarter of what it takes to call the class
    return tuple if name in _TUPLES else None


_READINGS: Final = {
    cls: [(item.name, read) for item in fields(cls) if (read := _reading(cls, item.name)) is not None] for cls in _CLASSES
}
"""By class, the fields that are not what their JSON is, worked out once: each row of a run passes here each time that the run is read."""
