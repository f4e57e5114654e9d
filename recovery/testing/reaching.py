"""Reaching: which effects and children a workflow's code can come to, read from the code itself and without running it.

Owns the walk from a function to what it names. Must not call anything that it finds. Invariant: it follows names, containers and functions of
the packages that are the workflow's own, and stops at everything else, so that it ends and imports nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from recovery.definitions.effect import Bound, Effect
from recovery.definitions.workflow import Workflow

FOUND_MAX: Final = 10_000
"""Objects that are looked into. More is no workflow's code."""


def effects_of(workflow: Workflow[..., Any]) -> dict[str, Effect[..., Any]]:
    """By name: every effect that the workflow's function names, or one that it calls, and what undoes them. One that is only put together
    at run time is not among them. Raises ValueError for two of one name."""
    walk = _Walk(workflow.fn.__module__.partition(".")[0])
    walk.into(workflow)
    effects: dict[str, Effect[..., Any]] = {}
    for effect in walk.effects:
        if effects.setdefault(effect.name, effect) is not effect:
            raise ValueError(f"two effects are named {effect.name}")
    return effects


@lru_cache(maxsize=64)
def children_of(workflow: Workflow[..., Any]) -> tuple[Workflow[..., Any], ...]:
    """Every workflow that the workflow's function names, or one that it calls: those that it can start as children."""
    walk = _Walk(workflow.fn.__module__.partition(".")[0])
    walk.into(workflow)
    return tuple(one for one in walk.workflows if one is not workflow)


@dataclass(slots=True)
class _Walk:
    """package: the top-level name of what is looked into."""

    package: str
    effects: list[Effect[..., Any]] = field(default_factory=list)
    workflows: list[Workflow[..., Any]] = field(default_factory=list)
    _seen: dict[int, Any] = field(default_factory=dict)  # kept alive, so that an id stays one

    def into(self, there: Any, names: frozenset[str] = frozenset()) -> None:
        """names: what the code that came here asks of a module or an object."""
        waiting = [(there, names)]
        while waiting and len(self._seen) < FOUND_MAX:
            one, asked = waiting.pop()
            if isinstance(one, ModuleType):
                waiting += [(vars(one)[name], asked) for name in asked if name in vars(one)]
                continue
            if id(one) in self._seen:
                continue
            self._seen[id(one)] = one
            waiting += self._beyond(one)

    def _beyond(self, one: Any) -> Iterator[tuple[Any, frozenset[str]]]:
        match one:
            case Effect():
                self.effects.append(one)
                if one.compensated_by is not None:
                    yield one.compensated_by, frozenset()
            case Bound():
                yield one.effect, frozenset()
            case Workflow():
                self.workflows.append(one)
                yield one.fn, frozenset()
            case MethodType():
                yield one.__func__, frozenset()
            case FunctionType() if one.__module__.partition(".")[0] == self.package:
                yield from _named_by(one)
            case Mapping():
                yield from ((item, frozenset[str]()) for item in one.values())
            case list() | tuple() | set() | frozenset():
                yield from ((item, frozenset[str]()) for item in one)
            case type() if one.__module__.partition(".")[0] == self.package:
                yield from ((item, frozenset[str]()) for item in vars(one).values())


def _named_by(function: FunctionType) -> Iterator[tuple[Any, frozenset[str]]]:
    """What its code, and the code inside of that, takes from its globals, its closure and its defaults."""
    names = frozenset(_names(function.__code__))
    known = function.__globals__
    yield from ((known[name], names) for name in names if name in known)
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents, names
        except ValueError:  # it is not filled yet
            continue
    yield from ((item, names) for item in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
