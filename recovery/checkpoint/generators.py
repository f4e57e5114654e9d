"""Random generators: their states as plain values, and all of a trainer's under names.

Owns how a generator's state is read, checked and put back. Must not know files. Invariants: a state that was read and put back gives the
same numbers; a state is checked whole before any generator is touched; no generator is left out in silence, since one that is not
registered makes every resumed run another run.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import numpy as np

from recovery.checkpoint.errors import CheckpointInvalid

State = Mapping[str, Any]
AnyGenerator = np.random.Generator | np.random.BitGenerator | np.random.RandomState | random.Random

PYTHON: Final = "python.MersenneTwister"
"""What a `random.Random` is called in a state; numpy's are called by their class."""

GLOBALS: Final = ("numpy.random", "random")
"""The names under which the process-wide generators are registered: numpy's legacy one, and the standard library's."""

KINDS: Final = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64", PYTHON)
"""The generators that may be restored. A name out of a file picks from here; nothing else is looked up by it."""

OPAQUE: Final = {"torch.cpu": 5056, "torch.cuda": 16}
"""Generators of torch by device, and the bytes of their states, which are carried in hexadecimal."""

_MT_WORDS: Final = 624

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})

_TEXT: Final = frozenset({str})

DEPTH_MAX: Final = 100  # of nested values; more than any store reads


def capture(generator: AnyGenerator) -> dict[str, Any]:
    """A generator's state in plain integers, strings, floats and lists. Does not advance it."""
    if isinstance(generator, random.Random):
        version, key, gauss = generator.getstate()
        return {"bit_generator": PYTHON, "version": version, "key": list(key), "gauss": gauss}
    if isinstance(generator, np.random.RandomState):
        # `legacy=False` is a dictionary with the cached second normal deviate in it.
        told: dict[str, Any] = plain(generator.get_state(legacy=False))
        return told
    bits = generator.bit_generator if isinstance(generator, np.random.Generator) else generator
    state: dict[str, Any] = plain(bits.state)
    return state


def restore(generator: AnyGenerator, state: State, *, where: str = "generator") -> None:
    """Put a state back. Raises CheckpointInvalid, with the generator untouched, if it is not one or is another generator's."""
    check(state, where=where)
    if (kind := capture(generator)["bit_generator"]) != state["bit_generator"]:
        raise CheckpointInvalid(
            reason="generator",
            where=where,
            problem=f"it is the state of {state['bit_generator']}, and the generator here is {kind}",
        )
    _set(generator, state)


def check(state: State, *, where: str) -> None:
    """Raises CheckpointInvalid unless the state is well formed: put into a generator of its kind, it reads back the same."""
    kind = state.get("bit_generator") if isinstance(state, Mapping) else None
    if kind in OPAQUE:
        _check_opaque(str(kind), state, where)
        return
    if kind not in KINDS:
        raise CheckpointInvalid(
            reason="generator", where=where, problem=f"{kind!r} is no generator that can be restored ({', '.join(KINDS)} are)"
        )
    spare = _spare.pop(str(kind), None) if "has_gauss" not in state else None
    fresh = spare or (random.Random(0) if kind == PYTHON else _blank(str(kind), legacy="has_gauss" in state))  # noqa: S311  # not for secrets
    try:
        possible = not _impossible(state)  # first: numpy does not check every position that it will read from
        if possible:
            _set(fresh, state)
        same = possible and capture(fresh) == plain(state)
    except (ArithmeticError, KeyError, LookupError, TypeError, ValueError) as error:
        raise CheckpointInvalid(reason="generator", where=where, problem=f"it is no state of {kind} ({error})") from None
    if not same:
        raise CheckpointInvalid(reason="generator", where=where, problem=f"it is no state that {kind} can be in")
    if not isinstance(fresh, np.random.RandomState):
        _spare[str(kind)] = fresh


_spare: Final[dict[str, AnyGenerator]] = {}
"""By kind, a generator that a state was put into to check it: seeding another takes longer than the check. Taken out while it is in use; every state replaces all of it."""


class Generators:
    """A trainer's generators by name. Register every one; the process-wide ones too, where they are used.

    numpy_global: register `numpy.random`'s own generator, which `numpy.random.rand` and its like draw from.
    python_global: register the standard library's `random`.
    """

    def __init__(self, *, numpy_global: bool = False, python_global: bool = False, **named: AnyGenerator) -> None:
        self._named: dict[str, AnyGenerator] = dict(named)
        if numpy_global:
            self._named[GLOBALS[0]] = np.random.mtrand._rand  # noqa: SLF001  # it has no public name
        if python_global:
            self._named[GLOBALS[1]] = random._inst  # noqa: SLF001  # nor has this one

    def __getitem__(self, name: str) -> AnyGenerator:
        return self._named[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._named)

    def capture(self) -> dict[str, dict[str, Any]]:
        """Every state by name. Capture these first, before anything that might draw."""
        return {name: capture(generator) for name, generator in self._named.items()}

    def restore(self, states: Mapping[str, State]) -> None:
        """Put all states back, or none. Restore these last: whatever is built meanwhile may draw.

        Raises CheckpointInvalid for a missing or unknown name and for a state that does not fit.
        """
        if missing := sorted(self._named.keys() - states.keys()):
            raise CheckpointInvalid(reason="generator", where="generators", problem=f"the state of {', '.join(missing)} is missing")
        if unknown := sorted(states.keys() - self._named.keys()):
            raise CheckpointInvalid(
                reason="generator", where="generators", problem=f"nothing here is registered as {', '.join(unknown)}"
            )
        for name, generator in self._named.items():
            check(states[name], where=f"generators.{name}")
            if (kind := capture(generator)["bit_generator"]) != states[name]["bit_generator"]:
                problem = f"it is the state of {states[name]['bit_generator']}, and the generator here is {kind}"
                raise CheckpointInvalid(reason="generator", where=f"generators.{name}", problem=problem)
        for name, generator in self._named.items():
            _set(generator, states[name])


