"""Agreement: what must hold between the parts of an effect's definition.

Owns the refusals of definitions whose parts contradict each other: body, contract, companions, rejections. Builds nothing.
Invariant: whatever passes here can be driven by one driver and rebuilt from its stored arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from recovery.codec import Codec
from recovery.core.contracts import Contract, Kind, check
from recovery.core.errors import DefinitionError
from recovery.definitions.rejection import Rejection

if TYPE_CHECKING:
    from recovery.definitions.signature import Signature


def check_colour(name: str, of: Signature, is_async: bool, role: str) -> None:
    """A companion has its effect's colour, since one driver runs both."""
    if is_async != of.is_async:
        have, want = ("async def", "def") if is_async else ("def", "async def")
        raise refused(name, f"its {role} is `{have}` and its body is `{want}`", f"Make the {role} `{want}` too.", role)


def check_parameters(effect: str, of: Signature, parameters: Mapping[str, Codec[Any]], role: str) -> None:
    """A companion has its effect's parameters, by name and type."""
    given = {name: codec.type for name, codec in parameters.items()}
    wanted = {name: codec.type for name, codec in of.parameters.items()}
    odd = sorted(
        name for name in given.keys() | wanted.keys() if name not in given or name not in wanted or given[name] != wanted[name]
    )
    if odd:
        problem = f"its {role} and its body differ in the parameter {odd[0]!r}"
        raise refused(effect, problem, f"Give the {role} the effect's parameters, by name and type.", role)


def check_contract(contract: Any, name: str) -> None:
    """An effect states what its environment promises, if only that it promises nothing; and what it states can be true."""
    if isinstance(contract, Contract):
        check(contract)
        return
    bare = callable(contract)
    raise refused(
        name or (function_name(contract) if bare else "without a name"),
        "it has no contract",
        "Say what the environment promises: `@effect(contracts.Keyed(window=...))`, or `@effect(contracts.Opaque())` if nothing.",
    )


def check_is_effect(contract: Contract, name: str, role: str) -> None:
    """A read leaves nothing to find, to close or to undo."""
    if contract.kind is Kind.READ:
        raise refused(
            name, f"it only reads, and a read has no {role}", "Leave it out, or state the class of effect that it is.", role
        )


def rejections_by_name(rejects: Sequence[type[Rejection]], name: str) -> dict[str, type[Rejection]]:
    """Declared rejections by their stored names, which must differ."""
    found: dict[str, type[Rejection]] = {}
    for cls in rejects:
        if not (isinstance(cls, type) and issubclass(cls, Rejection)) or cls is Rejection:
            raise refused(
                name, f"{cls!r} in rejects= is not a subclass of Rejection", "Declare `class X(Rejection)` with its fields."
            )
        if found.setdefault(cls.name, cls) is not cls:
            raise refused(name, f"two rejections are named {cls.name!r}", "Give one of them another `name`.")
    return found


def function_name(fn: Any) -> str:
    return str(getattr(fn, "__name__", type(fn).__name__))


def refused(name: str, problem: str, advice: str, what: str = "effect") -> DefinitionError:
    return DefinitionError(what=what, name=name, problem=problem, advice=advice)
