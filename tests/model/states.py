"""States of the model and how one follows from another.

Owns the moves: of time, of copies, of two workers that answer late, stall and die, of whoever else acts in the environment. Knows nothing
of promises. Invariant: `moves` gives every move that the setting's allowance leaves, each with a line for a person to read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from recovery.core.contracts import Contract, Deletion, Enforced
from recovery.core.entries import Answered, AnswerKind, Attempt, OutcomeKind, Source
from recovery.core.ids import Epoch
from tests.model.environment import (
    DELETED,
    FOREIGN,
    NOT_SENT,
    OURS,
    TURNED_AWAY,
    UNREACHABLE,
    Copy,
    Environment,
    World,
    executions,
    receipt,
)
from tests.model.workers import Flags, Stretch, Workers, budget_of, observation


class Allowance(NamedTuple):
    """How often each thing may still happen."""

    claims: int = 2  # a second worker takes over
    stalls: int = 1  # of these, from a worker that is alive and goes on
    unsent: int = 0  # a request is known not to have left
    turned: int = 0  # a request is turned away before the key is looked at
    silent: int = 0  # a connection breaks before its time, a probe gets no answer
    stock: int = 0  # stock runs out, or comes back
    removed: int = 0  # somebody removes the object or its receipt
    taken: int = 0  # somebody else takes the name
    unwanted: int = 0  # the effect is cancelled
    scope: int = 0  # the credential is rotated, and back
    restored: int = 0  # the journal is replaced by a backup of itself
    word: int = 0  # an operator says something, true or not
    doubled: int = 0  # a proxy sends a copy twice
    upgraded: int = 0  # new code makes other bytes of the same arguments


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One contract in one kind of weather. actual: what the environment keeps to, where that is not the first contract. lies: it keeps to
    less than all of them say."""

    name: str
    contracts: tuple[Contract, ...]
    allowance: Allowance
    actual: Contract | None = None
    attempts: int = 2
    probes: int = 2
    horizon: int = 11
    skew: int = 0
    fails: bool = False
    busy: bool = False
    refusing: bool = False
    lies: bool = False
    theirs: bool = False  # somebody else has used our key
    can_probe: bool | None = None

    @property
    def honest(self) -> bool:
        return not self.lies and not self.theirs


class Worker(NamedTuple):
    """Waiting for an answer: to its attempt, to its question, or for a time."""

    phase: str
    number: int | None
    asked: int
    until: int
    reply: Answered | None = None
    elsewhere: bool = False


class State(NamedTuple):
    now: int
    journal: int
    flags: Flags
    world: World
    owner: Worker | None
    old: Worker | None
    left: Allowance


Move = tuple[str, State]