@contextmanager
def watching(registered: Mapping[str, State], owner: object = None) -> Iterator[list[str]]:
    """Names of generators that were drawn from inside the block though no registered state is theirs.

    Seen are the process-wide ones, and those that are attributes of `owner`, or in a list or a mapping that is one. Any other object that is not
    registered shows as a divergence after a resume in a fresh process, and nowhere before.
    """
    drawn: list[str] = []
    watched = {name: (one, capture(one)) for name, one in _in_sight(owner).items()}
    known = list(registered.values())
    try:
        yield drawn
    finally:
        drawn += [name for name, (one, before) in watched.items() if before not in known and capture(one) != before]


def _in_sight(owner: object) -> dict[str, AnyGenerator]:
    found: dict[str, AnyGenerator] = {GLOBALS[0]: np.random.mtrand._rand, GLOBALS[1]: random._inst}  # noqa: SLF001
    for name, value in getattr(owner, "__dict__", {}).items():
        inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
        for at, each in [("", value), *((f"[{key!r}]", part) for key, part in inside)]:
            if isinstance(each, np.random.Generator | np.random.BitGenerator | np.random.RandomState | random.Random):
                found[f"{name}{at}"] = each
    return found


def _check_opaque(kind: str, state: State, where: str) -> None:
    """The length, and of the Mersenne Twister what torch itself looks at: it is seeded, and its position lies among its words."""
    raw = b""
    with suppress(KeyError, TypeError, ValueError):
        raw = bytes.fromhex(state["state"])
    same = state == {"bit_generator": kind, "state": raw.hex()} and len(raw) == OPAQUE[kind]
    if same and kind == "torch.cpu":
        left, seeded, position = struct.unpack_from("<iiQ", raw, 8)
        same = seeded == 1 and 0 < left <= _MT_WORDS and position <= _MT_WORDS and any(raw[24 : 24 + 8 * _MT_WORDS])
    if not same:
        raise CheckpointInvalid(reason="generator", where=where, problem=f"it is no state that a generator of {kind} can be in")


def _blank(kind: str, *, legacy: bool) -> AnyGenerator:
    bits: np.random.BitGenerator = getattr(np.random, kind)(0)
    return np.random.RandomState(bits) if legacy else bits


def _set(generator: AnyGenerator, state: State) -> None:
    if isinstance(generator, random.Random):
        generator.setstate((state["version"], tuple(state["key"]), state["gauss"]))
        return
    if isinstance(generator, np.random.RandomState):
        generator.set_state(_arrays(state))
        return
    bits = generator.bit_generator if isinstance(generator, np.random.Generator) else generator
    bits.state = _arrays(state)


def plain(value: Any, depth: int = 0) -> Any:
    """Mappings, lists and numbers of Python's own, all the way down. Raises CheckpointInvalid for what would lose something, or has no end."""
    if depth > DEPTH_MAX:
        raise CheckpointInvalid(reason="state", where="a value", problem="it is nested too deeply")
    if type(value) in _PLAIN:
        return value
    if type(value) is list:
        return [plain(part, depth + 1) for part in value]
    if type(value) is dict and _TEXT.issuperset(map(type, value)):
        return {name: plain(part, depth + 1) for name, part in value.items()}
    if isinstance(value, Mapping):
        if len({str(name) for name in value}) < len(value):
            raise CheckpointInvalid(
                reason="state", where="a mapping", problem="two of its keys are the same text, and one would be lost"
            )
        return {str(name): plain(part, depth + 1) for name, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [plain(part, depth + 1) for part in value] if isinstance(value, list | tuple) else value


def _arrays(state: State) -> dict[str, Any]:
    """As numpy wants it: lists of words as arrays of the generator's width. An integer that does not fit raises."""
    width = np.uint32 if state["bit_generator"] == "MT19937" else np.uint64

    def turned(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: turned(part) for name, part in value.items()}
        return np.array(value, dtype=width) if isinstance(value, list) else value

    made: dict[str, Any] = turned(state)
    return made


def _impossible(state: State) -> bool:
    """States that would read beyond their words, that only give zeros, or that no seeding leads to."""
    kind = state["bit_generator"]
    if kind == PYTHON:
        return not any(state["key"][:_MT_WORDS]) or not 0 <= state["key"][_MT_WORDS] <= _MT_WORDS
    inner = state["state"]
    if kind == "MT19937":
        return len(inner["key"]) != _MT_WORDS or not any(inner["key"]) or not 0 <= inner["pos"] <= _MT_WORDS
    if state["has_uint32"] not in {0, 1}:
        return True
    if kind == "Philox":
        lengths = len(inner["counter"]), len(inner["key"]), len(state["buffer"])
        return lengths != (4, 2, 4) or not 0 <= state["buffer_pos"] <= 4
    if kind == "SFC64":
        return len(inner["state"]) != 4 or not any(inner["state"])
    return bool(inner["inc"] % 2 == 0)  # the increment of an LCG modulo 2**128 must be odd for its full period
