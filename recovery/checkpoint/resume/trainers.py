"""Trainers as they are verified: how one is made, stepped, captured and restored; and how another process finds it.

Owns the protocol of a user's trainer and the names of its functions. Must not know what is compared. Invariant: a function that another
process is told to call is found there by the name that it has here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Protocol

from recovery.checkpoint.errors import TrainerRefused
from recovery.checkpoint.learning import Learning


class Trainer(Protocol):
    """A training run with a state of its own."""

    def capture(self) -> Learning:
        """The whole state between two updates. Changes nothing; draws nothing."""
        ...

    def restore(self, state: Learning) -> None:
        """Continue from that state: the next update is the one that followed its capture. Generators last."""


Make = Callable[[], Trainer]
"""A run at its beginning: every call gives the same one."""

Step = Callable[[Any], object]
"""One update of a trainer that `make` made. What it returns is not looked at."""


def name_of(function: Make | Step | str, what: str) -> str:
    """MODULE:FUNCTION. Raises TrainerRefused for a function that another process could not import."""
    if isinstance(function, str):
        module, colon, attribute = function.partition(":")
        if not (module and colon and attribute):
            raise TrainerRefused(
                what=what, name=function, problem="it is not written MODULE:FUNCTION", advice="Write it like that."
            )
        return function
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if not module or not name or "<" in name:
        advice = "Define it at the top of a module, or compare in this process: fresh_process=False."
        raise TrainerRefused(what=what, name=name or repr(function), problem="another process could not import it", advice=advice)
    if module == "__main__":
        advice = "Move it into a module of its own, or compare in this process: fresh_process=False."
        raise TrainerRefused(what=what, name=name, problem="it is defined in the script that is running", advice=advice)
    return f"{module}:{name}"


def function_of(name: Make | Step | str, what: str) -> Callable[..., Any]:
    """The function of that name. Raises TrainerRefused where there is none, and what importing its module raises."""
    if not isinstance(name, str):
        return name
    module, _, attribute = name_of(name, what).partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        problem, advice = f"there is no module {error.name!r}", "Run it where that module can be imported, or correct the name."
        raise TrainerRefused(what=what, name=name, problem=problem, advice=advice) from error
    except AttributeError as error:
        raise TrainerRefused(
            what=what, name=name, problem=f"module {module} has no {attribute}", advice="Correct the name."
        ) from error
    if not callable(found):
        raise TrainerRefused(what=what, name=name, problem="it cannot be called", advice="Name a function.")
    return found  # type: ignore[no-any-return]
