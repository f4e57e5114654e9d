"""Time (semantics section 2): both sides of every boundary, suspends, steps, slow hosts and the mark, through the engine."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from recovery import (
    Absent,
    Answer,
    Call,
    Engine,
    Environment,
    InFlight,
    Rejected,
    Rejection,
    ReplyWas,
    Run,
    Status,
    codec,
    contracts,
    effect,
    errors,
    workflow,
)
from recovery.core.contracts import microseconds
from recovery.core.entries import (
    Answered,
    AnswerKind,
    Attempt,
    Intent,
    Observation,
    OutcomeKind,
    Override,
    Settled,
    Source,
    Verdict,
    encode,
    kind_of,
    latest_us,
)
from recovery.core.policy import Budget, Lease
from recovery.crashpoints import hooked
from recovery.ports import Clock, Evidence
from recovery.storage.memory import MemoryJournal
from recovery.testing.clock import ManualClock
from recovery.testing.hosts import HostClock

from .world import DAY, TIMEOUT, Killed, Shop, keyed, once

US = timedelta(microseconds=1)
SETTLE = timedelta(minutes=1)
ERROR = timedelta(seconds=1)
NOT_AFTER = DAY - ERROR - SETTLE - TIMEOUT - US  # since t0, for `keyed()`
QUIET = TIMEOUT + SETTLE + ERROR  # since t0
QUICK = Budget(max_wait=timedelta(0), backoff=US)
HOUR = timedelta(hours=1)


@dataclass
class Place:
    """One run of `order` in a memory journal, on one true time."""

    shop: Shop = field(default_factory=Shop)
    contract: Any = field(default_factory=keyed)
    probe: bool = False
    time: ManualClock = field(default_factory=ManualClock)
    journal: MemoryJournal = field(default_factory=MemoryJournal)

    def __post_init__(self) -> None:
        reserve = self.shop.effect(self.contract, probe=self.probe)

        @workflow
        def order(run: Run) -> int:
            return run.perform(reserve(units=2), key="k")

        self.order = order
        self.began_us = self.time.wall_us()

    def engine(self, clock: Clock | None = None, **more: Any) -> Engine:
        return Engine(self.journal, workflows=[self.order], clock=clock or self.time, **({"budget": QUICK} | more))

    def run(self, clock: Clock | None = None, **more: Any) -> int:
        return self.engine(clock, **more).run("r", self.order)

    def crash(self, clock: Clock | None = None) -> None:
        """The effect happens and its worker dies before it hears of it."""
        self.shop.fail = once(Killed())
        with pytest.raises(Killed):
            self.run(clock)

    def history(self) -> tuple[Any, ...]:
        return Engine(self.journal).history("r")

    def at(self, since: timedelta) -> None:
        self.time.advance_to(self.began_us + microseconds(since))

    @property
    def sent(self) -> int:
        return self.shop.sent["k"]


def passing(point: str, then: Callable[[], None]) -> Any:
    """Do `then` when a crash point is passed for the first time."""
    left = [then]

    def hook(at: str) -> None:
        if at == point and left:
            left.pop()()

    return hooked(hook)


# -- work in progress ---


@pytest.mark.parametrize("minutes", [15, 45])
def test_work_that_is_locked_for_long_ends_by_itself_within_its_settle_window(minutes: int) -> None:
    """Half-minute questions use up twenty attempts in ten minutes; the answer that a copy is at work is none of them."""
    place = Place(contract=contracts.Keyed(window=timedelta(hours=24), settle_window=timedelta(minutes=minutes)))
    place.crash()
    place.shop.fail = lambda: busy_until(place, timedelta(minutes=minutes))
    assert place.run(budget=Budget(max_wait=None)) == 1
    attempts = [entry for entry in place.history() if isinstance(entry, Attempt)]
    assert len(attempts) > 1.5 * minutes > Budget().attempts
    assert place.shop.executions["k"] == 1


def busy_until(place: Place, since: timedelta) -> None:
    if place.time.wall_us() < place.began_us + microseconds(since):
        raise ReplyWas(InFlight())


# -- deadlines ---------------------------------------------------------------------------------------------------------


class Raw:
    """Two readings without a mark: what the driver itself must hold against."""

    def __init__(self, host: HostClock) -> None:
        self._host = host
        self.wall_us, self.boot_us = host.raw_wall_us, host.raw_boot_us
        self.skip, self.asks = host.skip, host.asks

    def raise_mark(self, at_us: int) -> None:
        """None is kept."""


@pytest.mark.parametrize("marked", [True, False], ids=["with the mark", "by the driver alone"])
@pytest.mark.parametrize(
    "stands", [{}, {"wall_stands": True}, {"boot_stands": True}], ids=["suspended", "wall stands", "boot stands"]
)
@pytest.mark.parametrize(("slept", "left"), [(TIMEOUT - US, 1), (TIMEOUT, 0)], ids=["just in time", "too late"])
def test_an_attempt_that_was_suspended_past_its_deadline_is_not_sent(
    slept: timedelta, left: int, stands: dict[str, bool], marked: bool
) -> None:
    """Between its commit and its first byte; on either clock."""
    place = Place()
    host = HostClock(place.time)
    sends: list[int] = []
    with passing("append.intent.after", lambda: host.suspend(slept, **stands)):
        place.shop.fail = lambda: sends.append(place.time.wall_us() - place.began_us)
        place.run(host if marked else Raw(host), budget=Budget())
    attempts = [entry for entry in place.history() if isinstance(entry, Attempt)]
    assert len(sends) == 1
    assert len(attempts) == (0 if left else 1)  # beside the intent's own, which never left
    if not left:
        told = [entry.answer.kind.value for entry in place.history() if isinstance(entry, Observation)]
        assert told == ["not_sent"]
        assert sends[0] > microseconds(TIMEOUT)


def test_a_body_is_told_the_time_that_is_left_on_the_worse_clock() -> None:
    place, told = Place(), []
    host = HostClock(place.time)

    @effect(keyed(), name="reserve", environment=Environment("shop"), timeout=TIMEOUT)
    def reserve(call: Call) -> int:
        told.append(call.remaining_seconds())
        return 1

    @workflow
    def order(run: Run) -> int:
        return run.perform(reserve(), key="k")

    with passing("append.intent.after", lambda: host.suspend(TIMEOUT - timedelta(seconds=0.25), wall_stands=True)):
        Engine(place.journal, workflows=[order], clock=Raw(host)).run("r", order)
    assert told == [0.25]


# -- the key window ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("since", "sent"), [(NOT_AFTER, 2), (NOT_AFTER + US, 1)])
def test_not_after_is_the_last_moment_of_a_resend(since: timedelta, sent: int) -> None:
    place = Place()
    place.crash()
    place.at(since)
    recovered = place.engine().recover("r")
    assert place.sent == sent
    assert recovered.status is (Status.COMPLETED if sent == 2 else Status.IN_DOUBT)
    assert place.shop.executions["k"] == 1
    if sent == 2:  # its last copy lands inside the window of the first, whatever the clocks differ by
        last = next(entry for entry in place.history() if isinstance(entry, Attempt))
        assert last.send_until_us + microseconds(SETTLE + ERROR) == place.began_us + microseconds(DAY - US)


@pytest.mark.parametrize("error", [ERROR, -ERROR], ids=["fast host", "slow host"])
def test_a_host_whose_clock_is_off_by_the_clock_error_still_lands_inside(error: timedelta) -> None:
    """Both sides again, on the recovering host's own clock."""
    for since, sent in ((NOT_AFTER, 2), (NOT_AFTER + US, 1)):
        place = Place()
        place.crash()
        place.at(since - error)  # then its own clock shows `since`
        lands = place.time.wall_us() - place.began_us + microseconds(TIMEOUT + SETTLE)
        place.engine(HostClock(place.time, error=error)).recover("r")
        assert place.sent == sent
        assert lands < microseconds(DAY) or sent == 1


