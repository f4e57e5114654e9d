"""How answers are compared: which receipts are of one effect, which are the first reply, which are evidence at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recovery.core.contracts import Contract, Enforced, Kind, Lookup, Replay
from recovery.core.entries import OutcomeKind, Source
from recovery.core.evidence import examine
from recovery.core.facts import Absence, Finding
from recovery.core.judgement import conclude
from tests.unit.core.making import ASKABLE, CLOSABLE, ERROR, KEYED, PROBEABLE, H, M, S, Story, quiet, sent, situate

CURRENT = replace(KEYED, replay_success=Replay.CURRENT)
STABLE = ("id",)
READ = Contract(kind=Kind.READ, lookup=Lookup())
LATER = quiet(30 * S) + 1


def twice(first: dict[str, object], second: dict[str, object], kinds: tuple[str, str] = ("found", "found")) -> Story:
    """A reply to the re-send, then the late one of the first attempt."""
    return sent().attempt(M, "resend").reply(M + S, kinds[0], **first).late_reply(2 * M, kinds[1], 1, **second)


# -- one effect or two -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "row"),
    [
        ({"receipt": "r1", "value": 1}, {"receipt": "r1", "value": 2}, 8),  # the id decides
        ({"receipt": "r1", "value": 1}, {"receipt": "r2", "value": 1}, 4),
        ({"value": 1}, {"receipt": "r2", "value": 1}, 8),  # one id says nothing
        ({"receipt": "r1", "value": 1}, {"value": 1}, 8),
        ({"value": 1}, {"value": 1}, 8),  # no ids: the value of two first replies
        ({"value": 1}, {"value": 2}, 4),
    ],
)
def test_two_originals_are_compared_by_id_and_else_by_value(first, second, row) -> None:
    assert twice(first, second).row(H) == row


@pytest.mark.parametrize(
    ("first", "second", "row"),
    [
        ({"id": 1, "state": "new"}, {"id": 1, "state": "paid"}, 8),
        ({"id": 1, "state": "new"}, {"id": 2, "state": "new"}, 4),
    ],
)
def test_stable_fields_decide_before_the_whole_value(first, second, row) -> None:
    assert twice({"value": first}, {"value": second}).row(H, replace(KEYED, stable_fields=STABLE)) == row


@pytest.mark.parametrize(("first", "second"), [({"id": 1}, {"state": "new"}), ({"state": "new"}, {"id": 1})])
def test_present_states_of_which_one_lacks_the_stable_fields_are_no_duplicate(first, second) -> None:
    assert twice({"value": first}, {"value": second}).row(H, replace(CURRENT, stable_fields=STABLE)) == 9


def test_a_first_reply_and_a_present_state_are_no_duplicate_in_either_order() -> None:
    early = sent().attempt(M, "resend").reply(M + S, "found", value="paid").late_reply(M - 1, "found", 1, value="new")
    assert early.row(H, CURRENT) == 8
    in_order = Story().attempt(0).reply(S, "found", value="new").attempt(M, "resend").reply(M + S, "found", value="paid")
    assert in_order.row(H, CURRENT) == 8
    assert twice({"value": "paid"}, {"value": "packed"}).row(H, CURRENT) == 10


@pytest.mark.parametrize("kinds", [("gone", "found"), ("found", "gone"), ("unstorable", "found")])
def test_an_object_that_is_gone_or_cannot_be_stored_is_no_second_effect(kinds: tuple[str, str]) -> None:
    assert twice({"value": None}, {"value": 1}, kinds).row(H) == 8


def test_a_receipt_of_another_request_is_no_second_effect() -> None:
    assert twice({"receipt": "r1", "fingerprint": "theirs"}, {"receipt": "r2"}).row(H) == 6


def test_what_is_not_of_our_request_differs() -> None:
    contract = replace(KEYED, stable_fields=("units",))
    story = (
        sent().reply(S, "found", fingerprint="theirs").reply(S, "found", value={"units": 5}).reply(S, "found", value={"units": 2})
    )
    reading = examine(story.step, situate(S, contract)).reading
    assert [reading.differs(noted) for noted in story.step.observations] == [True, True, False]


# -- fields ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "row"), [({"units": 2}, 8), ({"units": 5}, 7), ({"id": 1}, 8), ({"units": 2, "id": 9}, 8)])
def test_only_a_field_that_both_name_can_differ(value, row) -> None:
    assert sent().reply(S, "found", value=value).row(S, replace(KEYED, stable_fields=("units", "id"))) == row


def test_arguments_that_are_no_object_have_no_fields_to_differ() -> None:
    story = sent().reply(S, "found", value={"units": 5})
    story.entries[1] = replace(story.entries[1], arguments=["units"])
    assert story.row(S, replace(KEYED, stable_fields=("units",))) == 8


@pytest.mark.parametrize("value", [["id"], "id", None])
def test_a_value_that_is_no_object_has_no_stable_fields(value) -> None:
    assert sent().attempt(M, "resend").reply(M, "found", value=value).row(H, replace(CURRENT, stable_fields=STABLE)) == 10


# -- the first reply ---------------------------------------------------------------------------------------------------


def test_a_look_up_may_keep_the_first_reply_where_replays_do_not() -> None:
    assert sent().probe(S, "found", value=1).row(S, replace(CURRENT, lookup=Lookup())) == 8


def test_a_look_up_that_shows_the_present_state_is_not_the_first_reply() -> None:
    assert sent().probe(S, "found", value=1).row(S, replace(PROBEABLE, lookup=Lookup(original=False))) == 10
    assert sent().late_reply(S, "found", 7, value=1).row(S, replace(PROBEABLE, lookup=Lookup(original=False))) == 10


def test_what_is_shown_once_is_not_shown_again_nor_made_up_from_fields() -> None:
    story = sent().attempt(M, "resend").reply(M, "found", value={"id": 1})
    assert story.row(H, replace(KEYED, shown_once=True)) == 10
    assert story.row(H, replace(KEYED, shown_once=True, stable_fields=STABLE)) == 10


# -- reads -------------------------------------------------------------------------------------------------------------


def test_the_first_answer_to_a_read_is_its_outcome() -> None:
    settlement = twice({"value": 1}, {"value": 2}).conclude(H, READ).settlement
    assert settlement is not None
    assert settlement.value == 1
    assert twice({"value": 1}, {"error": "Frozen"}, ("found", "refused")).row(H, READ) == 8
    assert twice({"error": "Frozen"}, {"value": 1}, ("refused", "found")).row(H, READ) == 15


def test_a_probe_does_not_answer_a_read() -> None:
    assert sent().probe(S, "found", value=1).facts(S, READ).finding is Finding.OPEN


# -- which evidence ----------------------------------------------------------------------------------------------------


def test_a_persons_word_is_not_the_environments() -> None:
    assert sent().operator(S, "refused", error="OutOfStock").row(S) == 21
    assert sent().operator(S, "items", value=[{"kind": "found"}]).row(S) == 21
    assert sent().operator(H, "absent").probe(H, "found").row(H, ASKABLE) == 8


def test_an_acceptance_of_an_attempt_that_is_not_known_proves_no_window() -> None:
    assert sent().late_reply(S, "accepted", 7).row(H, replace(KEYED, kind=Kind.SWALLOW)) != 12


def test_a_verdict_rests_on_the_first_evidence_of_its_kind() -> None:
    swallow = replace(KEYED, kind=Kind.SWALLOW)
    story = sent().reply(S, "accepted").attempt(M, "resend").reply(M, "accepted")
    assert [noted.observation.attempt for noted in story.conclude(H, swallow).support] == [1]
    batches = twice({"value": [{"kind": "found"}]}, {"value": [{"kind": "refused"}]}, ("items", "items"))
    settlement = batches.conclude(H).settlement
    assert settlement is not None
    assert settlement.value == [{"kind": "found"}]
    closed = sent().attempt(M, "close").closed(M).attempt(2 * M, "close").closed(2 * M)
    assert len(closed.conclude(H, CLOSABLE).support) == 1
    fenced = Contract(kind=Kind.FIRST_SENT, window_us=5 * M, lookup=Lookup())
    assert len(sent().probe(H, "absent").probe(H + 1, "absent").conclude(H + 1, fenced).support) == 1
    broken = sent().probe(LATER, "absent").probe(H, "found").probe(H, "found").conclude(H, PROBEABLE)
    assert (broken.row.number, [noted.answer.kind.value for noted in broken.support]) == (5, ["found", "absent"])


def test_a_window_without_a_key_remembers_no_rejection() -> None:
    keyless = replace(PROBEABLE, window_us=24 * H, replay_rejection=Replay.ORIGINAL)
    assert sent().attempt(M).reply(M, "refused").row(M, keyless) == 29
    assert sent().attempt(M).reply(M, "refused").row(M, replace(keyless, kind=Kind.KEYED)) == 14


def test_a_rejection_that_was_pushed_has_no_time_of_asking() -> None:
    pushed = sent()._observe(Source.PUSH, LATER, "refused", None, None, {})
    assert sent().probe(LATER, "refused").facts(LATER, PROBEABLE).finding is Finding.REJECTED_AFTER_QUIET
    assert pushed.facts(LATER, PROBEABLE).finding is Finding.OPEN


def test_a_tombstone_before_any_attempt_proves_unless_attempts_may_be_missing() -> None:
    story = Story().attempt(0, "close").closed(S)
    assert story.row(H, CLOSABLE) == 16
    assert story.row(H, CLOSABLE, restored=True) == 26


@pytest.mark.parametrize(("as_of", "final"), [(LATER - ERROR, True), (LATER - ERROR - 1, False), (LATER + H, True)])
def test_an_answer_speaks_of_when_it_was_asked_unless_it_says_earlier_than_clocks_can_differ(as_of: int, final: bool) -> None:
    story = sent().probe(LATER, "absent", as_of_us=as_of)
    facts = story.facts(LATER, replace(PROBEABLE, trust_settle=True))
    assert (facts.absence is Absence.TRUSTED) == final


def test_only_a_probes_absence_can_be_final() -> None:
    assert sent().late_reply(H, "absent", 7).probe(H, "found").row(H, PROBEABLE) == 8
    assert sent().probe(H, "absent").probe(H, "found").row(H, PROBEABLE) == 5


def test_an_absence_after_attempts_that_did_nothing_needs_no_deadline_to_be_final() -> None:
    story = sent().reply(S, "turned_away").probe(H, "absent", as_of_us=H).probe(H + S, "found")
    assert story.row(H + S, replace(PROBEABLE, enforced=Enforced.DEADLINE)) == 5


@pytest.mark.parametrize(
    ("epochs", "raised", "row"),
    [
        (("0.1", "0.2"), "0.3", 32),
        (("0.1", "0.3"), "0.3", 38),  # its own sender is not fenced off
        (("0.4", "0.1"), "0.3", 38),  # nor is one of two
        (("0.1", ""), "0.3", 38),  # nor one that nobody knows
        (("0.1",), "", 38),
    ],
)
def test_an_epoch_fences_off_only_if_it_was_raised_above_every_attempts(epochs: tuple[str, ...], raised: str, row: int) -> None:
    story = Story()
    for epoch in epochs:
        story.attempt(0)
        story.entries[-1] = replace(story.entries[-1], epoch=epoch)
    story.probe(S, "absent", raised=raised)
    assert story.row(S, replace(PROBEABLE, enforced=Enforced.EPOCH)) == row


def test_an_absence_that_the_environment_enforced_is_final_before_quiet() -> None:
    deadline = replace(PROBEABLE, enforced=Enforced.DEADLINE)
    assert sent().probe(33 * S, "absent", as_of_us=31 * S).probe(40 * S, "found").row(40 * S, deadline) == 5
    fenced = Contract(kind=Kind.FIRST_SENT, window_us=5 * M, lookup=Lookup())
    assert sent().probe(6 * M, "absent").probe(7 * M, "found").row(7 * M, fenced) == 5


def test_a_name_that_nobody_can_free_is_taken_in_a_restored_journal_too() -> None:
    named = Contract(kind=Kind.NAMED, lookup=Lookup())
    assert sent().probe(S, "foreign").row(S, named, restored=True) == 17


# -- contradictions ----------------------------------------------------------------------------------------------------


def test_a_batch_or_an_acceptance_told_again_contradicts_nothing() -> None:
    items = [{"kind": "found"}, {"kind": "refused"}]
    mixed = sent().reply(S, "items", value=items).settled(outcome=OutcomeKind.MIXED, evidence=(4,))
    assert mixed.late_reply(M, "items", 1, value=items).row(H) == 2
    swallowed = sent().reply(S, "accepted").settled(outcome=OutcomeKind.APPLIED_WITHOUT_VALUE, evidence=(4,))
    assert swallowed.late_reply(M, "accepted", 1).row(H, replace(KEYED, kind=Kind.SWALLOW)) == 2


def test_an_outcome_rests_on_the_observation_it_was_settled_with() -> None:
    story = sent()
    fresh = sent().reply(S, "found", receipt="r1").step.observations[0].observation
    story.settled(conclude(story.step, situate(S), fresh).settlement)
    assert story.row(S) == 2
    assert story.late_reply(M, "found", 1, receipt="r2").row(H) == 3


def test_what_was_weighed_contradicts_nothing() -> None:
    story = sent().attempt(M).reply(M, "found", receipt="r1").probe(H, "found", receipt="r2")
    settlement = story.conclude(H).settlement
    assert settlement is not None
    assert settlement.row == "duplicate"
    assert story.settled(settlement).row(H) == 2


@pytest.mark.parametrize(
    ("kind", "answer"),
    [("mismatch", {}), ("found", {"fingerprint": "theirs"}), ("refused", {}), ("absent", {}), ("closed", {})],
)
def test_not_even_what_would_if_it_were_new(kind: str, answer: dict[str, str]) -> None:
    """An outcome may name what speaks against it: whoever settled it knew."""
    story = sent().probe(LATER, kind, **answer)
    applied = {"outcome": OutcomeKind.APPLIED_WITHOUT_VALUE, "heuristic": True}
    assert story.settled(evidence=(4,), **applied).row(H, CLOSABLE) == 2
    assert sent().probe(LATER, kind, **answer).settled(**applied).row(H, CLOSABLE) == 3


@pytest.mark.parametrize("outcome", [OutcomeKind.APPLIED, OutcomeKind.APPLIED_WITHOUT_VALUE, OutcomeKind.MIXED])
def test_the_first_receipt_of_an_effect_that_is_said_to_have_happened_is_no_second_one(outcome: OutcomeKind) -> None:
    """It was settled without a receipt: an accepted delivery, a batch's items, a person's word."""
    assert sent().settled(outcome=outcome).late_reply(M, "found", 1, receipt="r1").row(H) == 2


def test_a_person_contradicts_nothing() -> None:
    assert sent().settled(outcome=OutcomeKind.NOT_EXECUTED, heuristic=True).operator(S, "found").row(S) == 2


def test_the_same_contradiction_told_twice_is_one_item() -> None:
    def against(*answers: tuple[str, dict[str, object]]) -> int:
        story = sent().settled(outcome=OutcomeKind.NOT_EXECUTED, heuristic=True)
        for at, (kind, answer) in enumerate(answers):
            story.late_reply(S + at, kind, 1, **answer)
        return len(story.conclude(H).support)

    r1, theirs = ("found", {"receipt": "r1"}), ("found", {"receipt": "r1", "fingerprint": "theirs"})
    assert against(r1, r1) == 1
    assert against(r1, ("found", {"receipt": "r2"})) == 2
    assert against(r1, theirs) == 2
    assert against(theirs, theirs) == 1
    assert against(("accepted", {}), ("accepted", {})) == 1
    assert against(("accepted", {}), ("items", {"value": 1})) == 2
    assert against(("items", {"value": 1}), ("items", {"value": 2})) == 2
    assert against(("mismatch", {"fingerprint": "a"}), ("mismatch", {"fingerprint": "b"})) == 2
    assert against(("mismatch", {"error": "a"}), ("mismatch", {"error": "b"})) == 2
    assert against(r1, ("accepted", {})) == 2
    assert against(("accepted", {}), r1) == 2


def test_a_receipt_that_a_duplicate_was_settled_with_is_no_news_when_told_again() -> None:
    story = sent().attempt(M).reply(M, "found", receipt="r1").probe(H, "found", receipt="r2")
    story.settled(story.conclude(H).settlement)
    assert story.late_reply(H + 1, "found", 1, receipt="r2").row(H + S) == 2
    assert story.late_reply(H + 2, "found", 1, receipt="r1").row(H + S) == 2
    assert story.late_reply(H + 3, "found", 1, receipt="r3").row(H + S) == 3


def test_what_speaks_against_an_effect_that_did_not_happen() -> None:
    never = {"outcome": OutcomeKind.NOT_EXECUTED, "heuristic": True}
    assert sent().settled(**never).late_reply(S, "refused", 1, error="OutOfStock").row(S) == 2
    assert sent().settled(**never).late_reply(S, "items", 1, value=[{"kind": "found"}]).row(S) == 3
    rejected = {"outcome": OutcomeKind.REJECTED, "error": "OutOfStock"}
    assert sent().settled(**rejected).late_reply(S, "unreachable", 1).row(S) == 2


def test_what_speaks_against_an_effect_that_happened() -> None:
    def applied() -> Story:
        return sent().reply(S, "found", receipt="r1").settled(evidence=(4,))

    assert applied().late_reply(M, "closed", 1).row(H, CLOSABLE) == 3
    assert applied().late_reply(25 * H, "closed", 1).row(26 * H, CLOSABLE) == 2
    assert applied().probe(LATER, "indeterminate").row(H, ASKABLE) == 2


# -- batches -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, 5, [], ["found"], [{}], {"kind": "found"}, [{"kind": "found"}, {"kind": "absent"}]])
def test_a_batchs_answer_that_does_not_settle_every_item_is_open(value: object) -> None:
    story = sent().reply(S, "items", value=value)
    assert [story.row(at) for at in (S, S + 200_000)] == [24, 30]
