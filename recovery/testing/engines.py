"""Engines of simulated processes: the real ones, with a simulated identity.

Owns how a process calls its engine and what a call came to. Invariant: nothing of the machine, the reconciler or the drivers is replaced;
only who we are, who is dead, the tokens and the clock are the simulation's.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from inspect import isawaitable
from itertools import count
from typing import Any, TypeAlias

from recovery.claims import World
from recovery.core.contracts import microseconds
from recovery.core.entries import OutcomeKind
from recovery.core.errors import RecoveryError
from recovery.core.instants import moment
from recovery.core.policy import Budget, Lease, Riding
from recovery.definitions.effect import Bound
from recovery.definitions.recovered import Recovered
from recovery.definitions.workflow import Workflow
from recovery.drivers.asking import Progress, Surroundings
from recovery.drivers.sync import finish
from recovery.engine import AsyncEngine, Engine
from recovery.engine.wiring import Wiring
from recovery.operators.cancelling import Told
from recovery.operators.forking import Forked, Restarted
from recovery.operators.resolving import Resolved
from recovery.operators.signalling import Signalled
from recovery.ports import Journal, Message, Owner
from recovery.testing.clock import ManualClock
from recovery.testing.journals import Host, ProcessClock, ProcessJournal
from recovery.testing.ledger import Ended
from recovery.testing.moves import EXITS, Fork, Order, Restart, Send, Signal
from recovery.testing.process import Killed, Process
from recovery.testing.scripted import ScriptedEnvironment

StandIn: TypeAlias = Callable[[Bound[Any]], Bound[Any]]
"""What is called in the place of an effect's own functions; what it gives has the same effect."""


class _Placed(Wiring):
    """An engine inside a simulated process."""

    process: Process
    is_dead: Callable[[Owner], bool]
    numbers: Iterator[int]
    stand_in: StandIn
    overhear: Callable[[str], Sequence[Message]]

    def world(self, *, wait_for_owner: timedelta | None = None, budget: Budget | None = None) -> World:
        """No thread renews leases, or gives up what was left: a world has one running process at a time, and one that stands still renews nothing."""
        made = super().world(wait_for_owner=wait_for_owner, budget=budget)
        return replace(made, hold=lambda _row: None, drop=lambda _row: None, abandon=lambda _left: None, messages=self.overhear)

    def surroundings(self, progress: Progress | None = None) -> Surroundings:
        """One branch at a time, whose turn it is: a scenario has one order of events, and random numbers that a seed would give again. The tasks of
        an event loop have an order of their own, so that those of an `async def` workflow come one after the other."""
        made = replace(super().surroundings(progress), draw=lambda: next(self.numbers), stand_in=self.stand_in, watchman=None)
        return replace(made, at_once=1) if isinstance(self, AsyncEngine) else replace(made, strands=self.process.turns)

    def identify(self, token: str) -> Owner:
        return self.process.owner(token)

    def proven_dead(self, owner: Owner) -> bool:
        return self.is_dead(owner)

    def new_token(self) -> str:
        return f"{self.process.name}-{self.process.pid}-{next(self.numbers)}"


class PlacedEngine(_Placed, Engine):
    """For `def` workflows."""


class PlacedAsyncEngine(_Placed, AsyncEngine):
    """For `async def` workflows."""