@dataclass
class Stage:
    """A setting brought to life."""

    setting: Setting
    environment: Environment = field(init=False)
    workers: Workers = field(init=False)

    def __post_init__(self) -> None:
        setting, contract = self.setting, self.setting.contracts[0]
        self.environment = Environment(setting.actual or contract, skew=setting.skew, fails=setting.fails, busy=setting.busy)
        can_probe = contract.lookup is not None if setting.can_probe is None else setting.can_probe
        budget = budget_of(setting.attempts, setting.probes)
        self.workers = Workers(setting.contracts, budget, can_probe=can_probe, can_close=contract.close,
                               can_cancel=contract.cancel_by_key)  # fmt: skip

    def start(self) -> State:
        setting = self.setting
        world = World(refusing=setting.refusing, record=("theirs", 0) if setting.theirs else None)
        return State(0, 0, Flags(), world, None, None, setting.allowance._replace(claims=setting.allowance.claims + 1))

    # -- stretches -----------------------------------------------------------------------------------------------------

    def enter(self, state: State, stretch: Stretch) -> State:
        """The state in which the owner has run this stretch and waits again, or has left."""
        world, owner, elsewhere = state.world, None, state.flags.scope != "here"
        if stretch.ends in {"send", "close", "cancel"}:
            assert stretch.attempt is not None
            attempt = stretch.attempt
            copy = Copy(attempt.number, stretch.ends == "close", self._bound(attempt.send_until_us), attempt.send_until_us,
                        self._first_sent(stretch), elsewhere, self._sender(attempt), int(state.flags.upgraded), stretch.ends == "cancel")  # fmt: skip
            world = world._replace(copies=tuple(sorted((*world.copies, copy))))
            owner = Worker(stretch.ends, attempt.number, state.now, stretch.until, elsewhere=elsewhere)
        elif stretch.ends in {"ask", "sleep"}:
            owner = Worker(stretch.ends, None, state.now, stretch.until, elsewhere=elsewhere)
        return state._replace(journal=stretch.journal, world=world, owner=owner)

    def _bound(self, send_until: int) -> int:
        """A2 and A3: no copy acts later, whatever stalls."""
        contract = self.environment.contract
        return send_until + contract.settle_window_us + contract.clock_error_us

    def _sender(self, attempt: Attempt) -> Epoch:
        """Left out where nobody looks at it, so that more states are one."""
        told = Epoch.parse(attempt.epoch) if self.epochs else None
        return told or Epoch(0, 0)

    @property
    def epochs(self) -> bool:
        return self.environment.contract.enforced is Enforced.EPOCH

    def _first_sent(self, stretch: Stretch) -> int:
        step = self.workers.journals.step(stretch.journal)
        assert step is not None
        unsent = {noted.observation.attempt for noted in step.observations if noted.answer.kind is AnswerKind.NOT_SENT}
        return min(attempt.sent_at_us for attempt in step.attempts if attempt.number not in unsent)

    def look(self, state: State) -> Stretch:
        """What somebody who claims the run now would do, as far as the first answer."""
        return self.workers.stretch(state.journal, None, state.now, state.flags)

    # -- moves ---------------------------------------------------------------------------------------------------------

    def moves(self, state: State) -> Iterator[tuple[str, State, Stretch | None]]:
        """(what happens, the state after it, the stretch that a worker ran in it)."""
        yield from self._time(state)
        yield from self._landings(state)
        if state.owner is not None:
            yield from self._owner(state, state.owner)
        if state.old is not None and state.old.reply is not None:
            yield self._late(state, state.old)
        yield from self._claims(state)
        yield from self._others(state)

    def _time(self, state: State) -> Iterator[tuple[str, State, None]]:
        owner, now = state.owner, state.now + 1
        if now > self.setting.horizon or (owner is not None and owner.reply is None and owner.until < now):
            return
        world = state.world._replace(copies=tuple(copy for copy in state.world.copies if copy.until >= now))
        old = state.old if state.old is None or state.old.reply is not None or state.old.until >= now else None
        yield f"time is {now}", state._replace(now=now, world=world, old=old), None

    def _landings(self, state: State) -> Iterator[tuple[str, State, None]]:
        for copy in dict.fromkeys(state.world.copies):
            what = f"copy {copy.number} lands: the environment"
            for label, world, answer in self._landed(state, copy):
                after = state._replace(world=world)
                for place in ("owner", "old"):
                    worker = getattr(state, place)
                    waits = worker is not None and worker.number == copy.number and worker.reply is None
                    if waits and state.now <= worker.until:
                        after = after._replace(**{place: worker._replace(reply=answer)})
                yield f"{what} {label}", after, None

    def _landed(self, state: State, copy: Copy) -> list[tuple[str, World, Answered]]:
        if not copy.elsewhere:
            return self.environment.land(state.world, copy, state.now)
        rest = list(state.world.copies)
        rest.remove(copy)
        there = state.world._replace(copies=tuple(rest))
        if copy.closing:
            return [("closes the key in another account", there, Answered(kind=AnswerKind.CLOSED))]
        if copy.cancelling:
            return [("finds nothing to cancel in another account", there, Answered(kind=AnswerKind.ABSENT))]
        applied = there._replace(events=(*there.events, (state.now, OURS)))
        return [("applies it in another account", applied, receipt(executions(applied), original=True))]

    def _owner(self, state: State, owner: Worker) -> Iterator[tuple[str, State, Stretch | None]]:
        yield "the worker dies", state._replace(owner=None), None
        if owner.phase == "sleep":
            if state.now >= owner.until:
                yield self._judged(state, "the worker looks again", None)
            return
        if owner.reply is not None:
            yield self._answered(state, owner, owner.reply, state.left)
            return
        due = state.now >= owner.until
        if owner.phase == "ask":
            for label, world, answer in self._looked(state, owner):
                yield self._answered(state._replace(world=world), owner, answer, state.left, f"the environment {label}")
            if due or state.left.silent:
                yield self._answered(state, owner, UNREACHABLE, _less(state.left, "silent", due))
            return
        yield from self._unanswered(state, owner, due)

    def _looked(self, state: State, owner: Worker) -> list[tuple[str, World, Answered]]:
        if owner.elsewhere:
            return [("answers from another account: absent", state.world, Answered(kind=AnswerKind.ABSENT))]
        return self.environment.look(state.world, state.now, state.flags.epoch)

    def _unanswered(self, state: State, owner: Worker, due: bool) -> Iterator[tuple[str, State, Stretch | None]]:
        """No reply has come: silence, or proof that nothing was done."""
        if due or state.left.silent:
            yield self._answered(state, owner, UNREACHABLE, _less(state.left, "silent", due))
        mine = [copy for copy in state.world.copies if copy.number == owner.number]
        if not mine:
            return
        rest = list(state.world.copies)
        rest.remove(mine[0])
        without = state._replace(world=state.world._replace(copies=tuple(rest)))
        if state.left.unsent:
            yield self._answered(without, owner, NOT_SENT, _less(state.left, "unsent"))
        if state.left.turned:
            yield self._answered(without, owner, TURNED_AWAY, _less(state.left, "turned"))

    def _answered(
        self, state: State, owner: Worker, answer: Answered, left: Allowance, label: str = ""
    ) -> tuple[str, State, Stretch]:
        source = {"send": Source.REPLY, "close": Source.CLOSE, "ask": Source.PROBE, "cancel": Source.CANCEL}[owner.phase]
        told = observation(answer, source, owner.asked, state.now, owner.number, state.flags.incarnation)
        stretch = self.workers.stretch(state.journal, told, state.now, state.flags)
        after = self.enter(state._replace(left=left), stretch)
        return _told(label or f"the worker hears: {answer.kind.value}", stretch), after, stretch

    def _judged(self, state: State, label: str, old: Worker | None) -> tuple[str, State, Stretch]:
        stretch = self.look(state)
        after = self.enter(state._replace(old=old if old is not None else state.old), stretch)
        return _told(label, stretch), after, stretch

    def _late(self, state: State, old: Worker) -> tuple[str, State, None]:
        """A superseded worker's append is refused, and what it heard is kept outside the fence."""
        assert old.reply is not None
        source = Source.PROBE if old.phase == "ask" else Source.REPLY
        told = observation(old.reply, source, old.asked, state.now, old.number, 0)
        journal = state.journal
        if self.workers.journals.step(journal) is not None:
            journal = self.workers.journals.add_late(journal, told)
        return f"the superseded worker reports late: {old.reply.kind.value}", state._replace(journal=journal, old=None), None

    def _claims(self, state: State) -> Iterator[tuple[str, State, Stretch | None]]:
        left = state.left
        if not left.claims or self._finished(state):
            return
        flags = state.flags._replace(claim=state.flags.claim + 1) if self.epochs else state.flags
        claimed = state._replace(left=left._replace(claims=left.claims - 1), flags=flags)
        if state.owner is None:
            yield self._judged(claimed, "a worker claims the run", None)
        elif left.stalls and state.owner.phase != "sleep":
            stalled = claimed._replace(left=claimed.left._replace(stalls=left.stalls - 1))
            yield self._judged(stalled, "the worker stalls; another claims the run", state.owner)

    def _finished(self, state: State) -> bool:
        """A settled run is claimed again only where that could do harm: with evidence since."""
        step = self.workers.journals.step(state.journal)
        return step is not None and step.settled is not None and not self.workers.journals.all[state.journal].late

    # -- whoever else acts ---------------------------------------------------------------------------------------------

    def _others(self, state: State) -> Iterator[tuple[str, State, None]]:
        left, world, now, flags = state.left, state.world, state.now, state.flags
        contract = self.environment.contract
        if left.stock:
            label = "stock comes back" if world.refusing else "stock runs out"
            yield label, state._replace(world=world._replace(refusing=not world.refusing), left=_less(left, "stock")), None
        last = world.events[-1][1] if world.events else None
        if left.removed and last in {OURS, FOREIGN} and contract.lookup and contract.lookup.deletion is not Deletion.IMPOSSIBLE:
            after = world._replace(events=(*world.events, (now, DELETED)))
            yield "somebody removes the object", state._replace(world=after, left=_less(left, "removed")), None
        if left.taken and last not in {OURS, FOREIGN}:
            after = world._replace(events=(*world.events, (now, FOREIGN)))
            yield "somebody else takes the name", state._replace(world=after, left=_less(left, "taken")), None
        if left.unwanted and flags.wanted:
            yield "nobody wants it any more", state._replace(flags=flags._replace(wanted=False), left=_less(left, "unwanted")), None
        if left.doubled:
            for copy in dict.fromkeys(world.copies):
                after = world._replace(copies=tuple(sorted((*world.copies, copy))))
                yield f"copy {copy.number} is doubled on its way", state._replace(world=after, left=_less(left, "doubled")), None
        if left.scope and state.journal:
            scope = "there" if flags.scope == "here" else "here"
            yield f"the scope is {scope}", state._replace(flags=flags._replace(scope=scope), left=_less(left, "scope")), None
        if left.upgraded and state.journal and not flags.upgraded:
            yield "the code is upgraded", state._replace(flags=flags._replace(upgraded=True), left=_less(left, "upgraded")), None
        if left.restored:
            yield from self._backups(state)
        step = self.workers.journals.step(state.journal)
        if left.word and state.owner is None and step is not None and step.settled is None:
            for kind in (AnswerKind.FOUND, AnswerKind.ABSENT):
                said = observation(Answered(kind=kind), Source.OPERATOR, now, now, None, flags.incarnation)
                journal = self.workers.journals.append(state.journal, (said,))
                yield f"an operator says: {kind.value}", state._replace(journal=journal, left=_less(left, "word")), None

    def _backups(self, state: State) -> Iterator[tuple[str, State, None]]:
        old = state.owner if state.owner is not None and state.owner.phase != "sleep" else state.old
        for journal in self.workers.journals.prefixes(state.journal):
            flags = state.flags._replace(incarnation=1)
            after = state._replace(journal=journal, flags=flags, owner=None, old=old, left=_less(state.left, "restored"))
            entries = len(self.workers.journals.all[journal].entries)
            yield f"the journal is restored from a backup with {entries} entries", after, None


def happened(outcome: OutcomeKind) -> bool:
    return outcome in {OutcomeKind.APPLIED, OutcomeKind.APPLIED_WITHOUT_VALUE}


def _less(left: Allowance, name: str, free: bool = False) -> Allowance:
    return left if free else left._replace(**{name: getattr(left, name) - 1})


def _told(label: str, stretch: Stretch) -> str:
    rows = ", ".join(stretch.rows)
    more = {"send": "sends", "close": "closes", "cancel": "cancels", "ask": "asks", "sleep": f"waits until {stretch.until}", "park": "parks",
            "settled": "settles"}[stretch.ends]  # fmt: skip
    return f"{label}; it judges {rows}, and {more}"
