"""Receipts on SQLite and PostgreSQL: what each sentence of their documentation promises, with real threads, processes and kills."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest
import sqlalchemy as sa

from recovery import receipts
from recovery.core.errors import ValueNotStorable
from recovery.core.ids import Epoch
from recovery.receipts import Absent, Closed, Expired, InFlight, KeyMismatch, Kind, Receipts, Superseded, TooLate

METADATA = sa.MetaData()
RECEIPT = receipts.table(METADATA)
EFFECT = sa.Table("effect", METADATA, sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.String(50)))

REQUEST = receipts.fingerprint({"sku": "FILTER-A", "units": 2})
OTHER = receipts.fingerprint({"sku": "FILTER-A", "units": 3})
ROOT = Path(__file__).parents[2]
WAIT = timedelta(seconds=30)  # longer than any test takes: who waits this long has failed
BRIEFLY = timedelta(milliseconds=50)


class OutOfStock(Exception):
    def __init__(self, sku: str) -> None:
        super().__init__(sku)
        self.sku = sku


class Broken(Exception):
    pass


@pytest.fixture
def engine(empty_store_url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(empty_store_url, pool_size=10)
    METADATA.create_all(engine)
    yield engine
    engine.dispose()


REGISTER = Receipts(RECEIPT, block=WAIT)
IMPATIENT = Receipts(RECEIPT, block=BRIEFLY)


def effects(engine: sa.Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(EFFECT)).scalar_one()


def rows(engine: sa.Engine) -> list[sa.Row[Any]]:
    with engine.connect() as connection:
        return list(connection.execute(sa.select(RECEIPT)).all())


def reserve(connection: sa.Connection, then: Callable[[], None] = lambda: None) -> Callable[[], Any]:
    """Work with a countable effect; `then` runs behind the effect and inside the work."""

    def work() -> Any:
        number = connection.execute(sa.insert(EFFECT).values(name="reservation").returning(EFFECT.c.id)).scalar_one()
        then()
        return {"id": number}

    return work


def refuse() -> None:
    raise OutOfStock("FILTER-A")


def break_down() -> None:
    raise Broken


def once(engine: sa.Engine, key: str = "k", register: Receipts = REGISTER, **more: Any) -> receipts.Receipt:
    then = more.pop("then", lambda: None)
    with engine.begin() as connection:
        arguments = {"fingerprint": REQUEST, "work": reserve(connection, then), "rejects": (OutOfStock,)} | more
        return register.once(connection, key=key, **arguments)


def look_up(engine: sa.Engine, key: str = "k", register: Receipts = REGISTER, **more: Any) -> receipts.Receipt | Absent:
    with engine.begin() as connection:
        return register.look_up(connection, key=key, **more)


def close(engine: sa.Engine, key: str = "k", register: Receipts = REGISTER, **more: Any) -> receipts.Receipt:
    with engine.begin() as connection:
        return register.close(connection, key=key, **more)


# -- one outcome per key -----------------------------------------------------------------------------------------------


def test_the_same_key_and_fingerprint_returns_the_stored_outcome(engine: sa.Engine) -> None:
    first, second = once(engine, who="worker-1"), once(engine, who="worker-2")
    assert (first.kind, first.value, first.replayed, first.who) == (Kind.APPLIED, {"id": 1}, False, "worker-1")
    assert (second.kind, second.value, second.replayed, second.who) == (Kind.APPLIED, {"id": 1}, True, "worker-1")
    assert first.at_us == second.at_us
    assert effects(engine) == 1


def test_a_declared_rejection_is_remembered_and_its_effect_is_not(engine: sa.Engine) -> None:
    first = once(engine, then=refuse)
    second = once(engine)  # there would be stock by now
    for receipt in (first, second):
        assert (receipt.kind, receipt.error, receipt.value) == (Kind.REJECTED, "OutOfStock", {"sku": "FILTER-A"})
    assert (first.replayed, second.replayed) == (False, True)
    assert effects(engine) == 0


def test_a_subclass_of_a_declared_rejection_is_remembered_under_the_declared_name(engine: sa.Engine) -> None:
    class NeverMade(OutOfStock):
        pass

    def refuse_specially() -> None:
        raise NeverMade("FILTER-Z")

    assert once(engine, then=refuse_specially).error == "OutOfStock"


def test_any_other_exception_rolls_back_and_is_not_remembered(engine: sa.Engine) -> None:
    with engine.begin() as connection, pytest.raises(Broken):
        # Caught inside the transaction, which then commits: still neither effect nor receipt.
        REGISTER.once(connection, key="k", fingerprint=REQUEST, work=reserve(connection, break_down), rejects=(OutOfStock,))
    assert effects(engine) == 0
    assert rows(engine) == []
    assert once(engine).replayed is False
    assert effects(engine) == 1


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interruption_is_not_remembered(engine: sa.Engine, interruption: type[BaseException]) -> None:
    def interrupt() -> None:
        raise interruption

    with pytest.raises(interruption):
        once(engine, then=interrupt)
    assert effects(engine) == 0
    assert isinstance(look_up(engine), Absent)


def test_both_or_none_when_the_service_rolls_back_later(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        REGISTER.once(connection, key="k", fingerprint=REQUEST, work=reserve(connection))
        connection.rollback()
    assert effects(engine) == 0
    assert isinstance(look_up(engine), Absent)


def test_another_fingerprint_is_refused_and_nothing_happens(engine: sa.Engine) -> None:
    once(engine)
    with pytest.raises(KeyMismatch) as refusal:
        once(engine, fingerprint=OTHER)
    assert (refusal.value.recorded, refusal.value.given, refusal.value.http_status) == (REQUEST, OTHER, 422)
    assert effects(engine) == 1


def test_scopes_and_keys_are_apart(engine: sa.Engine) -> None:
    assert not any(once(engine, key, scope=scope).replayed for scope in ("eu", "us") for key in ("a", "A"))
    assert effects(engine) == 4


def test_several_keys_in_one_transaction_commit_together(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        first = REGISTER.once(connection, key="a", fingerprint=REQUEST, work=reserve(connection))
        rejected = REGISTER.once(connection, key="b", fingerprint=REQUEST, work=reserve(connection, refuse), rejects=(OutOfStock,))
        again = REGISTER.once(connection, key="a", fingerprint=REQUEST, work=reserve(connection))
    assert (first.replayed, again.replayed, again.value, rejected.kind) == (False, True, first.value, Kind.REJECTED)
    assert effects(engine) == 1
    assert len(rows(engine)) == 2


@pytest.mark.parametrize(
    "value", [None, True, 0, -1.5, "text with \x00 and \ud800 and é", [], {"a": [1, {"b": None}]}], ids=lambda value: ascii(value)
)
def test_a_value_comes_back_as_it_went(engine: sa.Engine, value: Any) -> None:
    assert once(engine, work=lambda: value).value == value
    replay = once(engine, work=lambda: value).value
    assert (type(replay), replay) == (type(value), value)


@pytest.mark.parametrize(
    "value", [float("nan"), (1, 2), {1: "a"}, object(), "x" * 70_000], ids=["nan", "tuple", "int-key", "object", "long"]
)
def test_a_value_that_would_not_come_back_is_refused_with_its_effect(engine: sa.Engine, value: Any) -> None:
    with engine.begin() as connection:
        work = reserve(connection)
        with pytest.raises(ValueNotStorable):
            REGISTER.once(connection, key="k", fingerprint=REQUEST, work=lambda: (work(), value)[1])
    assert effects(engine) == 0
    assert isinstance(look_up(engine), Absent)


def test_a_key_used_inside_its_own_work_is_refused(engine: sa.Engine, fence: dict[str, Epoch]) -> None:
    with engine.begin() as connection:

        def again() -> Any:
            return REGISTER.once(connection, key="k", fingerprint=REQUEST, work=reserve(connection), **fence).value

        with pytest.raises(receipts.Unfinished):
            REGISTER.once(connection, key="k", fingerprint=REQUEST, work=again, **fence)
    assert effects(engine) == 0


def test_work_that_commits_is_refused_before_half_of_it_is_durable(engine: sa.Engine) -> None:
    with pytest.raises(receipts.TransactionUnfit), engine.begin() as connection:
        REGISTER.once(connection, key="k", fingerprint=REQUEST, work=reserve(connection, connection.commit))
    assert effects(engine) == 0
    assert rows(engine) == []


def test_work_that_swallows_the_refused_commit_still_leaves_nothing(engine: sa.Engine) -> None:
    with engine.connect() as connection:

        def work() -> None:
            connection.execute(sa.insert(EFFECT).values(name="half"))
            with pytest.raises(receipts.TransactionUnfit):
                connection.commit()

        with pytest.raises(sa.exc.InvalidRequestError):
            REGISTER.once(connection, key="k", fingerprint=REQUEST, work=work)
        connection.rollback()
    assert effects(engine) == 0
    assert rows(engine) == []


def test_the_service_may_commit_after_once(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        REGISTER.once(connection, key="k", fingerprint=REQUEST, work=reserve(connection))
        connection.commit()
    assert effects(engine) == 1


# -- concurrency -------------------------------------------------------------------------------------------------------


def test_concurrent_callers_run_the_effect_once_and_all_get_its_outcome(engine: sa.Engine) -> None:
    together = Barrier(8)

    def call(_: int) -> receipts.Receipt:
        together.wait(120)
        return once(engine)

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(call, range(8)))
    assert effects(engine) == 1
    assert [outcome.value for outcome in outcomes] == [{"id": 1}] * 8
    assert sum(not outcome.replayed for outcome in outcomes) == 1


def test_concurrent_callers_after_failures_run_it_once(engine: sa.Engine) -> None:
    """Each holder that fails lets the next one try; the first that succeeds is the only one."""
    together, failures = Barrier(8), iter([True] * 3)

    def call(_: int) -> receipts.Receipt | None:
        together.wait(120)
        try:
            return once(engine, then=lambda: break_down() if next(failures, False) else None)
        except Broken:
            return None

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(call, range(8)))
    assert outcomes.count(None) == 3
    assert effects(engine) == 1


RAISED = Epoch(0, 2)


@pytest.fixture(params=["a new key", "a key whose epoch was raised"])
def fence(request: pytest.FixtureRequest, engine: sa.Engine) -> dict[str, Epoch]:
    """What a call must carry. A raised key has a committed row, which two transactions meet at in another way."""
    if request.param == "a new key":
        return {}
    look_up(engine, epoch=RAISED)
    return {"epoch": RAISED}


def test_others_wait_a_bounded_time_and_are_told_that_it_is_in_flight(engine: sa.Engine, fence: dict[str, Epoch]) -> None:
    inside, leave = Event(), Event()

    def stay() -> None:
        inside.set()
        assert leave.wait(120)

    with ThreadPoolExecutor(1) as pool:
        holder = pool.submit(once, engine, then=stay, **fence)
        assert inside.wait(120)
        for ask in (once, look_up, close):
            with pytest.raises(InFlight) as refusal:
                ask(engine, register=IMPATIENT, **fence)
            assert refusal.value.http_status == 409
            assert refusal.value.retry_after >= timedelta(seconds=1)
        leave.set()
        assert holder.result(30).replayed is False
    assert effects(engine) == 1
    assert once(engine).replayed is True


def test_a_caller_that_waits_gets_the_first_ones_outcome(engine: sa.Engine, fence: dict[str, Epoch]) -> None:
    inside, leave, asked = Event(), Event(), Event()

    def stay() -> None:
        inside.set()
        assert leave.wait(120)

    def wait_for_it(ask: Callable[..., Any]) -> Any:
        with engine.begin() as connection:
            asked.set()
            more = {"fingerprint": REQUEST, "work": reserve(connection)} if ask == REGISTER.once else {}
            return ask(connection, key="k", **more, **fence)

    with ThreadPoolExecutor(4) as pool:
        holder = pool.submit(once, engine, then=stay, **fence)
        assert inside.wait(120)
        waiting = []
        for ask in (REGISTER.once, REGISTER.look_up, REGISTER.close):
            asked.clear()
            waiting.append(pool.submit(wait_for_it, ask))
            assert asked.wait(120)
        if engine.dialect.name == "postgresql":
            until_blocked(engine, 3)
        leave.set()
        assert [future.result(30).value for future in (holder, *waiting)] == [{"id": 1}] * 4
    assert effects(engine) == 1


def until_blocked(engine: sa.Engine, count: int, unless: Callable[[], bool] = lambda: False) -> None:
    """Return when `count` PostgreSQL backends wait for another transaction, or `unless` holds. The test's timeout bounds it."""
    waiting = sa.text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")
    seen = -1
    while seen < count and not unless():
        with engine.connect() as connection:
            seen = connection.execute(waiting).scalar_one()


