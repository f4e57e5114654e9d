"""`recover checkpoint verify-resume`: what it does.

Owns that command, its document and its exit code. Invariant: it ends with 0 only if the resumed run was exact and no field can be lost without
notice; what cannot be drawn is refused before anything runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from recovery.cli.output import Output
from recovery.core.errors import ExitCode, ExtraMissing, InvalidName

if TYPE_CHECKING:
    from recovery.checkpoint.resume.verifying import ResumeReport

_MODULES: Final = ("blake3", "numpy", "safetensors")


@dataclass(frozen=True, slots=True)
class Asked:
    """What was typed."""

    make: str | None
    step: str | None
    before: int
    after: tuple[int, ...]
    contract: str
    ablate: bool
    plot: Path | None
    keep: Path | None


def verify_resume(output: Output, asked: Asked) -> ExitCode:
    """0 exact, 5 diverged. Raises TrainerRefused, VerificationBroken, PlotRefused, ExtraMissing, InvalidName, and what a save or restore refuses."""
    if missing := [name for name in _MODULES if find_spec(name) is None]:
        raise ExtraMissing(what="Verifying a resume", missing=", ".join(missing), extra="checkpoint")
    from recovery.checkpoint import drawing
    from recovery.checkpoint.resume import plotting, verifying
    from recovery.checkpoint.resume.tolerance import CONTRACTS
    from recovery.console import checkpoint_resume as report
    from recovery.console.progress import Updates

    if asked.contract not in CONTRACTS:
        raise InvalidName(what="contract", name=asked.contract, rule=", ".join(CONTRACTS))
    if asked.plot is not None:
        drawing.ready(asked.plot)
    make, step = asked.make or verifying.REFERENCE[0], asked.step or verifying.REFERENCE[1]
    with Updates() as watch:
        found = verifying.verify_resume(
            make,
            step,
            before=asked.before,
            after=asked.after,
            ablate=asked.ablate,
            contract=CONTRACTS[asked.contract],
            directory=asked.keep,
            watch=watch,
        )
    if asked.plot is not None:
        plotting.trajectories(asked.plot, found)
    told = report.Told(make, step, found, asked.plot, asked.keep)
    output.answer(lambda: _document(asked, make, step, found), lambda paper: report.verified(paper, told))
    return ExitCode.SETTLED if found.ok else ExitCode.DIVERGED


def _document(asked: Asked, make: str, step: str, found: ResumeReport) -> dict[str, Any]:
    return {
        "make": make,
        "step": step,
        **found.to_json(),
        "plot": None if asked.plot is None else str(asked.plot),
        "store": None if asked.keep is None else str(asked.keep / "store"),
    }
