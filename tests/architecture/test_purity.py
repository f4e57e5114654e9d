"""The core is pure: no clock, no randomness, no environment, no I/O, no thread. A scan over its syntax trees.

The rule is a list of what may be imported, so that whatever nobody thought of is refused; and a list of what may not be called
out of the modules and builtins that remain.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGE, modules, relative, tree

PURE = frozenset(
    {
        "__future__", "abc", "base64", "bisect", "collections", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions", "functools",
        "hashlib", "heapq", "inspect", "itertools", "json", "keyword", "math", "numbers", "operator", "re", "string", "textwrap", "types",
        "typing", "unicodedata", "uuid",
    }
)  # fmt: skip
"""Of the standard library. `datetime` and `uuid` for their types: what reads a clock or a random source in them is below."""

IMPURE_ATTRIBUTES = frozenset(
    {"now", "utcnow", "today", "fromtimestamp", "astimezone", "uuid1", "uuid4", "uuid6", "uuid7", "getnode"}
)
"""`fromtimestamp` and `astimezone` read the machine's time zone unless told one; the core counts microseconds."""

IMPURE_BUILTINS = frozenset(
    {"open", "print", "input", "eval", "exec", "compile", "__import__", "breakpoint", "globals", "hash", "id", "exit", "quit"}
)
"""`hash` of a string differs from process to process, and `id` from object to object."""


def impurities(source: ast.Module) -> list[str]:
    """What in a module would let a clock, chance, the environment or I/O in: one sentence each."""
    found = []
    for node in ast.walk(source):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{'.' * node.level}{node.module or ''}"]
            found += [f"line {node.lineno} imports {alias.name}" for alias in node.names if alias.name in IMPURE_ATTRIBUTES]
        else:
            names = []
        found += [f"line {node.lineno} imports {name}" for name in names if not _may_import(name)]  # type: ignore[attr-defined]
        if isinstance(node, ast.Attribute) and node.attr in IMPURE_ATTRIBUTES:
            found.append(f"line {node.lineno} uses .{node.attr}")
        if isinstance(node, ast.Name) and node.id in IMPURE_BUILTINS and isinstance(node.ctx, ast.Load):
            found.append(f"line {node.lineno} uses {node.id}")
    return found


def _may_import(name: str) -> bool:
    return name == "recovery.core" or name.startswith("recovery.core.") or name.split(".")[0] in PURE


@pytest.mark.parametrize("path", modules(PACKAGE / "core"), ids=relative)
def test_core_is_pure(path: Path) -> None:
    assert impurities(tree(path)) == []


@pytest.mark.parametrize(
    "planted",
    [
        "import time",
        "from time import time_ns",
        "import os",
        "import os.path",
        "from os import urandom",
        "import random",
        "import secrets",
        "import asyncio",
        "import threading",
        "import socket",
        "import sqlalchemy as sa",
        "from pathlib import Path",
        "import logging",
        "from recovery.ports import Clock",
        "from recovery import logs",
        "from . import ids",
        "from uuid import uuid4",
        "import uuid; uuid.uuid4()",
        "from datetime import datetime; datetime.now()",
        "from datetime import datetime; later = datetime.utcnow",
        "from datetime import date; date.today()",
        "def f():\n    import time",
        "open('x')",
        "reader = open",
        "print('x')",
        "hash('x')",
        "__import__('time')",
    ],
)
def test_the_scan_sees(planted: str) -> None:
    assert impurities(ast.parse(planted))


@pytest.mark.parametrize(
    "allowed", ["from uuid import UUID", "from datetime import timedelta", "import json", "from recovery.core.ids import Epoch"]
)
def test_the_scan_allows(allowed: str) -> None:
    assert impurities(ast.parse(allowed)) == []