def test_a_refused_call_leaves_the_services_transaction_usable(engine: sa.Engine) -> None:
    once(engine)
    with engine.begin() as connection:
        with pytest.raises(KeyMismatch):
            REGISTER.once(connection, key="k", fingerprint=OTHER, work=reserve(connection))
        assert REGISTER.once(connection, key="k2", fingerprint=OTHER, work=reserve(connection)).replayed is False
    assert effects(engine) == 2


def test_a_call_that_was_told_in_flight_leaves_the_services_transaction_usable(empty_postgres_url: str) -> None:
    engine = sa.create_engine(empty_postgres_url)
    METADATA.create_all(engine)
    with engine.begin() as holder:
        REGISTER.once(holder, key="k", fingerprint=REQUEST, work=reserve(holder))
        with engine.begin() as connection:
            for ask in (IMPATIENT.look_up, IMPATIENT.close):
                with pytest.raises(InFlight):
                    ask(connection, key="k")
            assert IMPATIENT.once(connection, key="k2", fingerprint=REQUEST, work=reserve(connection)).replayed is False
            assert connection.execute(sa.text("SHOW statement_timeout")).scalar_one() == "0"
    assert effects(engine) == 2
    engine.dispose()


def test_waiting_is_bounded_although_one_holder_after_another_dies(empty_postgres_url: str) -> None:
    """Every holder holds for less than `block`, and the waiter is told so after `block` all the same, or gets its turn."""
    engine = sa.create_engine(empty_postgres_url, pool_size=10)
    METADATA.create_all(engine)
    leave = [Event() for _ in range(3)]
    inside: list[Event] = [Event() for _ in range(3)]
    turns = iter(range(3))

    def fail() -> None:
        turn = next(turns)
        inside[turn].set()
        assert leave[turn].wait(120)
        raise Broken

    with ThreadPoolExecutor(4) as pool:
        holders = [pool.submit(once, engine, then=fail) for _ in range(3)]
        assert inside[0].wait(120)
        until_blocked(engine, 2)
        waiter = pool.submit(once, engine, register=Receipts(RECEIPT, block=timedelta(seconds=2)))
        until_blocked(engine, 3)
        leave[0].set()
        assert isinstance(waiter.exception(30), InFlight) or effects(engine) == 1
        for event in leave[1:]:
            event.set()
        assert all(isinstance(holder.exception(30), Broken) or holder.result().replayed for holder in holders)
    engine.dispose()


