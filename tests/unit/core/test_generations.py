"""Orders about a run, its generations, and what each earlier effect becomes: the pure part."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recovery.core.entries import Decision, Intent, Observation, Opened, OutcomeKind, Override, Settled, Verb
from recovery.core.errors import IllegalHistory
from recovery.core.history import History, fold, held_by
from recovery.core.ids import base_of, branch_of, of_generation
from recovery.core.inheritance import Forbid, NewKey, Policy, Reuse, Term, Unsettled, cut_at, prefix_of
from recovery.core.orders import news
from recovery.core.repeating import terms_for
from recovery.core.steps import OutOfOrder, Steps
from tests.unit.core.making import KEYED

OPENED = Opened(workflow="w", version="1", input=None, input_digest="i", at_us=1)


def order(verb: Verb, number: int | None = None, **more: object) -> Override:
    return Override(step="", verb=verb, by="ann", at_us=1, message=number, **more)  # type: ignore[arg-type]  # fields of an order


def intent(step: str) -> Intent:
    return Intent(
        step=step,
        effect="reserve",
        environment="shop",
        scope="",
        key=f"key of {step}",
        fingerprint=f"print of {step}",
        arguments={},
        contract=KEYED.digest,
        timeout_us=1,
        at_us=1,
    )


def settled(step: str, outcome: OutcomeKind = OutcomeKind.APPLIED) -> Settled:
    return Settled(step=step, outcome=outcome, at_us=2, value=1)


def decided(step: str) -> Decision:
    return Decision(step=step, fingerprint="", value=1, at_us=1)


def history(*entries: Intent | Settled | Decision | Override | Observation) -> History:
    return fold("r", (OPENED, *entries))


@pytest.mark.parametrize(
    ("verbs", "holds"),
    [
        ("pause", "pause"),
        ("pause resume", None),
        ("hold resume", None),
        ("hold", "hold"),
        ("pause cancel", None),
        ("hold cancel", "hold"),
        ("cancel pause", None),
        ("cancel hold", "hold"),
        ("pause hold", "hold"),
        ("pause hold release", None),
    ],
)
def test_what_holds_a_run_behind_its_orders(verbs: str, holds: str | None) -> None:
    held = held_by([order(Verb(verb)) for verb in verbs.split()])
    assert (None if held is None else held.verb.value) == holds


def test_an_order_is_taken_in_once_and_in_turn() -> None:
    heard = [order(Verb.PAUSE, 3), order(Verb.CANCEL, 1), order(Verb.RESUME, 4)]
    assert [each.message for each in news(history(order(Verb.CANCEL, 1)), heard)] == [3, 4]
    assert news(history(), []) == []


def test_the_place_of_a_step_is_the_same_in_each_generation() -> None:
    assert of_generation("reserve#1", 1) == "reserve#1"
    assert of_generation("gather#1@2/0/reserve#3", 3) == "gather#1@2/0/reserve#3@3"
    assert base_of("gather#1@2/0/reserve#3@13") == "gather#1/0/reserve#3"


def test_recorded_steps_keep_their_names_and_new_ones_have_the_generation_s() -> None:
    steps = Steps.of("r", ["a#1", "b#1@2"], 3)
    begun = []
    for name in ("a", "b", "a", "b"):
        begun.append(steps.begin(name, ""))
        steps.finish(branch_of(begun[-1]))
    assert begun == ["a#1", "b#1@2", "a#2@3", "b#2@3"]
    with pytest.raises(OutOfOrder):
        Steps.of("r", ["a#1@2"], 2).begin("b", "")


def test_a_restart_leaves_behind_what_was_recorded_from_its_step_on() -> None:
    before = (decided("p#1"), intent("e#1"), settled("e#1"), decided("p#2"), intent("e#2"))
    after = history(*before, order(Verb.RESTART, from_step="p#2"), decided("p#2@2"), intent("e#2@2"))
    assert (after.generation, list(after.steps)) == (2, ["p#1", "e#1", "p#2@2", "e#2@2"])
    assert list(after.superseded) == ["p#2", "e#2"]
    assert after.completed == ["p#1", "e#1", "p#2@2"]
    assert [step.step for step in after.unsettled] == ["e#2@2"]
    for from_step in ("nowhere#1", ""):
        with pytest.raises(IllegalHistory):
            history(*before, order(Verb.RESTART, from_step=from_step))
    with pytest.raises(IllegalHistory, match="unsettled"):
        history(*before, decided("p#3"), order(Verb.RESTART, from_step="p#3"))


def terms(of: History, at: str, **policies: Policy) -> dict[str, tuple[str, bool]]:
    said = {f"{name}#1": policy for name, policy in policies.items()}
    found = terms_for(of, {KEYED.digest: KEYED}, prefix_of(of, at), said)
    return {term.step: (term.policy, term.said) for term in found}


RUN = history(
    intent("a#1"), settled("a#1"), decided("p#1"), intent("b#1"), settled("b#1"), intent("c#1"),
    settled("c#1", OutcomeKind.REJECTED), intent("d#1"), settled("d#1", OutcomeKind.NOT_EXECUTED), intent("e#1"),
)  # fmt: skip


def test_the_default_reuses_what_lies_before_and_never_repeats_what_may_have_happened() -> None:
    assert terms(RUN, "p#1") == {
        "a#1": ("reuse", False), "b#1": ("forbid", False), "c#1": ("new_key", False), "d#1": ("new_key", False),
        "e#1": ("forbid", False),
    }  # fmt: skip


def test_a_person_may_say_otherwise_where_that_can_be() -> None:
    said = terms(RUN, "p#1", a=NewKey("x"), b=Reuse(), c=Forbid())
    assert (said["a#1"], said["b#1"], said["c#1"]) == (("new_key", True), ("reuse", True), ("forbid", True))
    for policy in (Reuse(), NewKey(" ")):
        with pytest.raises(Unsettled):
            terms(RUN, "p#1", e=policy)
    with pytest.raises(Unsettled):
        terms(RUN, "p#1", z=Reuse())


def test_a_prefix_is_settled_and_ends_where_an_effect_in_it_is_forbidden() -> None:
    with pytest.raises(Unsettled, match="e#1"):
        prefix_of(RUN, "")
    assert cut_at(RUN, "e#1", {"b#1": Forbid()}) == ("b#1", prefix_of(RUN, "b#1"))
    assert [step.step for step in cut_at(RUN, "p#1", {"e#1": Forbid()})[1]] == ["a#1"]


def test_a_term_comes_back_from_the_journal_as_it_was() -> None:
    [term] = terms_for(history(intent("a#1"), settled("a#1")), {KEYED.digest: KEYED}, [], {})
    assert Term.from_json(term.to_json()) == term
    assert term.is_about("reserve", "shop", "print of a#1")
    assert not term.is_about("reserve", "shop", "another")
    assert replace(term, settled=None).to_json()["settled"] is None
