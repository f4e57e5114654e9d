"""A torch job, as a complete learning state: live objects on one side, named tensors and one document on the other.

Owns which tensor has which name, and what of a job is no tensor. Must not know files or other ranks. Invariant: what `tensors` and the document hold is all that
the next update needs, and a job that `adopt` refused is as it was.

Names: `w/` parameters that the optimizer updates, `m/` and `v/` their moments, other slots of the optimizer under the slot's name (`step/`), `b/` what
else the model holds (buffers, frozen parameters), `x/` further tensors of the caller's.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import torch
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.kinds import Kind
from recovery.checkpoint.learning import Cursor, Learning
from recovery.checkpoint.lifecycle import Lifecycle
from recovery.checkpoint.shards import code_of as code_of_array
from recovery.checkpoint.torch import generators
from recovery.checkpoint.torch.tensors import array_of, code_of, tensor_of

MOMENTS: Final = {"exp_avg": "m", "momentum_buffer": "m", "exp_avg_sq": "v"}
"""Slots of torch's optimizers that are moments."""

RESERVED: Final = frozenset({"w", "m", "v", "b", "x"})


class Part(Protocol):
    """Something with a state of plain values: a schedule, a scaler, a loader."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any: ...


@dataclass
class Job:
    """A training job on one rank. Call `updated` after each update; save and load between two updates.

    parts: what has a state and is the same on every rank, such as a schedule. parts_of_rank: what has a state of its own on each, such as a loader.
    tensors_too: further live tensors by name, such as averaged weights. generators: every generator that this rank draws from.
    """

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    cursor: Cursor
    config: Mapping[str, Any]
    lifecycle: Lifecycle
    parts: Mapping[str, Part] = field(default_factory=dict)
    parts_of_rank: Mapping[str, Part] = field(default_factory=dict)
    tensors_too: Mapping[str, torch.Tensor] = field(default_factory=dict)
    generators: Mapping[str, Any] = field(default_factory=generators.of_process)
    counter: int = 0
    history: list[float] = field(default_factory=list)

    def updated(self, loss: float) -> None:
        """One update is done: the counter, the cursor and the history move together. `loss`: what the history tells of it; rank 0's is kept."""
        self.counter += 1
        self.cursor = self.cursor.advanced()
        self.history.append(float(loss))

    def view(self) -> View:
        """What it consists of now. Makes the optimizer's slots if no update did. Raises CheckpointInvalid for what has no plain form."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        trained = [name for group in optimizer["param_groups"] for name in group["params"]]
        tensors = {f"{'w' if name in set(trained) else 'b'}/{name}": value for name, value in model.items()}
        slots: dict[str, dict[str, Any]] = {}
        for name, told in optimizer["state"].items():
            for slot, value in told.items():
                slots.setdefault(slot, {})[name] = value
        plain: dict[str, Any] = {}
        for slot, of in slots.items():
            group = _group(slot, of, model, trained)
            tensors |= {f"{group}/{name}": value for name, value in of.items() if isinstance(value, torch.Tensor)}
            if rest := {name: value for name, value in of.items() if not isinstance(value, torch.Tensor)}:
                plain[slot] = rest
        tensors |= {f"x/{name}": value for name, value in self.tensors_too.items()}
        for name, value in tensors.items():
            code_of(value, where=name)
        return View(model, optimizer, tensors, plain)

    # -- the document ----------------------------------------------------------------------------------------------

    def shared(self, view: View) -> dict[str, Any]:
        """What is the same on every rank, and the history."""
        extra = {
            "optimizer": {"groups": view.optimizer["param_groups"], "slots": view.plain},
            "parts": {name: part.state_dict() for name, part in self.parts.items()},
        }
        state = self._learning({}, {}, extra).state()
        del state["generators"]
        return state

    def of_rank(self) -> dict[str, Any]:
        """What is this rank's own."""
        parts = {name: part.state_dict() for name, part in self.parts_of_rank.items()}
        return {"generators": generators.capture(self.generators), "parts": parts}

    # -- taking on -------------------------------------------------------------------------------------------------

    def require_fits(self, state: Learning, arrays: Mapping[str, Any] | None = None) -> None:
        """Raises CheckpointInvalid unless a verified state is one of this job: lifecycle, configuration and cursor are its own.

        arrays: those of this job, all of them; None where no process has all, and tensors are compared elsewhere.
        """
        compared = state if arrays is not None else replace(state, arrays={}, copy=False)
        compared.check_fits(self._learning(arrays or {}, state.generators, {}))
        if (there := state.extra["parts"].keys()) != self.parts.keys():
            odd = ", ".join(sorted(there ^ self.parts.keys()))
            raise CheckpointInvalid(where="extra.parts", problem=f"{odd} is a part only here or only there", reason="unfit")

    def require_own(self, of_rank: Mapping[str, Any]) -> None:
        """Raises CheckpointInvalid unless what is a rank's own in a state fits this one: the same generators and parts."""
        generators.require(self.generators, of_rank["generators"])
        if odd := ", ".join(sorted(of_rank["parts"].keys() ^ self.parts_of_rank.keys())):
            raise CheckpointInvalid(where="extra.parts_of_rank", problem=f"{odd} is a part only here or only there", reason="unfit")

    @contextmanager
    def adopting(self, view: View, state: Learning, of_rank: Mapping[str, Any] | None) -> Iterator[None]:
        """Take on the document around the block that fills the tensors. If a part refuses, nothing is taken on.

        of_rank: None leaves generators and parts of the rank as they are.
        """
        told, now = state.extra["optimizer"], view.optimizer["param_groups"]
        if len(told["groups"]) != len(now):
            raise _other_groups()
        groups = [_like(here, there) for here, there in zip(now, told["groups"], strict=True)]
        pairs = [(part, state.extra["parts"][name]) for name, part in self.parts.items()]
        if of_rank is not None:
            self.require_own(of_rank)
            pairs += [(part, of_rank["parts"][name]) for name, part in self.parts_of_rank.items()]
        before = [(part, copy.deepcopy(part.state_dict())) for part, _ in pairs]
        try:
            for part, its in pairs:
                part.load_state_dict(copy.deepcopy(its))
        except BaseException:  # whatever ended it, no part stays half replaced; raised again
            for part, its in before:
                part.load_state_dict(its)
            raise
        yield
        for slot, of in told["slots"].items():
            for name, value in of.items():
                view.optimizer["state"][name][slot] = value
        optimizer = {"state": view.optimizer["state"], "param_groups": groups}
        set_state_dict(self.model, self.optimizer, model_state_dict=view.model, optim_state_dict=optimizer)
        self.counter, self.cursor, self.history = state.counter, state.cursor, state.history.tolist()
        self.lifecycle = state.lifecycle.merge(self.lifecycle.exposure)  # a restore takes no look back
        if of_rank is not None:
            generators.restore(self.generators, of_rank["generators"])

    # -- alone -----------------------------------------------------------------------------------------------------

    def capture(self) -> Learning:
        """The whole state of a job of one process, for `verify_resume`."""
        own = self.of_rank()
        view = self.view()
        arrays = {name: array_of(tensor, where=name) for name, tensor in view.tensors.items()}
        return Learning.from_parts({name: array.copy() for name, array in arrays.items()}, merged(self.shared(view), {0: own}))

    def restore(self, state: Learning) -> None:
        """Continue from a state that `capture` took. Raises CheckpointInvalid; the job is as it was then."""
        view = self.view()
        here = {name: (code_of(tensor, where=name), tuple(tensor.shape)) for name, tensor in view.tensors.items()}
        there = {name: (code_of(_tensor(array), where=name), array.shape) for name, array in state.arrays.items()}
        if odd := sorted(name for name in {*here, *there} if here.get(name) != there.get(name)):
            problem = f"{', '.join(odd[:5])} differ in name, dtype or shape from the job's"
            raise CheckpointInvalid(where="arrays", problem=problem, reason="unfit")
        self.require_fits(state, {name: array_of(tensor, where=name) for name, tensor in view.tensors.items()})
        with self.adopting(view, state, own_of(state, 0)):
            for name, tensor in view.tensors.items():
                tensor.copy_(_tensor(state.arrays[name]))

    @property
    def kind(self) -> Kind:
        return Kind.LEARNING

    def _learning(self, arrays: Mapping[str, Any], states: Mapping[str, Any], extra: Mapping[str, Any]) -> Learning:
        return Learning(
            arrays=arrays,
            counter=self.counter,
            cursor=self.cursor,
            generators=states,
            history=torch.tensor(self.history, dtype=torch.float64).numpy(),
            config=self.config,
            lifecycle=self.lifecycle,
            extra=extra,
            copy=False,
        )


