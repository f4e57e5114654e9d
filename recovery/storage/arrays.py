"""Arrays: rows of values for one statement on PostgreSQL, which it takes as an array for each column, or as one JSON text for all of them.

Owns how a statement reads them in either way, and how the server itself writes arrays. They take this side half of what JSON texts do, and a server a tenth less, but only where they are
said below the driver: its own adaptation of them takes twice as long as JSON. Knows no statement.
Invariant: a value comes out as it went in, whatever is in it; a text with a zero, which no server can store, is refused by the server.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from recovery.storage.place import text

Kind: TypeAlias = str
"""PostgreSQL's name of a type: one of those below."""
Rows: TypeAlias = Sequence[Sequence[Any]]

bigint: Final = struct.Struct("!q").pack
_HEAD: Final = struct.Struct("!iiIii").pack  # dimensions, whether NULL may come, type, length, number of the first
_BIGINT, _TEXT, _BOOLEAN = 20, 25, 16  # as pg_type numbers them, on every server
_length: Final = struct.Struct("!i").pack
_of_length: Final = struct.Struct("!iq").pack
_NULL: Final = _length(-1)
_TRUE, _FALSE = b"\0\0\0\1\1", b"\0\0\0\1\0"


class Columns:
    """What the rows of one source in a statement are: `alias` there, and the names of its columns, by their kind and with spaces between.

    names: in the order that rows have. arrays, recordset: what the statement says to read them in one way and in the other.
    """

    def __init__(self, alias: str, **columns: str) -> None:
        named = [(name, kind) for kind, names in columns.items() for name in names.split()]
        self.names = [name for name, _ in named]
        self._alias = alias
        self._kinds: dict[str, Kind] = {f"{alias}_{name}": kind for name, kind in named}
        values = ", ".join(f"CAST(:{name} AS {kind}[])" for name, kind in self._kinds.items())
        self.arrays = f"unnest({values}) AS {alias} ({', '.join(self.names)})"
        self.recordset = f"json_to_recordset(CAST(:{alias} AS json)) AS {alias} ({', '.join(map(' '.join, named))})"

    def as_arrays(self, rows: Rows) -> dict[str, bytes]:
        """What is said with `arrays`, by name, in binary form."""
        columns = zip(*rows, strict=True) if rows else [()] * len(self.names)
        return {name: _ENCODED[kind](column) for (name, kind), column in zip(self._kinds.items(), columns, strict=True)}

    def as_json(self, rows: Rows) -> dict[str, str]:
        """What is said with `recordset`, by name."""
        return {self._alias: json.dumps([dict(zip(self.names, row, strict=True)) for row in rows])}


class Many:
    """A statement about the rows of several sources, each of which its template names as `:name`.

    bare: to be said below the driver with `as_arrays`, `core`: through Core with `as_json`.
    """

    def __init__(self, template: str, **sources: Columns) -> None:
        self.template, self.sources = template, sources
        self.bare = text(self._over({name: columns.arrays for name, columns in sources.items()}))
        self.core = text(self._over({name: columns.recordset for name, columns in sources.items()}))

    def as_arrays(self, rows: Mapping[str, Rows]) -> dict[str, bytes]:
        return {name: said for source, of in rows.items() for name, said in self.sources[source].as_arrays(of).items()}

    def as_json(self, rows: Mapping[str, Rows]) -> dict[str, str]:
        return {name: said for source, of in rows.items() for name, said in self.sources[source].as_json(of).items()}

    def _over(self, sources: Mapping[str, str]) -> str:
        template = self.template
        for name, source in sources.items():
            template = template.replace(f":{name}", source)
        return template


def _texts(column: Sequence[str]) -> bytes:
    parts = [_length(len(part)) + part for part in map(str.encode, column)]
    return _HEAD(1, 0, _TEXT, len(parts), 1) + b"".join(parts)


def _bigints(column: Sequence[int | None]) -> bytes:
    parts = [_NULL if number is None else _of_length(8, number) for number in column]
    return _HEAD(1, 1, _BIGINT, len(parts), 1) + b"".join(parts)


def _booleans(column: Sequence[bool]) -> bytes:
    return _HEAD(1, 0, _BOOLEAN, len(column), 1) + b"".join([_TRUE if each else _FALSE for each in column])


_ENCODED: Final[dict[Kind, Callable[[Sequence[Any]], bytes]]] = {"text": _texts, "bigint": _bigints, "boolean": _booleans}
