"""The registry: definitions by name, for whoever reads names out of a journal.

Owns that a name means one definition. Invariant: nothing here imports code by a name found in a database.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from recovery.core.contracts import Kind
from recovery.core.errors import DefinitionError
from recovery.definitions.effect import Effect
from recovery.definitions.workflow import Workflow


class Registry:
    """Workflows and effects by name. Compensations are registered with their effects. Raises DefinitionError."""

    def __init__(self, *, workflows: Iterable[Workflow[..., Any]] = (), effects: Iterable[Effect[..., Any]] = ()) -> None:
        self.workflows: dict[str, Workflow[..., Any]] = {}
        self.effects: dict[str, Effect[..., Any]] = {}
        for workflow in workflows:
            self.add_workflow(workflow)
        for effect in effects:
            self.add_effect(effect)

    def add_workflow(self, workflow: Workflow[..., Any]) -> None:
        """Register a workflow. Registering the same one again changes nothing."""
        if not isinstance(workflow, Workflow):
            raise _refused(
                "workflow", getattr(workflow, "__name__", repr(workflow)), "it is not a workflow", "Decorate it with @workflow."
            )
        if self.workflows.setdefault(workflow.name, workflow) is not workflow:
            raise _refused("workflow", workflow.name, "two workflows have this name", "Pass name= to one of them.")

    def add_effect(self, effect: Effect[..., Any]) -> None:
        """Register an effect, complete with what its contract promises. The same one again changes nothing."""
        if not isinstance(effect, Effect):
            raise _refused(
                "effect", getattr(effect, "__name__", repr(effect)), "it is not an effect", "Decorate it with @effect(contract)."
            )
        if self.effects.setdefault(effect.name, effect) is not effect:
            raise _refused("effect", effect.name, "two effects have this name", "Pass name= to one of them.")
        check_complete(effect)
        if effect.compensated_by is not None:
            self.add_effect(effect.compensated_by)


def check_complete(effect: Effect[..., Any]) -> None:
    """An effect has the bodies that its contract relies on. Known only once its module has been read to the end."""
    contract = effect.contract
    if effect.probe_body is None and (contract.lookup is not None or contract.kind is Kind.PROBEABLE):
        problem = "its contract promises a look-up, and it has no probe"
        raise _refused(
            "effect", effect.name, problem, f"Define one with `@{effect.name}.probe`, or take the look-up out of the contract."
        )
    if effect.close_body is None and contract.close:
        problem = "its contract promises a close, and it has none"
        raise _refused("effect", effect.name, problem, f"Define one with `@{effect.name}.close`, or take it out of the contract.")
    if effect.cancel_body is None and contract.cancel_by_key:
        problem = "its contract promises a cancel by key, and it has none"
        raise _refused("effect", effect.name, problem, f"Define one with `@{effect.name}.cancel`, or take it out of the contract.")


def _refused(what: str, name: str, problem: str, advice: str) -> DefinitionError:
    return DefinitionError(what=what, name=name, problem=problem, advice=advice)
