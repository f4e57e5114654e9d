"""Drawing: where the values of decisions come from.

Owns the three sources: the user's function, the clock and chance. Knows nothing of steps. Invariant: each asks the driver and nobody else.
"""

from __future__ import annotations

from typing import Any

from recovery.core.operations import Decide, Decided, Draw, Now


async def decided(subject: Any) -> Decided:
    return await Decide(subject)


async def read() -> Decided:
    """Microseconds since the Unix epoch."""
    return Decided(await Now())


async def drawn() -> Decided:
    """128 bits, in hex: more than JSON's numbers hold."""
    return Decided(f"{await Draw():032x}")
