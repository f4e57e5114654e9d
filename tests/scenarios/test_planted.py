"""Scenarios can fail: bugs planted in the machine, the reconciler, the drivers or the store, each caught by what it breaks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from recovery import claims
from recovery.core import evidence, judgement, machine
from recovery.core.entries import Answered, AnswerKind, Settled
from recovery.core.facts import Absence
from recovery.core.ids import ROOT
from recovery.core.machine import Machine
from recovery.core.operations import Append
from recovery.core.verdicts import ROWS, first_match
from recovery.definitions.replies import Replies
from recovery.ports import RunRow
from recovery.storage.memory import MemoryJournal
from recovery.storage.writer import Writer
from recovery.testing import process
from recovery.testing.engines import _Placed
from tests.explorer.planted import BUGS
from tests.model.planted import planted
from tests.scenarios.playing import named, played, written

BUG = {bug.name: bug for bug in BUGS}
COLOURS = pytest.mark.parametrize("colour", ["sync", "async"])


def caught(result: Any, *signs: str) -> None:
    """The scenario has failed, for one of these reasons and not for another."""
    assert not result.passed
    assert any(sign in problem for sign in signs for problem in result.problems), result.problems


@COLOURS
@pytest.mark.parametrize("name", ["lost reply, keyed, asked by sending the key again", "zombie, keyed, sends after the takeover"])
def test_an_attempt_that_is_written_after_its_send(name: str, colour: str) -> None:
    with planted(BUG["attempt written after the send"]):
        caught(played(named(name), colour), "I4: ", "without passing send.before")


@COLOURS
@pytest.mark.parametrize(
    "name", ["lost reply, keyed, asked by sending the key again", "late landing, keyed, the copy meets the key"]
)
def test_a_key_minted_per_attempt(name: str, colour: str) -> None:
    with planted(BUG["key per attempt"]):
        caught(played(named(name), colour), "I4: ", "I5: ")


@COLOURS
def test_a_lease_that_is_taken_for_permission_to_write(colour: str) -> None:
    with planted(BUG["lease treated as permission"]):
        result = played(named("zombie, keyed, sends while the new owner is about to"), colour)
    caught(result, "I6: ", "IllegalHistory", "exit is settled, expected owned")


@COLOURS
def test_a_claim_that_compares_nothing(colour: str) -> None:
    class Open(MemoryJournal):
        def claim(self, seen: RunRow, owner: Any, *, lease_term_us: int, at_us: int) -> RunRow | None:
            now = self.find(seen.run_id)
            assert now is not None
            return super().claim(now, owner, lease_term_us=lease_term_us, at_us=at_us)

    caught(played(named("two recoverers, keyed, both claim at the same moment"), colour, Open()), "exit is settled, expected owned")


@COLOURS
def test_an_owner_who_is_believed_dead_without_proof(monkeypatch: pytest.MonkeyPatch, colour: str) -> None:
    monkeypatch.setattr(_Placed, "proven_dead", lambda self, owner: True)
    caught(played(named("zombie, keyed, sends after the takeover"), colour), "exit is settled, expected owned")


@COLOURS
@pytest.mark.parametrize(
    "name",
    [
        "late landing, probeable, found after quiet",
        "late landing, probeable, later than the settle window, which breaks assumption A2",
    ],
)
def test_an_early_absence_taken_for_proof(monkeypatch: pytest.MonkeyPatch, name: str, colour: str) -> None:
    weigh_absence = evidence._Weighing.absence

    def rash(self: Any, *given: Any) -> Absence:
        found = weigh_absence(self, *given)
        return found if found is Absence.NONE else Absence.ENFORCED

    monkeypatch.setattr(evidence._Weighing, "absence", rash)
    caught(played(named(name), colour), "I1: ", "exit is settled, expected unresolved")


@COLOURS
@pytest.mark.parametrize(
    "name", ["lost reply, opaque, in doubt", "lost reply, probeable, asked", "zombie, opaque, its late reply ends the doubt"]
)
def test_a_keyless_effect_that_is_simply_tried_again(monkeypatch: pytest.MonkeyPatch, name: str, colour: str) -> None:
    monkeypatch.setattr(evidence, "exposed_attempts", lambda step: [])
    caught(played(named(name), colour), "exit is settled, expected", "verdicts is", "I1: ")


@COLOURS
def test_a_changed_request_that_is_sent_all_the_same(monkeypatch: pytest.MonkeyPatch, colour: str) -> None:
    situation = Machine.situation

    def blind(self: Machine, *given: Any) -> Any:
        return replace(situation(self, *given), replay_fingerprint=None)

    monkeypatch.setattr(Machine, "situation", blind)
    caught(played(named("other arguments, keyed, the environment would not notice"), colour), "exit is settled, expected diverged")


@COLOURS
def test_a_rejection_that_is_tried_again(monkeypatch: pytest.MonkeyPatch, colour: str) -> None:
    """A declared "no" is treated like a lost connection."""
    monkeypatch.setattr(Replies, "_refused", lambda self, answer: Answered(kind=AnswerKind.UNREACHABLE))
    caught(
        played(named("replayed rejection, keyed"), colour),
        "exit is unresolved, expected settled",
        "exit is in_doubt, expected settled",
    )


@COLOURS
def test_a_loop_without_end(monkeypatch: pytest.MonkeyPatch, colour: str) -> None:
    """Without its row a remembered rejection looks like proof that the key may be sent, for ever."""
    rows = tuple(row for row in ROWS if row.name != "rejection-remembered")
    monkeypatch.setattr(judgement, "judge", lambda facts: first_match(facts, rows))
    monkeypatch.setattr(process, "PASSAGES_MAX", 100)
    caught(played(named("replayed rejection, keyed"), colour), "never ended")


@COLOURS
def test_a_verdict_that_is_journaled_on_every_look(monkeypatch: pytest.MonkeyPatch, colour: str) -> None:
    monkeypatch.setattr(judgement, "_news", lambda *given: True)
    caught(played(named("lost reply, opaque, in doubt"), colour), "I7: ")


@COLOURS
def test_an_outcome_that_is_given_before_it_is_durable(monkeypatch: pytest.MonkeyPatch, colour: str) -> None:
    commit = Writer.commit

    async def hasty(self: Writer, wanted: Append) -> None:
        last = wanted.entries[-1]
        if not (isinstance(last, Settled) and last.step == ROOT):
            await commit(self, wanted)

    monkeypatch.setattr(Writer, "commit", hasty)
    scenario = named("lost reply, keyed, and the worker lives")
    caught(played(scenario, colour), "I2: ", "I10: ")


DOUBT_THEN_MORE = """
scenario: doubt
name: a step behind an effect in doubt
story: An opaque effect is in doubt, and the workflow catches everything that it can and goes on.
environment:
  stock: {FILTER-A: 10}
  effects: {reserve: {contract: opaque}}
