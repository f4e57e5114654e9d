"""Generators of a torch job: torch's own beside numpy's and Python's.

Owns how a torch generator's state becomes plain and comes back. Must not know ranks. Invariant: every state is checked before any generator is touched.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from recovery.checkpoint import generators as plain_generators
from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.generators import GLOBALS, Generators, State


def of_process() -> dict[str, Any]:
    """The generators that a process has of itself, by name: torch's for the processor and for its accelerator, numpy's and Python's."""
    named: dict[str, Any] = {"torch": torch.default_generator}
    if torch.cuda.is_available():
        named["torch.cuda"] = torch.cuda.default_generators[torch.cuda.current_device()]
    process_wide = Generators(numpy_global=True, python_global=True)
    return named | {name: process_wide[name] for name in GLOBALS}


def capture(named: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Every state by name. Advances none."""
    return {name: _capture(generator) for name, generator in named.items()}


def require(named: Mapping[str, Any], states: Mapping[str, State]) -> None:
    """Raises CheckpointInvalid(reason="generator") unless there is a state for each, of its kind and well formed, and no other."""
    if odd := sorted(named.keys() ^ states.keys()):
        problem = f"{', '.join(odd)} is registered only here or only there; every generator that the run draws from must be, on both sides"
        raise CheckpointInvalid(reason="generator", where="generators", problem=problem)
    for name, generator in named.items():
        plain_generators.check(states[name], where=f"generators.{name}")
        if (here := _capture(generator)["bit_generator"]) != states[name]["bit_generator"]:
            problem = f"it is the state of {states[name]['bit_generator']}, and the generator here is {here}"
            raise CheckpointInvalid(reason="generator", where=f"generators.{name}", problem=problem)


def restore(named: Mapping[str, Any], states: Mapping[str, State]) -> None:
    """Put all states back, or none. Last of all: whatever is built meanwhile may draw. Raises CheckpointInvalid."""
    require(named, states)
    for name, generator in named.items():
        if isinstance(generator, torch.Generator):
            generator.set_state(torch.frombuffer(bytearray.fromhex(states[name]["state"]), dtype=torch.uint8))
        else:
            plain_generators.restore(generator, states[name], where=f"generators.{name}")


def _capture(generator: Any) -> dict[str, Any]:
    if isinstance(generator, torch.Generator):
        return {"bit_generator": f"torch.{generator.device.type}", "state": bytes(generator.get_state().numpy()).hex()}
    return plain_generators.capture(generator)
