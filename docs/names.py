"""The page of names in Python: what of the package's classes a user may call, and what that returns.

A name is shown because it is in a public `__all__`, or because a method that is shown returns it. Invariant: whatever is shown says what it is.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import Field, fields, is_dataclass
from enum import StrEnum
from importlib import import_module
from types import FunctionType
from typing import Any, get_args, get_origin, get_type_hints

import recovery
from docs.markdown import members, prose, signature, summary, table
from recovery.core import contracts
from recovery.engine.wiring import Wiring

CONSTRUCTORS: tuple[Callable[..., contracts.Contract], ...] = (
    contracts.Read,
    contracts.Keyed,
    contracts.Swallow,
    contracts.FirstSent,
    contracts.Named,
    contracts.CoTransactional,
    contracts.Prepared,
    contracts.Probeable,
    contracts.Opaque,
)


API: dict[str, tuple[str, ...]] = {
    "Engines": ("Engine", "AsyncEngine", "Budget", "Lease", "Queue", "Rate"),
    "Definitions": ("effect", "Effect", "Bound", "Environment", "Call", "Rejection", "workflow", "Workflow"),
    "In a workflow": ("Run", "AsyncRun", "Applied", "Rejected", "Batched"),
    "Answers": (
        "Answer", "Found", "Refused", "Accepted", "Absent", "InFlight", "Gone", "Foreign", "Mismatch", "Closed", "Expired",
        "Indeterminate", "Unreachable", "TurnedAway", "NotSent", "ReplyWas",
    ),
    "Reports": ("Recovered", "RunInfo", "StepVerdict", "Receipt", "Contradiction", "Proposal", "ParkingReason", "Status", "RestsFor"),
}  # fmt: skip
"""The public names by what one looks for; those that are in no section come last."""

FACES: dict[str, tuple[str, ...]] = {
    "Effect": ("__call__", "parse", "json_schema", "probe", "close", "compensation"),
    "Bound": ("arguments",),
    "BoundWorkflow": (),
    "Environment": ("receipts",),
    "Queue": (),
    "Retry": (),
    "Workflow": ("__call__", "migrates"),
    "checkpoint.BackgroundSaver": ("save", "busy", "wait", "close"),
    "checkpoint.JournalPosition": (),
    "checkpoint.Manifest": ("name", "schema", "total_bytes"),
    "checkpoint.Parts": ("load_slice", "load_slices"),
    "checkpoint.Sharded": ("writer",),
    "encryption.Keyring": ("from_environment", "from_file"),
}
"""What users call of the classes whose other methods are for the package."""

INSIDE: dict[str, frozenset[str]] = {
    "Engine": (
        engine := frozenset({
            "allowed", "built_in", "clock", "flush", "identify", "info", "listings", "new_token", "opened", "priority_in", "proven_dead",
            "surroundings", "world",
        })
    ),
    "AsyncEngine": engine,
    "checkpoint.CheckpointStore": frozenset({"looked", "names", "nothing", "of_kind", "shop", "write"}),
}  # fmt: skip
"""Methods for the package itself, of classes whose other ones are for users."""

STORED = frozenset({"document", "from_json", "to_bytes", "to_json"})
"""How the package keeps a value: of no class for users."""

MADE = frozenset({
    "AsyncChild", "AsyncEmployed", "AsyncRun", "Bound", "BoundWorkflow", "Child", "Deadline", "Effect", "Employed", "Rejection", "Run", "Saga", "AsyncSaga",
    "Workflow", "checkpoint.Capture", "checkpoint.Parts", "checkpoint.ShardWriter", "checkpoint.Sharded",
})  # fmt: skip
"""What is made for people, who never call the class itself."""

PACKAGES = {
    "recovery.receipts": "The environment's side, usable alone: [keep receipts in your service](../how-to/keep-receipts-in-your-service.md). Its refusals are among the [errors](errors.md).",
    "recovery.checkpoint": "Needs the extra `checkpoint`: [checkpoints](../explanation/checkpoints.md). `ObjectCheckpoints` needs `objects`, too, so that `import *` leaves it out.",
    "recovery.encryption": "Needs the extra `encryption`: [encrypt a journal](../how-to/encrypt-a-journal.md).",
}
"""Public packages beside `recovery` itself, with what is said of them."""

RETURNED = (
    ("recovery.engine.employing", "Employed"),
    ("recovery.engine.employing", "AsyncEmployed"),
    ("recovery.definitions.saga", "Saga"),
    ("recovery.definitions.saga", "AsyncSaga"),
)
"""What is returned with methods of its own, and nobody makes."""

RETURNS = (
    "The package makes them; their names are not in `recovery`. Times in `_us` are microseconds since the Unix epoch, lengths in `_us` are microseconds. "
    "The entries of a run's journal, which `history` gives: [values](values.md)."
)

TELLING = ("recovery.operators.", "recovery.engine.", "recovery.ports.", "recovery.storage.listing")
"""Where the reports are that engines return. What such a report holds of the core besides is for the console."""


def api_page() -> str:
    lines = [
        "# Names in Python",
        "",
        "Everything in `recovery.__all__` that is for users, and what engines return, with its signature and what it says of itself. Durations are `timedelta`, times are `datetime` with a",
        "time zone. What each error means: [errors](errors.md). The fields of contracts: [contracts](contracts.md).",
        "",
    ]
    placed = {name for names in API.values() for name in names} | {"contracts", "errors"}
    others = tuple(name for name in recovery.__all__ if name not in placed)
    for title, names in (API | ({"Others": others} if others else {})).items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += _api(name, getattr(recovery, name))
    lines += ["## What engines return", "", RETURNS, ""]
    for module, name in RETURNED:
        lines += _api(name, getattr(import_module(module), name))
    for report in reports():
        lines += _api(_heading(report), report)
    lines += [
        "## Contracts",
        "",
        "In `recovery.contracts`. Arguments that are not given are named among a verdict's assumptions.",
        "",
    ]
    for build in CONSTRUCTORS:
        lines += [f"### contracts.{build.__name__}", "", *signature(f"contracts.{build.__name__}", build), summary(build), ""]
    for module, what in PACKAGES.items():
        package = import_module(module)
        short = module.removeprefix("recovery.")
        lines += [f"## {module}", "", what, ""]
        for name in sorted(package.__all__, key=str.lower):
            value = getattr(package, name)
            if not (isinstance(value, type) and issubclass(value, Exception)):
                lines += _api(f"{short}.{name}", value)
    return "\n".join(lines)


def reports() -> list[type]:
    """What the methods of an engine return, and what that holds, by name."""
    known = {name: getattr(recovery, name) for name in recovery.__all__}
    found: set[type] = set()

    def look(hint: Any) -> None:
        for part in get_args(hint):
            look(part)
        if (
            is_dataclass(hint)
            and isinstance(hint, type)
            and hint.__module__.startswith(TELLING)
            and known.get(hint.__name__) is not hint
            and hint not in found
        ):
            found.add(hint)
            for inner in get_type_hints(hint, localns=known).values():
                look(inner)

    for method in face("Engine", recovery.Engine):
        value = inspect.getattr_static(recovery.Engine, method)
        if isinstance(value, FunctionType):
            look(get_type_hints(value, localns=known)["return"])
    return sorted(found, key=lambda report: report.__name__)


def _heading(report: type) -> str:
    """Its name, or where it is from, where `recovery` has something else of that name."""
    module = report.__module__.split(".")[1]
    return f"{module}.{report.__name__}" if hasattr(recovery, report.__name__) else report.__name__


def _api(name: str, value: Any) -> list[str]:
    if not isinstance(value, type) and get_args(value):
        return [f"### {name}", "", "One of: " + ", ".join(f"`{_origin(item)}`" for item in get_args(value)) + ".", ""]
    if isinstance(value, type) and issubclass(value, StrEnum):
        return [f"### {name}", "", *table(("value", "meaning"), members(value)), ""]
    if not callable(value):
        return [f"### {name}", "", f"`{value!r}`", ""]
    lines = [f"### {name}", "", *([] if name in MADE else signature(name, value)), prose(value), ""]
    if isinstance(value, type):
        if issubclass(value, Wiring):
            lines += [prose(Wiring), ""]
        if name in MADE and is_dataclass(value):
            lines += [f"`{name}.{field.name}`: {field.type}.\n" for field in fields(value) if _is_told(field)]
        for method in face(name, value):
            lines += _method(name, method, inspect.getattr_static(value, method))
    return lines


def _is_told(field: Field[Any]) -> bool:
    return not field.name.startswith("_") and field.repr and field.name not in {"effect", "workflow", "stored"}


def face(name: str, cls: type) -> list[str]:
    """The methods and properties that are for users."""
    if name in FACES:
        return list(FACES[name])
    own = [of for of in cls.__mro__ if of.__module__.startswith("recovery.") and of is not recovery.errors.RecoveryError]
    found = dict.fromkeys(method for of in own for method in vars(of) if not method.startswith("_"))
    return [
        method
        for method in found
        if method not in INSIDE.get(name, STORED)
        and isinstance(inspect.getattr_static(cls, method), FunctionType | property | classmethod)
    ]


def _method(name: str, method: str, value: Any) -> list[str]:
    what = prose(value.fget if isinstance(value, property) else value)
    if re.fullmatch(r"As Engine\.\w+\.", what):
        return [f"`async {name}.{method}`: as `Engine.{method}`.", ""]
    if isinstance(value, property):
        return [f"`{name}.{method}`: a property. {what}".strip(), ""]
    shown = name if method == "__call__" else f"{name}.{method}"
    function = value.__func__ if isinstance(value, classmethod) else value
    return [*signature(shown, function, bound=True), *([what, ""] if what else [])]


def _origin(item: Any) -> str:
    return str(getattr(get_origin(item) or item, "__name__", item))