def test_two_callers_that_both_read_a_raised_key_before_either_takes_it_run_the_effect_once(empty_postgres_url: str) -> None:
    """The first one stops between reading the key's committed row and writing to it: its lock on the row is all there is."""
    engine = sa.create_engine(empty_postgres_url)
    METADATA.create_all(engine)
    look_up(engine, epoch=RAISED)
    read, go_on = Event(), Event()

    def first() -> bool:
        with engine.begin() as connection:

            @sa.event.listens_for(connection, "before_cursor_execute")
            def stop(_: Any, __: Any, statement: str, *___: Any) -> None:
                if statement.startswith("UPDATE receipt") and not read.is_set():
                    read.set()
                    assert go_on.wait(120)

            return REGISTER.once(connection, key="k", fingerprint=REQUEST, work=reserve(connection), epoch=RAISED).replayed

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(first)
        assert read.wait(120)
        other = pool.submit(once, engine, epoch=RAISED)
        until_blocked(engine, 1, unless=other.done)
        go_on.set()
        assert (one.result(30), other.result(30).replayed) == (False, True)
    assert effects(engine) == 1
    engine.dispose()


CHILD = """
    import sys
    import sqlalchemy as sa
    from tests.conformance.test_receipts import REGISTER, REQUEST, reserve

    def stay():
        print("inside the work", flush=True)
        sys.stdin.read()

    with sa.create_engine(sys.argv[1]).begin() as connection:
        REGISTER.once(connection, key="k", fingerprint=REQUEST, work=reserve(connection, stay if sys.argv[2] == "work" else lambda: None))
        stay()
"""


