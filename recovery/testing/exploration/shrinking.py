"""Shrinking: a smaller timeline that breaks the same promise.

Owns what "smaller" means. Must not know how a timeline was found. Invariant: what it gives was played by itself, and broke the promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from recovery.testing.moves import Fork, Kill, Move, Order, Recover, Restart, Resume, Run

_STOPPING = Run | Recover | Resume | Order | Fork | Restart

Breaks = Callable[[tuple[Move, ...]], bool]
"""Whether a timeline, played by itself, breaks the promise that is looked for."""

PLAYS_MAX = 400
"""How many timelines are tried: a history of the explorer has a dozen moves, and most of them can go in a few rounds."""


def shrunk(timeline: tuple[Move, ...], breaks: Breaks) -> tuple[Move, ...]:
    """A timeline from which nothing can be taken and nothing made simpler. `timeline` itself must break the promise."""
    left, smaller = PLAYS_MAX, True
    while smaller:
        smaller = False
        for candidate in _simpler(timeline):
            if left == 0:
                return timeline
            left -= 1
            if breaks(candidate):
                timeline, smaller = candidate, True
                break
    return timeline


def _simpler(timeline: tuple[Move, ...]) -> Iterator[tuple[Move, ...]]:
    """Largest steps first: an actor less, a move less, a stop less, a stop that is a death, an earlier stop."""
    actors = dict.fromkeys(actor for move in timeline if (actor := actor_of(move)) is not None)
    for actor in reversed(actors):
        yield tuple(move for move in timeline if actor_of(move) != actor)
    for at, move in enumerate(timeline):
        yield timeline[:at] + timeline[at + 1 :]
        if isinstance(move, _STOPPING) and move.pause is not None:
            yield _replaced(timeline, at, {"pause": None})
    for at, move in enumerate(timeline):
        if not isinstance(move, _STOPPING) or (stop := move.pause or move.kill) is None:
            continue
        kind = "kill" if move.kill is not None else "pause"
        ends = next((later for later in range(at + 1, len(timeline)) if actor_of(timeline[later]) == actor_of(move)), None)
        if ends is not None and isinstance(timeline[ends], Kill):
            yield _replaced(timeline[:ends] + timeline[ends + 1 :], at, {"pause": None, "kill": stop})
        if ends is not None and isinstance(timeline[ends], Resume) and ends == at + 1:
            later = timeline[ends]
            assert isinstance(later, Resume), "asked just now"
            yield _replaced(timeline[:ends] + timeline[ends + 1 :], at, {"pause": later.pause, "kill": later.kill})
        if stop.occurrence > 1:
            yield _replaced(timeline, at, {kind: stop.model_copy(update={"occurrence": stop.occurrence - 1})})
        if stop.at.endswith(".after"):
            yield _replaced(timeline, at, {kind: stop.model_copy(update={"at": stop.at.removesuffix("after") + "before"})})


def _replaced(timeline: tuple[Move, ...], at: int, change: dict[str, object]) -> tuple[Move, ...]:
    return (*timeline[:at], timeline[at].model_copy(update=change), *timeline[at + 1 :])


def actor_of(move: Move) -> str | None:
    """Whose process it is about, if it is about one."""
    match move:
        case Run():
            return move.run
        case Recover():
            return move.recover
        case Resume():
            return move.resume
        case Kill():
            return move.kill
        case Order() | Fork() | Restart():
            return move.by
        case _:
            return None
