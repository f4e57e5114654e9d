"""Plays: what is done to one run, drawn from a seed.

Owns the choice and its text. Knows no process. Invariant: a seed makes the same play everywhere; only instants that are random by purpose
(microseconds) strike elsewhere when it is played again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.crash.mixed import FORMS, KINDS

DATABASES = ("sqlite", "postgresql")
COLOURS = ("sync", "async")
CROWDS = ((1, 74), (2, 18), (8, 8))

FIRST_BRACKETS = (
    "open",
    "decide",
    "append.decision",
    "append.intent",
    "append.attempt",
    "append.observation",
    "append.verdict",
    "append.settled",
    "append.ended",
    "send",
    "probe",
    "close",
    "release",
)
LATER_BRACKETS = ("claim", "load", "append.intent", "append.attempt", "append.observation", "append.verdict")
LATER_BRACKETS += ("append.settled", "append.ended", "send", "probe", "close", "release", "evidence")
KINDS_OF_FAULT = {"sqlite": ("point", "point", "passage", "passage", "moment", "moment", "stop")}
KINDS_OF_FAULT |= {"postgresql": (*KINDS_OF_FAULT["sqlite"], "pause")}
PAUSES = ("in-transaction", "after-commit")

PASSAGES_MAX = 9
"""Of one step, about: where the N-th passage is drawn from."""
PROCESSOR_US_MAX = 60_000
"""What a worker uses for a run of a few steps, about."""
DELAY_US_MAX = 120_000
"""How long after the start of an act the service or the server is killed, at most."""


@dataclass(frozen=True)
class Fault:
    """kind: "" (none), "point" (SIGKILL at a named point), "passage" (SIGKILL at the n-th point of any name), "moment" (SIGKILL after so much
    processor time), "stop" (SIGSTOP at the n-th point of any name), "pause" (SIGSTOP after so much processor time: not on SQLite, whose
    one lock a stopped process may keep). at: POINT:N, N or microseconds."""

    kind: str = ""
    at: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.at}" if self.kind else "calm"


@dataclass(frozen=True)
class Act:
    """Some processes work on the run at the same time.

    faults: one for each of them. pushing: they do not wait for a lease, as if it had ended the moment they came. around: what else dies:
    "" nothing, "service in-transaction|after-commit" the service with the run's first request held there, "service" and "server" at a random
    moment, after delay_us.
    """

    faults: tuple[Fault, ...]
    pushing: bool = False
    around: str = ""
    delay_us: int = 0

    def __str__(self) -> str:
        who = ", ".join(str(fault) for fault in self.faults)
        delay = f" after {self.delay_us} us" if self.delay_us else ""
        return f"[{who}{'; pushing' if self.pushing else ''}{f'; kill the {self.around}{delay}' if self.around else ''}]"


@dataclass(frozen=True)
class Play:
    """form: how the run comes to its steps, one of `mixed.FORMS`; "": one after the other. waking: what becomes of a process that was stopped, once the others are through: "continued" or "killed"."""

    seed: int
    database: str
    colour: str
    steps: tuple[str, ...]
    acts: tuple[Act, ...]
    waking: str
    form: str = ""

    @property
    def said(self) -> list[str]:
        """What the workflow is given."""
        return [*([self.form] if self.form else []), *self.steps]

    @property
    def disturbed(self) -> bool:
        return any(act.around or len(act.faults) > 1 or any(fault.kind for fault in act.faults) for act in self.acts)

    def __str__(self) -> str:
        acts = " then ".join(str(act) for act in self.acts)
        return f"seed {self.seed}: {self.database}, {self.colour}, {'+'.join(self.said)}: {acts}, stopped ones {self.waking}"


def play(seed: int, databases: Sequence[str] = DATABASES, *, servers: bool = True) -> Play:
    """The play of a seed. servers: whether the database's server may be killed."""
    random = Random(f"soak {seed}")  # not for secrets
    database = random.choice(databases)
    colour = random.choice(COLOURS)
    steps = tuple(random.choices(tuple(KINDS), weights=[3, 2, 1, 2, 1, 2, 1, 2, 2], k=random.choice((1, 2, 2, 3, 3, 4))))
    form = random.choice(("", "", "", "", *FORMS))
    if form in {"gather", "map", "family"}:  # no doubt there: several branches could be in it
        steps = tuple(name if KINDS[name].proof else "keyed-lost" for name in steps)
    acts = tuple(
        _act(random, number, steps, KINDS_OF_FAULT[database], servers=servers and database == "postgresql")
        for number in range(random.choice((1, 1, 2, 2, 3)))
    )
    return Play(seed, database, colour, steps, acts, random.choice(("continued", "continued", "killed")), form)


def _act(random: Random, number: int, steps: Sequence[str], kinds: Sequence[str], *, servers: bool) -> Act:
    [crowd] = random.choices([size for size, _ in CROWDS], weights=[weight for _, weight in CROWDS])
    around = _around(random, number, crowd, steps, servers=servers)
    calm = 0.15 if crowd == 1 and not around else 0.6
    faults = tuple(Fault() if random.random() < calm else _fault(random, number, len(steps), kinds) for _ in range(crowd))
    if around.endswith(PAUSES):
        faults = (Fault(),)  # somebody must send what is to be held
    return Act(
        faults,
        pushing=random.random() < 0.5,
        around=around,
        delay_us=random.randrange(DELAY_US_MAX) if around in {"service", "server"} else 0,
    )


def _around(random: Random, number: int, crowd: int, steps: Sequence[str], *, servers: bool) -> str:
    drawn = random.random()
    if drawn < 0.05 and number == 0 and crowd == 1 and steps[0].startswith(("keyed", "asked", "closed")):
        return f"service {random.choice(PAUSES)}"
    if drawn < 0.12:
        return "service"
    return "server" if servers and drawn > 0.95 else ""


def _fault(random: Random, number: int, steps: int, kinds: Sequence[str]) -> Fault:
    kind = random.choice(kinds)
    match kind:
        case "point":
            bracket = random.choice(LATER_BRACKETS if number else FIRST_BRACKETS)
            return Fault(kind, f"{bracket}.{random.choice(('before', 'after'))}:{random.choice((1, 1, 2))}")
        case "moment" | "pause":
            return Fault(kind, str(random.randrange(PROCESSOR_US_MAX)))
        case _:
            return Fault(kind, str(random.randint(1, PASSAGES_MAX * (1 + steps))))
