"""The reports of `check-versions` and `export`. Owns their wording. Invariant: what does not fit is told whole, what fits is counted."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from recovery.console import misfits, words
from recovery.console.paper import Paper
from recovery.core.errors import Diverged
from recovery.operators.fitting import Checked, Fit


def checked(paper: Paper, found: Checked) -> RenderableType:
    """What fits, what does not, and what could not be tried."""
    parts: list[RenderableType] = [_misfit(paper, fit) for fit in found.misfits]
    for run_id, why in found.broken.items():
        parts.append(Text(f"run {words.bounded(run_id)} cannot be read: {words.safe(str(why))}", style="bold red"))
    for run_id, what in found.unknown.items():
        parts.append(
            Text(f"run {words.bounded(run_id)} was not replayed: the app has no workflow {words.bounded(what)}", style="yellow")
        )
    fitting = [fit for fit in found.fits if fit.fits]
    changed = [fit for fit in fitting if fit.same_outcome is False]
    told = "fits, and would come to another outcome; the recorded one stands"
    parts += [Text(f"run {words.bounded(fit.run_id)} {told}", style="yellow") for fit in changed]
    counted = words.counted(len(found.fits), "run")
    parts.append(
        Text(f"{counted} replayed, {len(fitting):,} of them fit", style="bold green" if not found.exit_code else "bold red")
    )
    return Group(*parts)


def _misfit(paper: Paper, fit: Fit) -> RenderableType:
    against = "" if fit.version == fit.against else f", replayed by version {words.bounded(fit.against)}"
    title = (
        f"run {words.bounded(fit.run_id)} does not fit: {words.bounded(fit.workflow)} version {words.bounded(fit.version)}{against}"
    )
    parts: list[RenderableType] = [misfits.beside(fit.error)] if isinstance(fit.error, Diverged) else []
    parts.append(Text(words.safe(str(fit.error))))
    return paper.panel(title, Group(*parts), "red")


def exported(run_id: str, entries: int, out: str) -> RenderableType:
    """Where the text went."""
    return Text(f"run {words.bounded(run_id)}: {words.counted(entries, 'entry', 'entries')} written to {words.safe(out)}")
