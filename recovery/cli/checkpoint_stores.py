"""The commands about what is in a store, and their options, as typer knows them: `recover checkpoint list ...`.

Owns names, help and the checking of arguments. Invariant: none of these makes a store, and all but `gc`, `pin`, `unpin` and `verify --mark` change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from recovery.cli.checkpoint import checkpoint
from recovery.cli.common import Common, Debug, Json, carry_out
from recovery.cli.output import Output
from recovery.core.errors import ExitCode, ExtraMissing

_MODULES: Final = ("blake3", "numpy", "safetensors")

Store = Annotated[Path, typer.Argument(metavar="STORE", help="The store's directory.")]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A checkpoint: its name, its sequence number, or the beginning of its id.")
]


def _look(context: typer.Context, as_json: bool, debug: bool, work: Callable[[Output], ExitCode]) -> None:
    def looking(output: Output, common: Common) -> ExitCode:  # noqa: ARG001  # it needs no database
        if missing := [name for name in _MODULES if find_spec(name) is None]:
            raise ExtraMissing(what="Looking into checkpoints", missing=" and ".join(missing), extra="checkpoint")
        return work(output)

    carry_out(context, Common(as_json=as_json, debug=debug), looking)


@checkpoint.command("list")
def list_all(context: typer.Context, store: Store, as_json: Json = False, debug: Debug = False) -> None:
    """List the checkpoints of a store, newest first. What is passed over is told with the reason. Reads manifests and no tensor."""

    def work(output: Output) -> ExitCode:
        from recovery.cli import checkpoint_looking as it

        return it.list_all(output, store)

    _look(context, as_json, debug, work)


@checkpoint.command("inspect")
def inspect(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A store, one checkpoint's directory, or STORE/NAME.")],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="In a store: a name, a sequence number or the beginning of an id. Default: the newest."
        ),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Say what a checkpoint is and may be used for. From its manifest: kind, place, lifecycle, tensors. Reads no tensor."""

    def work(output: Output) -> ExitCode:
        from recovery.cli import checkpoint_looking as it

        return it.inspect(output, path, name)

    _look(context, as_json, debug, work)


@checkpoint.command("verify")
def verify(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A store, one checkpoint's directory, or STORE/NAME.")],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="In a store: only this one. Default: the newest of each kind, and what its manifest gives away."
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every checkpoint of the store.")] = False,
    mark: Annotated[
        bool,
        typer.Option(
            "--mark",
            help="Mark what is whole as verified (retention keeps the last one of these), and take the mark from what is damaged.",
        ),
    ] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Say which checkpoints are whole, and where not. Reads every byte. Exit 6 if any is damaged, 4 if any cannot be read."""
    if every and name is not None:
        raise typer.BadParameter("name one, or take all.", param_hint="NAME, --all")

    def work(output: Output) -> ExitCode:
        from recovery.cli import checkpoint_verify as it

        return it.verify(output, path, name, every=every, mark=mark)

    _look(context, as_json, debug, work)


@checkpoint.command("diff")
def diff(
    context: typer.Context,
    a: Annotated[Path, typer.Argument(metavar="A", help="One checkpoint's directory, STORE/NAME, or a store: its newest.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="The other one.")],
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare two checkpoints field by field. State, lifecycle and tensors, to the bit. Exit 0 if they are equal, 1 if they differ."""

    def work(output: Output) -> ExitCode:
        from recovery.cli import checkpoint_diff as it

        return it.diff(output, a, b)

    _look(context, as_json, debug, work)


@checkpoint.command("gc")
def gc(
    context: typer.Context,
    store: Store,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    last: Annotated[int, typer.Option("--keep-last", metavar="N", min=1, help="Keep the last N of each kind.")] = 3,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Retire what need not be kept, say why others stay. Puts into quarantine what its manifest or sizes show to be damaged, and removes what crashed
    saves left."""

    def work(output: Output) -> ExitCode:
        from recovery.checkpoint.retention import Keep
        from recovery.cli import checkpoint_keeping as it

        return it.gc(output, store, dry_run=dry_run, keep=Keep(last=last))

    _look(context, as_json, debug, work)


@checkpoint.command("pin")
def pin(context: typer.Context, store: Store, name: Name, as_json: Json = False, debug: Debug = False) -> None:
    """Keep a checkpoint until it is unpinned, whatever its age."""

    def work(output: Output) -> ExitCode:
        from recovery.cli import checkpoint_keeping as it

        return it.pin(output, store, name, pinned=True)

    _look(context, as_json, debug, work)


@checkpoint.command("unpin")
def unpin(context: typer.Context, store: Store, name: Name, as_json: Json = False, debug: Debug = False) -> None:
    """Leave a checkpoint to retention again."""

    def work(output: Output) -> ExitCode:
        from recovery.cli import checkpoint_keeping as it

        return it.pin(output, store, name, pinned=False)

    _look(context, as_json, debug, work)
