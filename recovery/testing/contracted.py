"""Contracted environments: every effect of a workflow, acted by what its contract and its types say and by nothing else.

Owns what an effect comes to where nobody has said so. Must not call an effect's own functions. Invariant: a value is one that the effect could
have returned, and the same history gives the same values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recovery.core.contracts import Batch, Kind
from recovery.definitions.answer import Found
from recovery.definitions.batched import BatchCodec, Batched
from recovery.definitions.effect import Effect
from recovery.definitions.workflow import Workflow
from recovery.testing.examples import Examples
from recovery.testing.reaching import effects_of
from recovery.testing.scripted import ScriptedEnvironment


@dataclass(slots=True)
class Stated:
    """A script made from an effect's types: each time that it is carried out, the next example of what it returns. A read gives the same always."""

    effect: Effect[..., Any]
    made: int = 0
    examples: Examples = field(init=False)

    def __post_init__(self) -> None:
        outcome = self.effect.outcome
        self.examples = Examples(outcome.item if isinstance(outcome, BatchCodec) else outcome, self.effect.name)
        self()  # what has no example is said before anything is played
        self.made = 0

    def __call__(self, **arguments: Any) -> Any:
        if self.effect.contract.kind is not Kind.READ:
            self.made += 1
        known = self._stored(arguments)
        if self.effect.contract.batch is not Batch.PER_ITEM_RESULT:
            return self.examples.of(max(1, self.made), known)
        many = next((len(value) for value in arguments.values() if isinstance(value, list | tuple)), 1)
        return Batched(Found(self.examples.of(max(1, self.made) * 1000 + item, known)) for item in range(many))

    def _stored(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        codecs = self.effect.signature.parameters
        return {name: codecs[name].encode(value) for name, value in arguments.items()}


class ContractedEnvironment(ScriptedEnvironment):
    """In the place of real services, where nobody scripts them. Raises NoExample for an effect whose value nobody can make up."""

    def __init__(self, workflow: Workflow[..., Any]) -> None:
        self.stated = {effect: Stated(effect) for effect in effects_of(workflow).values()}
        super().__init__(self.stated, fresh=self._begin)

    def _begin(self) -> None:
        for stated in self.stated.values():
            stated.made = 0