@pytest.mark.parametrize("where", ["work", "before the commit"])
def test_a_crash_leaves_neither_effect_nor_receipt_and_lets_go_of_the_key(engine: sa.Engine, where: str) -> None:
    url = engine.url.render_as_string(hide_password=False)
    command = [sys.executable, "-c", textwrap.dedent(CHILD), url, where]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "inside the work\n"
        with pytest.raises(InFlight):
            look_up(engine, register=IMPATIENT)
        child.kill()
        child.wait(120)
    assert isinstance(look_up(engine), Absent)
    assert effects(engine) == 0
    assert once(engine).replayed is False
    assert effects(engine) == 1


RACER = """
    import sys
    import sqlalchemy as sa
    from tests.conformance.test_receipts import once

    engine = sa.create_engine(sys.argv[1])
    engine.connect().close()
    print("ready", flush=True)
    for line in sys.stdin:
        print(once(engine, line.strip()).replayed, flush=True)
"""


def test_processes_that_race_for_keys_run_each_effect_once(engine: sa.Engine) -> None:
    url = engine.url.render_as_string(hide_password=False)
    command = [sys.executable, "-c", textwrap.dedent(RACER), url]
    racers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(4)]
    try:
        assert all(racer.stdout and racer.stdout.readline() == "ready\n" for racer in racers)
        for number in range(10):
            for racer in racers:
                assert racer.stdin
                racer.stdin.write(f"key-{number}\n")
                racer.stdin.flush()
            replayed = sorted(racer.stdout.readline().strip() for racer in racers if racer.stdout)
            assert replayed == ["False", "True", "True", "True"]
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()
    assert effects(engine) == 10


