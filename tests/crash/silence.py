"""An owner that never renews: what a policy refuses to build, since a live worker would lose its runs by it."""

from __future__ import annotations

from datetime import timedelta

from recovery.core.policy import Lease


def silent(term: timedelta) -> Lease:
    """A lease of this term whose owner is silent from the start."""
    lease = Lease(term=term, renew_every=term / 2)
    object.__setattr__(lease, "renew_every", timedelta(hours=1))
    return lease
