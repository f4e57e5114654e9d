"""Limits: how much of a checkpoint is read before it is trusted.

Owns the numbers. Invariant: each is checked before the memory or time that it bounds is spent.
"""

from __future__ import annotations

from dataclasses import dataclass

from recovery.checkpoint.errors import LimitExceeded

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on what is read. Sizes are bytes."""

    manifest_bytes: int = (
        32 * MIB
    )  # some 100,000 tensors; less than a state document may have, which is what a hostile file can cost
    header_bytes: int = 16 * MIB  # of one shard
    state_bytes: int = 64 * MIB
    total_bytes: int = 1 << 44  # of all files: 16 TiB
    files: int = 4096
    tensors: int = 100_000
    slices: int = 200_000  # of all tensors together
    slices_of_one: int = 4096  # of one tensor: what tiles it is compared in pairs where it meets
    rank: int = 32
    depth: int = 32  # of nested JSON


def at_most(found: int, limit: int, *, where: str, what: str) -> None:
    """Raise LimitExceeded if `found` is more than `limit`."""
    if found > limit:
        raise LimitExceeded(where=where, what=what, found=found, limit=limit)
