"""Place: where in a database the tables of a journal are, and every statement told of them there.

Owns the names of a place (a schema of PostgreSQL, a prefix of the tables' names) and the one translation of statements. Statements are written over the tables
of `schema`, which are those of a place without either. Knows nothing of connections. Invariant: a statement that is carried out at a place
names no table of another one, and one that names none of ours is left as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.sql.schema import SchemaConst
from sqlalchemy.sql.visitors import replacement_traverse

from recovery.storage.schema import metadata, version

S = TypeVar("S", bound=sa.ClauseElement)

SCHEMA_MAX: Final = 63
"""Characters: what PostgreSQL keeps of a name."""
PREFIX_MAX: Final = 24
"""Characters: with the longest name of a table, constraint or index behind it, it is still a name that PostgreSQL keeps whole."""

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")
_OURS: Final = (*metadata.tables.values(), version)
_BETWEEN: Final = {long.name.removesuffix(short.name) for long in _OURS for short in _OURS if long.name.endswith(short.name)} - {""}
"""What one name of ours begins with where another one is its end: behind a prefix that ends so, the short one is the long one without."""
_TEMPLATES: Final[WeakKeyDictionary[sa.ClauseElement, str]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Place:
    """`schema`: of PostgreSQL; "" is whatever the connection's search path finds first. `prefix`: in front of the name of each table, index and constraint."""

    schema: str = ""
    prefix: str = ""

    def __bool__(self) -> bool:
        return bool(self.schema or self.prefix)

    def named(self, name: str) -> str:
        """What a table, an index or a constraint is called here."""
        return f"{self.prefix}{name}"

    def problem(self) -> str:
        """What is wrong with its names; "" for nothing. They are plain, so that no tool has to quote them."""
        for what, name, longest in (("schema", self.schema, SCHEMA_MAX), ("table_prefix", self.prefix, PREFIX_MAX)):
            if name and (len(name) > longest or not _NAME.fullmatch(name)):
                return f"{what} is not 1 to {longest} small letters of ASCII, digits and _, the first one no digit"
        if self.schema.startswith("pg_") or self.schema == "information_schema":
            return f"schema {self.schema} is one that PostgreSQL keeps for itself"
        if self.prefix.startswith("sqlite_"):
            return "table_prefix begins with sqlite_, which SQLite keeps for itself"
        if self.prefix.endswith(tuple(_BETWEEN)):
            return f"table_prefix ends with {' or '.join(sorted(_BETWEEN))}, where tables of two places could have one name"
        return ""


class Tables:
    """Our tables at one place."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._names = {table.name: _written(place, table.name) for table in _OURS}
        self._instead = _instead(place) if place else {}  # to copy the tables costs a command a third of its time
        self._told: WeakKeyDictionary[sa.ClauseElement, sa.ClauseElement] = WeakKeyDictionary()

    def statement(self, statement: S) -> S:
        """The same over the tables of this place. Asked again, it is the same object, so that nothing compiles it twice."""
        if not self.place:
            return statement
        told = self._told.get(statement)
        if told is None:
            told = self._told[statement] = self._translated(statement)
        return told  # type: ignore[return-value]  # of the kind that it was

    def written(self, template: str) -> str:
        """A statement in SQL that says `{run}` where it names the table `run`, as it is said here."""
        return template.format_map(self._names)

    def _translated(self, statement: sa.ClauseElement) -> Any:
        if (template := _TEMPLATES.get(statement)) is not None:
            return sa.text(self.written(template)).bindparams(*getattr(statement, "_bindparams", {}).values())
        return replacement_traverse(statement, {}, lambda element, **_: self._instead.get(element) if _may_be(element) else None)

    def listen(self, engine: sa.Engine) -> None:
        """Have everything that is executed through `engine` told of this place."""
        if self.place:
            event.listen(engine, "before_execute", self._before, retval=True)

    def _before(self, _connection: Any, statement: Any, many: Any, parameters: Any, _options: Any) -> tuple[Any, Any, Any]:
        return self.statement(statement), many, parameters


def _instead(place: Place) -> dict[Any, Any]:
    """What stands at a place instead of each table and each column."""
    there = sa.MetaData()
    tables = {
        table: table.to_metadata(there, schema=place.schema or SchemaConst.RETAIN_SCHEMA, name=place.named(table.name))
        for table in _OURS
    }
    return dict(tables) | {column: tables[table].c[column.name] for table in _OURS for column in table.c}


@cache
def tables_at(place: Place) -> Tables:
    return Tables(place)


def text(template: str, *parameters: sa.BindParameter[Any]) -> sa.TextClause:
    """A statement in SQL that says `{run}` where it names the table `run`."""
    names = {table.name: table.name for table in _OURS}
    statement = sa.text(template.format_map(names)).bindparams(*parameters)
    _TEMPLATES[statement] = template
    return statement


def _written(place: Place, name: str) -> str:
    table = f'"{place.named(name)}"'
    return f'"{place.schema}".{table}' if place.schema else table


def _may_be(element: object) -> bool:
    return isinstance(element, sa.Table | sa.Column)
