"""The registry: definitions by name, for whoever reads names out of a journal.

Owns that a name means one definition. Invariant: nothing here imports code by a name found in a database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from recovery.core.contracts import Kind
from recovery.core.errors import DefinitionError
from recovery.definitions.child import BoundWorkflow
from recovery.definitions.effect import Effect
from recovery.definitions.workflow import Workflow


class Workflows(Mapping[str, Workflow[..., Any]]):
    """Workflows by name. A name stands for the version that was registered last, which new runs start with; `of` finds the others."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[str, Workflow[..., Any]]] = {}
        self._built_in: dict[str, Callable[[], Workflow[..., Any]]] = {}

    def build_in(self, workflows: Mapping[str, Callable[[], Workflow[..., Any]]]) -> None:
        """Know workflows of the engine's own, by name: each is made when it is asked for, and none is listed."""
        self._built_in |= workflows

    @property
    def names(self) -> tuple[str, ...]:
        """What can be run by name, those of the engine's own included."""
        return (*self._versions, *self._built_in)

    def __getitem__(self, name: str) -> Workflow[..., Any]:
        if name in self._built_in:
            return self._built_in[name]()
        return next(reversed(self._versions[name].values()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._versions)

    def __len__(self) -> int:
        return len(self._versions)

    def of(self, name: str, version: str) -> Workflow[..., Any] | None:
        """What a run of this version goes on with: its own version, else the one that was registered last. None: no such workflow."""
        if name in self._built_in:
            return self[name]
        versions = self._versions.get(name)
        return None if versions is None else versions.get(version) or self[name]

    def every(self) -> list[Workflow[..., Any]]:
        """All versions of all workflows, in the order in which they were registered."""
        return [workflow for versions in self._versions.values() for workflow in versions.values()]

    def add(self, workflow: Workflow[..., Any]) -> bool:
        """Whether it is known now; False if another one has its name and version."""
        return self._versions.setdefault(workflow.name, {}).setdefault(workflow.version, workflow) is workflow


class Registry:
    """Workflows and effects by name. Compensations are registered with their effects. Raises DefinitionError."""

    def __init__(self, *, workflows: Iterable[Workflow[..., Any]] = (), effects: Iterable[Effect[..., Any]] = ()) -> None:
        self.workflows = Workflows()
        self.effects: dict[str, Effect[..., Any]] = {}
        for workflow in workflows:
            self.add_workflow(workflow)
        for effect in effects:
            self.add_effect(effect)

    def add_workflow(self, workflow: Workflow[..., Any]) -> None:
        """Register a workflow, or a further version of one. Registering the same one again changes nothing."""
        if isinstance(workflow, BoundWorkflow):
            name, advice = (
                workflow.workflow.name,
                "Give the workflow and behind it its arguments: `engine.run(run_id, order, 'screw')`.",
            )
            raise _refused("workflow", name, "it was called where it is to be given", advice)
        if not isinstance(workflow, Workflow):
            raise _refused(
                "workflow", getattr(workflow, "__name__", repr(workflow)), "it is not a workflow", "Decorate it with @workflow."
            )
        if not self.workflows.add(workflow):
            problem = f"two workflows have this name and version {workflow.version!r}"
            raise _refused("workflow", workflow.name, problem, "Pass name= or version= to one of them.")

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
    if effect.complete:
        return
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
    effect.complete = True


def _refused(what: str, name: str, problem: str, advice: str) -> DefinitionError:
    return DefinitionError(what=what, name=name, problem=problem, advice=advice)
