"""What is undone, in which order and from when on, against a model that fits in one line each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.compensation import acts_until_us, happened, undo_order, undone_by_cancel, unfinished, unsettled
from recovery.core.contracts import Contract, CoTransactional, Deletion, Keyed, Lookup, Named, Opaque, Probeable, Read, Swallow
from recovery.core.entries import UNDOING, Attempt, Decision, Entry, Intent, Opened, OutcomeKind, Settled
from recovery.core.history import DecisionStep, EffectStep, History, fold

from .making import ERROR, KEYED, SETTLE, H, M, S, Story, quiet

READ, WRITE = Read(), KEYED
CONTRACTS = {contract.digest: contract for contract in (READ, WRITE)}
ITEMS = [{"kind": "found", "value": 1}, {"kind": "refused", "error": "e", "value": {}}]


@dataclass(frozen=True)
class Done:
    """One effect of a made-up run: what it came to (None: nothing yet), whether it changes anything, and whether it has been undone."""

    outcome: OutcomeKind | None
    value: Any
    reads: bool
    undone: bool

    @property
    def to_undo(self) -> bool:
        items = self.outcome is OutcomeKind.MIXED and not any(item["kind"] == "found" for item in self.value)
        return self.outcome in {OutcomeKind.APPLIED, OutcomeKind.APPLIED_WITHOUT_VALUE, OutcomeKind.MIXED} and not (
            items or self.reads or self.undone
        )


effects = st.builds(
    Done,
    outcome=st.sampled_from([None, *(kind for kind in OutcomeKind if kind not in {OutcomeKind.FAILED, OutcomeKind.CANCELLED})]),
    value=st.sampled_from([[], ITEMS, ITEMS[1:]]),
    reads=st.booleans(),
    undone=st.booleans(),
)


def intent(step: str, contract: Contract, undoes: str = "") -> Intent:
    return Intent(
        step=step,
        effect="e",
        environment="e",
        scope="",
        key=step,
        fingerprint="f",
        arguments={},
        contract=contract.digest,
        timeout_us=S,
        at_us=0,
        undoes=undoes,
    )


def settled(step: str, outcome: OutcomeKind, value: Any = None) -> Settled:
    return Settled(step=step, outcome=outcome, at_us=0, value=value)


def history(done: list[Done], order: list[int]) -> History:
    """All begin in their order; they come to their outcomes in another one. What has been undone was undone behind that."""
    entries: list[Entry] = [Opened(workflow="w", version="1", input=None, input_digest="d", at_us=0)]
    entries += [intent(f"s#{number}", READ if each.reads else WRITE) for number, each in enumerate(done)]
    for number in order:
        if (outcome := done[number].outcome) is not None:
            entries.append(settled(f"s#{number}", outcome, done[number].value))
    for number, each in enumerate(done):
        if each.undone and each.outcome is not None:
            entries += [intent(f"undo/u#{number}", WRITE, f"s#{number}"), settled(f"undo/u#{number}", OutcomeKind.APPLIED)]
    return fold("run-1", entries)


@given(st.data(), st.lists(effects, max_size=8))
def test_what_happened_is_undone_once_the_last_to_settle_first(data: st.DataObject, done: list[Done]) -> None:
    order = data.draw(st.permutations(range(len(done))))
    reached = data.draw(st.sets(st.sampled_from(range(len(done))))) if done else set()
    found = undo_order(history(done, order), CONTRACTS, [f"s#{number}" for number in reached] + ["undo/u#0"])
    assert [step.step for step in found] == [
        f"s#{number}" for number in reversed(order) if number in reached and done[number].to_undo
    ]


@given(st.data(), st.lists(effects, max_size=8))
def test_what_has_no_outcome_is_told(data: st.DataObject, done: list[Done]) -> None:
    reached = data.draw(st.sets(st.sampled_from(range(len(done))))) if done else set()
    open_ones = {f"s#{number}" for number in reached if done[number].outcome is None}
    found = unsettled(history(done, list(range(len(done)))), [f"s#{number}" for number in reached] + ["never-begun#1"])
    assert (found is None) == (not open_ones)
    assert found is None or found in open_ones


def test_what_did_not_happen_is_not_undone() -> None:
    assert happened(None) is False
    assert [kind for kind in OutcomeKind if happened(settled("s", kind, ITEMS))] == [
        OutcomeKind.APPLIED,
        OutcomeKind.APPLIED_WITHOUT_VALUE,
        OutcomeKind.MIXED,
    ]
    assert not happened(settled("s", OutcomeKind.MIXED, ITEMS[1:]))


# -- from when on ------------------------------------------------------------------------------------------------------


def applied(contract: Contract, *sent_at: int) -> EffectStep:
    story = Story()
    for at in sent_at:
        story.attempt(at)
    return replace(story.reply(sent_at[-1] + S, "found", value=1).settled().step, intent=intent("reserve#1", contract))


LAST = 24 * H - SETTLE - ERROR - 30 * S - 1
"""The last moment at which a copy of an attempt lands inside a day's window that began at 0."""


