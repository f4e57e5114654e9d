"""Drawing: what every plot has in common, as PNG or SVG.

Owns the style, the check for matplotlib (extra `plot`) and the writing. Must not know what is drawn. Invariant: a file appears whole or not at all, and
nothing of the user's own matplotlib is read or changed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from recovery.checkpoint.refusals import PlotRefused
from recovery.core.errors import ExtraMissing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS: Final = (".png", ".svg")

INK, FAINT, SHADE = "#1f2933", "#7b8794", "#e4e7eb"
RETAINED, STALLED, LOST, DOWN = "#117a65", "#e08e0b", "#b83227", "#5b6b9e"
"""Told apart by people who see no red or no green as well: their lightness differs, and each is named where it is drawn."""


_STYLE: Final[Mapping[str, Any]] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "grid.color": SHADE,
    "grid.linewidth": 0.8,
    "svg.hashsalt": "recovery",
    "svg.fonttype": "none",
}


def ready(path: Path) -> None:
    """Raises PlotRefused for a name that says no known format, or lies nowhere, and ExtraMissing without matplotlib."""
    if path.suffix not in FORMATS:
        raise PlotRefused(path=str(path), problem="its name does not say how to draw it", advice="Name a .png or an .svg file.")
    if not path.absolute().parent.is_dir():
        raise PlotRefused(path=str(path), problem="there is no such directory", advice="Make the directory, or name another one.")
    if find_spec("matplotlib") is None:
        raise ExtraMissing(what="A plot", missing="matplotlib", extra="plot")


@contextmanager
def drawing() -> Iterator[Figure]:
    """A figure of its own, without pyplot: nothing is kept, no window is opened, whatever the user has configured."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context():
        mpl.rcdefaults()
        cast("Any", mpl.rcParams).update(_STYLE)
        figure = Figure(layout="constrained")
        FigureCanvasAgg(figure)
        yield figure


def write(figure: Figure, path: Path) -> None:
    """Whole or not at all: written beside, then renamed."""
    metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}  # the same plot is the same file
    try:
        handle, beside = tempfile.mkstemp(prefix=".plot-", suffix=path.suffix, dir=path.absolute().parent)
        try:
            os.fchmod(handle, 0o666 & ~_umask())
            with os.fdopen(handle, "wb") as file:
                figure.savefig(file, format=path.suffix[1:], dpi=160, metadata=metadata)
            os.replace(beside, path)  # noqa: PTH105  # the two are one line
        except BaseException:  # whatever ended the writing, nothing half-written stays
            Path(beside).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise PlotRefused(
            path=str(path), problem=error.strerror or str(error), advice="Name a file that can be written."
        ) from error


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
