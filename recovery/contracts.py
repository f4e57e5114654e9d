"""Contracts: what an environment promises about keys, windows, replays and look-ups. The public face of `core.contracts`."""

from recovery.core.contracts import (
    AfterWindow,
    Batch,
    Contract,
    Deletion,
    Enforced,
    Keyed,
    Kind,
    Lookup,
    Opaque,
    Probeable,
    Replay,
    WindowStart,
)

__all__ = [
    "AfterWindow",
    "Batch",
    "Contract",
    "Deletion",
    "Enforced",
    "Keyed",
    "Kind",
    "Lookup",
    "Opaque",
    "Probeable",
    "Replay",
    "WindowStart",
]
