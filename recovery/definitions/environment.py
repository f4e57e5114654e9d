"""Environments: the outside systems that effects change, each in a scope.

Owns the asking for a scope, and how an environment lists its receipts. Knows no effect. Invariant: whatever a scope's function does, a caller
hears of a scope that can be kept, or of a configuration to correct: nothing was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from recovery.core.errors import DefinitionError, ScopeUnknown
from recovery.core.ids import check_scope
from recovery.core.limits import Rate
from recovery.core.wording import of_type
from recovery.definitions.listing import ReceiptRow
from recovery.definitions.replies import error_name, message_of
from recovery.definitions.signature import check_name

Listing: TypeAlias = Callable[[datetime | None], Iterable[ReceiptRow] | Coroutine[Any, Any, Iterable[ReceiptRow]]]
L = TypeVar("L", bound=Listing)


@dataclass(frozen=True, slots=True)
class Environment:
    """The outside system that an effect changes.

    scope: the account, region, endpoint or credential's view, as a string or as a function that is asked at each intent.
    One key means one effect within (environment, scope).
    rate: how many attempts may be made in a time, over all workers of a database, in each scope; None: as many as come.
    """

    name: str
    scope: str | Callable[[], str] = ""
    rate: Rate | None = None
    listing: Listing | None = field(default=None, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_name("environment", self.name)
        if self.rate is not None and not isinstance(self.rate, Rate):
            problem = f"its rate is {of_type(self.rate)}"
            advice = "Pass Rate(50, per=timedelta(seconds=1))."
            raise DefinitionError(what="environment", name=self.name, problem=problem, advice=advice)
        if not callable(self.scope):
            check_scope(self.name, self.scope)

    def current_scope(self) -> str:
        """Raises InvalidName for what a database cannot keep, and ScopeUnknown where its function raises."""
        if isinstance(self.scope, str):
            return self.scope
        try:
            scope = self.scope()
        except Exception as error:  # a user's function may raise anything: the scope is unknown, and nothing was sent
            raise ScopeUnknown(environment=self.name, error=error_name(error), message=message_of(error)) from error
        return check_scope(self.name, scope)

    def receipts(self, fn: L, /) -> L:
        """Define how to list the environment's receipts, read-only: `(since: datetime | None) -> rows`, or an `async def` of it.

        `recover orphans` asks it after a restore. It may give more than what was asked for; rows of before `since` are left out.
        Raises DefinitionError for a second one."""
        if self.listing is not None:
            problem = "it lists its receipts already"
            raise DefinitionError(what="environment", name=self.name, problem=problem, advice="Define one listing.")
        object.__setattr__(self, "listing", fn)  # defined once, like the companions of an effect
        return fn