@pytest.mark.parametrize(
    ("contract", "sent_at", "until"),
    [
        (KEYED, (0,), None),
        (KEYED, (0, LAST), None),
        (KEYED, (0, LAST + 1), quiet(LAST + 1 + 30 * S)),  # a copy of the second could meet a forgotten key
        (Keyed(window=timedelta(minutes=10)), (0,), quiet(30 * S)),  # a window that ends before the copies do
        (Keyed(window=timedelta(hours=24), fail_open=True), (0,), quiet(30 * S)),
        (Keyed(window=timedelta(hours=24), lock_outlives_execution=False), (0,), quiet(30 * S)),
        (Swallow(window=timedelta(hours=24)), (0,), None),
        (CoTransactional(), (0,), None),
        (Named(), (0,), quiet(30 * S)),  # what is undone takes its name with it
        (Named(lookup=Lookup(deletion=Deletion.IMPOSSIBLE)), (0,), None),
        (Probeable(), (0,), quiet(30 * S)),
        (Opaque(), (0,), quiet(30 * S)),
        (Probeable(settle_window=timedelta(minutes=1)), (0,), 30 * S + M + ERROR),
    ],
)
def test_a_copy_acts_until_its_key_answers_or_all_are_quiet(
    contract: Contract, sent_at: tuple[int, ...], until: int | None
) -> None:
    assert acts_until_us(applied(contract, *sent_at), contract) == until


def test_an_attempt_that_never_left_is_not_waited_for() -> None:
    step = Story().attempt(0).reply(S, "not_sent").attempt(H).reply(H + S, "found").settled().step
    assert acts_until_us(step, Probeable()) == quiet(H + 30 * S)
    assert [attempt for attempt in step.attempts if isinstance(attempt, Attempt)]


# -- what is on its way ------------------------------------------------------------------------------------------------


def undoing(*steps: str, cancelled: bool = False) -> Decision:
    value = {"undoes": list(steps), "quiet_at_us": None, "cancelled": cancelled}
    return Decision(step="undo", fingerprint="", value=value, at_us=0, form=UNDOING)


def test_an_undoing_is_unfinished_until_all_of_its_list_is_dealt_with() -> None:
    begun = history([Done(OutcomeKind.APPLIED, None, reads=False, undone=False)] * 2, [0, 1])
    assert not unfinished(begun)
    begun.add(undoing("s#1", "s#0"))
    for step, undoes in (("undo/u#1", "s#1"), ("undo/by-hand#1", "s#0")):
        begun.add(intent(step, WRITE, undoes))
        assert unfinished(begun)
        begun.add(settled(step, OutcomeKind.NOT_EXECUTED))
    assert not unfinished(begun)


def test_what_a_cancel_led_to_is_told_from_what_it_did_not() -> None:
    assert [undone_by_cancel(DecisionStep(1, undoing(cancelled=said))) for said in (True, False)] == [True, False]
    assert not undone_by_cancel(DecisionStep(1, Decision(step="plan#1", fingerprint="", value={"cancelled": True}, at_us=0)))
    assert not undone_by_cancel(applied(KEYED, 0))
