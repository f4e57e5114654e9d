"""Names and digests: run ids, step ids, epochs, keys, fingerprints.

Owns how things are named and compared. Knows nothing of storage, clocks or randomness: a fresh random token is
passed in by the edge that has one. Invariant: the same inputs give the same name for ever, on every machine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from recovery.core.errors import InvalidName

RUN_ID_LENGTH_MAX: Final = 128  # characters
RUN_ID_PATTERN: Final = re.compile(rf"[A-Za-z0-9._:-]{{1,{RUN_ID_LENGTH_MAX}}}")
STEP_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_GENERATION: Final = re.compile(r"@[0-9]+(?=/|$)")
KEY_LENGTH_MAX: Final = 255  # characters; the longest carrier in the field (an Idempotency-Key header) takes 255
SCOPE_LENGTH_MAX: Final = 1000  # characters

ROOT: Final = ""
"""The parent of a run's top-level steps, and the step under which the run itself is settled."""


@dataclass(frozen=True, slots=True, order=True)
class Epoch:
    """A rising fencing number. A restored database raises ``incarnation``; a claim raises ``n``."""

    incarnation: int
    n: int

    def __str__(self) -> str:
        return f"{self.incarnation}.{self.n}"

    @classmethod
    def parse(cls, text: str) -> Epoch | None:
        """The epoch that `str` wrote; None for anything else."""
        incarnation, _, n = text.partition(".")
        return cls(int(incarnation), int(n)) if incarnation.isdecimal() and n.isdecimal() else None


def check_run_id(run_id: str) -> str:
    """Return ``run_id`` if it is one, else raise InvalidName."""
    if not isinstance(run_id, str) or not RUN_ID_PATTERN.fullmatch(run_id):
        raise InvalidName(what="run id", name=run_id, rule="1 to 128 characters out of A-Z a-z 0-9 . _ : -")
    return run_id


def check_step_name(name: str, what: str = "step name") -> str:
    """Return ``name`` if it can name a step, else raise InvalidName. what: is named, where it names something else."""
    if not isinstance(name, str) or not _can_name_a_step(name):
        raise InvalidName(what=what, name=name, rule="1 to 64 characters out of A-Z a-z 0-9 . _ : -")
    return name


@lru_cache(maxsize=1024)
def _can_name_a_step(name: str) -> bool:
    """Asked at each step, of few names."""
    return STEP_NAME_PATTERN.fullmatch(name) is not None


def check_key(key: str) -> str:
    """Return ``key`` if it can be an idempotency key, else raise InvalidName."""
    if not isinstance(key, str) or not 1 <= len(key) <= KEY_LENGTH_MAX or not key.isascii() or not key.isprintable():
        raise InvalidName(what="idempotency key", name=key, rule=f"1 to {KEY_LENGTH_MAX} printable ASCII characters")
    return key


def check_scope(environment: str, scope: str) -> str:
    """Return ``scope`` if a database can keep it as it is, else raise InvalidName."""
    if not isinstance(scope, str) or len(scope) > SCOPE_LENGTH_MAX or not scope.isprintable():
        rule = f"up to {SCOPE_LENGTH_MAX} printable characters"
        raise InvalidName(what=f"scope of environment {environment!r}:", name=scope, rule=rule)
    return scope


def step_id(parent: str, name: str, occurrence: int) -> str:
    """``parent/name#n``: the identity of a step, assigned at the call. ``occurrence`` counts from 1."""
    return f"{parent}/{name}#{occurrence}" if parent else f"{name}#{occurrence}"


def of_generation(step: str, generation: int) -> str:
    """The identity of a step that is first begun in a generation of its run. In the first one, it is its own."""
    return step if generation == 1 else f"{step}@{generation}"


def base_of(step: str) -> str:
    """A step without the generations in its path: the place in the workflow, whichever generation comes to it."""
    return _GENERATION.sub("", step) if "@" in step else step


def branch_of(step: str) -> str:
    """The branch that a step belongs to; also the path from which a branch was begun."""
    return step.rpartition("/")[0]


BLAKE2B_256: Final = blake2b(digest_size=32)
"""Before anything is taken in. To be copied: to make one anew takes longer than it takes in a short text."""


def digest_bytes(*parts: bytes) -> str:
    """BLAKE2b-256 over length-prefixed parts, in hex. Length prefixes keep ('ab','c') apart from ('a','bc')."""
    digest = BLAKE2B_256.copy()
    digest.update(b"".join(map(prefixed, parts)))
    return digest.hexdigest()


def prefixed(part: bytes) -> bytes:
    """A part as a digest takes it in."""
    return len(part).to_bytes(8, "big") + part


MODELS: Final = "@"
"""Stands between the fingerprint of a decision's arguments and the versions of the models among them."""


def other_arguments(recorded: str, asked: str) -> bool:
    """Whether a decision was made from other arguments. Of models in another version than now that cannot be told from their fingerprint."""
    (before, _, then), (after, _, now) = recorded.partition(MODELS), asked.partition(MODELS)
    return bool(before and after) and then == now and before != after


_VARIANT: Final = {
    digit: "89ab"[int(digit, 16) & 0x3] for digit in "0123456789abcdef"
}  # into the hex digits that begin with the bits 10


def derive_key(namespace: str, run_id: str, step: str, generation: int = 0) -> str:
    """The idempotency key of a step that names none: UUID-shaped (36 ASCII characters fit every carrier we know).

    Contains the database's namespace, so that a new database with an old run id does not adopt another life's
    receipts; never the arguments, so that the same step with other arguments is caught and not hidden.
    """
    digest = _key_space(namespace, run_id).copy()
    digest.update(prefixed(step.encode()) + prefixed(b"%d" % generation))
    drawn = digest.hexdigest()
    return f"{drawn[:8]}-{drawn[8:12]}-8{drawn[13:16]}-{_VARIANT[drawn[16]]}{drawn[17:20]}-{drawn[20:32]}"  # 8: custom (RFC 9562 section 5.8)


@lru_cache(maxsize=1024)
def _key_space(namespace: str, run_id: str) -> blake2b:
    """What the keys of one run are all derived from, taken in."""
    digest = BLAKE2B_256.copy()
    digest.update(b"".join(map(prefixed, (b"recovery-key-1", namespace.encode(), run_id.encode()))))
    return digest
