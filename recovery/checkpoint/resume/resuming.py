"""One part of a verification as a process: `python -m recovery.checkpoint.resume.resuming ORDER`.

Owns what such a process is told and how it answers. Must not know what the other processes did: a resumed one gets the checkpoint's directory,
two names and a number. Invariant: it answers in files under a directory of the verification's own, and beats once for each update.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from recovery.checkpoint.fingerprint import fingerprint
from recovery.checkpoint.kinds import Kind
from recovery.checkpoint.learning import Learning
from recovery.checkpoint.resume import ablation, segments
from recovery.checkpoint.resume.segments import Beat
from recovery.checkpoint.resume.tolerance import EXACT, Contract
from recovery.checkpoint.resume.tracing import Trace
from recovery.checkpoint.resume.trainers import Make, Step, function_of
from recovery.checkpoint.store import CheckpointStore
from recovery.core.errors import RecoveryError

REFUSED: Final = "refused"
"""The key of an answer that is an error of ours."""


@dataclass(frozen=True, slots=True)
class Order:
    """What one part does. Directories are absolute.

    `load` is "" for a run from its beginning. `beside` is the exact trace for ablations, "" for a run.
    """

    make: Make | Step | str
    step: Make | Step | str
    updates: int
    answer: str  # the file for what it says
    trace: str = ""
    load: str = ""
    save: str = ""
    beside: str = ""


@dataclass(frozen=True, slots=True)
class Shelf:
    """A checkpoint store, as a part uses it."""

    directory: Path
    fingerprint: str = ""

    def save(self, state: Learning) -> object:
        """Durable when it returns."""
        return CheckpointStore(self.directory).save(state, fingerprint=self.fingerprint)

    def load(self) -> Learning:
        """The newest one, verified. Raises NothingToRestore, CheckpointInvalid."""
        found, _passed_over = CheckpointStore(self.directory).load_latest(Kind.LEARNING)
        return Learning.from_parts(found.arrays, found.state)


def carry_out(order: Order, beat: Beat, contract: Contract = EXACT) -> None:
    """Do it, in this process. Raises CheckpointError, and what the trainer raises."""
    make, step = function_of(order.make, "make"), function_of(order.step, "step")
    load = Shelf(Path(order.load)) if order.load else None
    save = Shelf(Path(order.save), _fingerprint(make, step)) if order.save else None
    if order.beside and load is not None:
        told = _ablated(make, step, order, load.load(), beat, contract)
    elif load is not None:
        told = segments.resume(make, step, order.updates, Trace(Path(order.trace)), load=load, save=save, beat=beat).to_json()
    else:
        told = segments.run(make, step, order.updates, Trace(Path(order.trace)), save=save, beat=beat).to_json()
    Path(order.answer).write_text(json.dumps(told), encoding="utf-8")


def _fingerprint(*functions: Callable[..., Any]) -> str:
    """Of this process and the modules that the trainer comes from."""
    modules = [sys.modules[name] for name in dict.fromkeys(function.__module__ for function in functions)]
    return str(fingerprint(module for module in modules if getattr(module, "__file__", None)))


def _ablated(
    make: Callable[..., Any], step: Callable[..., Any], order: Order, state: Learning, beat: Beat, contract: Contract
) -> dict[str, Any]:
    exact = Trace(Path(order.beside))
    lines = ablation.trajectories(make, step, state, order.updates, exact, beat)
    told = [asdict(line) for line in lines]
    every = [asdict(each) for each in ablation.ablate(make, step, state, order.updates, exact, contract, beat)]
    return {"trajectories": told, "dropped": every}


def main() -> int:
    """The process. Its order is a JSON file; its beats go to the descriptor in it."""
    told: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    beats, contract = told.pop("beats"), Contract.from_json(told.pop("contract"))
    os.set_inheritable(beats, False)  # what the trainer starts must not hold the pipe open
    order = Order(**told)
    try:
        carry_out(order, lambda: _beat(beats), contract)
    except RecoveryError as error:  # ours: told whole, so that it can be raised again where it was ordered
        refused = {"type": type(error).__name__, "fields": error.fields}
        Path(order.answer).write_text(json.dumps({REFUSED: refused}, default=str), encoding="utf-8")
    return 0


def _beat(descriptor: int) -> None:
    os.write(descriptor, b".")


if __name__ == "__main__":
    sys.exit(main())