@dataclass(frozen=True)
class View:
    """The live tensors of a job by name, and the two state dicts that they belong to. `plain`: slots of the optimizer that are no tensors."""

    model: dict[str, Any]
    optimizer: dict[str, Any]
    tensors: dict[str, torch.Tensor]
    plain: dict[str, Any]


def merged(shared: Mapping[str, Any], own: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """One document for all ranks."""
    states = {f"{rank}/{name}": state for rank in sorted(own) for name, state in own[rank]["generators"].items()}
    parts = {str(rank): own[rank]["parts"] for rank in sorted(own)}
    return {**shared, "generators": states, "extra": {**shared["extra"], "ranks": len(own), "parts_of_rank": parts}}


def own_of(state: Learning, rank: int) -> dict[str, Any]:
    """What is one rank's own in it."""
    prefix = f"{rank}/"
    states = {name.removeprefix(prefix): told for name, told in state.generators.items() if name.startswith(prefix)}
    return {"generators": states, "parts": state.extra["parts_of_rank"][str(rank)]}


def _group(slot: str, of: Mapping[str, Any], model: Mapping[str, Any], trained: list[str]) -> str:
    """`m` or `v` where every weight has such a moment of its own shape; otherwise the slot's name."""
    group = MOMENTS.get(slot)
    complete = of.keys() == {name for name in trained if name in model}
    if group and complete and all(getattr(of[name], "shape", None) == model[name].shape for name in of):
        return group
    if slot in RESERVED:
        raise CheckpointInvalid(where=slot, problem="an optimizer's slot is called like a group of another meaning", reason="name")
    return slot


def _like(now: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    """A group of the optimizer's as it was saved; tuples are tuples again."""
    if now.keys() != then.keys() or now["params"] != then["params"]:
        raise _other_groups()
    return {name: tuple(value) if isinstance(now[name], tuple) else value for name, value in then.items()}


def _other_groups() -> CheckpointInvalid:
    return CheckpointInvalid(where="extra.optimizer", problem="its groups are not those of the optimizer here", reason="unfit")


def _tensor(array: Any) -> torch.Tensor:
    return tensor_of(array.copy(), code_of_array(array.dtype, where="arrays"))
