"""Resting: how a run stands while some of its branches do not go on.

Owns what a run may rest for, and which rest counts where there are several. Knows nothing of steps or entries. Invariants: a run stands as the gravest of
its branches' rests, and is looked at again when the first of them is due; what it rests for is never read from its reason, which is for people.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from recovery.core.entries import Status

GRAVEST_FIRST: Final = (Status.IN_DOUBT, Status.HELD, Status.WAITING)
"""How a run stands of which some branch rests. Whatever it is, another branch may wait for a word: a message makes it due."""
LESS_THAN_A_REST: Final = (Status.RUNNING, Status.QUEUED, Status.DIVERGED)  # the code has been mended since it diverged


class RestsFor(StrEnum):
    """What kind of thing a run that waits rests for. Stored: a member is never renamed."""

    NOTHING = ""  # it does not wait: its status says how it stands; or it is due at once, and whoever looks will say
    TIME = "time"  # a timer, a pause between attempts, its share of a rate
    ENVIRONMENT = "environment"  # another look at an effect
    ANSWER = "answer"  # to a wait of its own, with a time-out or without
    MESSAGE = "message"  # the next one of a topic, likewise
    CHILD = "child"  # the end of a child that goes on by itself, or that somebody else has
    CHILD_ANSWER = "child_answer"  # the end of a child that waits for what somebody must say


SAID_BY_SOMEBODY: Final = frozenset({RestsFor.ANSWER, RestsFor.MESSAGE, RestsFor.CHILD_ANSWER})


class Rest(NamedTuple):
    """How a run stands while a branch of it does not go on. reason: the same for people."""

    status: Status
    next_look_us: int | None
    reason: str
    rests_for: RestsFor = RestsFor.NOTHING


GOES_ON: Final = Rest(Status.RUNNING, None, "")
"""How a run stands of which no branch rests."""


class Rests(dict[str, Rest]):
    """The rests of branches that do not go on, by branch."""

    @property
    def next_look_us(self) -> int | None:
        """When the first of the branches that rest is due; None where none has a time."""
        return min((rest.next_look_us for rest in self.values() if rest.next_look_us is not None), default=None)

    def standing(self, branch: str, rest: Rest) -> Rest:
        """How the run stands while one branch goes on or rests from now on: as the gravest rest of any, with the next look of the earliest. Of several
        that wait, as one that waits for a time: the run goes on by itself then, whoever else is to say something."""
        if rest.status is Status.RUNNING:
            self.pop(branch, None)
        else:
            self[branch] = rest
        if not self:
            return rest
        gravest = min(
            self.values(), key=lambda each: (GRAVEST_FIRST.index(each.status), waits_for_somebody(each.status, each.rests_for))
        )
        return gravest._replace(next_look_us=self.next_look_us)


def waits_for_somebody(status: Status, rests_for: RestsFor) -> bool:
    """Whether a run that stands like this goes on once somebody has said something. A time-out may come first, and does not make it less so."""
    return status is Status.WAITING and rests_for in SAID_BY_SOMEBODY


def says_less(stands: Status | None, looks_us: int | None, standing: Rest, now_us: int | None) -> bool:
    """Whether a run's row, which says `stands` and `looks_us`, says less than that the run stands like this. now_us: whether it names another
    next look, too: a later one, or one that has passed and for which somebody would come in vain."""
    ours = standing.next_look_us
    if now_us is not None and ours is not None and looks_us is not None and (ours < looks_us or looks_us <= now_us < ours):
        return True
    return stands in LESS_THAN_A_REST or (
        stands in GRAVEST_FIRST and GRAVEST_FIRST.index(standing.status) < GRAVEST_FIRST.index(stands)
    )