# -- look-up and close -------------------------------------------------------------------------------------------------


def test_a_look_up_finds_outcomes_and_leaves_no_trace_of_absent_keys(engine: sa.Engine) -> None:
    before = look_up(engine)
    assert isinstance(before, Absent)
    assert rows(engine) == []
    once(engine)
    found = look_up(engine, fingerprint=REQUEST)
    assert isinstance(found, receipts.Receipt)
    assert (found.kind, found.value, found.fingerprint, found.replayed) == (Kind.APPLIED, {"id": 1}, REQUEST, True)
    assert before.as_of_us <= found.at_us
    with pytest.raises(KeyMismatch):
        look_up(engine, fingerprint=OTHER)


def test_a_look_up_of_an_absent_key_holds_up_nobody_while_its_transaction_stays_open(engine: sa.Engine) -> None:
    if engine.dialect.name == "sqlite":  # one writer per database: the look-up's transaction is that writer
        with engine.begin() as connection:
            REGISTER.look_up(connection, key="k")
            with pytest.raises(InFlight):
                once(engine, register=IMPATIENT)
        return
    with engine.begin() as connection:
        assert isinstance(REGISTER.look_up(connection, key="k"), Absent)
        assert once(engine, register=IMPATIENT).replayed is False


def test_close_returns_the_outcome_if_there_is_one(engine: sa.Engine) -> None:
    once(engine)
    once(engine, "rejected", then=refuse)
    assert (close(engine).kind, close(engine).value) == (Kind.APPLIED, {"id": 1})
    assert (close(engine, "rejected").kind, close(engine, "rejected").error) == (Kind.REJECTED, "OutOfStock")
    with pytest.raises(KeyMismatch):
        close(engine, fingerprint=OTHER)


