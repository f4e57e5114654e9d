"""Moving: a run's settled steps under the names that another version of its code has for them.

Owns what an order to change the version makes of recorded steps: who is called what, in which order they are asked for, and what a step's key is
derived from. Pure. Invariants: every recorded step has one place in the new order or is dropped by name; a step keeps the key that it was
recorded with, and no later step gets a key that an earlier one has used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from recovery.core.entries import BRANCHES, FIRED, FORMS, NOW, PATCHED, RANDOM, TIMER, UNDOING, UUID, Override
from recovery.core.ids import Epoch
from recovery.core.recorded import DecisionStep, EffectStep, Noted, Step


@dataclass(slots=True)
class Places:
    """What all moves of a run together have made of its steps.

    order: identities in the order of the last move, room for steps to come included. named: what a moved step's key is derived from, where
    that is not its identity. retired: identities that mean something else by now, or nothing, with the number of moves until then.
    """

    version: str = ""
    order: list[str] = field(default_factory=list)
    named: dict[str, str] = field(default_factory=dict)
    retired: dict[str, int] = field(default_factory=dict)
    moves: list[tuple[Epoch, dict[str, str | None]]] = field(default_factory=list)

    def in_order(self, steps: Iterable[str]) -> list[str]:
        if not self.order:
            return list(steps)
        known = set(self.order)
        return [*self.order, *(step for step in steps if step not in known)]

    def key_name(self, step: str) -> str:
        """What the key of a step is derived from that names none itself."""
        if step in self.named:
            return self.named[step]
        return f"{step}~{self.retired[step]}" if step in self.retired else step

    def called_now(self, step: str, epoch: str) -> str | None:
        """What a step is called now that somebody of this epoch speaks of; None: it was dropped."""
        spoke = Epoch.parse(epoch)
        called: str | None = step
        for at, names in self.moves:
            if called is not None and spoke is not None and spoke < at:
                called = names.get(called, called)
        return called


_MOVABLE: Final = frozenset({"", BRANCHES, NOW, RANDOM, UUID, TIMER, FIRED, PATCHED})
"""Forms of decisions that nothing outside their own entry refers to by the step's name. The others keep theirs: an answer in the inbox, a child
and a step that undoes another one are found by it."""


def checked(steps: Mapping[str, Step], wanted: Mapping[str, str | None], dropped: Iterable[str]) -> dict[str, str | None]:
    """The whole new order: what is below a moved step goes with it, and so does what was asked in front of patches.

    Raises ValueError with what is wrong."""
    if any(isinstance(step, DecisionStep) and step.decision.form == UNDOING for step in steps.values()):
        raise ValueError("it has begun to undo what it did")
    gone = set(dropped)
    named = [old for old in wanted.values() if old is not None]
    if twice := {old for old in named if named.count(old) > 1 or old in gone}:
        raise ValueError(f"step {min(twice)} has two places")
    if unknown := (set(named) | gone) - set(steps):
        raise ValueError(f"step {min(unknown)} is not recorded")
    whole: dict[str, str | None] = {}
    for new, old in wanted.items():
        whole[new] = old
        if old is not None:
            below = [step for step in steps if step.startswith(f"{old}/") and step not in named and step not in gone]
            whole |= {new + step.removeprefix(old): step for step in below}
    gone |= {step for step in steps for path in gone if step.startswith(f"{path}/") and step not in named}
    whole |= {name: name for name, step in steps.items() if step.beside and name not in gone}
    if missing := [step for step in steps if step not in whole.values() and step not in gone]:
        raise ValueError(f"step {missing[0]} has no place and is not dropped")
    for name, step in steps.items():
        if isinstance(step, DecisionStep) and step.decision.form not in _MOVABLE and whole.get(name) != name:
            raise ValueError(f"step {name} is {FORMS[step.decision.form]}, which keeps its name")
    return whole


def moved(
    places: Places, steps: Mapping[str, Step], completed: Sequence[str], order: Override
) -> tuple[dict[str, Step], list[str]]:
    """The steps, and those that have come to an outcome, under their new names. Raises ValueError where the order does not fit them."""
    whole = checked(steps, dict(order.steps), order.dropped)
    names: dict[str, str | None] = {old: new for new, old in whole.items() if old is not None}
    names |= {step: None for step in steps if step not in names}
    keys = {new: places.key_name(old) for new, old in whole.items() if old is not None}
    at = Epoch.parse(order.epoch)
    if at is None:
        raise ValueError(f"{order.epoch!r} is no epoch")
    places.moves.append((at, names))
    places.retired |= {old: len(places.moves) for old, new in names.items() if new != old}
    places.named = {step: key for step, key in keys.items() if key != step}
    places.retired = {step: since for step, since in places.retired.items() if step not in keys}
    places.order = [name for name, old in whole.items() if old is None or not steps[old].beside]
    places.version = order.version
    # A dict keeps the order of the record: what is folded later must find the same one.
    renamed = {new: _renamed(steps[old], new) for old, new in names.items() if new is not None}
    came = [names.get(step, step) for step in completed]
    return renamed, [step for step in came if step is not None]


def _renamed(step: Step, name: str) -> Step:
    if isinstance(step, DecisionStep):
        return DecisionStep(step.seq, replace(step.decision, step=name))
    return EffectStep(
        seq=step.seq,
        intent=replace(step.intent, step=name),
        attempts=tuple([replace(attempt, step=name) for attempt in step.attempts]),
        observations=tuple([Noted(noted.seq, replace(noted.observation, step=name)) for noted in step.observations]),
        verdicts=tuple([replace(verdict, step=name) for verdict in step.verdicts]),
        settled=None if step.settled is None else replace(step.settled, step=name),
        overrides=tuple([replace(override, step=name) for override in step.overrides]),
        settled_seq=step.settled_seq,
    )