def test_s32_back_two_hours_nothing_is_still_valid_that_was_not() -> None:
    """The wall clock of a waiting worker is set back from 25 h to 23 h: by its boot clock the key has expired."""
    place = Place()
    host = HostClock(place.time)
    place.shop.fail = once(ConnectionResetError())

    def step() -> None:
        host.suspend(25 * HOUR)
        host.step(-2 * HOUR)

    with passing("append.verdict.after", step), pytest.raises(errors.EffectInDoubt):
        place.run(host, budget=Budget(max_wait=None))
    assert place.sent == 1


def test_s32_without_the_step_the_same_worker_sends_again_at_23_hours() -> None:
    place = Place()
    host = HostClock(place.time)
    place.shop.fail = once(ConnectionResetError())
    with passing("append.verdict.after", lambda: host.suspend(23 * HOUR)):
        assert place.run(host, budget=Budget(max_wait=None)) == 1
    assert (place.sent, place.shop.executions["k"]) == (2, 1)


def test_s32_forward_48_hours_keys_count_as_expired_and_are_parked() -> None:
    place = Place()
    host = HostClock(place.time)
    place.shop.fail = once(ConnectionResetError())
    with passing("append.verdict.after", lambda: host.step(48 * HOUR)), pytest.raises(errors.EffectInDoubt):
        place.run(host, budget=Budget(max_wait=None))
    assert place.sent == 1


