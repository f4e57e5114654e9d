"""Mutation: every small way to make `weigh` and `judge` wrong, as changed syntax trees.

Owns which changes are made to a module. Knows nothing of tests. Invariant: a mutant changes exactly one place, and its name (where, what
was there, what is there now) stays the same as long as that place does, whatever moves around it.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
TARGETS: Final = {
    "timing": "recovery.core.timing",
    "findings": "recovery.core.findings",
    "evidence": "recovery.core.evidence",
    "rows_proven": "recovery.core.rows_proven",
    "rows_open": "recovery.core.rows_open",
    "verdicts": "recovery.core.verdicts",
    "trust": "recovery.core.trust",
    "judgement": "recovery.core.judgement",
    "clocks": "recovery.clocks",
    "claims": "recovery.claims",
    "asking": "recovery.drivers.asking",
}
"""What is broken, by the short name that a mutant's name begins with: `weigh` and `judge` with all that they call, and wherever times are
compared: named times, next looks, the mark, the lease, the deadline of an attempt."""

_ONLY: Final = {
    "judgement": ("_next_look",),
    "claims": ("take",),
    "asking": ("Surroundings.question", "Surroundings.left", "_in_time"),
}
"""Of modules that compare times beside other work: these functions."""

_NEGATED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
}  # fmt: skip
_SHIFTED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_EXCHANGED: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}


Path_ = tuple[tuple[str, int | None], ...]
"""The way from a module's tree to a node: fields, and places in lists."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed module. name: for people and for the list of accepted survivors."""

    module: str
    name: str
    path: Path_ = ()
    after: ast.AST | None = None

    @property
    def tree(self) -> ast.Module:
        """The changed module; without a change, the shipped one."""
        tree = _parsed(self.module)
        if self.after is not None:
            _put(tree, self.path, self.after)
        return ast.fix_missing_locations(tree)


def _parsed(module: str) -> ast.Module:
    return ast.parse(ROOT.joinpath(*TARGETS[module].split(".")).with_suffix(".py").read_text(encoding="utf-8"))


def mutants(module: str) -> Iterator[Mutant]:
    """Every mutant of the module `TARGETS[module]`, or of those of its functions that _ONLY names."""
    tree = _parsed(module)
    seen: Counter[str] = Counter()
    for path, where, node in _places(tree, (), ""):
        if where not in _ONLY.get(module, (where,)):
            continue
        for after in _changes(node):
            name = f"{module}.{where}: {_shown(node)}  =>  {_shown(after)}"
            seen[name] += 1
            yield Mutant(module, name if seen[name] == 1 else f"{name}  ({seen[name]})", path, after)


def _shown(node: ast.AST | None) -> str:
    if node is None:
        return "(nothing)"
    if isinstance(node, ast.Call) and _named(node) == "Row":
        given = {word.arg: ast.unparse(word.value) for word in node.keywords}
        return f"row {given['number']} {given['action']}, {given['matches']}"
    return " ".join(ast.unparse(node).split())


def _places(node: ast.AST, path: Path_, where: str) -> Iterator[tuple[Path_, str, ast.AST]]:
    """All nodes that are code, with the way to each and the function that it is in."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "bases", "type_params"}:
            continue
        children = [(index, item) for index, item in enumerate(value)] if isinstance(value, list) else [(None, value)]
        for index, child in children:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Import | ast.ImportFrom):
                continue
            inside = where
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inside = f"{where}.{child.name}".lstrip(".")
            way = (*path, (name, index))
            yield way, inside or "<module>", child
            yield from _places(child, way, inside)


def _put(tree: ast.AST, path: Path_, after: ast.AST) -> None:
    node: ast.AST = tree
    for name, index in path[:-1]:
        value = getattr(node, name)
        node = value if index is None else value[index]
    name, index = path[-1]
    if index is None:
        setattr(node, name, after)
    else:
        getattr(node, name)[index] = after


# -- what is changed ---------------------------------------------------------------------------------------------------


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.BoolOp(values=values):
            for index in range(len(values)):
                rest = values[:index] + values[index + 1 :]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op=node.op, values=rest)
        case ast.Compare(ops=[op]):
            for table in (_NEGATED, _SHIFTED):
                if type(op) in table:
                    yield ast.Compare(left=node.left, ops=[table[type(op)]()], comparators=node.comparators)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            other: ast.operator = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            if not isinstance(node.left, ast.List | ast.Set) and not isinstance(node.right, ast.List | ast.Set):
                yield ast.BinOp(left=node.left, op=other, right=node.right)
            yield node.left
        case ast.BinOp(op=ast.BitOr() | ast.BitAnd()):
            yield node.left
            yield node.right
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            yield ast.Constant(value + 1)
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Set(elts=elements) if len(elements) > 1:
            for index in range(len(elements)):
                yield ast.Set(elts=elements[:index] + elements[index + 1 :])
        case ast.If() | ast.IfExp() if not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp):
            changed = copy.deepcopy(node)
            changed.test = ast.UnaryOp(op=ast.Not(), operand=changed.test)
            yield changed
        case ast.comprehension(ifs=[_, *_]):
            for index in range(len(node.ifs)):
                changed = copy.deepcopy(node)
                del changed.ifs[index]
                yield changed
        case ast.Subscript(slice=ast.Constant(value=0)):
            yield ast.Subscript(value=node.value, slice=ast.Constant(-1), ctx=node.ctx)
        case ast.Call():
            yield from _changed_calls(node)


def _named(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _changed_calls(call: ast.Call) -> Iterator[ast.AST]:
    if isinstance(call.func, ast.Name) and call.func.id in _EXCHANGED:
        changed = copy.deepcopy(call)
        changed.func = ast.Name(id=_EXCHANGED[call.func.id], ctx=ast.Load())
        yield changed
    if _named(call) == "Row":
        given = {word.arg: index for index, word in enumerate(call.keywords)}
        for what, value in (("action", _flipped(call.keywords[given["action"]].value)), ("matches", "lambda facts: False")):
            changed = copy.deepcopy(call)
            changed.keywords[given[what]].value = ast.parse(value, mode="eval").body
            yield changed


def _flipped(action: ast.expr) -> str:
    """Another verdict, one that does harm where the first was harmless."""
    name = action.attr if isinstance(action, ast.Attribute) else ""
    return {"PARK": "Action.SEND", "WAIT": "Action.RESEND", "SEND": "Action.PARK", "RESEND": "Action.PARK"}.get(name, "Action.PARK")