def test_a_closed_key_is_refused_for_ever(engine: sa.Engine) -> None:
    first, second = close(engine, who="operator"), close(engine, who="another")
    assert (first.kind, first.replayed, second.kind, second.replayed, second.who) == (
        Kind.CLOSED,
        False,
        Kind.CLOSED,
        True,
        "operator",
    )
    for request in (REQUEST, OTHER):
        with pytest.raises(Closed) as refusal:
            once(engine, fingerprint=request)
        assert refusal.value.http_status == 410
    found = look_up(engine)
    assert isinstance(found, receipts.Receipt)
    assert found.kind is Kind.CLOSED
    assert effects(engine) == 0


def test_close_and_once_race_and_exactly_one_decides(engine: sa.Engine) -> None:
    for number in range(10):
        together, key = Barrier(2), f"k{number}"

        def run(key: str = key, together: Barrier = together) -> str:
            together.wait(120)
            try:
                return once(engine, key).kind
            except Closed:
                return Kind.CLOSED

        def shut(key: str = key, together: Barrier = together) -> str:
            together.wait(120)
            return close(engine, key).kind

        before = effects(engine)
        with ThreadPoolExecutor(2) as pool:
            ran, shut_as = (future.result(60) for future in [pool.submit(run), pool.submit(shut)])
        assert ran == shut_as
        assert effects(engine) - before == (ran == Kind.APPLIED)


# -- retention ---------------------------------------------------------------------------------------------------------


def test_a_pruned_key_never_runs_again_and_still_tells_how_it_ended(engine: sa.Engine) -> None:
    now = {"us": 1_000_000_000_000_000}
    register = Receipts(RECEIPT, window=timedelta(days=1), clock_us=lambda: now["us"])
    once(engine, "old", register=register)
    once(engine, "old rejection", register=register, then=refuse)
    close(engine, "closed", register=register)
    now["us"] += 86_400_000_000
    once(engine, "young", register=register)
    with engine.begin() as connection:
        assert register.prune(connection) == 0  # exactly as old as the window: kept
    now["us"] += 1
    with engine.begin() as connection:
        assert [register.prune(connection, limit=1) for _ in range(3)] == [1, 1, 0]
        with pytest.raises(receipts.RetentionTooShort):
            register.prune(connection, older_than=timedelta(hours=23))
    for key, kind in {"old": Kind.APPLIED, "old rejection": Kind.REJECTED}.items():
        with pytest.raises(Expired) as refusal:
            once(engine, key, register=register)
        assert (refusal.value.kind, refusal.value.http_status) == (kind, 410)
        found = look_up(engine, key)
        assert isinstance(found, receipts.Receipt)
        assert (found.kind, found.pruned, found.value) == (kind, True, None)
        assert close(engine, key).kind is kind
        with pytest.raises(KeyMismatch):
            once(engine, key, fingerprint=OTHER)
    with pytest.raises(Closed):
        once(engine, "closed")
    assert once(engine, "young").replayed is True
    assert effects(engine) == 2


def test_without_a_window_nothing_is_pruned_by_default(engine: sa.Engine) -> None:
    with engine.begin() as connection, pytest.raises(receipts.RetentionTooShort):
        REGISTER.prune(connection)


# -- late copies -------------------------------------------------------------------------------------------------------


def test_a_copy_after_its_own_deadline_is_refused_and_one_at_the_deadline_is_not(engine: sa.Engine) -> None:
    register = Receipts(RECEIPT, clock_us=lambda: 1_000_001)
    with pytest.raises(TooLate) as refusal:
        once(engine, register=register, not_after_us=1_000_000)
    assert (refusal.value.as_of_us, refusal.value.http_status) == (1_000_001, 412)
    assert rows(engine) == []
    assert once(engine, register=register, not_after_us=1_000_001).replayed is False
    assert once(engine, register=register, not_after_us=1_000_000).replayed is True  # what is decided is told at any time


