"""Undated values: where in a stored value that says no version the models of its type stand.

Owns the walk along a core schema and a JSON tree at once. Knows neither versions nor upcasters. Invariant: where a place has several readings
nothing in it is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final


class Current(dict[str, Any]):
    """The JSON of a value that said its version, brought up to date: whatever does not fit in it, no guess does."""


_WRAPPERS: Final = frozenset({"function-before", "function-after", "function-wrap", "default", "nullable"})


class Dating:
    """A walk along a core schema and a JSON tree at once. Where both have several readings, it goes no further."""

    def __init__(self, update: Callable[[type, dict[str, Any]], Any]) -> None:
        """update: what becomes of the object that stands for a model or dataclass."""
        self._update = update
        self._definitions: dict[str, Any] = {}

    def walked(self, schema: Any, tree: Any) -> Any:
        if isinstance(tree, Current):
            return tree
        match schema.get("type"):
            case "definitions":
                self._definitions |= {part["ref"]: part for part in schema["definitions"] if "ref" in part}
                return self.walked(schema["schema"], tree)
            case "definition-ref":
                return self.walked(self._definitions.get(schema["schema_ref"], {}), tree)
            case "model" | "dataclass":
                if isinstance(tree, dict):
                    tree = self._update(schema["cls"], tree)
                return self.walked(schema["schema"], tree)
            case "model-fields" | "typed-dict":
                return self._fields(schema["fields"].items(), tree)
            case "dataclass-args":
                return self._fields([(item["name"], item) for item in schema["fields"]], tree)
            case "list" | "set" | "frozenset":
                inner = schema.get("items_schema", {})
                return [self.walked(inner, item) for item in tree] if isinstance(tree, list) else tree
            case "tuple":
                return self._tuple(schema, tree)
            case "dict":
                inner = schema.get("values_schema", {})
                return {key: self.walked(inner, item) for key, item in tree.items()} if isinstance(tree, dict) else tree
            case "union":
                return self._union([choice[0] if isinstance(choice, tuple) else choice for choice in schema["choices"]], tree)
            case kind if kind in _WRAPPERS:
                return tree if tree is None else self.walked(schema["schema"], tree)
            case _:
                return tree

    def _fields(self, items: Any, tree: Any) -> Any:
        if not isinstance(tree, dict):
            return tree
        inner = {_key(name, item): item.get("schema", {}) for name, item in items}
        return {key: self.walked(inner[key], item) if key in inner else item for key, item in tree.items()}

    def _tuple(self, schema: Any, tree: Any) -> Any:
        if not isinstance(tree, list):
            return tree
        of, rest = schema["items_schema"], schema.get("variadic_item_index")
        if rest is not None and len(of) == 1:
            of = of * len(tree)
        return [self.walked(inner, item) for inner, item in zip(of, tree, strict=False)] if len(of) == len(tree) else tree

    def _union(self, choices: list[Any], tree: Any) -> Any:
        objects = [choice for choice in choices if self._is_object(choice)]
        return self.walked(objects[0], tree) if isinstance(tree, dict) and len(objects) == 1 else tree

    def _is_object(self, schema: Any) -> bool:
        kind = schema.get("type")
        if kind == "definition-ref":
            return self._is_object(self._definitions.get(schema["schema_ref"], {}))
        if kind in _WRAPPERS:
            return self._is_object(schema["schema"])
        return kind not in {"str", "int", "float", "bool", "none", "list", "tuple", "set", "frozenset", "datetime", "date", "bytes"}


def _key(name: str, item: Any) -> str:
    alias = item.get("serialization_alias")
    return alias if isinstance(alias, str) else name
