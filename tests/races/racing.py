"""Races: real threads with engines of their own, which run, recover, cancel, pause, restart and fork the same few runs at once.

Owns the workflow that is raced for, who does what, and the count outside of every engine. Must not judge. Invariant: what happened is counted under a lock by
the service itself, which acts once for each key and knows nothing of runs.
"""

from __future__ import annotations

import threading
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

from recovery import (
    Budget,
    Call,
    Engine,
    Environment,
    Forbid,
    NewKey,
    Rejection,
    Retry,
    Reuse,
    Run,
    contracts,
    effect,
    errors,
    workflow,
)
from recovery.core.ids import base_of
from recovery.core.inheritance import Policy
from recovery.storage import open_journal
from recovery.storage.reading import Loaded, read

WHO: dict[str, Any] = {"by": "ann", "reason": "she says so"}
KEYED = contracts.Keyed(window=timedelta(hours=24))
PLACES = ("take#1", "gather#1", "gather#1/0/take#1", "gather#1/0/ok#1", "ask#1", "ask#1/again#1")
ROUNDS_MAX = 40
"""How often everything is recovered at the end, until nothing is open: an answer's time runs out within the first few."""


class Busy(Rejection):
    queue: int


@dataclass
class Service:
    """What is outside. done: how often each key's effect happened; names: what for."""

    done: Counter[str] = field(default_factory=Counter)
    names: dict[str, str] = field(default_factory=dict)
    _replies: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def act(self, call: Call, what: str) -> str:
        with self._lock:
            if call.key not in self._replies:
                self.done[call.key] += 1
                self.names[call.key] = what
                self._replies[call.key] = what
            return self._replies[call.key]

    def grant(self, call: Call, what: str) -> str:
        """As `act`, but every second key is refused, for good."""
        with self._lock:
            known = self._replies.get(call.key)
            refused = len(self._replies) % 2 if known is None else known == ""
            if refused:
                self._replies[call.key] = ""
        if refused:
            raise Busy(queue=1)
        return self.act(call, what)


@dataclass
class Race:
    """One race for `runs` on a database. new_keys, forks: whether people order effects anew, and fork runs that are open."""

    url: str
    seed: int
    new_keys: bool = True
    forks: bool = True
    runs: int = 4
    service: Service = field(default_factory=Service)
    refusals: Counter[str] = field(default_factory=Counter)
    given: Counter[str] = field(default_factory=Counter)
    bugs: list[str] = field(default_factory=list)
    broken: list[Any] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.workflows = _workflows(self.service)
        self.ids = [f"r{self.seed}-{number}" for number in range(self.runs)]

    def engine(self, patience: timedelta = timedelta(milliseconds=20)) -> Engine:
        budget = Budget(max_wait=patience, backoff=timedelta(milliseconds=1))
        return Engine(self.url, workflows=self.workflows, budget=budget)

    def go(self, threads: int, moves: int) -> None:
        """Race, then bring everything to its end."""
        with self.engine() as first:  # the file is made once
            first.list()
        racers = [
            threading.Thread(target=self._moves, args=(Random(self.seed * 100 + number), moves)) for number in range(threads)
        ]  # moves, not secrets
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        self._finish()

    def loaded(self) -> dict[str, Loaded]:
        """Every run, as it stands at the end."""
        journal = open_journal(self.url)
        try:
            return {row.run_id: read(journal, row.run_id) for row in journal.runs()}
        finally:
            journal.close()

    def _moves(self, random: Random, moves: int) -> None:
        with self.engine() as engine:
            verbs = self._verbs(engine, random)
            for _ in range(moves):
                [(verb, act)] = random.choices(list(verbs.items()), weights=[WEIGHTS[verb] for verb in verbs])
                try:
                    act(random.choice(self.ids))
                    self.given[verb] += 1
                except errors.RecoveryError as error:
                    self.refusals[type(error).__name__] += 1
                except BaseException:  # whatever else comes out is a bug, and what the race is for
                    self.bugs.append(traceback.format_exc())

    def _verbs(self, engine: Engine, random: Random) -> dict[str, Callable[[str], object]]:
        def child_or(run_id: str) -> str:
            """The run or, as often, one that it has led to."""
            family = [row.run_id for row in engine.list() if row.run_id.startswith(run_id)]
            return random.choice([run_id, *family])

        return {
            "run": lambda run_id: engine.run(run_id, self.workflows[0], run_id),
            "recover": lambda run_id: engine.recover(child_or(run_id)),
            "signal": lambda run_id: engine.signal(run_id, "ok", random.random() < 0.8, by="ann"),
            "cancel": lambda run_id: engine.cancel(child_or(run_id), **WHO),
            "pause": lambda run_id: engine.pause(run_id, **WHO),
            "resume": lambda run_id: engine.resume(run_id, **WHO),
            "restart": lambda run_id: self._restart(engine, random, child_or(run_id)),
            "fork": lambda run_id: self._fork(engine, random, run_id),
        }

    def _restart(self, engine: Engine, random: Random, run_id: str) -> None:
        """From a place of any generation, with a word for whatever needs one."""
        steps = [step for entry in engine.history(run_id) if (step := getattr(entry, "step", "")) and _is_place(step)]
        step = random.choice(steps or ["take#1"])
        plan = engine.restart(run_id, step, **WHO, plan=True)
        engine.restart(
            run_id, step, policies=self._policies(random, [term.step for term in plan.terms if term.policy == "forbid"]), **WHO
        )

    def _fork(self, engine: Engine, random: Random, run_id: str) -> None:
        if not self.forks and not engine.get(run_id).status.settled:
            return
        at = random.choice(PLACES)
        plan = engine.fork(run_id, "planned", at=at, **WHO, plan=True)
        words = self._policies(random, [term.step for term in plan.terms if random.random() < 0.3])  # some of them
        new = f"{run_id}-f{random.randrange(1000)}"
        engine.fork(run_id, new, at=at, policies=words, **WHO)
        engine.recover(new)

    def _policies(self, random: Random, steps: Sequence[str]) -> dict[str, Policy]:
        kinds: list[Policy] = [Forbid(), Reuse(), *([NewKey("once more")] if self.new_keys else [])]
        return {step: random.choice(kinds) for step in steps}

    def _finish(self) -> None:
        with self.engine(timedelta(seconds=1)) as engine:
            for _ in range(ROUNDS_MAX):
                left = [row for row in engine.list() if not row.status.settled]
                for row in left:
                    for act in (partial(engine.resume, row.run_id, **WHO), partial(engine.recover, row.run_id)):
                        try:
                            act()
                        except errors.RecoveryError as error:
                            self.refusals[type(error).__name__] += 1
                if not left:
                    break
            self.broken = engine.verify().broken
            self.open = [f"{row.run_id} is {row.status.value}" for row in engine.list() if not row.status.settled]