def test_the_deadline_is_checked_after_the_waiting(engine: sa.Engine) -> None:
    """A copy that came in time and waited past its deadline for a holder that failed is refused."""
    now = {"us": 1}
    inside, leave, asked = Event(), Event(), Event()
    register = Receipts(RECEIPT, block=WAIT, clock_us=lambda: now["us"])

    def fail() -> None:
        inside.set()
        assert leave.wait(120)
        raise Broken

    def come_in_time() -> receipts.Receipt:
        with engine.begin() as connection:
            asked.set()
            return register.once(connection, key="k", fingerprint=REQUEST, work=reserve(connection), not_after_us=1)

    with ThreadPoolExecutor(2) as pool:
        holder = pool.submit(once, engine, register=register, then=fail)
        assert inside.wait(120)
        waiting = pool.submit(come_in_time)
        assert asked.wait(120)
        if engine.dialect.name == "postgresql":
            until_blocked(engine, 1)
        now["us"] = 2
        leave.set()
        assert isinstance(holder.exception(30), Broken)
        assert isinstance(waiting.exception(30), TooLate)
    assert effects(engine) == 0


def test_an_epoch_raised_by_a_look_up_refuses_lower_ones(engine: sa.Engine) -> None:
    assert isinstance(look_up(engine, epoch=Epoch(0, 2)), Absent)
    for lower in (Epoch(0, 1), None):
        with pytest.raises(Superseded) as refusal:
            once(engine, epoch=lower)
        assert refusal.value.http_status == 412
        with pytest.raises(Superseded):
            close(engine, epoch=lower)
    assert isinstance(look_up(engine, epoch=Epoch(0, 10)), Absent)  # 10 is more than 2, as a number
    with pytest.raises(Superseded):
        look_up(engine, epoch=Epoch(0, 9))
    assert isinstance(look_up(engine), Absent)  # to read takes no epoch
    with pytest.raises(Superseded):
        once(engine, epoch=Epoch(0, 2))
    assert once(engine, epoch=Epoch(1, 1)).replayed is False
    assert once(engine, epoch=Epoch(0, 1)).replayed is True  # what is decided is told to everybody
    assert effects(engine) == 1


def test_a_raised_key_can_be_closed(engine: sa.Engine) -> None:
    look_up(engine, epoch=Epoch(0, 2))
    assert close(engine, epoch=Epoch(0, 2)).kind is Kind.CLOSED
    with pytest.raises(Closed):
        once(engine, epoch=Epoch(0, 3))


def test_work_that_fails_under_a_raised_epoch_leaves_the_epoch_raised(engine: sa.Engine) -> None:
    look_up(engine, epoch=Epoch(0, 2))
    with pytest.raises(Broken):
        once(engine, epoch=Epoch(0, 3), then=break_down)
    with pytest.raises(Superseded):
        once(engine, epoch=Epoch(0, 1))
    assert once(engine, epoch=Epoch(0, 2)).replayed is False


def test_concurrent_callers_of_a_raised_key_run_the_effect_once(engine: sa.Engine) -> None:
    look_up(engine, epoch=Epoch(0, 2))
    together = Barrier(6)

    def call(_: int) -> receipts.Receipt:
        together.wait(120)
        return once(engine, epoch=Epoch(0, 2))

    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(call, range(6)))
    assert sum(not outcome.replayed for outcome in outcomes) == 1
    assert effects(engine) == 1


# -- what is particular to one database --------------------------------------------------------------------------------


def test_the_sessions_timeouts_are_as_they_were(engine: sa.Engine) -> None:
    read, setting = {
        "sqlite": ("PRAGMA busy_timeout", "PRAGMA busy_timeout = 1234"),
        "postgresql": ("SHOW statement_timeout", "SET statement_timeout = '1234ms'"),
    }[engine.dialect.name]
    with engine.begin() as connection:
        connection.exec_driver_sql(setting)
        REGISTER.once(connection, key="k", fingerprint=REQUEST, work=reserve(connection))
        REGISTER.once(connection, key="k", fingerprint=REQUEST, work=reserve(connection))
        with pytest.raises(KeyMismatch):
            REGISTER.close(connection, key="k", fingerprint=OTHER)
        REGISTER.look_up(connection, key="other")
        seen = REGISTER.once(
            connection, key="k2", fingerprint=REQUEST, work=lambda: str(connection.exec_driver_sql(read).scalar_one())
        )
        assert seen.value in {"1234", "1234ms"}  # the work itself is not bounded by `block`
        assert str(connection.exec_driver_sql(read).scalar_one()) == seen.value


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_an_old_snapshot_never_runs_a_decided_key_again(empty_postgres_url: str, isolation: str) -> None:
    engine = sa.create_engine(empty_postgres_url)
    METADATA.create_all(engine)
    strict = engine.execution_options(isolation_level=isolation)
    with strict.begin() as connection:
        connection.execute(sa.select(EFFECT)).all()  # the snapshot is taken
        once(engine)
        with pytest.raises(InFlight):
            REGISTER.once(connection, key="k", fingerprint=REQUEST, work=reserve(connection))
    with strict.begin() as connection:
        assert REGISTER.once(connection, key="k", fingerprint=REQUEST, work=reserve(connection)).replayed is True
    assert effects(engine) == 1
    engine.dispose()


