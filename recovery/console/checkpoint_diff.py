"""The report of two checkpoints beside each other: whether they are equal, and where they are not.

Owns its wording and layout. Compares nothing. Invariant: a difference is told with its place, both values and, where there is one, their distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from recovery.checkpoint.contrasting import Contrast, Leaf, Tensor
from recovery.checkpoint.manifest import Manifest, TensorEntry
from recovery.checkpoint.planning.units import shown_size
from recovery.checkpoint.scanning import Candidate
from recovery.checkpoint.ulp import Difference
from recovery.console import words
from recovery.console.checkpoint_store import plain_table
from recovery.console.paper import Paper, facts

ROWS: Final = 30
"""Differences of one sort that are shown; all of them are in the document."""

SHORT: Final = 24  # characters of two values that fit on one line
VALUE: Final = 64  # characters of one value; a digest has as many
PLACES: Final = {"journal": "journal position", "fingerprint": "runtime fingerprint"}
_CHANGES: Final = {"added": "only in b", "missing": "only in a"}


@dataclass(frozen=True, slots=True)
class Contrasted:
    """Two checkpoints and what they differ in."""

    a: Candidate
    b: Candidate
    contrast: Contrast


def contrasted(paper: Paper, of: Contrasted) -> RenderableType:
    found = of.contrast
    lifecycle = [leaf for leaf in found.state if leaf.of_lifecycle]
    state = [leaf for leaf in found.state if not leaf.of_lifecycle]
    parts: list[RenderableType] = [paper.panel("compared", _compared(of), "green" if found.equal else "yellow")]
    if state:
        parts.append(paper.panel("state", _leaves(paper, state), "yellow"))
    if lifecycle:
        parts.append(paper.panel("lifecycle", _leaves(paper, lifecycle), "yellow"))
    if found.different:
        parts.append(paper.panel("tensors", _tensors(paper, found.different), "yellow"))
    return Group(*parts)


def _compared(of: Contrasted) -> RenderableType:
    found = of.contrast
    what = f"{words.counted(found.fields, 'field')} of state, {words.counted(found.tensors, 'tensor')}"
    rows: list[tuple[str, RenderableType]] = [
        ("a", _stands(of.a)),
        ("b", _stands(of.b)),
        ("compared", f"{what}; every byte of both was verified first"),
        ("verdict", _verdict(found)),
    ]
    if found.kinds is not None:
        rows.append(("kind", Text(f"{found.kinds[0]} and {found.kinds[1]}: one cannot take the other's place", style="yellow")))
    apart = [name for name, one, other in _places(of.a.manifest, of.b.manifest) if one != other]
    if apart:
        rows.append(
            (
                "not compared",
                f"{', '.join(apart)} {'differs' if len(apart) == 1 else 'differ'}: where they stand, not what they are",
            )
        )
    return facts(rows)


def _stands(of: Candidate) -> Text:
    manifest = of.manifest
    return Text.assemble(
        (words.bounded(of.name, 80), "bold"), f": {manifest.kind.value}, step {manifest.step:,}, {shown_size(manifest.total_bytes)}"
    )


def _places(one: Manifest, other: Manifest) -> list[tuple[str, object, object]]:
    """What a checkpoint says of its place and its making."""
    names = ("sequence", "step", "parent", "journal", "fingerprint", "writers")
    return [(PLACES.get(name, name), getattr(one, name), getattr(other, name)) for name in names]


def _verdict(of: Contrast) -> Text:
    if of.equal:
        return Text("equal: the same kind, state and tensors, in every bit", style="bold green")
    parts = [words.counted(len(of.state), "field") + " of state"] if of.state else []
    parts += [words.counted(len(of.different), "tensor")] if of.different else []
    parts += ["the kind"] if of.kinds else []
    return Text(f"different in {', '.join(parts)}", style="bold yellow")


def _leaves(paper: Paper, leaves: Sequence[Leaf]) -> RenderableType:
    table = plain_table(("field", "left"), ("a -> b", "left"), ("distance", "left"))
    table.columns[0].no_wrap = table.columns[1].no_wrap = False
    for leaf in leaves[:ROWS]:
        table.add_row(words.bounded(leaf.path, 120), _change(paper, leaf), _distance(leaf.ulps, leaf.difference))
    return _with_rest(table, len(leaves))


def _change(paper: Paper, of: Leaf) -> RenderableType:
    if of.change in _CHANGES:
        return Text.assemble((f"{_CHANGES[of.change]}: ", "yellow"), _value(of.a if of.change == "missing" else of.b))
    if of.lengths is None:
        return _both(paper, _value(of.a), _value(of.b))
    parts: list[Text] = []
    if of.lengths[0] != of.lengths[1]:
        parts.append(Text(f"{of.lengths[0]:,} -> {of.lengths[1]:,} values"))
        if of.difference is None:
            parts.append(Text("and what both have is equal", style="dim"))
    if of.difference is not None:
        parts.append(Text(f"{_elements(of.difference)} {list(of.difference.index)}:"))
        parts.append(_both(paper, of.difference.expected, of.difference.found))
    return Group(*parts) if paper.terminal else Text(" ").join(parts)


def _value(of: object) -> str:
    return of if isinstance(of, str) else repr(of)


def _tensors(paper: Paper, tensors: Sequence[Tensor]) -> RenderableType:
    table = plain_table(("tensor", "left"), ("differ", "right"), ("first at", "left"), ("a -> b", "left"), ("distance", "left"))
    table.columns[0].no_wrap = table.columns[2].no_wrap = False
    for each in tensors[:ROWS]:
        name = words.bounded(each.name, 80)
        if each.difference is not None and each.a is not None:
            of = each.difference
            differ = f"{of.count:,} of {prod(each.a.shape):,}"
            table.add_row(name, differ, str(list(of.index)), _both(paper, of.expected, of.found), _distance(of.ulps, of))
        elif each.change in _CHANGES:
            table.add_row(name, "", "", Text(f"{_CHANGES[each.change]}: {_entry(each.a or each.b)}", style="yellow"), "")
        else:
            table.add_row(name, "", "", _both(paper, _entry(each.a), _entry(each.b)), "")
    return _with_rest(table, len(tensors))


def _entry(of: TensorEntry | None) -> str:
    return "" if of is None else f"{of.dtype} {list(of.shape)}"


def _both(paper: Paper, a: str, b: str) -> Text:
    """On a terminal one below the other, if they are wide: two numbers with all their digits are."""
    one, other = words.bounded(a, VALUE), words.bounded(b, VALUE)
    below = paper.terminal and len(one) + len(other) > SHORT
    return Text(f"{one}{chr(10) if below else ' '}-> {other}")


def _elements(of: Difference) -> str:
    return "one value differs, at" if of.count == 1 else f"{of.count:,} values differ, the first at"


def _distance(ulps: int | None, of: Difference | None) -> str:
    first = of.ulps if of is not None else ulps
    if first is None:
        return ""
    most = "" if of is None or of.ulps_max is None or of.count == 1 else f"; up to {count(of.ulps_max)}"
    return f"{count(first)} ULP{most}"


def count(ulps: int) -> str:
    """All digits while they can be read at a glance."""
    return f"{ulps:,}" if ulps < 10**6 else f"{float(ulps):.1e}"


def _with_rest(table: Table, total: int) -> RenderableType:
    if (more := total - ROWS) <= 0:
        return table
    return Group(table, Text(f"and {more:,} more; all of them with --json", style="dim"))
