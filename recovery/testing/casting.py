"""Casting: the effects and the program that a scenario is played with.

Owns the way from what a scenario names to definitions: reservations of its own, or a module's workflow and scripts. Knows no timeline.
Invariant: a cast keeps nothing from play to play but definitions; one may serve many.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from recovery.core.contracts import microseconds
from recovery.definitions.by_hand import by_hand
from recovery.definitions.effect import Effect
from recovery.definitions.environment import Environment
from recovery.definitions.workflow import Workflow
from recovery.testing.contracted import ContractedEnvironment
from recovery.testing.effects import reserving
from recovery.testing.inline import Program, inline_workflow
from recovery.testing.scenario import Scenario
from recovery.testing.scripted import ScriptedEnvironment
from recovery.testing.steps import Module, Step
from recovery.testing.worlds import Askable


class NotCast(Exception):
    """What a scenario names is not there. One sentence."""


@dataclass(frozen=True, slots=True)
class Cast:
    """Who plays. scripted: what acts the effects of a workflow of one's own; None: the simulated warehouse. workflow: where it is at hand,
    and need not be imported by name."""

    effects: Mapping[str, Effect[..., Any]]
    scripted: ScriptedEnvironment | None = None
    workflow: Workflow[..., Any] | None = None
    _inline: dict[tuple[int, bool], tuple[list[Step], list[Workflow[..., Any]]]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def inline(self, steps: list[Step], *, is_async: bool) -> list[Workflow[..., Any]]:
        """The workflow of a scenario's steps, and those of its children: made once, since a process of a simulation costs less than reading their types."""
        place = (id(steps), is_async)  # the steps are kept beside, so that nothing else comes to lie there
        if place not in self._inline:
            program = Program(steps, self.effects)
            self._inline[place] = steps, [inline_workflow(program, is_async=is_async), *program.children.values()]
        return self._inline[place][1]

    def acting(self, workflow: Workflow[..., Any]) -> Cast:
        """The same, with a workflow that is at hand."""
        return replace(self, workflow=workflow)

    @property
    def sent(self) -> tuple[Effect[..., Any], ...]:
        """The effects that may leave: those that are named, and what undoes them."""
        undoing = [made.compensated_by for made in self.effects.values() if made.compensated_by is not None]
        return tuple(dict.fromkeys((*self.effects.values(), *undoing)))

    def askable(self) -> dict[str, Askable]:
        """What each effect can be asked, by name."""
        return {made.name: _askable(made) for made in (*self.sent, by_hand)}


def cast_of(scenario: Scenario, *, is_async: bool, scope: Callable[[], str] | None = None) -> Cast:
    """The cast of a scenario. scope: where its effects are, as its program says; None: where it begins. Raises NotCast."""
    outside = scenario.environment
    if outside.scripted is not None:
        scripted = scripts_of(found(outside.scripted))
        if scripted is None:
            raise NotCast(f"{outside.scripted} is neither a ScriptedEnvironment nor an Exploration nor a workflow")
        return Cast(scripted.effects, scripted)
    declared = Environment(outside.name, scope or outside.scope)
    effects = {
        name: reserving(
            name,
            stated.built(),
            is_async=is_async,
            environment=declared,
            timeout=stated.timeout,
            replies=stated.replies,
            undone_under=None if stated.compensation is None else stated.compensation.built(),
        )
        for name, stated in outside.effects.items()
    }
    return Cast(effects)


def coloured_cast(scenario: Scenario, is_async: bool) -> Cast:
    """The cast, with the workflow of this colour at hand where a module has it. Raises NotCast."""
    cast = cast_of(scenario, is_async=is_async)
    if not isinstance(scenario.workflow, Module):
        return cast
    return cast.acting(imported(scenario.workflow.async_ if is_async else scenario.workflow.sync))


def imported(name: str | None) -> Workflow[..., Any]:
    """A workflow by `module:name`, or that of an Exploration. Raises NotCast with what is wrong."""
    if name is None:
        raise NotCast("its workflow has no form in this colour")
    there = found(name)
    there = there if isinstance(there, Workflow) else getattr(there, "workflow", None)
    if not isinstance(there, Workflow):
        raise NotCast(f"{name} is not a workflow")
    return there


def found(name: str) -> Any:
    """What a module has under a name. Raises NotCast."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise NotCast(f"{name} cannot be imported: {error}") from error


def scripts_of(there: Any) -> ScriptedEnvironment | None:
    """The scripts themselves, or those of an Exploration; of a workflow, what its effects' contracts say. Raises NotCast."""
    if isinstance(there, Workflow):
        return contracted(there)
    scripted = there if isinstance(there, ScriptedEnvironment) else getattr(there, "environment", None)
    return scripted if isinstance(scripted, ScriptedEnvironment) else None


def contracted(workflow: Workflow[..., Any]) -> ContractedEnvironment:
    """Every effect of a workflow, acted by its contract. Raises NotCast."""
    try:
        return ContractedEnvironment(workflow)
    except ValueError as error:
        advice = f"Say what its effects come to: exploration = Exploration({workflow.name}, ..., effects={{...}})."
        raise NotCast(f"{workflow.name} cannot be explored by its contracts alone: {error}. {advice}") from error


def _askable(made: Effect[..., Any]) -> Askable:
    return Askable(
        made.probe_body is not None, made.close_body is not None, microseconds(made.timeout), made.cancel_body is not None
    )
