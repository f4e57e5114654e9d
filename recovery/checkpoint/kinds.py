"""The kinds of state that are saved and restored, and for each: what it holds, what it may be used for, how it is restored.

Owns the refusal to take one kind for another. Must not know files or arrays. Invariant: every kind has a rule, and a refusal says what
the thing at hand is and what it may be used for.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from recovery.checkpoint.errors import WrongKind


class Kind(StrEnum):
    """What a saved state is. Its value is what manifests say."""

    LEARNING = "learning"  # all that the next update depends on
    WEIGHTS = "weights"  # what a model computes with, and nothing of how it learns
    INFERENCE_KV = "inference_kv"  # keys and values of one token sequence
    JOURNAL = "journal"  # decisions, intents and observations of a run; no store holds it
    RECEIPT = "receipt"  # what the world did; no store holds it


@dataclass(frozen=True, slots=True)
class Rule:
    """What a kind means. `stored`: whether a checkpoint store may hold it."""

    holds: str
    use: str
    restore: str
    stored: bool


RULES: Final[dict[Kind, Rule]] = {
    Kind.LEARNING: Rule(
        holds="weights, moments, counter, generators, draw cursor, history, configuration and lifecycle",
        use="continue training, so that the next update equals the uninterrupted one",
        restore="all or nothing: validated in full, then swapped in once",
        stored=True,
    ),
    Kind.WEIGHTS: Rule(
        holds="weights alone",
        use="infer, evaluate or begin a new training run; it cannot continue one, since moments, counter, generators and cursor are missing",
        restore="all or nothing, as the beginning of something new",
        stored=True,
    ),
    Kind.INFERENCE_KV: Rule(
        holds="keys and values of one token sequence, for one model, adapter, dtype and layout",
        use="continue that sequence under exactly that identity; anything else is a miss and is computed again",
        restore="a hit as a whole, or a miss",
        stored=True,
    ),
    Kind.JOURNAL: Rule(
        holds="decisions, intents and observations of one run",
        use="replay that run; it lives in a database, and an engine recovers it",
        restore="replayed; nothing is decided or performed again",
        stored=False,
    ),
    Kind.RECEIPT: Rule(
        holds="the proof that a keyed effect reached an outcome outside",
        use="adopt or compensate that effect; it is the environment's, and no restore brings it back or undoes it",
        restore="never restored: only asked",
        stored=False,
    ),
}


def require(found: Kind, wanted: Kind, *, name: str) -> None:
    """Raise WrongKind unless `name`, which is a `found`, is what was asked for."""
    if found is not wanted:
        raise WrongKind(name=name, found=found.value, wanted=wanted.value, use=RULES[found].use)


def require_stored(kind: Kind) -> None:
    """Raise WrongKind if a checkpoint store is no place for this kind."""
    if not RULES[kind].stored:
        raise WrongKind(name="what was to be saved", found=kind.value, wanted="a kind that a checkpoint holds", use=RULES[kind].use)
