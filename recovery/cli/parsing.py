"""Parsing: what typer says of a mistake, made fit for a person.

Owns the wording of mistakes that are found before any command runs. Knows no command. Invariant: a mistake ends with what to type instead,
and nothing of how arguments are validated inside shows through.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Final

import typer
from typer.core import TyperGroup

from recovery.core.ids import RUN_ID_PATTERN

_VALIDATED: Final = "Value error, "


_MEANT: Final = {
    "list": "runs",
    "ls": "runs",
    "ps": "runs",
    "status": "explain",
    "why": "explain",
    "history": "show",
    "approve": "signal",
}
"""What people type who know other programs, and what does it here. The nearest name by its letters would be another one."""


class Commands(TyperGroup):
    """The group of all commands. `Any`: typer brings its own copy of click, whose types are private."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _plainly():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _plainly():  # the arguments of the command behind the name are read here
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """`recover x1` is what people type who want the run x1, unless it is nearly a command's name."""
        name = args[0]
        if self.get_command(ctx, name) is None and RUN_ID_PATTERN.fullmatch(name) and not name.startswith("-"):
            known = self.list_commands(ctx)
            if name in _MEANT:
                ctx.fail(f"No such command {name!r}. Did you mean {_MEANT[name]!r}?")
            if not get_close_matches(name, known):
                ctx.fail(f"No such command {name!r}. To recover the run of that name: recover --run-id {name}")
        return super().resolve_command(ctx, args)


@contextmanager
def _plainly() -> Iterator[None]:
    try:
        yield
    except typer.BadParameter as error:
        error.message = error.message.removeprefix(_VALIDATED)
        raise
