"""Contents: under which heading each command is told, and in which order.

Owns the headings. Invariant: each command stands under one of them; a test holds it.
"""

from __future__ import annotations

from typing import Final

SECTIONS: Final = {
    "Look at runs": ("runs", "show", "explain", "query", "listen", "export"),
    "Begin runs and bring them on": ("worker", "enqueue", "queues", "schedules", "waits", "signal", "send"),
    "Decide what is in doubt": (
        "doubt",
        "parking",
        "probe",
        "redrive",
        "resolve",
        "close",
        "acknowledge",
        "compensate",
        "hold",
        "release",
        "fence",
    ),
    "Stop, repeat and forget runs": ("cancel", "pause", "resume", "restart", "fork", "forget"),
    "Change code and data": ("check-versions", "versions", "change-version", "migrate", "restored", "orphans", "verify"),
    "Prove and plan": ("demo", "contracts", "replay", "explore", "checkpoint"),
}
"""The commands as `recover --help` lists them."""