# -- leases ------------------------------------------------------------------------------------------------------------

TERM = timedelta(seconds=30)


def alive(place: Place, inside: Callable[[], None]) -> None:
    """A worker that stands inside its request while `inside` is done; nobody can prove it dead."""
    place.shop.fail = inside
    with pytest.raises(errors.FencedOut):
        place.run(lease=Lease(term=TERM))


def unfailing(place: Place) -> None:
    place.shop.fail = lambda: None


@pytest.mark.parametrize("step", [48 * HOUR, -2 * HOUR], ids=["forward 48 h", "back 2 h"])
def test_s32_a_lease_is_not_stolen_from_a_live_owner_by_a_step(step: timedelta) -> None:
    place = Place()
    host = HostClock(place.time, error=step)

    def inside() -> None:
        unfailing(place)
        engine = place.engine(host)
        with pytest.raises(errors.LeaseUnavailable):
            engine.recover("r")
        place.time.advance(TERM - US)
        with pytest.raises(errors.LeaseUnavailable):
            engine.recover("r")  # whoever looks for the first time has seen nothing yet

    place.shop.fail = inside
    assert place.run(lease=Lease(term=TERM)) == 1
    assert place.sent == 1


@pytest.mark.parametrize("step", [timedelta(0), 48 * HOUR, -2 * HOUR], ids=["no step", "forward", "back"])
def test_a_lease_ends_when_the_boot_clock_has_seen_no_renewal_for_its_term(step: timedelta) -> None:
    """The watcher's wall clock is set in the middle of its wait."""
    place, took = Place(), []
    host = HostClock(place.time)

    def inside() -> None:
        unfailing(place)
        began_us = place.time.boot_us()
        place.time.at(place.time.wall_us() + 10_000_000, lambda: host.step(step))
        claims: list[int] = []
        with hooked(lambda at: claims.append(place.time.boot_us() - began_us) if at == "claim.before" else None):
            place.engine(host).recover("r", wait_for_owner=HOUR)
        took.extend(claims)

    alive(place, inside)
    assert len(took) == 1
    assert timedelta(0) <= timedelta(microseconds=took[0]) - TERM < timedelta(seconds=20)
    if not step:
        assert timedelta(microseconds=took[0]) == TERM  # and not one poll earlier


