"""The way of an ordinary step: whatever comes between, it asks for the same operations as the procedure of every step, and ends as that does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar

from hypothesis import example, given, settings
from hypothesis import strategies as st

from recovery.core.contracts import Contract, Keyed, Lookup
from recovery.core.effect_errors import KeyReused
from recovery.core.entries import Answered, AnswerKind, Decision, Opened, Override, Status, Verb
from recovery.core.errors import FencedOut, StoreUnavailable
from recovery.core.history import fold
from recovery.core.ids import Epoch
from recovery.core.limits import Rate
from recovery.core.machine import Machine, Unwind
from recovery.core.operations import Append, Draw, Enter, Leave, Now, Op, Send, Use
from recovery.core.policy import Budget
from recovery.core.request import Request
from recovery.core.resting import Rest
from recovery.definitions.retry import Retry
from tests.model.settings import CONTRACTS

from .test_straight import ANSWERS

S, H = 1_000_000, 3_600_000_000
STEP = "e#1"
OPENED = Opened(workflow="w", version="1", input=None, input_digest="d", at_us=0)
FOUND = Answered(kind=AnswerKind.FOUND, value={"id": 1})
FENCED = FencedOut(run_id="run", owner="b", epoch="0.2", ours="0.1")
TAKEN = KeyReused(key="k", environment="n", scope="", owner_run="other", owner_step="e#1")
DOWN = StoreUnavailable(url="sqlite://", problem="no answer", fate="Nothing was written")
OPERATIONS_MAX = 12

Change = Callable[["Play"], None]


@dataclass
class Play:
    """One step, driven until it asks for something else than an ordinary one, and what came of it."""

    machine: Machine
    answer: Answered | BaseException
    appends: list[BaseException | None]
    changes: dict[int, Change]
    orders: list[Override] = field(default_factory=list)
    holds: frozenset[str] = frozenset()
    now_us: int = 0
    told: list[Any] = field(default_factory=list)

    def drive(self, request: Request) -> list[Any]:
        procedure, came, resume = self.machine.perform(STEP, request), None, None
        try:
            for number in range(OPERATIONS_MAX):
                self.changes.get(number, lambda _: None)(self)
                operation = procedure.send(came) if resume is None else procedure.throw(resume)
                self.told.append(Use if isinstance(operation, Use) else operation)  # its function is a new one each time
                if not isinstance(operation, Now | Append | Send | Draw | Enter | Leave | Use):
                    break
                came, resume = self.done(operation)
        except StopIteration as stop:
            self.told.append(("returned", stop.value))
        except (Unwind, Exception) as error:
            self.told.append((type(error), str(error)))
        finally:
            procedure.close()
        return self.told

    def done(self, operation: Op[Any]) -> tuple[Any, BaseException | None]:
        self.now_us += 7
        if isinstance(operation, Now):
            return self.now_us, None
        if isinstance(operation, Send):
            return (None, self.answer) if isinstance(self.answer, BaseException) else (self.answer, None)
        if isinstance(operation, Append):
            return None, self.appends.pop(0) if self.appends else None
        return (7 if isinstance(operation, Draw) else None), None

    def left(self) -> list[Any]:
        """How the machine stands now."""
        machine = self.machine
        steps = [(name, step.seq, repr(step)) for name, step in machine.history.steps.items()]
        known = (machine.history.length, machine.stands, machine.looks_us, machine._riding, dict(machine.rests), machine.noted)
        said = [(step.step, judgement) for step, judgement in machine.judgements]
        stopped = machine.stopped and (type(machine.stopped.error), str(machine.stopped.error))
        return [steps, known, said, stopped, sorted(machine.contracts), machine.history.completed]


def cancelled(play: Play) -> None:
    play.orders.append(Override(step="", verb=Verb.CANCEL, by="ada", at_us=1, message=1))


def paused(play: Play) -> None:
    play.orders.append(Override(step="", verb=Verb.PAUSE, by="ada", at_us=1, message=2))


def held(play: Play) -> None:
    play.holds = frozenset({"other"})


def held_by_digest(play: Play) -> None:
    play.holds = frozenset(play.machine.contracts)


def stopped(play: Play) -> None:
    play.machine.stop(FENCED, "")


def rests(play: Play) -> None:
    play.machine.rests["left#1"] = Rest(Status.WAITING, 99 * S, "sleeping")


def noted(play: Play) -> None:
    play.machine.patched("p")


def said(play: Play) -> None:
    play.machine.say(Decision(step="d#1", fingerprint="", value=1, at_us=0))


def branched(play: Play) -> None:
    play.machine.branch("left")


def queued(play: Play) -> None:
    play.machine.stands = Status.QUEUED


class General(Machine):
    """Each step goes the way of every step."""

    straight: ClassVar[bool] = False


def request_of(contract: Contract, **asked: Any) -> Request:
    return Request(
        effect="e", environment="n", scope="", key="k", fingerprint="ours", arguments={"id": 1, "a": 1}, contract=contract, subject="the call", **asked,
    )  # fmt: skip


CHANGES = st.sampled_from([cancelled, paused, held, held_by_digest, stopped, rests, noted, said, branched, queued])
REQUESTS = st.fixed_dictionaries(
    {
        "timeout_us": st.integers(1, 3 * H), "can_probe": st.booleans(), "can_close": st.booleans(), "can_cancel": st.booleans(),
        "rides": st.booleans(), "same_bytes": st.sampled_from([True, True, False]), "valid_until_us": st.sampled_from([None, None, 3, 20, 9 * H]),
        "deadline_us": st.sampled_from([None, None, 3, 20, 9 * H]), "retry": st.sampled_from([None, None, Retry(attempts=2)]),
        "rate": st.sampled_from([None, None, Rate(1, timedelta(seconds=1))]),
    }
)  # fmt: skip


ASKED = {"timeout_us": S, "can_probe": False, "can_close": False}
DAY = timedelta(days=1)
DAILY = [
    Keyed(window=DAY),
    Keyed(window=DAY, valid_for=timedelta(hours=1)),
    Keyed(window=DAY, lookup=Lookup()),
    Keyed(window=DAY, close=True),
]


def machine_of(straight: bool, **more: Any) -> Machine:
    kind = Machine if straight else General
    return kind(history=fold("run", [OPENED]), epoch=Epoch(0, 1), budget=Budget(), deadline_us=None, stands=Status.RUNNING, **more)


UNREACHABLE = Answered(kind=AnswerKind.UNREACHABLE)


@settings(max_examples=200)
@example(contract=DAILY[0], asked=ASKED | {"retry": Retry(attempts=2)}, answer=UNREACHABLE, appends=[], changes={}, flags={})
@example(contract=DAILY[1], asked=ASKED, answer=FOUND, appends=[], changes={}, flags={"horizon_us": H})
@example(contract=DAILY[2], asked=ASKED, answer=FOUND, appends=[], changes={}, flags={"same_bytes": False})
@given(
    contract=st.sampled_from([*CONTRACTS.values(), *DAILY]),
    asked=REQUESTS,
    answer=st.just(FOUND) | ANSWERS | st.builds(Answered, kind=st.sampled_from(AnswerKind)) | st.just(ValueError("the body's")),
    appends=st.lists(st.sampled_from([None, None, None, FENCED, TAKEN, DOWN]), max_size=3),
    changes=st.dictionaries(st.integers(0, 5), CHANGES, max_size=2),
    flags=st.fixed_dictionaries(
        {
            "tells": st.booleans(), "horizon_us": st.sampled_from([None, 0, H, H, 1000 * H]), "restored": st.sampled_from([False] * 5 + [True]),
            "same_bytes": st.sampled_from([True] * 5 + [False]),
        }
    ),
)  # fmt: skip
def test_it_asks_for_the_same_and_ends_alike(
    contract: Contract,
    asked: dict[str, Any],
    answer: Answered | BaseException,
    appends: list[BaseException | None],
    changes: dict[int, Change],
    flags: dict[str, Any],
) -> None:
    def played(straight: bool) -> tuple[list[Any], list[Any]]:
        machine = machine_of(straight, holds=lambda: play.holds, heard=lambda: play.orders, **flags)
        machine.begin("e")
        play = Play(machine, answer, list(appends), changes)
        return play.drive(request_of(contract, **asked)), play.left()

    assert played(straight=True) == played(straight=False)


def test_an_outcome_rides_for_as_long_as_it_would_be_learnt_again() -> None:
    contract = Keyed(window=timedelta(microseconds=90), clock_error=timedelta(0), settle_window=timedelta(microseconds=10))

    def rides(straight: bool, horizon_us: int, wanted: bool) -> bool:
        play = Play(machine_of(straight, horizon_us=horizon_us), FOUND, [], {})
        play.drive(request_of(contract, **(ASKED | {"timeout_us": 9}), rides=wanted))
        return play.machine._riding

    for wanted in (True, False):
        ridden = [rides(straight=True, horizon_us=horizon_us, wanted=wanted) for horizon_us in range(100)]
        assert ridden == [rides(straight=False, horizon_us=horizon_us, wanted=wanted) for horizon_us in range(100)]
        assert any(ridden) is wanted
        assert not all(ridden)


def test_an_ordinary_step_is_two_appends_and_nothing_is_concluded_of_it_where_nobody_is_told() -> None:
    def told(*, straight: bool, tells: bool) -> list[str]:
        play = Play(machine_of(straight, tells=tells), FOUND, [], {})
        operations = [type(each).__name__ for each in play.drive(request_of(DAILY[0], **ASKED))]
        return operations + [judgement.row.name for _, judgement in play.machine.judgements if judgement]

    assert told(straight=True, tells=False) == ["Now", "Append", "Send", "Now", "Append", "tuple"]
    assert told(straight=True, tells=True) == told(straight=False, tells=True)
