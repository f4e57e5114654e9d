"""Sizes and names: a module owns one idea and says which; nothing committed knows the machine it was written on."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.source import PACKAGE, ROOT, committed, modules, relative, tree
from tests.strays import OF_TOOLS

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 40
VAGUE = re.compile(r"(^|_)(manager|handler|helper|util|processor)s?(_|$)")

LONG_FUNCTIONS: dict[str, int] = {}
"""function -> lines of its body. Only for one thing that would be harder to read in two."""


def functions(module: ast.Module) -> list[tuple[str, int]]:
    """(qualified name, lines of its body) of every function in a module."""
    found: list[tuple[str, int]] = []

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                found.append((prefix + child.name, _body_lines(child)))
            named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            visit(child, f"{prefix}{child.name}." if named else prefix)

    visit(module, "")
    return found


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """What is done: the signature and the docstring do not count."""
    first, last = function.body[0], function.body[-1]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    if documented and first is last:
        return 0
    begin = (first.end_lineno or 0) + 1 if documented else first.lineno
    return (last.end_lineno or 0) - begin + 1


# One test for all modules: a test for each costs more than what it looks at.
def test_a_module_is_small_and_says_what_it_owns() -> None:
    for path in modules():
        name = relative(path)
        assert len(path.read_text(encoding="utf-8").splitlines()) <= MODULE_LINES_MAX, name
        assert ast.get_docstring(tree(path)), f"{name}: a module says what it owns, before any code"
        assert not VAGUE.search(path.stem), f"{name}: a module is named for the idea it owns"


def test_functions_are_short() -> None:
    measured = {
        f"{relative(path).removesuffix('.py').replace('/', '.')}.{name}": lines
        for path in modules()
        for name, lines in functions(tree(path))
    }
    assert {name: lines for name, lines in measured.items() if lines > LONG_FUNCTIONS.get(name, FUNCTION_LINES_MAX)} == {}
    stale = {name for name in LONG_FUNCTIONS if measured.get(name, 0) <= FUNCTION_LINES_MAX}
    assert stale == set()


def test_a_long_function_is_seen() -> None:
    body = "\n".join(f"        x = {n}" for n in range(41))
    planted = ast.parse(f'class A:\n    def f(self):\n        """One.\n\n        Two."""\n{body}\n')
    assert functions(planted) == [("A.f", 41)]


@pytest.mark.parametrize("name", ["run_manager", "helpers", "db_utils", "event_handler", "processor"])
def test_a_vague_name_is_seen(name: str) -> None:
    assert VAGUE.search(name)


def test_classes_are_named_for_what_they_are() -> None:
    """`logging.Handler` and SQLAlchemy's processors are their owners' words; ours end in none of these."""
    vague = re.compile(r"(Manager|Helper|Utils?|Processor)$")
    found = [
        f"{relative(path)}: {node.name}"
        for path in modules()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef) and vague.search(node.name)
    ]
    assert found == []


# Built from pieces, so that this file does not contain what it looks for.
MACHINE = re.compile(
    "|".join(
        [
            r"(?<![A-Za-z0-9_.])/(?:work|root|farm|Users|home/[a-z])" + "/",
            "/tmp/" + "wt",
            r"\.\./" + "shared",
            r"\." + "library/",
            "pypi" + r"\.org",
            "registry" + r"\.npmjs",
            "deb" + r"\.debian",
        ]
    )
)


def test_nothing_committed_names_a_machine() -> None:
    """Paths of the machine it was written on, and hosts of package indexes: packages come by name."""
    found = []
    for path in committed():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{relative(path)}:{number}" for number, line in enumerate(text.splitlines(), 1) if MACHINE.search(line)]
    assert found == []


@pytest.mark.parametrize(
    "planted",
    ["see /work" + "/main", "cd /root" + "/x", "'/Users" + "/me'", "../" + "shared/design.md", "https://pypi" + ".org/simple"],
)
def test_a_machines_path_is_seen(planted: str) -> None:
    assert MACHINE.search(planted)


@pytest.mark.parametrize("allowed", ["docs/work" + "/x", "framework" + "/x", "https://example.com/root" + "/x", "/tmp/recovery"])
def test_other_paths_are_allowed(allowed: str) -> None:
    assert not MACHINE.search(allowed)


def test_there_is_something_to_look_at() -> None:
    assert len(modules()) > 10
    assert PACKAGE / "core" / "ids.py" in modules()
    assert any(path.name == "pyproject.toml" for path in committed())


TOP_LEVEL = {"LICENSE", "Makefile", "README.md", "docs", "migrations", "pyproject.toml", "recovery", "scenarios", "tests"}


def test_the_top_level_holds_what_it_should_and_nothing_else() -> None:
    """Hidden files are tools' own; everything else has a place below one of these."""
    assert {top for path in committed() if not (top := path.relative_to(ROOT).parts[0]).startswith(".")} - OF_TOOLS == TOP_LEVEL
