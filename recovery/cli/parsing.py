"""Parsing: what typer says of a mistake, made fit for a person.

Owns the wording of mistakes that are found before any command runs. Knows no command. Invariant: a mistake ends with what to type instead,
and nothing of how arguments are validated inside shows through.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Final

import typer
from typer.core import TyperGroup

from recovery.cli.contents import SECTIONS
from recovery.core.ids import RUN_ID_PATTERN

_VALIDATED: Final = "Value error, "
_TRIED: Final = re.compile(", unable to parse .*")
"""What whoever checks a value says of how it went about it."""


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

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  # it is typer's
        told = [name for names in SECTIONS.values() for name in names if name in self.commands]
        return [*told, *(name for name in self.commands if name not in told)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  # it is typer's
        """Forty commands in one list are read by nobody."""
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(60)) for name in names if name in self.commands])

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
        if len(missing := _missing(error)) > 1:
            error.ctx.fail(f"Missing: {', '.join(missing)}.")  # type: ignore[union-attr]  # it was there to be missed
        error.message = _TRIED.sub("", error.message.removeprefix(_VALIDATED).replace("Input should", "it should"))
        raise


def _missing(error: typer.BadParameter) -> list[str]:
    """All that the command needs and was not given, where this says the first of it: each would be said after the one before it had been corrected.
    What was given is read first, so that it is in the context by now."""
    context = error.ctx
    if type(error).__name__ != "MissingParameter" or context is None:
        return []
    needed = (each for each in context.command.params if each.required and each.name not in context.params)
    return [each.opts[-1] if each.param_type_name == "option" else str(each.metavar or each.name) for each in needed]