def test_a_renewal_starts_the_term_again() -> None:
    place, took = Place(), []

    def inside() -> None:
        unfailing(place)
        began_us = place.time.boot_us()
        held = place.journal.find("r")
        assert held is not None
        assert held.owner is not None
        token = held.owner.token
        place.time.at(place.time.wall_us() + 29_000_000, lambda: place.journal.renew("r", token, held.epoch) and None)
        with hooked(lambda at: took.append(place.time.boot_us() - began_us) if at == "claim.before" else None):
            place.engine().recover("r", wait_for_owner=HOUR)

    alive(place, inside)
    assert took == [microseconds(TERM) + 29_000_000]


# -- quiet, and the time that counts -----------------------------------------------------------------------------------


class NoStock(Rejection):
    left: int


@pytest.mark.parametrize(("since", "status"), [(QUIET, Status.WAITING), (QUIET + US, Status.COMPLETED)])
def test_a_forgotten_rejection_counts_when_it_was_given_after_quiet(since: timedelta, status: Status) -> None:
    """Another copy of the first attempt may act until then."""
    replies: list[Callable[[], int]] = []

    @effect(keyed(remembers_rejections=False), name="reserve", environment=Environment("shop"), rejects=(NoStock,), timeout=TIMEOUT)
    def reserve(call: Call) -> int:
        return replies.pop(0)()

    def die() -> int:
        raise Killed

    def refuse() -> int:
        raise NoStock(left=0)

    @workflow
    def order(run: Run) -> str:
        return "rejected" if isinstance(run.attempt(reserve(), key="k"), Rejected) else "applied"

    clock, journal = ManualClock(), MemoryJournal()
    replies += [die, refuse]
    engine = Engine(journal, workflows=[order], clock=clock, budget=QUICK)
    with pytest.raises(Killed):
        engine.run("r", order)
    clock.advance(since)
    recovered = engine.recover("r")
    assert recovered.status is status
    if status is Status.WAITING:
        assert engine.history("r")[-1].next_look_us == clock.wall_us() + 1


def test_an_absence_counts_when_it_was_asked_after_quiet_and_not_when_it_is_judged_then() -> None:
    """Asked at quiet, judged one microsecond later: asked again, and only then sent."""
    sends: list[str] = []

    @effect(
        contracts.Probeable(lookup=contracts.Lookup(), trust_settle=True, settle_window=SETTLE, clock_error=ERROR),
        name="post", environment=Environment("board"), timeout=TIMEOUT,
    )  # fmt: skip
    def post(call: Call) -> str:
        sends.append(call.key)
        if len(sends) == 1:
            raise Killed
        return "posted"

    asked: list[int] = []

    @post.probe
    def find(call: Call) -> Answer[str]:
        asked.append(clock.wall_us() - began_us)
        return Absent()

    @workflow
    def order(run: Run) -> str:
        return run.perform(post(), key="k")

    clock, journal = ManualClock(), MemoryJournal()
    began_us = clock.wall_us()
    engine = Engine(journal, workflows=[order], clock=clock, budget=QUICK)
    with pytest.raises(Killed):
        engine.run("r", order)
    clock.advance(QUIET)
    assert engine.recover("r").status is Status.WAITING
    assert engine.history("r")[-1].next_look_us == clock.wall_us() + 1
    clock.advance(US)
    assert engine.recover("r").result() == "posted"
    assert asked == [microseconds(QUIET), microseconds(QUIET + US)]
    assert len(sends) == 2


# -- the mark ----------------------------------------------------------------------------------------------------------


def test_no_host_writes_a_time_below_the_highest_one_that_is_journaled() -> None:
    """Also where a slow host has claimed the run in between, and its own clock stands in the run's row."""
    place = Place()
    place.crash()
    slow = HostClock(place.time, error=-2 * HOUR)

    def kill() -> None:
        raise Killed

    with passing("load.before", kill), pytest.raises(Killed):
        place.engine(slow).recover("r")
    row = place.journal.find("r")
    assert row is not None
    assert row.updated_at_us >= place.began_us
    another = HostClock(place.time, error=-3 * HOUR)
    place.time.advance(timedelta(minutes=5))
    place.engine(another).recover("r")
    times = [latest_us(entry) for entry in place.history()]
    assert times == sorted(times)
    assert times[0] == place.began_us


