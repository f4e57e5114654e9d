"""Judging: what must hold after a fleet has drained a database, by the service's count and by the journal. No worker is believed.

Owns the sentences for what does not hold. Invariant: how often an effect happened is the service's count by what the effect is about, which no key and no
journal has a part in.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from recovery.core.entries import OutcomeKind, Settled, Status
from recovery.core.errors import RecoveryError
from recovery.core.policy import Budget
from recovery.ports import Journal, RunRow
from recovery.storage.reading import Loaded, read
from recovery.testing.ledger import Declined, Event, Executed
from recovery.testing.promises import broken
from recovery.testing.worlds import Askable, World
from tests.fleet.fleet import Member
from tests.fleet.shop import STEPS, declines, has_child

PAGE = 100
EXIT_CODES = {0, 4}
"""Of a worker that was asked to end: everything was finished or let go, or something was left to its death."""
FORBIDDEN = ("database is locked", "Traceback", "InvariantViolated", "Exception")
EFFECTS = {name: Askable(can_probe=False, can_close=False, timeout_us=20_000_000) for name in STEPS}


def everything(journal: Journal, runs: int, outside: Mapping[str, Any], members: Sequence[Member]) -> list[str]:
    """Empty if everything holds."""
    return [*counted(runs, outside), *behaved(members), *stored(journal, runs, outside)]


def wanted(runs: int) -> tuple[Counter[str], Counter[str]]:
    """How often each effect is to be done, and to be declined."""
    done: Counter[str] = Counter()
    declined: Counter[str] = Counter()
    for number in range(runs):
        name = f"order-{number}"
        for step in STEPS:
            (declined if step == "charge" and declines(number) else done)[f"{name}/{step}"] = 1
        if has_child(number):
            done[f"{name}/pack"] = 1
    return done, declined


def counted(runs: int, outside: Mapping[str, Any]) -> Iterator[str]:
    """By the service alone: each effect happened once, and nothing else did."""
    done, declined = wanted(runs)
    for meant, really, verb in ((done, outside["done"], "happened"), (declined, outside["declined"], "was declined")):
        for about in sorted({*meant, *really}):
            if meant[about] != really.get(about, 0):
                yield f"{about} {verb} {really.get(about, 0)} times, and should have {meant[about]} times"
    if outside["mismatches"]:
        yield f"{outside['mismatches']} requests were other ones than the first under their key"


def behaved(members: Sequence[Member]) -> Iterator[str]:
    """No worker wrote what nobody should read, and each that was not killed ended as it says."""
    for member in members:
        said = member.said.read_text(errors="replace") + member.problem()
        for words in FORBIDDEN:
            if words in said:
                yield f"{member.name} wrote {words!r}: {said[max(0, said.index(words) - 500) :][:1500]}"
        unheard = member.process.returncode == -signal.SIGTERM and not said  # it came before there was anybody to hear it
        if not member.killed and member.process.returncode not in EXIT_CODES and not unheard:
            yield f"{member.name} ended with {member.process.returncode}: {member.problem()[-1000:]}"
        for line in member.said_wrong()[:1]:
            yield f"{member.name} said what is no document: {line[:1000]}"
        if not member.killed and member.problem():
            yield f"{member.name} wrote to standard error: {member.problem()[-1000:]}"


def stored(journal: Journal, runs: int, outside: Mapping[str, Any]) -> Iterator[str]:
    """By the journal: every run is there, settled, whole, and came to what the service has; and the promises hold of it."""
    expected = {f"order-{number}" for number in range(runs)}
    children = sum(map(has_child, range(runs)))
    seen: set[str] = set()
    after = ""
    while rows := journal.runs(limit=PAGE, after=after):
        after = rows[-1].run_id
        loaded = {}
        for row in rows:
            seen.add(row.run_id)
            yield from _run(row)
            try:
                loaded[row.run_id] = read(journal, row.run_id)
            except RecoveryError as error:
                yield f"{row.run_id} cannot be read: {error}"
        loaded |= {child: read(journal, child) for one in list(loaded.values()) for child in _children(one) if child not in loaded}
        yield from _promises(loaded, outside)
        for name, one in loaded.items():
            yield from _outcome(name, one, outside)
    if missing := expected - seen:
        yield f"{len(missing)} runs are lost: {sorted(missing)[:5]}"
    if len(seen - expected) != children:
        yield f"{len(seen - expected)} runs beside those that were enqueued, and {children} children were to be started"


def _run(row: RunRow) -> Iterator[str]:
    if row.status is not Status.COMPLETED:
        yield f"{row.run_id} is {row.status.value} {row.reason}"


def _children(loaded: Loaded) -> list[str]:
    """They may stand on another page."""
    return list(loaded.history.children)


def _promises(loaded: Mapping[str, Loaded], outside: Mapping[str, Any]) -> Iterator[str]:
    events: list[Event] = []
    for one in loaded.values():
        for each in one.history.effects:
            key = each.intent.key
            reply = outside["keys"].get(key)
            if reply is not None and "id" in reply:
                events.append(Executed(at_us=0, key=key, arguments=dict(each.intent.arguments), value=reply))
            elif reply is not None:
                events.append(Declined(at_us=0, key=key, error="Declined", value=reply))
    world = World(runs=loaded, events=tuple(events), effects=EFFECTS, budget=Budget(), stock={}, asked={})
    yield from broken(world)
    for name, one in loaded.items():
        for before, then in pairwise(one.rows):
            if then.epoch < before.epoch:
                yield f"{name}: a superseded worker wrote entry {then.seq}"


def _outcome(name: str, loaded: Loaded, outside: Mapping[str, Any]) -> Iterator[str]:
    """The outcome is made of what the service gave, once each."""
    ended = loaded.history.ended
    if ended is None or ended.outcome is not OutcomeKind.APPLIED:
        yield f"{name} did not come to an outcome"
        return
    settled = [entry for entry in loaded.entries if isinstance(entry, Settled)]
    if twice := [step for step, times in Counter(entry.step for entry in settled).items() if times > 1]:
        yield f"{name}: settled twice: {twice}"
    if not name.startswith("order-") or not name.removeprefix("order-").isdigit():
        return
    number = int(name.removeprefix("order-"))
    keys = [each.intent.key for each in loaded.history.effects]
    given = [outside["keys"].get(key, {}).get("id", "declined") for key in keys]
    came = list(ended.value)
    if has_child(number):
        came.pop(2)
    if came != given or len(given) != len(STEPS):
        yield f"{name} came to {came}, and the service gave {given}"
