"""Loading: scenario files into scenarios, with the line of every mistake.

Owns the reading of YAML: bounded, without tags, aliases or duplicate keys, so that a file is data and nothing else. Knows nothing of what a
scenario means beyond its model. Invariant: every refusal names the file, the line and the field.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml
from pydantic import ValidationError

from recovery.testing.scenario import Scenario
from recovery.testing.steps import KINDS

SIZE_MAX: Final = 256 * 1024  # bytes; scenarios are written by hand
DEPTH_MAX: Final = 40

_PLAIN: Final = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null")}
_DATES: Final = "tag:yaml.org,2002:timestamp"

WHOLE: Final = frozenset({"outcome", "executions"})
"""Mappings that are values: a variant replaces them."""


class ScenarioError(ValueError):
    """A file is not a scenario. Nothing was run. `problems`: one line each, "file:line: field: what is wrong"."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


@dataclass(frozen=True, slots=True)
class Located:
    """A value of the file and the line where it stands. Children of mappings and lists are located themselves."""

    value: dict[str, Located] | list[Located] | Any
    line: int


Path_: TypeAlias = tuple[int | str, ...]


def load(path: Path) -> list[Scenario]:
    """The scenarios of a file: one, or one per variant. Raises ScenarioError, OSError."""
    if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe or a device may have no end
        raise ScenarioError([f"{path}:1: file: it is not a regular file"])
    with path.open("rb") as file:
        text = file.read(SIZE_MAX + 1)
    if len(text) > SIZE_MAX:
        raise ScenarioError([f"{path}:1: file: it is larger than {SIZE_MAX} bytes"])
    return parse(text, str(path))


def parse(text: bytes | str, file: str) -> list[Scenario]:
    """The scenarios of a text. Raises ScenarioError."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except RecursionError:
        raise ScenarioError([f"{file}:1: file: it is nested too deeply"]) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        raise ScenarioError([f"{file}:{mark.line + 1 if mark else 1}: file: {getattr(error, 'problem', None) or error}"]) from None
    if node is None:
        raise ScenarioError([f"{file}:1: file: it is empty"])
    tree = _Reader(file).located(node)
    if not isinstance(tree.value, dict):
        raise ScenarioError([f"{file}:{tree.line}: file: a scenario is a mapping"])
    return [_validated(variant, file) for variant in _variants(tree, file)]


class _Reader:
    """Turns nodes into located values, refusing everything that is not plain data."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._seen: set[int] = set()
        self._scalars = yaml.SafeLoader("")

    def located(self, node: yaml.Node, field: str = "file", depth: int = 0) -> Located:
        line = node.start_mark.line + 1
        if id(node) in self._seen:
            raise self._refusal(line, field, "aliases are not used here; write it out")
        if depth > DEPTH_MAX:
            raise self._refusal(line, field, "it is nested too deeply")
        self._seen.add(id(node))
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return Located(self._mapping(node, field, depth), line)
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return Located([self.located(item, f"{field}[{n}]", depth + 1) for n, item in enumerate(node.value)], line)
        if isinstance(node, yaml.ScalarNode) and node.tag in _PLAIN:
            try:
                return Located(self._scalars.construct_object(node), line)
            except ValueError as error:
                raise self._refusal(line, field, str(error)) from None
        if node.tag == _DATES:
            return Located(node.value, line)  # a date is a string here
        raise self._refusal(line, field, f"the tag {node.tag!r} is not used here")

    def _mapping(self, node: yaml.MappingNode, field: str, depth: int) -> dict[str, Located]:
        found: dict[str, Located] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                raise self._refusal(line, field, "a key is a plain word")
            if key.value in found:
                raise self._refusal(line, key.value, "it is there twice")
            there = self.located(value, key.value, depth + 1)
            found[key.value] = Located(there.value, line)
        return found

    def _refusal(self, line: int, field: str, problem: str) -> ScenarioError:
        return ScenarioError([f"{self._file}:{line}: {field}: {problem}"])


def _variants(tree: Located, file: str) -> list[Located]:
    assert isinstance(tree.value, dict)
    fields: dict[str, Located] = {name: value for name, value in tree.value.items() if name != "variants"}
    variants = tree.value.get("variants")
    if variants is None:
        return [tree]
    if not isinstance(variants.value, list) or not variants.value:
        raise ScenarioError([f"{file}:{variants.line}: variants: a list of mappings, one per variant"])
    made = []
    for number, variant in enumerate(variants.value):
        if not isinstance(variant.value, dict) or "name" not in variant.value:
            raise ScenarioError([f"{file}:{variant.line}: variants[{number}].name: a variant is a mapping with a name of its own"])
        made.append(_merged(Located(fields, tree.line), variant))
    return made


def _merged(under: Located, over: Located) -> Located:
    """Mappings are merged, but those of WHOLE; everything else is replaced, and null takes a field away."""
    if not isinstance(under.value, dict) or not isinstance(over.value, dict):
        return over
    both = dict(under.value)
    for name, value in over.value.items():
        if value.value is None:
            both.pop(name, None)
        else:
            both[name] = _merged(both[name], value) if name in both and name not in WHOLE else value
    return Located(both, over.line)


def _validated(tree: Located, file: str) -> Scenario:
    try:
        return Scenario.model_validate(_plain(tree))
    except ValidationError as error:
        problems = []
        for found in error.errors(include_url=False, include_context=False, include_input=False):
            line, field = _place(tree, found["loc"])
            problems.append(f"{file}:{line}: {field or 'file'}: {found['msg'].removeprefix('Value error, ')}")
        raise ScenarioError(problems) from None


def _plain(tree: Located) -> Any:
    if isinstance(tree.value, dict):
        return {name: _plain(value) for name, value in tree.value.items()}
    if isinstance(tree.value, list):
        return [_plain(value) for value in tree.value]
    return tree.value


def _place(tree: Located, location: Path_) -> tuple[int, str]:
    """The line and the field of an error. A location names kinds of unions too, which are not in the file and are passed over."""
    location = tuple(part for part in location if part not in KINDS)
    found, line = _deepest(tree, location)
    missing = location[-1:] if location and (not found or found[-1] != location[-1]) else ()
    names = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in (*found, *missing))
    return line, names.removeprefix(".")


def _deepest(tree: Located, location: Path_) -> tuple[Path_, int]:
    """As much of a location as is in the file. A verb is the name of a kind as well as of a field: nothing lies within its plain value."""
    if not location:
        return (), tree.line
    head, rest = location[0], location[1:]
    child = _child(tree, head)
    if child is None or (rest and not isinstance(child.value, dict | list)):
        return _deepest(tree, rest)
    found, line = _deepest(child, rest)
    return (head, *found), line


def _child(tree: Located, part: int | str) -> Located | None:
    if isinstance(tree.value, dict) and isinstance(part, str):
        return tree.value.get(part)
    if isinstance(tree.value, list) and isinstance(part, int) and part < len(tree.value):
        found: Located = tree.value[part]
        return found
    return None