@pytest.mark.parametrize("use", ["recover", "hold", "get", "verify"])
def test_a_time_in_the_runs_own_row_lifts_nobodys_clock(tmp_path: Path, use: str) -> None:
    """The row has no digest: a hand or a bit may have changed it, and a clock ahead of its time ends every key's window."""
    url, place = f"sqlite:///{tmp_path}/a.db", Place()
    shop, order, clock = place.shop, place.order, place.time
    shop.fail = once(Killed())
    engine = Engine(url, workflows=[order], clock=clock, budget=QUICK)
    with pytest.raises(Killed):
        engine.run("r", order)
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection, connection:
        connection.execute("UPDATE run SET updated_at_us = ?", (place.began_us + microseconds(1000 * DAY),))
    before_us = clock.wall_us()
    {
        "recover": lambda: engine.recover("r"),
        "hold": lambda: engine.hold("r", by="me", reason="a test"),
        "get": lambda: engine.get("r"),
        "verify": engine.verify,
    }[use]()
    assert clock.wall_us() == before_us
    if use == "hold":
        engine.release("r", by="me", reason="a test")
    assert engine.recover("r").result() == 1  # the window of its key is open
    assert shop.executions["k"] == 1
    engine.close()


def test_the_mark_covers_every_time_in_the_journal_and_no_time_ahead() -> None:
    """A row's own time can lie below its entries' where a slow host of an older version claimed it."""
    place = Place()
    place.crash()
    place.engine().recover("r")
    highest = max(latest_us(entry) for entry in place.history())
    assert highest == place.time.wall_us()  # neither a deadline nor a window's end
    intent, settled = (next(entry for entry in place.history() if isinstance(entry, kind)) for kind in (Intent, Settled))
    assert intent.attempt is not None
    assert latest_us(intent) == intent.attempt.sent_at_us
    assert settled.observation is not None
    assert latest_us(settled) == max(settled.at_us, settled.observation.observed_at_us)


@pytest.mark.parametrize("verb", ["hold", "fence", "resolve"])
def test_an_order_from_a_slow_host_is_not_dated_below_the_entries_before_it(verb: str) -> None:
    place = Place(contract=contracts.Opaque())
    place.crash()
    place.time.advance(2 * HOUR)
    place.engine().recover("r")
    known_us = max(latest_us(entry) for entry in place.history())
    slow = place.engine(HostClock(place.time, error=-3 * HOUR))
    if verb == "resolve":
        slow.resolve("r", "reserve#1", OutcomeKind.NOT_EXECUTED, by="ann", reason="looked", evidence="ledger")
    else:
        getattr(slow, verb)("r", by="ann", reason="stop")
    [order] = [entry for entry in place.history() if isinstance(entry, Override)]
    assert order.at_us >= known_us


def test_a_contradiction_recorded_by_a_slow_host_is_not_dated_below_the_outcome() -> None:
    place = Place()
    place.run()
    told = Answered(kind=AnswerKind.FOUND, value=99, receipt="another")
    seen = Observation(step="reserve#1", source=Source.PUSH, asked_at_us=0, observed_at_us=place.began_us, answer=told)
    run = place.journal.find("r")
    assert run is not None
    place.journal.add_evidence(Evidence("r", "reserve#1", run.epoch, 0, kind_of(seen), codec.dumps(encode(seen))))
    place.engine(HostClock(place.time, error=-3 * HOUR)).recover("r")
    [verdict] = [entry for entry in place.history() if isinstance(entry, Verdict) and entry.row == "contradicted"]
    assert verdict.at_us >= max(latest_us(entry) for entry in place.history() if entry is not verdict)
