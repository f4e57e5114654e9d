"""States: when two moments of two histories are the same one.

Owns what goes into the digest of a state. Must not know what may follow. Invariant: two moments of the same digest, with the same budgets
left, have the same future, and the promises say the same of it.

Why merging is sound. The future of a world is a function of what is shared (the journal, the environment, the clocks, what is
armed) and of the processes that stand still. Shared things are in the digest as values. A process is deterministic but for what its ports
give it, so that the call it began with and the digest of everything it was fed since name its place and its memory. Who is dead or has
ended contributes nothing but what it left in the journal, the environment and the ledger. A promise looks at the ledger, too: at which
effects were done and declined, what left under which epoch, which calls ended how, and what last became of each run; those are in the
digest in an order of their own, or as sequences where their order matters. Whatever a promise says of the order of things that are past, it has
said in the state in which the later of them happened, and every state is judged when it is first seen. So of two equal moments one
needs to be gone on from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from recovery.storage.memory import MemoryJournal
from recovery.testing.exploration.bounds import Bounds
from recovery.testing.footprints import row_text
from recovery.testing.ledger import Claimed, Declined, Ended, Event, Executed, Left
from recovery.testing.stage import Stage

State = bytes


def state_of(stage: Stage, journal: MemoryJournal, about: object) -> State:
    """The digest of a moment. `about`: what else the choices at it depend on."""
    clock, host = stage.clock, stage.host
    there = (
        _stored(journal),
        stage.environment.standing(),
        (clock.wall_us(), clock.boot_us()),
        host,
        sorted(stage.asked.items()),
        [(process.name, process.paused_at, process.footprint.fed, process.turns.standing()) for process in stage.standing()],
        _happened(stage.ledger.events),
        about,
    )
    return blake2b(repr(there).encode(), digest_size=16).digest()


def _stored(journal: MemoryJournal) -> object:
    """Everything in the dict; a run's head digest stands for its rows."""
    inside = vars(journal)
    runs = [(row_text(run.row), len(run.rows), sorted(run.contracts)) for run in inside["_runs"].values()]
    rest = [inside[name] for name in ("_incarnation", "_keys", "_evidence", "_inbox", "_holds", "_stubs")]
    return runs, sorted(inside["_payloads"]), rest


def _happened(events: Iterable[Event]) -> object:
    """What the promises look at."""
    done: list[object] = []
    declined: set[str] = set()
    left: list[tuple[str, ...]] = []
    ended: set[tuple[str, ...]] = set()
    last: dict[str, str] = {}
    for event in events:
        match event:
            case Executed():
                done.append((event.key, event.value))
            case Declined():
                declined.add(f"{event.key} {event.value}")
            case Left():
                left.append(
                    (event.run_id, event.step, event.key, str(event.attempt), event.epoch, event.fingerprint, event.purpose)
                )
            case Ended():
                if event.exit in {"settled", "failed"}:
                    ended.add((event.run_id, event.exit, repr(event.value)))
                last[event.run_id] = f"{event.exit} {event.error}"
            case Claimed():
                last[event.run_id] = event.epoch
            case _:
                pass
    return done, sorted(declined), sorted(left), sorted(ended), sorted(last.items())


class Seen:
    """States that were reached, each with the largest budgets that were left in it."""

    def __init__(self) -> None:
        self._left: dict[State, list[Bounds]] = {}

    def __len__(self) -> int:
        return len(self._left)

    def told(self, beside: Mapping[str, object] | None = None) -> dict[str, list[list[int]]]:
        """As plain data, without the states of `beside`."""
        return {
            state.hex(): [[left.faults, left.recoverers] for left in known]
            for state, known in self._left.items()
            if beside is None or state.hex() not in beside
        }

    def hear(self, told: Mapping[str, list[list[int]]]) -> None:
        """What somebody else has seen."""
        for state, known in told.items():
            for faults, recoverers in known:
                self.add(bytes.fromhex(state), Bounds(faults, recoverers))

    def __contains__(self, state: State) -> bool:
        return state in self._left

    def add(self, state: State, left: Bounds) -> bool:
        """Whether there is something to do from here which there was not before."""
        known = self._left.setdefault(state, [])
        if any(more.covers(left) for more in known):
            return False
        known[:] = [less for less in known if not left.covers(less)]
        known.append(left)
        return True
