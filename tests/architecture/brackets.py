"""The scan for crash points: what counts as leaving the process or becoming durable, and whether it lies in a bracket.

The rule, over `drivers`, `engine`, `operators`, `reconciler`, `offspring`, `checkpoint` and the store's reader and writer:

1. *A durable call* is any mention of `open_run`, `claim`, `claim_due`, `append`, `add_evidence`, `release`, `add_hold`, `deliver`, `forget`, `raise_incarnation` or `keep_schedule` on something called `journal`. A mention and
   not only a call, so that `to_thread(journal.append, ...)` counts. The parameter of what is given to `Use` must be called `journal`, so that
   no other name hides one. So is a `Commit`, the operation.
2. *A user call* is a call of the drivers' leaf `_call`, through which they reach every effect, probe, close and deciding function, or
   of an attribute that holds one. A workflow's function is none of these: what leaves it goes through its steps.
3. Each lies lexically inside `with around(NAME)`. NAME is registered: a literal, `bracket_of(...)`, or an attribute `bracket` whose literals
   are registered.
4. In `checkpoint`, *a durable call* is any mention of what changes something on something called `disk`, or of the functions of `checkpoint.files` that do it
   for their callers. `checkpoint.files` itself is the disk.
5. A private function may leave the bracket to its callers: then every mention of it is a durable call itself. A function that nobody
   mentions, or that is public, may not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from recovery.crashpoints import BRACKETS
from tests.architecture.source import PACKAGE, modules, relative, tree

DURABLE = frozenset(
    {
        "open_run",
        "claim",
        "claim_due",
        "append",
        "add_evidence",
        "release",
        "add_hold",
        "deliver",
        "forget",
        "raise_incarnation",
        "keep_schedule",
    }
)
USER = frozenset({"_call", "invoke", "ask", "make", "body", "probe_body", "close_body", "cancel_body"})
ON_DISK = frozenset(
    {"make_directory", "create", "reserve", "write", "sync", "rename", "replace", "sync_directory", "unlink", "remove_directory"}
)
FOR_CALLERS = frozenset({"created", "remove_tree", "shut_and_remove"})
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def scanned() -> list[Path]:
    """The files that carry operations out."""
    inside = (
        "drivers",
        "engine",
        "operators",
        "reconciler",
        "claims",
        "hindsight",
        "offspring",
        "storage/writer",
        "storage/reading",
        "checkpoint/",
    )
    names = {path: path.relative_to(PACKAGE).as_posix().removesuffix(".py") for path in modules()}
    return [path for path, name in names.items() if name.startswith(inside) and name != "checkpoint/files"]


@dataclass(frozen=True)
class Mention:
    """One place that must be bracketed. `function`: the innermost named function around it, "" at module level."""

    place: str
    what: str
    function: str
    bracketed: bool


def name_of(node: ast.expr) -> str:
    """The last identifier of a dotted expression."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _around(node: ast.With | ast.AsyncWith) -> Iterator[ast.expr]:
    for item in node.items:
        if isinstance(item.context_expr, ast.Call) and name_of(item.context_expr.func) == "around":
            yield item.context_expr.args[0]


def _must_be_bracketed(node: ast.AST, private: frozenset[str]) -> str:
    if isinstance(node, ast.Attribute) and node.attr in DURABLE and name_of(node.value).lstrip("_") == "journal":
        return f"journal.{node.attr}"
    if isinstance(node, ast.Attribute) and node.attr in ON_DISK and name_of(node.value).lstrip("_") == "disk":
        return f"disk.{node.attr}"
    if isinstance(node, ast.Name) and node.id in FOR_CALLERS:
        return node.id
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in USER:
        return node.func.attr
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Commit":
        return "Commit"
    mentioned = name_of(node) if isinstance(node, ast.Name | ast.Attribute) else ""
    return mentioned if mentioned in private else ""