WEIGHTS = {"run": 35, "recover": 15, "signal": 20, "cancel": 4, "pause": 6, "resume": 10, "restart": 20, "fork": 6}
"""How often each is done: mostly work, so that there is something to order about."""


def _is_place(step: str) -> bool:
    return base_of(step) in PLACES


def _workflows(service: Service) -> list[Any]:
    """A saga with an effect, two branches of which one is a saga that waits and the other a child, and an effect that is refused at first."""

    @effect(KEYED, environment=Environment("works"), name="take")
    def take(call: Call, *, part: str) -> str:
        return service.act(call, f"take {part}")

    @take.compensation(KEYED)
    def give(call: Call, outcome: str, *, part: str) -> None:
        service.act(call, f"give {part}")

    @effect(KEYED, environment=Environment("works"), name="ask", rejects=(Busy,), retry=Retry(on={Busy: Retry(attempts=3)}))
    def ask(call: Call, *, part: str) -> str:
        return service.grant(call, f"ask {part}")

    @ask.compensation(KEYED)
    def decline(call: Call, outcome: str, *, part: str) -> None:
        service.act(call, f"decline {part}")

    @workflow
    def kid(run: Run, tag: str) -> str:
        with run.saga("ks"):
            run.perform(take(part=f"{tag}-k"))
            run.sleep(timedelta(milliseconds=3))
            run.perform(take(part=f"{tag}-k2"))
            return tag

    @workflow
    def top(run: Run, tag: str) -> str:
        def waits(branch: Run) -> bool:
            with branch.saga("b"):
                branch.perform(take(part=f"{tag}-b"))
                return branch.wait_for("ok", schema=bool, timeout=timedelta(milliseconds=60), default=False)

        with run.saga("s"):
            run.perform(take(part=f"{tag}-a"))
            ok, came = run.gather(waits, lambda branch: branch.call_child(kid(tag)))
            run.perform(ask(part=f"{tag}-q"))
            if not ok:
                raise ValueError("nobody has said so")
            run.perform(take(part=f"{tag}-z"))
            return came

    return [top, kid]
