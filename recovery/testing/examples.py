"""Examples: a value of a type, made from nothing but its JSON schema.

Owns what an example looks like. Knows no effects. Invariants: the same schema, name and number give the same value; an example has been
accepted by the type that it is of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from recovery.codec import Codec
from recovery.core.entries import JSON
from recovery.core.errors import ValueNotStorable

DEPTH_MAX: Final = 20
"""Of a value that holds others: a type that holds itself has examples without end."""

_FORMATS: Final[Mapping[str, str]] = {
    "date-time": "2030-01-01T00:00:00Z",
    "date": "2030-01-01",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "uuid": "00000000-0000-4000-8000-{number:012d}",
    "email": "{name}-{number}@example.org",
    "uri": "https://example.org/{name}/{number}",
    "decimal": "{number}",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
}


class NoExample(ValueError):
    """Of this type no example can be made. One sentence."""


@dataclass(frozen=True, slots=True)
class Examples:
    """Values of one type. name: what texts in it begin with."""

    codec: Codec[Any]
    name: str

    def of(self, number: int, known: Mapping[str, JSON] | None = None) -> Any:
        """The example of this number: texts and numbers in it differ from those of another one, as far as their types allow. known: values for
        fields of the same name, taken where the type takes them. Raises NoExample."""
        schema = self.codec.adapter.json_schema()
        made = _Making(schema.get("$defs", {}), self.name, number)
        plain = made.value(schema["prefixItems"][0], 0)
        echoed = (
            {**plain, **{name: value for name, value in (known or {}).items() if name in plain}}
            if isinstance(plain, dict)
            else plain
        )
        for candidate in (echoed, plain):
            try:
                return self.codec.parse(candidate, where=self.name, root="result")
            except ValueNotStorable as error:
                refused = error
        raise NoExample(f"{self.name} returns {self.codec.title}, of which no example can be made ({refused.problem})")


@dataclass(frozen=True, slots=True)
class _Making:
    """One example. definitions: schemas by name."""

    definitions: Mapping[str, Any]
    name: str
    number: int

    def value(self, schema: Mapping[str, Any], depth: int) -> JSON:
        if depth > DEPTH_MAX:
            raise NoExample(f"{self.name} returns a type that holds itself without an end")
        if "$ref" in schema:
            return self.value(self.definitions[schema["$ref"].rpartition("/")[2]], depth + 1)
        for given in ("const", "default"):
            if given in schema:
                return schema[given]
        if "enum" in schema:
            return schema["enum"][0]
        for choice in ("anyOf", "oneOf", "allOf"):
            if choice in schema:
                return self._first(schema[choice], depth)
        match schema.get("type"):
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "integer" | "number":
                return self._number(schema)
            case "boolean":
                return True
            case "null":
                return None
            case _:
                return self._text(schema)

    def _first(self, choices: Sequence[Mapping[str, Any]], depth: int) -> JSON:
        """Of several types the first, unless that is nothing at all."""
        return self.value(next((one for one in choices if one.get("type") != "null"), choices[0]), depth + 1)

    def _object(self, schema: Mapping[str, Any], depth: int) -> JSON:
        fields = schema.get("properties", {})
        return {name: self.value(fields[name], depth + 1) for name in schema.get("required", ())}

    def _array(self, schema: Mapping[str, Any], depth: int) -> JSON:
        if "prefixItems" in schema:
            return [self.value(item, depth + 1) for item in schema["prefixItems"]]
        many = max(1, schema.get("minItems", 0))
        return [self.value(schema.get("items", {}), depth + 1) for _ in range(many if schema.get("maxItems") != 0 else 0)]

    def _number(self, schema: Mapping[str, Any]) -> JSON:
        least = max(schema.get("minimum", 1), schema.get("exclusiveMinimum", 0) + (1 if "exclusiveMinimum" in schema else 0))
        most = min(schema.get("maximum", least + self.number), schema.get("exclusiveMaximum", least + self.number + 1) - 1)
        value = min(least + self.number - 1, most)
        of = schema.get("multipleOf")
        return value if of is None else -(-value // of) * of

    def _text(self, schema: Mapping[str, Any]) -> JSON:
        if (form := _FORMATS.get(schema.get("format", ""))) is not None:
            return form.format(name=self.name, number=self.number)
        text = f"{self.name}-{self.number}".ljust(schema.get("minLength", 0), "x")
        return text[-schema["maxLength"] :] if "maxLength" in schema else text
