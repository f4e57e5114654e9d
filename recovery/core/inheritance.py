"""Inheritance: what a fork, and a new generation of a run, take over from what was done before, and what they make of the rest.

Owns the policies, the terms that are ordered of earlier effects, and the stored form of both. Pure; knows nothing of how a fork is stored or run, nor
what a term is where nobody says. Invariants: what is inherited of an effect is its outcome, never its intent, so that nobody judges it, sends it again
or undoes it a second time; what was ordered of an effect holds until another order is about that very effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from recovery.core.entries import (
    ADOPTED,
    ANEW,
    ANSWER,
    AWAITED,
    CHILD,
    FIRED,
    FORMS,
    INHERITED,
    JSON,
    LAPSED,
    OVERDUE,
    PATCHED,
    UNDOING,
    UNFIT,
    Decision,
    Entry,
    Settled,
    decode,
    encode,
)
from recovery.core.history import DecisionStep, EffectStep, History, Step
from recovery.core.ids import base_of


@dataclass(frozen=True, slots=True)
class Reuse:
    """The outcome that the effect came to is taken over; the receipt stays whose it was. Nothing is sent."""


@dataclass(frozen=True, slots=True)
class NewKey:
    """A new effect under a key of its own, whatever became of the earlier one. reason: why that is no repetition, or a wanted one."""

    reason: str


@dataclass(frozen=True, slots=True)
class Forbid:
    """The effect is not to happen again: the step that asks for it fails with EffectForbidden, and nothing is sent."""


Policy: TypeAlias = Reuse | NewKey | Forbid

Meaning: TypeAlias = tuple[str, str, str, str]
"""Of an effect: its step without generations, the effect's name, the environment's, and the fingerprint of what is asked for."""

_OF_ITS_RUN: Final = frozenset({UNDOING, CHILD, AWAITED, ADOPTED, OVERDUE})
"""Forms of decisions that mean nothing in another run."""

REUSE: Final = "reuse"
NEW_KEY: Final = "new_key"
FORBID: Final = "forbid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """What is to become of one earlier effect, where the run comes to ask for it again.

    step: whose it was, without its generation. policy: reuse, new_key or forbid; reason: why, for a new key. said: by a person; else it is the
    default. inside: it lies in the prefix that is taken over. settled: its outcome, None where it has none. run_id: whose receipt it is.
    """

    step: str
    policy: str
    reason: str
    said: bool
    inside: bool
    run_id: str
    of_step: str
    effect: str
    environment: str
    scope: str
    key: str
    fingerprint: str
    settled: Settled | None

    def to_json(self) -> JSON:
        body = {name: getattr(self, name) for name in _TEXTS}
        return body | {"settled": None if self.settled is None else encode(self.settled)}

    @classmethod
    def from_json(cls, body: Mapping[str, JSON]) -> Term:
        settled = None if body["settled"] is None else decode("settled", body["settled"])
        assert settled is None or isinstance(settled, Settled), "it was written from one"
        return cls(**{name: body[name] for name in _TEXTS}, settled=settled)

    @property
    def meaning(self) -> Meaning:
        """Which effect it is about: where the workflow asks for it, and what is asked for."""
        return self.step, self.effect, self.environment, self.fingerprint

    def is_about(self, effect: str, environment: str, fingerprint: str) -> bool:
        """Whether this request is the earlier effect once more. With other arguments it is another effect."""
        return (effect, environment, fingerprint) == (self.effect, self.environment, self.fingerprint)


_TEXTS: Final = (
    "step", "policy", "reason", "said", "inside", "run_id", "of_step", "effect", "environment", "scope", "key", "fingerprint",
)  # fmt: skip


def terms_of(history: History) -> dict[Meaning, Term]:
    """What was ordered about earlier effects; the last order about each counts, and stands behind what was ordered before it. An effect with other
    arguments at the same step is another one, and takes nothing back of what was ordered about the first."""
    found: dict[Meaning, Term] = {}
    for order in history.overrides:
        for body in order.terms or ():
            term = Term.from_json(body)
            found.pop(term.meaning, None)
            found[term.meaning] = term
    return found


class Unsettled(Exception):
    """A prefix cannot be taken over. problem: why."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


def prefix_of(history: History, at: str) -> list[Step]:
    """The steps that were recorded before `at`, in that order; all of them for "". Raises Unsettled, and KeyError where there is no such step."""
    if history.places.moves:
        raise Unsettled("it was moved to another version, and its entries have other names than its steps")
    end = history.steps[at].seq if at else history.length + 1
    steps = [step for step in history.steps.values() if step.seq < end]
    for step in steps:
        if isinstance(step, EffectStep) and step.settled is None:
            raise Unsettled(f"{step.step} lies before it and is not settled: it can begin at that step at the latest")
    return steps


def cut_at(history: History, at: str, policies: Mapping[str, Policy]) -> tuple[str, list[Step]]:
    """Where a fork's prefix ends, and the prefix: at the first effect in it that is forbidden, since all that was recorded behind it rests on what it
    came to. Raises as `prefix_of`."""
    prefix = prefix_of(history, at)
    forbidden = {base_of(name) for name, policy in policies.items() if isinstance(policy, Forbid)}
    first = next((step.step for step in prefix if base_of(step.step) in forbidden), None)
    return (at, prefix) if first is None else (first, prefix_of(history, first))


def copied(entries: Sequence[Entry], prefix: Sequence[Step], terms: Sequence[Term]) -> Iterator[Decision]:
    """The prefix as the first entries of a fork: decisions as they were made, and of each effect its outcome, in the order in which the steps were
    completed. Raises Unsettled for what a fork cannot take over."""
    inside, by_step, seen = {step.step for step in prefix}, {term.step: term for term in terms}, set[str]()
    for entry in entries:
        if isinstance(entry, Decision) and entry.step in inside and entry.step not in seen and entry.form != UNFIT:
            if entry.form in _OF_ITS_RUN:
                raise Unsettled(f"{entry.step}, {FORMS[entry.form]}, lies before it, and a fork cannot take that over")
            seen.add(entry.step)
            yield _taken_over(entry.step, by_step[base_of(entry.step)], entry.at_us) if entry.form == INHERITED else _here(entry)
        elif isinstance(entry, Settled) and entry.step in inside:
            yield _taken_over(entry.step, by_step[base_of(entry.step)], entry.at_us)


def _here(entry: Decision) -> Decision:
    """A decision as the fork's own. A message that answered it was never in the fork's inbox, whose numbers begin anew."""
    return replace(entry, value={**entry.value, "number": 0}) if entry.form == ANSWER else entry


def _taken_over(step: str, term: Term, at_us: int) -> Decision:
    return inherited_entry(step, term, at_us, INHERITED if term.policy == REUSE else ANEW)


def inherited_entry(step: str, term: Term, at_us: int, form: str) -> Decision:
    """What a run records of an effect that is not its own."""
    return Decision(step=step, fingerprint=term.fingerprint, value=term.to_json(), form=form, at_us=at_us)


def is_place(step: Step) -> bool:
    """Whether a person can name this step as a place: not what the run notes beside its steps."""
    return not (isinstance(step, DecisionStep) and step.decision.form in {FIRED, PATCHED, ANSWER, LAPSED, UNFIT})
