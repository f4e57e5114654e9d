"""The page of names in Python shows what users may call: each name says what it is, and none asks for what only the package has."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from importlib import import_module
from typing import Any

import recovery
from docs import names

GIVEN = frozenset(
    {"Clock", "Compared", "Disk", "Epoch", "Journal", "JournalLink", "OutcomeKind", "Slot", "Source", "Vault", "Watch"}
)
"""Types of parameters that are in no public `__all__`: what a program may put in another one's place, and words of a closed vocabulary."""


def shown() -> Iterator[tuple[str, Any]]:
    yield from ((name, getattr(recovery, name)) for name in recovery.__all__)
    for module in names.PACKAGES:
        package = import_module(module)
        yield from ((f"{module.removeprefix('recovery.')}.{name}", getattr(package, name)) for name in package.__all__)
    yield from ((name, getattr(import_module(module), name)) for module, name in names.RETURNED)
    yield from ((report.__name__, report) for report in names.reports())


def classes() -> Iterator[tuple[str, type]]:
    for name, value in shown():
        if isinstance(value, type) and not issubclass(value, Exception | StrEnum):
            yield name, value


def methods() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, cls in classes():
        for method in names.face(name, cls):
            value = inspect.getattr_static(cls, method)
            yield f"{name}.{method}", value.fget if isinstance(value, property) else getattr(value, "__func__", value)


def foreign(function: Callable[..., Any], known: frozenset[str]) -> Iterator[str]:
    """The classes of the package that a call has to bring along and that are not known."""
    for name, hint in function.__annotations__.items():
        for word in re.findall(r"[A-Za-z_]\w*", str(hint)) if name != "return" else ():
            value = vars(sys.modules[function.__module__]).get(word)
            if isinstance(value, type) and value.__module__.startswith("recovery") and word not in known:
                yield word


def test_what_is_shown_says_what_it_is() -> None:
    assert [name for name, function in methods() if not (function.__doc__ or "").strip()] == []
    assert [name for name, cls in classes() if not cls.__doc__ or cls.__doc__.startswith(f"{cls.__name__}(")] == []


def test_nothing_shown_asks_for_what_only_the_package_has() -> None:
    known = frozenset(name.rpartition(".")[2] for name, _ in shown()) | GIVEN
    assert [f"{name}: {word}" for name, function in methods() for word in foreign(function, known)] == []


def test_the_scan_sees_what_only_the_package_has() -> None:
    from recovery.definitions.child import BoundWorkflow

    assert set(foreign(BoundWorkflow.start_is_owed, GIVEN)) == {"Body"}


def test_what_is_left_out_is_there() -> None:
    """A method that was renamed would be shown again, and its old name left out for ever."""
    of = dict(shown())
    left_out = [(name, method) for faces in (names.INSIDE, names.FACES) for name, each in faces.items() for method in each]
    assert [f"{name}.{method}" for name, method in left_out if not hasattr(of[name], method)] == []
    assert {name for name in names.MADE if name not in of} == set()


def test_what_an_engine_returns_is_shown() -> None:
    assert {"Doubts", "Doubt", "Plan", "PlannedStep", "Verified", "Scheduled", "Enqueued"} <= {
        each.__name__ for each in names.reports()
    }
