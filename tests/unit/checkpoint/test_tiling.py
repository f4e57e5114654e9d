"""Slices tile a shape exactly, or are refused; compared with counting every element."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.checkpoint import tiling
from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.tiling import Box, overlap, require_tiling


def tiles(shape: tuple[int, ...], boxes: list[Box]) -> bool:
    try:
        require_tiling(shape, boxes, where="t")
    except CheckpointInvalid as error:
        return error.reason != "tiling"
    return True


def counted(shape: tuple[int, ...], boxes: list[Box]) -> bool:
    """The slow truth."""
    if not boxes or any(
        at + size > whole for offset, extent in boxes for at, size, whole in zip(offset, extent, shape, strict=True)
    ):
        return False
    times = np.zeros(shape, int)
    for offset, extent in boxes:
        times[tuple(slice(at, at + size) for at, size in zip(offset, extent, strict=True))] += 1
    return bool((times == 1).all())


@st.composite
def grids(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Box]]:
    """A tensor cut along some axes: what a sharded save makes."""
    shape = tuple(draw(st.lists(st.integers(1, 5), max_size=3)))
    cuts = [sorted({0, size, *draw(st.lists(st.integers(0, size), max_size=2))}) for size in shape]
    spans = [list(pairwise(each)) for each in cuts]
    boxes = [(tuple(a for a, _ in cell), tuple(b - a for a, b in cell)) for cell in product(*spans)]
    return shape, draw(st.permutations(boxes))


@given(grids())
def test_a_grid_tiles(grid: tuple[tuple[int, ...], list[Box]]) -> None:
    assert tiles(*grid)


@given(grids(), st.data())
def test_a_spoilt_grid_tiles_only_if_counting_says_so(grid: tuple[tuple[int, ...], list[Box]], data: st.DataObject) -> None:
    shape, boxes = grid
    spoilt = list(boxes)
    number = data.draw(st.integers(0, len(spoilt) - 1))
    match data.draw(st.sampled_from(["drop", "twice", "move", "grow"])):
        case "drop":
            del spoilt[number]
        case "twice":
            spoilt.append(spoilt[number])
        case "move":
            offset, extent = spoilt[number]
            spoilt[number] = (tuple(data.draw(st.integers(0, 5)) for _ in offset), extent)
        case _:
            offset, extent = spoilt[number]
            spoilt[number] = (offset, tuple(data.draw(st.integers(0, 5)) for _ in extent))
    assert tiles(shape, spoilt) == counted(shape, spoilt)


@given(
    st.lists(
        st.tuples(st.tuples(st.integers(0, 4), st.integers(0, 4)), st.tuples(st.integers(1, 3), st.integers(1, 3))), max_size=5
    )
)
def test_an_overlap_is_found_if_there_is_one(boxes: list[Box]) -> None:
    times = np.zeros((8, 8), int)
    for (a, b), (p, q) in boxes:
        times[a : a + p, b : b + q] += 1
    assert (overlap(boxes) is not None) == bool((times > 1).any())


def test_a_worker_without_rows_is_no_gap() -> None:
    """Six rows over four workers: the last one has none (fault 21)."""
    assert tiles((6, 3), [((0, 0), (2, 3)), ((2, 0), (2, 3)), ((4, 0), (2, 3)), ((6, 0), (0, 3))])
    assert not tiles((6, 3), [((0, 0), (2, 3)), ((2, 0), (2, 3)), ((6, 0), (0, 3))])


@pytest.mark.parametrize(
    ("shape", "boxes"), [((), []), ((3,), []), ((0,), []), ((), [((), ()), ((), ())]), ((2,), [((0, 0), (2, 1))])]
)
def test_what_covers_nothing_or_too_much_is_refused(shape: tuple[int, ...], boxes: list[Box]) -> None:
    assert not tiles(shape, boxes)


def test_dimensions_are_exact_integers() -> None:
    """2^32 x 2^32 is not 0 (fault 26)."""
    assert not tiles((2**32, 2**32), [((0, 0), (0, 0))])
    assert tiles((2**32, 2**32), [((0, 0), (2**32, 2**32))])


def test_many_slices_are_not_all_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    original = tiling._meet
    monkeypatch.setattr(tiling, "_meet", lambda one, other: compared.append(1) or original(one, other))
    assert tiles((4000, 4), [((n, 0), (1, 4)) for n in range(4000)])
    assert tiles((4, 4000), [((0, n), (4, 1)) for n in range(4000)])
    assert len(compared) < 10_000
