"""Portions: the rows of a run in the pieces in which a store gives them.

Owns how many rows come at a time, and the way from and to rows that are all at hand. Knows no store, and nothing of what rows say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from recovery.core.chain import Raw, Row, raw

PORTION: Final = 1000
"""Rows that come at a time: what a reading needs in memory beside what it makes of them."""


def in_portions(rows: Iterable[Row]) -> Iterator[Sequence[Raw]]:
    """Rows that are at hand, as a store would give them."""
    coming = map(raw, rows)
    while portion := list(islice(coming, PORTION)):
        yield portion


def at_hand(payloads: Mapping[str, bytes]) -> Callable[[Sequence[str]], dict[str, bytes]]:
    """Payloads that are at hand, as a store would give them."""
    return lambda digests: {digest: payloads[digest] for digest in digests if digest in payloads}
