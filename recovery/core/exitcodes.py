"""Exit codes: what a command's exit status says, and which one counts where several hold."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's exit status says. ``worst`` decides where several hold."""

    SETTLED = 0
    FAILED = 1  # settled with its own failure, or cancelled
    USAGE = 2  # not found and newer format included
    IN_DOUBT = 3  # a person must look; held counts here
    UNRESOLVED = 4  # look again later: unreachable, settling, timer, queued
    DIVERGED = 5
    CORRUPT = 6
    OWNED = 7  # another worker has it
    WAITING = 8  # for a signal
    BUG = 70

    @classmethod
    def worst(cls, codes: list[ExitCode]) -> ExitCode:
        """The one code for many runs: 2 and 70 first, then 6, 5, 7, 3, 4, 8, 1, 0."""
        order = [cls.USAGE, cls.BUG, cls.CORRUPT, cls.DIVERGED, cls.OWNED, cls.IN_DOUBT, cls.UNRESOLVED, cls.WAITING]
        return next((code for code in [*order, cls.FAILED] if code in codes), cls.SETTLED)