workflow:
  - try:
      - perform: reserve
        with: {sku: FILTER-A, qty: 2}
        key: first
    except: []
    finally:
      - perform: reserve
        with: {sku: FILTER-A, qty: 3}
        key: second
  - return: done
timeline:
  - run: A
    kill: {at: environment.committed}
  - recover: B
    expect: {exit: in_doubt}
expect:
  status: in_doubt
  executions: {first: 1}
  entries: {intent: 1}
"""


@COLOURS
def test_doubt_cannot_be_swallowed(colour: str) -> None:
    assert played(written(DOUBT_THEN_MORE), colour).problems == ()


@COLOURS
def test_doubt_that_is_an_ordinary_exception(colour: str) -> None:
    with planted(BUG["a swallowed doubt"]):
        caught(played(written(DOUBT_THEN_MORE), colour), "I9: ", "IllegalHistory")


@COLOURS
def test_a_settled_run_that_is_done_again(monkeypatch: pytest.MonkeyPatch, colour: str) -> None:
    """The journal is not consulted: each call runs the step as a first one, under a run id of its own making."""
    monkeypatch.setattr(machine.Machine, "begin", _forgetful(machine.Machine.begin))
    caught(played(named("outcome durable, the run's end is not"), colour), "verdicts is", "exit is", "IllegalHistory")


def _forgetful(begin: Any) -> Any:
    def anew(self: Machine, *given: Any, **named: Any) -> str:
        step = begin(self, *given, **named)
        self.history.steps.pop(step, None)
        return step

    return anew


def test_the_planted_ones_pass_without_the_bug() -> None:
    """The control: everything above is green as it stands in the repository."""
    for name in ("zombie, keyed, sends while the new owner is about to", "lost reply, opaque, in doubt"):
        assert played(named(name)).problems == ()
    assert claims.POLL.total_seconds() > 0