@dataclass(frozen=True, slots=True)
class Program:
    """What a process runs: an engine, and the one workflow that it knows. is_own: it was written for the real world, and takes and gives
    values of its own types; else its one argument and its value are JSON."""

    engine: PlacedEngine | PlacedAsyncEngine
    workflow: Workflow[..., Any]
    process: Process
    is_own: bool = False

    def run(self, run_id: str, given: Any) -> Ended:
        """Run the workflow. `given`: its one argument, or all of them by name where it is a user's own."""
        engine, named = self.engine, self.workflow.arguments(given or {}) if self.is_own else {}
        args = () if self.is_own else (given,)
        if isinstance(engine, PlacedAsyncEngine):
            return self._came("run", run_id, None, lambda: asyncio.run(engine.run(run_id, self.workflow, *args, **named)))
        return self._came("run", run_id, None, lambda: engine.run(run_id, self.workflow, *args, **named))

    def recover(self, run_id: str, wait: timedelta, budget: Budget) -> Ended:
        engine = self.engine
        limit = None if budget.max_wait is None else microseconds(budget.max_wait + wait)
        if isinstance(engine, PlacedAsyncEngine):
            recovering = engine.recover
            return self._came("recover", run_id, limit, lambda: asyncio.run(recovering(run_id, wait_for_owner=wait, budget=budget)))
        return self._came("recover", run_id, limit, lambda: engine.recover(run_id, wait_for_owner=wait, budget=budget))

    def resolve(self, run_id: str, step: str, outcome: OutcomeKind, value: Any) -> Ended:
        """A person's word, given with this process's engine."""
        engine, said = self.engine, {"evidence": "a look", "by": "a person", "reason": "the scenario says so", "value": value}
        if isinstance(engine, PlacedAsyncEngine):
            return self._came("resolve", run_id, None, lambda: asyncio.run(_awaited(engine.resolve(run_id, step, outcome, **said))))
        return self._came("resolve", run_id, None, lambda: engine.resolve(run_id, step, outcome, **said))

    def signal(self, move: Signal) -> Ended:
        """Somebody's answer, about the call that the wait names unless the move says otherwise."""

        async def said() -> Any:
            about = move.about if isinstance(move.about, str) else ""
            if move.about is True:
                about = next(
                    (one.about for one in await _given(self.engine.waits(move.id)) if move.signal in {one.name, one.step}), ""
                )
            until = None if move.stands_for is None else moment(self.process.now_us()) + move.stands_for
            return await _given(self.engine.signal(move.id, move.signal, move.value, by=move.by, about=about, valid_until=until))

        return self._came("signal", move.id, None, lambda: self._finished(said()))

    def send(self, move: Send) -> Ended:
        """Somebody's message."""

        async def said() -> Any:
            return await _given(self.engine.send(move.id, move.send, move.value, by=move.by, token=move.token))

        return self._came("send", move.id, None, lambda: self._finished(said()))

    def order(self, move: Order) -> Ended:
        """What is to become of a run."""

        async def said() -> Any:
            return await _given(getattr(self.engine, move.order)(move.id, by=move.by, reason=move.reason))

        return self._came(move.order, move.id, None, lambda: self._finished(said()))

    def fork(self, move: Fork) -> Ended:
        """A new run from another one's first steps."""

        async def said() -> Any:
            return await _given(
                self.engine.fork(move.of, move.fork, at=move.at, policies=move.policies, by=move.by, reason="the scenario says so")
            )

        return self._came("fork", move.fork, None, lambda: self._finished(said()))

    def restart(self, move: Restart) -> Ended:
        """A new generation of a run."""
        self.engine.wait_for_owner = move.wait

        async def said() -> Any:
            return await _given(
                self.engine.restart(move.id, move.restart, policies=move.policies, by=move.by, reason="the scenario says so")
            )

        return self._came("restart", move.id, None, lambda: self._finished(said()))

    def _finished(self, coming: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(coming) if isinstance(self.engine, PlacedAsyncEngine) else finish(coming)

    def _came(self, verb: str, run_id: str, budget_us: int | None, call: Callable[[], Any]) -> Ended:
        """Make the call and write down what it came to. Raises Killed."""
        began_us = self.process.now_us() - self.process.stood_us
        exit_, value, error, message = "settled", None, "", ""
        rows: tuple[str, ...] = ()
        try:
            came = call()
        except Killed:
            raise
        except RecoveryError as raised:
            exit_, error, message = EXITS[raised.exit_code], type(raised).__name__, str(raised)
        except BaseException as raised:  # noqa: BLE001  # whatever else comes out is a bug, and the scenario's result
            exit_, error, message = "bug", type(raised).__name__, _traced(raised)
        else:
            value = came
            if isinstance(came, Resolved):
                value, exit_ = None, "resolved"  # the step is, and the run goes on with its next recovery
            if isinstance(came, Signalled | Told | Forked | Restarted):
                value, exit_ = None, "said"
            if isinstance(came, Recovered):
                value, exit_, rows = came.value, EXITS[came.exit_code], tuple(verdict.row for verdict in came.verdicts)
                error, message = ("", "") if came.error is None else (type(came.error).__name__, str(came.error))
        if self.is_own and exit_ == "settled":
            value = self.workflow.encode_result(value)
        self.process.check()  # user code may have swallowed its own death
        now_us = self.process.now_us()
        ended = Ended(
            at_us=now_us,
            process=self.process.name,
            verb=verb,
            run_id=run_id,
            exit=exit_,
            value=value,
            error=error,
            message=message,
            rows=rows,
            took_us=now_us - self.process.stood_us - began_us,
            budget_us=budget_us,
        )
        said = f": {message}" if message else f" with {value!r}" if exit_ == "settled" else ""
        self.process.ledger.add(ended, self.process.name, f"{verb} {run_id} ends, {exit_}{said}")
        return ended


async def _given(came: Any) -> Any:
    """What an engine of either colour gives."""
    return await came if isawaitable(came) else came


async def _awaited(coming: Awaitable[Any]) -> Any:
    return await coming


def program(
    process: Process,
    workflow: Workflow[..., Any],
    journal: Journal,
    clock: ManualClock,
    *,
    budget: Budget,
    riding: Riding | None,
    lease: Lease,
    is_dead: Callable[[Owner], bool],
    host: Host,
    scripted: ScriptedEnvironment | None = None,
    children: Iterable[Workflow[..., Any]] = (),
    knowing: bool = True,
) -> Program:
    """The engine of a process, of its workflow's colour. children: workflows that it knows beside that one. knowing: it has any of them."""
    cls = PlacedAsyncEngine if workflow.is_async else PlacedEngine
    placed = ProcessJournal(journal, process, host)
    engine = cls(
        placed,
        workflows=[workflow, *children] if knowing else [],
        budget=budget,
        riding=riding,
        lease=lease,
        clock=ProcessClock(clock, process, host),
    )
    engine.process, engine.is_dead, engine.numbers = process, is_dead, count(1)
    engine.overhear = placed.overheard
    engine.stand_in = scripted.stand_in if scripted is not None else lambda bound: bound
    return Program(engine, workflow, process, is_own=scripted is not None)


def _traced(raised: BaseException) -> str:
    """What was raised, then from where: a report may show the first line alone."""
    return "".join([*traceback.format_exception_only(raised), *traceback.format_exception(raised)])
