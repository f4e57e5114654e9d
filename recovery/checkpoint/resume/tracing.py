"""Traces: the state after every update of one run, in files, for a verification.

Owns how a state travels between the processes of a verification. Must not know what is compared. Invariant: what is read back is what was
captured, bit for bit. A trace is scratch: unsynced, unverified, and never a checkpoint.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file, save_file

from recovery.checkpoint import narrow
from recovery.checkpoint.learning import Learning
from recovery.checkpoint.resume.comparing import Moment


@dataclass(frozen=True, slots=True)
class Trace:
    """A directory with one state for each number of completed updates."""

    directory: Path

    def write(self, step: int, state: Learning) -> None:
        """Keep the state after that many updates."""
        self.directory.mkdir(parents=True, exist_ok=True)
        moment = Moment.of(state)
        # The library takes no narrow floats from numpy.
        save_file({name: narrow.words(values) for name, values in moment.tensors.items()}, self._arrays(step))
        formats = {name: values.dtype.names[0] for name, values in moment.tensors.items() if values.dtype.names}
        # Python writes integers of any size and the shortest decimal that reads back as the same float.
        self._rest(step).write_text(json.dumps({"state": moment.state, "narrow": formats}), encoding="utf-8")

    def has(self, step: int) -> bool:
        """Whether the state after that many updates was kept."""
        return self._rest(step).exists()

    def read(self, step: int) -> Moment:
        """The state after that many updates. Raises FileNotFoundError for one that was not kept."""
        rest: dict[str, Any] = json.loads(self._rest(step).read_text(encoding="utf-8"))
        tensors = load_file(self._arrays(step))
        tensors |= {name: tensors[name].view(narrow.DTYPES[told]) for name, told in rest["narrow"].items()}
        return Moment(tensors, rest["state"])

    def _arrays(self, step: int) -> Path:
        return self.directory / f"{step:012d}.safetensors"

    def _rest(self, step: int) -> Path:
        return self.directory / f"{step:012d}.json"
