"""A clock that a test has frozen: what stands in for `datetime` and `date` meanwhile, and the types that it stands for.

Owns the knowledge that freezegun puts subclasses of its own in their place, in values and wherever a name is resolved while it is active.
Imports no freezegun. Invariant: a type in which nothing stands in is given back as it is.
"""

from __future__ import annotations

import operator
import sys
from functools import reduce
from types import GenericAlias, UnionType
from typing import Any, Final, get_args

STAND_INS: Final = "freezegun.api"


def thawed(type_: Any) -> Any:
    """`type_` with `datetime` and `date` themselves where their stand-ins were, inside unions, `Annotated` and generics too."""
    if "freezegun" not in sys.modules:
        return type_
    if isinstance(type_, type) and type_.__module__ == STAND_INS:
        return type_.__mro__[1]
    args = get_args(type_)
    real = tuple(thawed(arg) for arg in args)
    if all(one is other for one, other in zip(args, real, strict=True)):
        return type_
    if isinstance(type_, UnionType):
        return reduce(operator.or_, real)
    if isinstance(type_, GenericAlias):
        origin: Any = type_.__origin__
        return origin[real]
    annotated = hasattr(type_, "__metadata__")  # whose own arguments are one type and what is said about it
    return type_.copy_with(real[:1] if annotated else real)