def mentions(module: ast.AST, private: frozenset[str] = frozenset(), file: str = "") -> list[Mention]:
    """Everything in a module that must be bracketed. `private`: functions that leave it to their callers."""
    found: list[Mention] = []

    def visit(node: ast.AST, function: str, bracketed: bool) -> None:
        what = _must_be_bracketed(node, private)
        if what:
            found.append(Mention(f"{file}:{getattr(node, 'lineno', 0)}", what, function, bracketed))
        if isinstance(node, FUNCTIONS):
            function, bracketed = node.name, False  # what is defined inside a bracket need not run inside it
        if isinstance(node, ast.With | ast.AsyncWith) and any(True for _ in _around(node)):
            inside = bracketed
            for item in node.items:
                visit(item, function, inside)
                inside = inside or (isinstance(item.context_expr, ast.Call) and name_of(item.context_expr.func) == "around")
            for statement in node.body:
                visit(statement, function, True)
            return
        for child in ast.iter_child_nodes(node):
            visit(child, function, bracketed)

    visit(module, "", False)
    return found


def unbracketed(files: Mapping[str, ast.AST]) -> list[str]:
    """One sentence for each place that breaks the rule, with the way there if the bracket was left to callers."""
    private: frozenset[str] = frozenset()
    while True:
        found = [mention for file, module in files.items() for mention in mentions(module, private, file)]
        bare = [mention for mention in found if not mention.bracketed]
        grown = private | {mention.function for mention in bare if mention.function.startswith("_")}
        if grown == private:
            break
        private = grown
    mentioned = {mention.what for mention in found}
    tops = [mention for mention in bare if not mention.function.startswith("_") or mention.function not in mentioned]
    return [_way(mention, bare) for mention in tops]


def _way(top: Mention, bare: list[Mention]) -> str:
    """From the outermost function down to what is in no bracket."""
    way, at = [f"{top.place} {top.function or 'the module'}"], top
    while inner := next((each for each in bare if each.function == at.what and each.place not in "".join(way)), None):
        way.append(f"{inner.place} {inner.function}")
        at = inner
    return f"{at.what} is in no bracket: {' > '.join(way)}"


def names(trees: Iterable[ast.AST]) -> tuple[set[str], list[str]]:
    """The literal names of brackets, and each argument of `around` that is none of the allowed forms."""
    literal: set[str] = set()
    strange: list[str] = []
    for node in (node for each in trees for node in ast.walk(each)):
        if isinstance(node, ast.With | ast.AsyncWith):
            for argument in _around(node):
                if isinstance(argument, ast.Constant) and argument.value in BRACKETS:
                    literal.add(str(argument.value))
                elif name_of(argument.func if isinstance(argument, ast.Call) else argument) not in {"bracket", "bracket_of"}:
                    strange.append(f"line {node.lineno}: around({ast.unparse(argument)})")
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                literal |= {value for value in _assigned_to_bracket(target, node.value) if value in BRACKETS}
                strange += [
                    f"line {node.lineno}: bracket = {value!r}"
                    for value in _assigned_to_bracket(target, node.value)
                    if value not in BRACKETS
                ]
    return literal, strange


def _assigned_to_bracket(target: ast.expr, value: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, its in zip(target.elts, value.elts, strict=False):
            yield from _assigned_to_bracket(one, its)
    elif name_of(target) == "bracket" and isinstance(value, ast.Constant):
        yield str(value.value)


def misnamed(trees: Iterable[ast.AST]) -> list[str]:
    """Lambdas given to `Use` or `_use` that call the journal something else, and parameters of type Journal that do."""
    found: list[str] = []
    for node in (node for each in trees for node in ast.walk(each)):
        if isinstance(node, ast.Call) and name_of(node.func) in {"Use", "_use"}:
            lambdas = [argument for argument in node.args if isinstance(argument, ast.Lambda)]
            found += [f"line {node.lineno}: {each.args.args[0].arg}" for each in lambdas if each.args.args[0].arg != "journal"]
        typed = isinstance(node, ast.arg) and node.annotation is not None and "Journal" in ast.unparse(node.annotation).split(" | ")
        if isinstance(node, ast.arg) and typed and node.arg not in {"journal", "database"}:
            found.append(f"line {node.lineno}: {node.arg}")
    return found


def trees() -> dict[str, ast.Module]:
    return {relative(path): tree(path) for path in scanned()}
