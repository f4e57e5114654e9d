"""Weighing: named times against brute force, both sides of every boundary, and what one more observation changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.contracts import Contract, Deletion, Enforced, Kind, Lookup, Replay
from recovery.core.evidence import examine
from recovery.core.facts import Absence, Ask, Close, Facts, Finding, Gate, Resend
from recovery.core.policy import Budget
from recovery.core.timing import probes_spent
from tests.unit.core.making import (
    ASKABLE,
    BUDGET,
    CLOSABLE,
    ERROR,
    KEYED,
    OPAQUE,
    PROBEABLE,
    SETTLE,
    TIMEOUT,
    H,
    M,
    S,
    Story,
    quiet,
    sent,
    situate,
)

# -- brute force: a small world where every microsecond can be looked at ---------------------------------------------------


@st.composite
def tiny_contracts(draw: st.DrawFn) -> Contract:
    lookup = draw(
        st.none()
        | st.builds(
            Lookup,
            lag_us=st.integers(0, 5),
            retention_us=st.none() | st.integers(1, 80),
            authoritative=st.booleans(),
            deletion=st.sampled_from(Deletion),
            marker_reliable=st.booleans(),
        )
    )
    return Contract(
        kind=draw(st.sampled_from(Kind)),
        window_us=draw(st.none() | st.integers(1, 90)),
        settle_window_us=draw(st.integers(0, 12)),
        clock_error_us=draw(st.integers(0, 3)),
        lookup=lookup,
        close=draw(st.booleans()),
        fail_open=draw(st.booleans()),
        trust_settle=draw(st.booleans()),
        enforced=draw(st.sampled_from(Enforced)),
        replay_rejection=draw(st.sampled_from(Replay)),
        failures_effect_free=draw(st.booleans()),
    )


REPLIES = [
    "found", "refused", "in_flight", "mismatch", "closed", "expired", "indeterminate", "unreachable", "turned_away", "not_sent",
    "gone", "foreign", "unstorable", "accepted", "items",
]  # fmt: skip
PROBED = ["found", "refused", "absent", "absent", "absent", "in_flight", "gone", "foreign", "mismatch", "closed", "expired",
          "indeterminate", "unreachable"]  # fmt: skip


@st.composite
def tiny_stories(draw: st.DrawFn) -> Story:
    """Up to six moves: attempts of all purposes, replies, probes and operators, in time order."""
    story, now = Story(), 0
    for _ in range(draw(st.integers(0, 6))):
        now += draw(st.integers(0, 12))
        move = draw(st.sampled_from(["attempt", "attempt", "reply", "probe", "probe", "operator"]))
        if move == "attempt":
            story.attempt(now, draw(st.sampled_from(["send", "resend", "close"])), timeout=draw(st.integers(0, 6)))
        elif move == "probe":
            story.probe(now + draw(st.integers(0, 4)), draw(st.sampled_from(PROBED)), asked=now, value={"id": 1})
        elif move == "operator":
            story.operator(now, draw(st.sampled_from(["found", "absent", "refused"])))
        elif story.attempts:
            number = draw(st.integers(1, story.attempts))
            story.reply(now, draw(st.sampled_from(REPLIES)), attempt=number, asked=now, value={"id": draw(st.integers(1, 2))})
    return story


def naive_times(story: Story, contract: Contract, timeout: int) -> tuple[int | None, int | None, int | None]:
    """t0, quiet_at and not_after by walking through single microseconds instead of by formula."""
    step = story.step
    answered: dict[int, list[str]] = {}
    for noted in step.observations:
        if noted.observation.attempt is not None:
            answered.setdefault(noted.observation.attempt, []).append(noted.answer.kind.value)
    t0, may_act = None, set()
    for attempt in step.attempts:
        said = answered.get(attempt.number, [])
        if attempt.purpose == "close":
            continue
        if "not_sent" not in said and (t0 is None or attempt.sent_at_us < t0):
            t0 = attempt.sent_at_us
        if contract.kind is Kind.READ:
            continue
        harmless = [kind for kind in said if kind in {"not_sent", "turned_away", "refused"}]
        if harmless and all(kind in {"not_sent", "turned_away", "refused", "unreachable"} for kind in said):
            continue
        last = attempt.send_until_us + contract.settle_window_us + contract.clock_error_us
        may_act |= set(range(attempt.sent_at_us, last + 1))
    starts = []
    if t0 is not None and contract.window_us is not None:
        forgotten = t0 + contract.window_us
        for start in range(t0 - 200, t0 + 200):
            landings = range(start, start + timeout + contract.settle_window_us + contract.clock_error_us + 1)
            if max(landings) < forgotten:
                starts.append(start)
    return t0, max(may_act, default=None), max(starts, default=None)


@given(tiny_stories(), tiny_contracts(), st.integers(0, 200))
def test_named_times_equal_brute_force(story: Story, contract: Contract, now: int) -> None:
    step = story.step
    step.intent = replace(step.intent, timeout_us=4)
    timing = examine(step, situate(now, contract, can_probe=True, can_close=True)).timing
    t0, quiet_at, not_after = naive_times(story, contract, timeout=4)
    assert (timing.t0_us, timing.quiet_at_us) == (t0, quiet_at)
    if t0 is not None and contract.window_us is not None:
        assert timing.not_after_us == not_after
    assert [at for at in range(200) if timing.quiet(at)] == [at for at in range(200) if quiet_at is None or at > quiet_at]


@given(
    tiny_stories(), tiny_contracts(), st.integers(0, 200), st.booleans(), st.booleans(), st.booleans(), st.booleans(),
    st.integers(0, 3), st.integers(0, 3),
)  # fmt: skip
def test_every_history_weighs_to_valid_facts(
    story, contract, now, can_probe, can_close, wanted, restored, attempts, probes
) -> None:
    """`examine` raises if the facts cannot be; and the same evidence weighs the same."""
    situation = situate(now, contract, can_probe=can_probe, can_close=can_close, wanted=wanted, restored=restored,
                        budget=Budget(attempts=attempts, probes=probes))  # fmt: skip
    first = examine(story.step, situation).facts
    assert first.valid
    assert examine(story.step, situation).facts == first


@given(tiny_stories(), tiny_contracts(), tiny_contracts(), st.integers(0, 200))
def test_a_later_weaker_contract_never_adds_a_licence(story: Story, pinned: Contract, later: Contract, now: int) -> None:
    both = examine(story.step, situate(now, (pinned, later), can_probe=True, can_close=True)).facts
    alone = [examine(story.step, situate(now, one, can_probe=True, can_close=True)).facts for one in (pinned, later)]
    if both.resend is Resend.LICENSED:
        assert {facts.resend for facts in alone if facts.finding is both.finding} <= {Resend.LICENSED}
    if both.absence is Absence.ENFORCED:
        assert {facts.absence for facts in alone if facts.finding is both.finding} <= {Absence.ENFORCED, Absence.NONE}


# -- both sides of every boundary ------------------------------------------------------------------------------------------

NOT_AFTER = 24 * H - SETTLE - ERROR - 30 * S - 1


def test_the_last_moment_of_a_resend() -> None:
    """send_until + settle_window + clock_error < t0 + window, strictly."""
    assert sent().facts(NOT_AFTER).resend is Resend.LICENSED
    assert sent().facts(NOT_AFTER + 1).resend is Resend.LATE
    assert NOT_AFTER + 30 * S + SETTLE + ERROR == 24 * H - 1


def test_the_window_counts_from_the_first_attempt_not_from_the_last() -> None:
    story = sent().attempt(20 * H, "resend")
    assert story.facts(NOT_AFTER).resend is Resend.LICENSED
    assert story.facts(NOT_AFTER + 1).resend is Resend.LATE


def test_an_attempt_that_never_left_does_not_start_the_window() -> None:
    story = Story().attempt(0).reply(1, "not_sent").attempt(H)
    assert story.facts(NOT_AFTER + H).resend is Resend.LICENSED
    assert story.facts(NOT_AFTER + H + 1).resend is Resend.LATE


def test_a_turned_away_attempt_may_have_been_sent_and_starts_the_window() -> None:
    story = Story().attempt(0).reply(1, "turned_away").attempt(H)
    assert story.facts(NOT_AFTER + 1).resend is Resend.LATE


def test_a_window_shorter_than_the_settle_window_allows_the_first_send_only() -> None:
    short = replace(KEYED, window_us=10 * M)
    assert Story().row(0, short) == 28
    assert sent().facts(0, short).resend is Resend.LATE


@pytest.mark.parametrize(("asked", "final"), [(quiet(30 * S), False), (quiet(30 * S) + 1, True)])
def test_absence_is_final_only_if_asked_after_quiet(asked: int, final: bool) -> None:
    """Judged long afterwards: the time of asking counts."""
    story = sent().probe(asked + S, "absent", asked=asked)
    facts = story.facts(quiet(30 * S) + H, replace(PROBEABLE, trust_settle=True))
    assert (facts.absence is Absence.TRUSTED) == final


@pytest.mark.parametrize(("lag", "final"), [(0, True), (1, False)])
def test_a_lagging_answer_speaks_for_an_earlier_state(lag: int, final: bool) -> None:
    contract = replace(PROBEABLE, lookup=Lookup(lag_us=lag), trust_settle=True)
    at = quiet(30 * S) + 1
    assert (sent().probe(at, "absent").facts(at, contract).absence is Absence.TRUSTED) == final


def test_the_time_that_counts_is_the_first_question_that_can_be_final() -> None:
    contract = replace(PROBEABLE, lookup=Lookup(lag_us=5 * S))
    story = sent().probe(S, "absent")
    judgement = story.conclude(2 * S, contract)
    counts = quiet(30 * S) + 5 * S + 1
    assert (judgement.row.number, judgement.next_look_us) == (38, counts)
    assert story.row(counts - 1, contract) == 38
    assert story.row(counts, contract) == 34


def test_quiet_leaves_out_attempts_proven_without_effect() -> None:
    """Otherwise each turned-away try would push the end of the doubt further away."""
    story = sent().attempt(10 * M, "resend").reply(10 * M, "turned_away").probe(11 * M, "absent")
    assert story.conclude(12 * M, PROBEABLE).next_look_us == quiet(30 * S) + 1
    story = sent().attempt(10 * M, "resend").reply(10 * M, "not_sent").probe(11 * M, "absent")
    assert story.conclude(12 * M, PROBEABLE).next_look_us == quiet(30 * S) + 1


@pytest.mark.parametrize("kind", ["indeterminate", "unreachable", "in_flight"])
def test_quiet_keeps_attempts_that_may_have_acted(kind: str) -> None:
    story = sent().attempt(10 * M, "resend").reply(10 * M, kind).probe(11 * M, "absent")
    assert story.conclude(12 * M, PROBEABLE).timing.quiet_at_us == quiet(10 * M + 30 * S)


def test_a_success_does_not_remove_its_attempt_from_quiet() -> None:
    assert sent().reply(S, "found").conclude(S).timing.quiet_at_us == quiet(30 * S)


def test_a_reply_that_contradicts_a_harmless_one_keeps_the_attempt() -> None:
    story = sent().reply(S, "turned_away").late_reply(2 * S, "indeterminate", 1)
    assert story.facts(3 * S).exposed


@pytest.mark.parametrize("kinds", [("turned_away",), ("turned_away", "not_sent", "refused")])
def test_silence_does_not_take_back_a_proof_that_nothing_was_done(kinds: tuple[str, ...]) -> None:
    story = sent().reply(S, "unreachable")
    for at, kind in enumerate(kinds):
        story.late_reply(2 * S + at, kind, 1)
    assert story.conclude(H).timing.quiet_at_us is None


def test_a_rejection_in_a_window_that_is_not_published_counts_as_forgotten() -> None:
    story = sent().attempt(M, "resend").reply(M, "refused")
    assert [story.row(M), story.row(M, replace(KEYED, window_us=None))] == [14, 29]


def test_a_persons_word_is_no_tombstone() -> None:
    assert sent().operator(S, "closed").row(H, CLOSABLE) == 21


def test_a_close_carries_no_effect() -> None:
    story = sent().reply(S, "turned_away").attempt(H, "close")
    assert story.conclude(H, CLOSABLE).timing.quiet_at_us is None


RETENTION = replace(PROBEABLE, lookup=Lookup(retention_us=H), trust_settle=True)


@pytest.mark.parametrize(("observed", "final"), [(H - ERROR - 1, True), (H - ERROR, False)])
def test_absence_proves_only_while_receipts_are_kept(observed: int, final: bool) -> None:
    story = sent().probe(observed, "absent")
    assert (story.facts(observed, RETENTION).absence is Absence.TRUSTED) == final


def test_a_look_up_is_useful_until_the_last_receipt_is_pruned() -> None:
    end = quiet(30 * S) + H
    assert sent().facts(end - 1, RETENTION).ask is Ask.DUE
    assert sent().facts(end, RETENTION).ask is Ask.NONE


CLOSE_END = 24 * H - ERROR


def test_a_close_is_offered_while_the_keys_record_is_kept() -> None:
    assert sent().facts(CLOSE_END - 1, CLOSABLE).close is Close.AVAILABLE
    assert sent().facts(CLOSE_END, CLOSABLE).close is Close.NONE


def test_a_record_of_unknown_life_makes_no_close_a_proof() -> None:
    unknown = Contract(kind=Kind.KEYED, close=True)
    assert sent().facts(S, unknown).close is Close.NONE
    assert sent().attempt(S, "close").closed(S).facts(S, unknown).finding is Finding.OPEN
    assert sent().facts(S, replace(unknown, lookup=Lookup())).close is Close.AVAILABLE


@pytest.mark.parametrize(("at", "proven"), [(CLOSE_END - 1, True), (CLOSE_END, False)])
def test_a_tombstone_proves_only_if_written_while_the_record_was_kept(at: int, proven: bool) -> None:
    facts = sent().attempt(at, "close").closed(at).facts(at + S, CLOSABLE)
    assert (facts.finding is Finding.NEVER_EXECUTED) == proven


@pytest.mark.parametrize(("now", "gate"), [(200_000 + S - 1, Gate.BACKING_OFF), (200_000 + S, Gate.CLEAR)])
def test_the_back_off_ends_at_its_time(now: int, gate: Gate) -> None:
    assert sent().reply(S, "unreachable").facts(now).gate is gate


def test_the_back_off_doubles_and_is_capped() -> None:
    budget = Budget(attempts=100, backoff=timedelta(seconds=1), backoff_max=timedelta(seconds=5))
    looks = []
    story = Story()
    for number in range(5):
        story.attempt(number, "send").reply(number, "unreachable")
        looks.append((story.conclude(number, budget=budget).next_look_us or 0) - number)
    assert looks == [S, 2 * S, 4 * S, 5 * S, 5 * S]


def test_very_many_silent_tries_do_not_overflow() -> None:
    story = sent()
    for at in range(100):
        story.probe(at, "unreachable")
    assert story.conclude(100, PROBEABLE).next_look_us == 99 + 30 * S


def test_an_answer_ends_the_back_off_and_starts_it_anew() -> None:
    story = sent().probe(0, "unreachable").probe(1, "unreachable").probe(2, "absent")
    assert story.facts(2, PROBEABLE).gate is Gate.CLEAR
    assert story.probe(3, "unreachable").conclude(3, PROBEABLE).next_look_us == 3 + 200_000


def test_a_cancel_that_told_nothing_backs_off_as_a_question_does() -> None:
    story = sent().probe(0, "unreachable").attempt(1, "cancel").cancelled(1, "unreachable")
    assert story.conclude(1, PROBEABLE).next_look_us == 1 + 400_000
    told = sent().probe(0, "unreachable").attempt(1, "cancel").cancelled(1, "absent")
    assert told.facts(1, PROBEABLE).gate is Gate.CLEAR


def test_what_a_person_had_asked_moves_no_back_off_unless_it_tells_something() -> None:
    story = sent().probe(0, "unreachable").probe(1, "unreachable")
    due = story.conclude(1, PROBEABLE).next_look_us
    for at in range(2, 12):
        story.probed_by_operator(at, "unreachable").probed_by_operator(at, "turned_away", retry_after_us=H)
    assert story.conclude(12, PROBEABLE).next_look_us == due
    assert sent().probed_by_operator(0, "unreachable").facts(1, PROBEABLE).gate is Gate.CLEAR
    assert story.probed_by_operator(12, "absent").facts(12, PROBEABLE).gate is Gate.CLEAR


@pytest.mark.parametrize("kind", ["absent", "in_flight", "turned_away"])
def test_what_a_person_had_asked_spends_no_question(kind: str) -> None:
    story = sent()
    for number in range(3 * BUDGET.probes):
        story.probed_by_operator(M + number, kind)
    assert (story.step.probes, probes_spent(story.step, PROBEABLE)) == (0, 0)
    assert story.facts(quiet(M) + H, PROBEABLE).ask is Ask.DUE


def test_what_a_person_had_asked_is_evidence_like_any_other_answer() -> None:
    for kind in ("found", "absent", "gone", "mismatch"):
        for at in (M, quiet(TIMEOUT) + H):
            ours, theirs = sent().probe(at, kind), sent().probed_by_operator(at, kind)
            assert theirs.facts(at + 1, PROBEABLE) == ours.facts(at + 1, PROBEABLE)


def test_the_environment_may_ask_for_a_longer_pause() -> None:
    story = sent().reply(S, "turned_away", retry_after_us=7 * S)
    assert story.conclude(S).next_look_us == 8 * S
    assert sent().reply(S, "turned_away", retry_after_us=1).conclude(S).next_look_us == S + 200_000


@pytest.mark.parametrize(("now", "gate"), [(40 * S - 1, Gate.UNANSWERED), (40 * S, Gate.CLEAR)])
@pytest.mark.parametrize("purpose", ["resend", "close"])
def test_an_unanswered_resend_or_close_is_waited_for(now: int, gate: Gate, purpose: str) -> None:
    assert sent().attempt(10 * S, purpose).facts(now).gate is gate


def test_an_unanswered_first_send_is_not_waited_for() -> None:
    assert sent().facts(1).gate is Gate.CLEAR


def test_gates_come_in_their_order() -> None:
    story = sent().reply(0, "unreachable").attempt(0, "resend")
    assert story.facts(1, held=True, scope_changed=True).gate is Gate.HELD
    assert story.facts(1, scope_changed=True).gate is Gate.SCOPE_CHANGED
    assert story.facts(1).gate is Gate.BACKING_OFF
    assert story.facts(S).gate is Gate.UNANSWERED


@pytest.mark.parametrize("count", [4, 5])
def test_attempts_are_counted_over_all_workers(count: int) -> None:
    story = Story()
    for at in range(count):
        story.attempt(at)
    assert story.facts(S).attempts_left == (count < 5)


def test_an_attempt_that_never_left_spends_nothing() -> None:
    """An outage ends in "look again" and not in doubt."""
    story = Story()
    for at in range(9):
        story.attempt(at).reply(at, "not_sent")
    assert story.row(H) == 28


def test_probes_are_counted_over_all_workers() -> None:
    story = sent()
    for at in range(19):
        story.probe(at, "indeterminate")
    story.attempt(M)
    assert story.facts(H, PROBEABLE).ask is Ask.DUE
    story.probe(20, "indeterminate")
    assert story.facts(H, PROBEABLE).ask is Ask.SPENT


def test_a_probe_that_nobody_answered_spends_nothing() -> None:
    story = sent()
    for at in range(30):
        story.probe(at, "unreachable")
    assert story.facts(H, PROBEABLE).ask is Ask.DUE


@pytest.mark.parametrize(
    ("kinds", "ask"), [(["absent"], Ask.SPENT), (["indeterminate"], Ask.ANSWERED), (["indeterminate", "absent"], Ask.SPENT)]
)
def test_without_a_question_left_an_early_absence_is_all_there_will_be(kinds: list[str], ask: Ask) -> None:
    story = sent()
    for at, kind in enumerate(kinds):
        story.probe(S + at, kind)
    assert story.facts(2 * S, PROBEABLE, budget=Budget(probes=len(kinds))).ask is ask


def test_a_close_that_nobody_answered_backs_off() -> None:
    story = sent().attempt(M, "close").closed(M, "turned_away")
    assert [story.facts(at, CLOSABLE).gate for at in (M + 199_999, M + 200_000)] == [Gate.BACKING_OFF, Gate.CLEAR]


def test_the_last_of_two_unanswered_copies_is_waited_for() -> None:
    story = sent().attempt(M, "resend").attempt(M + 20 * S, "resend")
    assert [story.facts(at).gate for at in (M + 50 * S - 1, M + 50 * S)] == [Gate.UNANSWERED, Gate.CLEAR]


def test_what_can_only_be_closed_backs_off_too() -> None:
    story = sent().reply(S, "unreachable")
    assert story.facts(S, replace(PROBEABLE, close=True), can_probe=False).gate is Gate.BACKING_OFF


def test_before_the_first_attempt_no_window_runs() -> None:
    assert Story().facts(S).resend is Resend.LICENSED


def test_closes_have_a_bound_of_their_own() -> None:
    story = sent()
    for at in range(5):
        story.attempt(at, "close").closed(at, "unreachable")
    facts = story.facts(H, CLOSABLE)
    assert (facts.close, facts.attempts_left) == (Close.SPENT, True)


def test_a_close_that_never_left_spends_nothing() -> None:
    story = sent()
    for at in range(5):
        story.attempt(at, "close").closed(at, "not_sent")
    assert story.facts(H, CLOSABLE).close is Close.AVAILABLE


# -- rule 1, clause by clause ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, Resend.LICENSED),
        ({"fail_open": True}, Resend.FAIL_OPEN),
        ({"lock_outlives_execution": False}, Resend.REFUSED),
        ({"failures_effect_free": False}, Resend.REFUSED),
        ({"failures_effect_free": False, "replay_failure": Replay.INDETERMINATE}, Resend.LICENSED),
        ({"failures_effect_free": False, "replay_failure": Replay.RESUMES}, Resend.LICENSED),
        ({"replay_success": Replay.REEXECUTES}, Resend.REFUSED),
        ({"replay_success": Replay.CURRENT}, Resend.LICENSED),
        ({"replay_success": Replay.REEXECUTES, "kind": Kind.SWALLOW}, Resend.LICENSED),
        ({"window_us": None}, Resend.LATE),
        ({"kind": Kind.PROBEABLE, "lookup": Lookup()}, Resend.KEYLESS),
        ({"kind": Kind.NAMED, "lookup": Lookup(), "window_us": None}, Resend.KEYLESS),
        ({"kind": Kind.NAMED, "lookup": Lookup()}, Resend.LICENSED),  # a name that cannot be taken again is a key
        ({"kind": Kind.PREPARED, "lookup": Lookup(), "window_us": None}, Resend.KEYLESS),
        ({"kind": Kind.OPAQUE}, Resend.OPAQUE),
        ({"kind": Kind.READ, "window_us": None}, Resend.LICENSED),
    ],
)
def test_what_licenses_a_resend(changed: dict[str, object], expected: Resend) -> None:
    assert sent().facts(S, replace(KEYED, **changed)).resend is expected


def test_other_bytes_are_sent_again_only_where_mismatches_are_checked() -> None:
    unchecked = replace(KEYED, mismatch_checked=False)
    assert sent().facts(S, same_bytes=False).resend is Resend.LICENSED
    assert sent().facts(S, unchecked).resend is Resend.LICENSED
    assert sent().facts(S, unchecked, same_bytes=False).resend is Resend.REFUSED


def test_changed_code_asks_before_it_sends_again_where_there_is_a_question() -> None:
    """Its bytes may differ, and a mismatch would freeze a key whose receipt a question finds."""
    assert sent().row(S, ASKABLE) == 30
    assert [sent().row(S, contract, same_bytes=False) for contract in (ASKABLE, CLOSABLE, KEYED)] == [34, 34, 30]
    assert sent().probe(2 * S, "absent").row(3 * S, ASKABLE, same_bytes=False) == 30
    assert sent().probe(2 * S, "found", fingerprint="ours").row(3 * S, ASKABLE, same_bytes=False) == 8
    spent = replace(BUDGET, probes=0)
    assert sent().row(S, ASKABLE, same_bytes=False, budget=spent) == 30


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("indeterminate", Resend.CACHED_FAILURE), ("expired", Resend.EXPIRED), ("turned_away", Resend.LICENSED)],
)
def test_answers_that_burn_the_key(kind: str, expected: Resend) -> None:
    assert sent().attempt(1, "resend").reply(2, kind).facts(H).resend is expected


def test_a_probe_on_an_opaque_contract_can_find_and_never_deny() -> None:
    assert sent().row(H, OPAQUE, can_probe=True) == 34
    assert sent().probe(H, "found").row(H, OPAQUE, can_probe=True) == 8
    late = sent().probe(9 * H, "absent")
    assert late.row(9 * H, replace(OPAQUE, trust_settle=True), can_probe=True) == 40


# -- rule 2, clause by clause ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lookup",
    [Lookup(authoritative=False), Lookup(deletion=Deletion.INVISIBLE), Lookup(marker_reliable=False), None],
)
def test_what_keeps_an_absence_from_ever_being_final(lookup: Lookup | None) -> None:
    contract = replace(PROBEABLE, lookup=lookup, trust_settle=True)
    assert sent().probe(H, "absent").facts(H, contract, can_probe=True).absence is Absence.UNPROVEN
    assert sent().probe(H, "absent").facts(H, replace(PROBEABLE, trust_settle=True)).absence is Absence.TRUSTED


def test_work_cut_off_half_way_leaves_no_receipt_unless_a_key_keeps_one() -> None:
    cut = {"disconnect_cancels": True, "trust_settle": True}
    assert sent().probe(H, "absent").facts(H, replace(PROBEABLE, **cut)).absence is Absence.UNPROVEN
    assert sent().probe(H, "absent").facts(H, replace(ASKABLE, window_us=M, **cut)).absence is Absence.TRUSTED


def test_visible_deletion_lets_an_absence_be_final() -> None:
    contract = replace(PROBEABLE, lookup=Lookup(deletion=Deletion.VISIBLE), trust_settle=True)
    assert sent().probe(H, "absent").facts(H, contract).absence is Absence.TRUSTED


def test_a_fail_open_store_keeps_no_proof() -> None:
    contract = replace(ASKABLE, fail_open=True, trust_settle=True)
    assert sent().probe(H, "absent").facts(H, contract).absence is Absence.UNPROVEN


def test_an_attempt_since_reopens_an_absence() -> None:
    trusting = replace(PROBEABLE, trust_settle=True)
    story = sent().probe(H, "absent")
    assert story.facts(H, trusting).absence is Absence.TRUSTED
    again = story.attempt(2 * H, "send")
    assert again.facts(2 * H, trusting) == replace(
        Facts(finding=Finding.OPEN), exposed=True, resend=Resend.KEYLESS, ask=Ask.DUE, absence=Absence.NONE
    )


def test_a_question_in_the_very_microsecond_of_the_attempt_is_not_repeated_at_once() -> None:
    """On a clock that stands still it would be asked until no probes are left."""
    assert sent().probe(0, "absent").row(0, PROBEABLE) == 38


def test_an_answer_that_saw_a_copy_at_work_takes_the_absence_back() -> None:
    story = sent().probe(H, "absent").probe(H + 1, "in_flight")
    facts = story.facts(2 * H, replace(PROBEABLE, trust_settle=True))
    assert (facts.absence, facts.ask) == (Absence.NONE, Ask.DUE)


def test_a_copy_seen_at_work_and_reported_late_counts_from_when_it_was_seen() -> None:
    """Late evidence stands last. If its place counted, every later question would be asked in vain, until none is left."""
    story = sent().probe(H, "absent")
    story.late_reply(H - 1, "in_flight", 1)
    assert story.facts(2 * H, replace(PROBEABLE, trust_settle=True)).absence is Absence.TRUSTED
    story.late_reply(H, "in_flight", 1)  # on a clock that stands still
    assert story.facts(2 * H, replace(PROBEABLE, trust_settle=True)).absence is Absence.TRUSTED
    story.late_reply(H + 1, "in_flight", 1)
    assert story.facts(2 * H, replace(PROBEABLE, trust_settle=True)).ask is Ask.DUE


def test_an_answer_older_than_it_promised_proves_nothing() -> None:
    story = sent().probe(H, "absent", as_of_us=S)
    assert story.facts(H, replace(PROBEABLE, trust_settle=True)).absence is Absence.UNPROVEN


DEADLINE = replace(PROBEABLE, enforced=Enforced.DEADLINE)


@pytest.mark.parametrize(("as_of", "row"), [(30 * S, 34), (30 * S + 1, 32)])
def test_a_deadline_in_the_environments_own_clock_enforces_absence(as_of: int, row: int) -> None:
    """Asked right at the deadline by our clock; what counts is theirs, in the answer."""
    story = sent().probe(30 * S, "absent", as_of_us=as_of)
    assert story.row(32 * S + 1, DEADLINE) == row


def test_a_deadline_is_waited_for_and_an_answer_without_a_clock_does_not_count() -> None:
    story = sent().probe(S, "absent", as_of_us=S)
    judgement = story.conclude(2 * S, DEADLINE)
    assert (judgement.row.number, judgement.facts.absence, judgement.next_look_us) == (38, Absence.MATURING, 32 * S + 1)
    blind = sent().probe(S, "absent")
    assert blind.conclude(2 * S, DEADLINE).next_look_us == quiet(30 * S) + 1


def test_an_epoch_that_was_carried_but_never_raised_enforces_nothing() -> None:
    story = sent().probe(H, "absent", as_of_us=H)
    assert story.facts(H, replace(PROBEABLE, enforced=Enforced.EPOCH)).absence is Absence.UNPROVEN


def test_a_late_tombstone_bars_copies_and_so_enforces_a_later_absence() -> None:
    """It says nothing about the past; a look-up whose receipts are kept longer does."""
    contract = replace(CLOSABLE, window_us=H)
    story = sent().attempt(2 * H, "close").closed(2 * H).probe(2 * H + 1, "absent")
    facts = story.facts(2 * H + 2, contract, wanted=False)
    assert (facts.finding, facts.absence) == (Finding.OPEN, Absence.ENFORCED)
    assert story.row(2 * H + 2, contract, wanted=False) == 33


# -- first-sent fences -----------------------------------------------------------------------------------------------------

FENCED = Contract(kind=Kind.FIRST_SENT, window_us=5 * M, lookup=Lookup())


@pytest.mark.parametrize(("asked", "row"), [(5 * M + ERROR, 38), (5 * M + ERROR + 1, 16)])
def test_an_expired_first_sent_fence_makes_absence_final(asked: int, row: int) -> None:
    story = sent().probe(asked, "absent")
    assert story.row(asked, FENCED) == row


@given(st.integers(0, 2 * H), st.integers(0, 2 * H))
def test_keyed_and_probed_absence_agree_with_the_definition(asked: int, later: int) -> None:
    """The whole of rule 2 for the plain probeable contract: final if and only if asked after the last copy."""
    story = sent().probe(asked, "absent")
    facts = story.facts(asked + later, replace(PROBEABLE, trust_settle=True))
    assert (facts.absence is Absence.TRUSTED) == (asked > 30 * S + 20 * M + 2 * S)


def test_an_acceptance_after_tries_that_did_nothing_is_the_first_whatever_the_window() -> None:
    swallow = replace(KEYED, kind=Kind.SWALLOW, window_us=M)
    story = Story().attempt(0).reply(S, "turned_away").attempt(H)
    assert story.reply(H + S, "accepted").row(H + S, swallow) == 12
    assert sent().attempt(H).reply(H + S, "accepted").row(H + S, swallow) == 42


# -- pure reads ------------------------------------------------------------------------------------------------------------

READ = Contract(kind=Kind.READ)


def test_a_read_that_nobody_answered_backs_off() -> None:
    story = sent().reply(S, "unreachable")
    assert [story.row(S + 199_999, READ), story.row(S + 200_000, READ)] == [24, 28]


def test_reading_twice_is_no_duplicate() -> None:
    story = sent().attempt(M, "resend").reply(M, "found", value=1).late_reply(M, "found", 1, value=2)
    assert story.row(H, READ) == 8
    assert story.settled(story.conclude(H, READ).settlement).row(H, READ) == 2


@pytest.mark.parametrize("kind", ["unreachable", "turned_away", "not_sent"])
@pytest.mark.parametrize("restored", [False, True])
def test_a_probe_that_told_nothing_has_not_been_answered(kind: str, restored: bool) -> None:
    """The question is asked again when its back-off is over, and not only when absence would count."""
    story = sent().probe(M, kind)
    assert story.facts(2 * M, PROBEABLE, restored=restored).ask is Ask.DUE
    assert story.probe(3 * M, "absent").facts(4 * M, PROBEABLE, restored=restored).ask is Ask.ANSWERED


@pytest.mark.parametrize(("epoch", "ask"), [("", Ask.DUE), ("0.7", Ask.DUE), ("1.0", Ask.ANSWERED), ("2.1", Ask.ANSWERED)])
def test_a_restored_step_is_asked_about_in_this_incarnation(epoch: str, ask: Ask) -> None:
    """An answer of an unknown incarnation counts as one from before the backup was put back."""
    story = sent().probe(M, "absent", epoch=epoch)
    assert story.facts(2 * M, PROBEABLE, restored=True, incarnation=1).ask is ask


def test_a_restored_step_is_not_closed() -> None:
    """Attempts may be missing, so that a refusal would prove nothing."""
    assert sent().facts(M, CLOSABLE).close is Close.AVAILABLE
    assert sent().facts(M, CLOSABLE, restored=True).close is Close.NONE


def test_an_early_absence_is_pending_only_while_it_can_be_asked_again() -> None:
    story = sent().probe(S, "absent")
    assert story.facts(2 * S, PROBEABLE).absence is Absence.PENDING
    spent = story.facts(2 * S, PROBEABLE, budget=Budget(probes=1))
    assert (spent.ask, spent.absence) == (Ask.SPENT, Absence.PENDING)
    gone = story.facts(2 * S, ASKABLE, can_probe=False)
    assert (gone.ask, gone.absence) == (Ask.NONE, Absence.UNPROVEN)


def test_an_early_absence_does_not_spoil_a_later_one() -> None:
    quiet_at = quiet(30 * S)
    story = sent().probe(S, "absent").probe(quiet_at + 1, "absent")
    assert story.facts(quiet_at + 1, replace(PROBEABLE, trust_settle=True)).absence is Absence.TRUSTED


def test_an_answer_of_the_moment_in_which_a_copy_was_seen_at_work_is_older() -> None:
    """In the chain it became known before; late evidence stands behind everything, and an answer of the same moment counts."""
    assert sent().probe(M, "absent").probe(M, "in_flight").facts(2 * M, PROBEABLE).ask is Ask.DUE
    assert sent().probe(M + 1, "absent", asked=M).probe(M + 1, "in_flight").facts(2 * M, PROBEABLE).ask is Ask.DUE
    assert sent().probe(M, "absent").late_reply(M, "in_flight", 1).facts(2 * M, PROBEABLE).ask is Ask.ANSWERED
    assert sent().probe(M - 1, "absent").late_reply(M, "in_flight", 1).facts(2 * M, PROBEABLE).ask is Ask.DUE


def test_a_call_with_the_recorded_fingerprint_has_not_diverged() -> None:
    assert sent().facts(M, replay_fingerprint="ours").finding is Finding.OPEN
    assert sent().facts(M, replay_fingerprint="theirs").finding is Finding.DIVERGED