def test_two_transactions_that_want_each_others_keys_do_not_both_wait(empty_postgres_url: str) -> None:
    engine = sa.create_engine(empty_postgres_url)
    METADATA.create_all(engine)
    together = Barrier(2)

    def call(first: str, second: str) -> str:
        with engine.begin() as connection:
            REGISTER.once(connection, key=first, fingerprint=REQUEST, work=reserve(connection))
            together.wait(120)
            try:
                return REGISTER.once(connection, key=second, fingerprint=REQUEST, work=reserve(connection)).kind
            except InFlight:
                connection.rollback()
                return "in flight"

    with ThreadPoolExecutor(2) as pool:
        results = [future.result(60) for future in [pool.submit(call, "a", "b"), pool.submit(call, "b", "a")]]
    assert sorted(results) == ["applied", "in flight"]
    assert effects(engine) == 2
    engine.dispose()


def test_a_connection_that_commits_every_statement_is_refused(empty_postgres_url: str) -> None:
    engine = sa.create_engine(empty_postgres_url, isolation_level="AUTOCOMMIT")
    METADATA.create_all(engine)
    with engine.begin() as connection, pytest.raises(receipts.TransactionUnfit):
        REGISTER.once(connection, key="k", fingerprint=REQUEST, work=reserve(connection))
    assert effects(engine) == 0
    engine.dispose()


@pytest.mark.parametrize("begin", ["BEGIN", "BEGIN IMMEDIATE"])
def test_sqlite_engines_that_send_their_own_begin_work_too(sqlite_url: str, begin: str) -> None:
    engine = sa.create_engine(sqlite_url)

    @sa.event.listens_for(engine, "connect")
    def leave_transactions_to_us(connection: Any, _: object) -> None:
        connection.isolation_level = None

    @sa.event.listens_for(engine, "begin")
    def send_begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql(begin)

    METADATA.create_all(engine)
    assert once(engine, then=refuse).kind is Kind.REJECTED
    assert [once(engine, "k2").replayed, once(engine, "k2").replayed] == [False, True]
    with pytest.raises(Broken):
        once(engine, "k3", then=break_down)
    assert effects(engine) == 1
    engine.dispose()


def test_a_deferred_sqlite_transaction_that_read_before_somebody_wrote_is_told_to_begin_again(sqlite_url: str) -> None:
    engine = sa.create_engine(sqlite_url)
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA journal_mode = WAL")
    METADATA.create_all(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("BEGIN")
        connection.execute(sa.select(EFFECT)).all()
        once(engine)
        with pytest.raises(InFlight, match="somebody has written since"):
            REGISTER.once(connection, key="k", fingerprint=REQUEST, work=reserve(connection))
    assert effects(engine) == 1
    engine.dispose()


def test_the_table_takes_the_services_name_and_schema(empty_postgres_url: str) -> None:
    engine = sa.create_engine(empty_postgres_url)
    metadata = sa.MetaData()
    register = Receipts(receipts.table(metadata, "proof", schema="orders"), block=WAIT)
    with engine.begin() as connection:
        connection.execute(sa.schema.CreateSchema("orders"))
        metadata.create_all(connection)
        for replayed in (False, True):
            assert register.once(connection, key="k", fingerprint=REQUEST, work=lambda: 1).replayed is replayed
    engine.dispose()
